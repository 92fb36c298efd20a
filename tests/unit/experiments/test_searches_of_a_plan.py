"""A plan's searches are carried out as its trials are: commands, warm-ups, retries, stop conditions, pause, lost nodes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, StepProgress, StepState
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.trial.setup import TrialRequest
from labconsole.errors import Aborted, ConfigError, MeasurementError, NodeLost
from labconsole.model.plan.execution_options import HookCommand, Retry, Stop, WarmUp
from labconsole.model.plan.search import Search
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.run import Reason
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunFilter
from support.search_script import EVERYTHING, QUICK, REQUEST, Script, Store, carry_out, made, make, searching


def grid(script: Script) -> list[int]:
    """How often points of the grid were taken: their runs have no search's hash."""
    return [
        run.plan.point for run in script.store.runs if run.plan is not None and not run.plan.hash.startswith("search-")
    ]


def test_commands_run_once_around_a_plan_with_a_grid_and_searches(tmp_path: Path) -> None:
    log, note = tmp_path / "log", tmp_path / "note.py"
    note.write_text(
        "import os, sys\n"
        "print(sys.argv[1], *(os.environ['LABCONSOLE_' + k] for k in ('TRIALS', 'ENDING')), file=open(sys.argv[2], 'a'))"
    )
    pre, post = (HookCommand(run=(sys.executable, str(note), key, str(log))) for key in ("pre", "post"))
    script = Script()
    outcome = make(script, searching(searches=2, grid=True, pre=(pre,), post=(post,)))
    assert log.read_text().splitlines() == ["pre 2 ", "post 2 done"]
    assert (grid(script), len(outcome.steps.made), outcome.complete) == ([0, 1], 2, True)
    assert script.told.count("given back") == 1, "the testbed is held once"
    assert script.purposes == ["plan t"]


def test_a_failing_post_command_of_a_plan_that_only_searches_is_told() -> None:
    outcome = make(Script(), searching(post=(HookCommand(run=("false",)),)))
    assert outcome.steps.refused == ["post command false failed with exit status 1, and printed nothing"]
    assert not outcome.complete


def test_of_a_plan_in_which_nothing_is_left_nothing_is_run_and_nothing_held(tmp_path: Path) -> None:
    store = Store()
    make(Script(store))
    again = Script(store)
    outcome = make(again, searching(pre=(HookCommand(run=("false",)),)))
    assert (outcome.steps.skipped, outcome.steps.made, outcome.complete) == (1, [], True)
    assert again.told == []


def test_the_store_is_asked_once_for_all_searches_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    make(Script(store), searching(searches=2))
    asked: list[RunFilter] = []
    answer = store.experiments

    def experiments(
        kind: RecordKind[SearchRecord], where: RunFilter, *, status: str | None = None
    ) -> list[SearchRecord]:
        asked.append(where)
        return answer(kind, where, status=status)

    monkeypatch.setattr(store, "experiments", experiments)
    outcome = make(Script(store), searching(searches=3))
    assert (outcome.steps.skipped, len(outcome.steps.made)) == (2, 1)
    assert [len(where.plan_hash or ()) for where in asked] == [3]


def test_an_invalid_trial_is_taken_again_after_the_pause_that_the_plan_says() -> None:
    script = Script()
    script.before = lambda number: "invalid" if number == 2 else None
    (record,) = made(script, searching(retry=Retry(pause_s=7.0)))
    assert (record.status, script.settled.count(7.0)) == ("done", 1)
    attempts = [run.plan.attempt for run in script.store.runs if run.plan is not None]
    assert attempts[:4] == [1, 1, 2, 1]


def test_what_the_plan_does_not_name_is_not_taken_again_and_ends_the_search() -> None:
    script = Script()
    script.before = lambda number: "invalid" if number == 2 else None
    outcome = make(script, searching(retry=Retry(codes=("no_packets",))))
    (record,) = outcome.steps.failed
    assert record.failure is not None
    assert record.failure.startswith("a trial is invalid, ")
    assert (outcome.steps.redone, script.taken, outcome.complete) == (0, 2, False)


def test_a_trial_that_gives_no_run_is_tried_again_and_then_refused_with_all_that_need_its_platform() -> None:
    script = Script()
    script.before = lambda number: "refused" if number > 2 else None
    outcome = make(script, searching(searches=3, max_redo=1))
    assert (outcome.steps.redone, script.taken) == (1, 4)
    assert [words.rpartition(": ")[2] for words in outcome.steps.refused] == ["the guest does not boot"] * 3
    nothing = Script()
    nothing.before = lambda number: "refused"
    with pytest.raises(MeasurementError, match="does not boot"):
        make(nothing, searching())


def test_a_run_without_counts_refuses_its_own_search_only() -> None:
    script = Script()
    script.before = lambda number: "uncounted" if number == 1 else None
    outcome = make(script, searching(searches=2))
    (words,) = outcome.steps.refused
    assert "has no counts to search by" in words
    assert (len(outcome.steps.made), outcome.complete) == (1, False)


def test_a_plan_that_is_ended_after_its_grid_says_that_the_grid_is_whole() -> None:
    async def body() -> None:
        script = Script()
        execution, runner = execution_of(script, grid=True)
        script.before = lambda number: runner.finish()
        (outcome,) = await runner.run()
        assert (outcome.stopped, outcome.steps.cut, outcome.grid_complete) == (True, True, True)
        assert (outcome.steps_complete, execution.status) == (False, ExecutionStatus.STOPPED)

    asyncio.run(body())


def test_a_warm_up_is_taken_once_whenever_the_unit_under_test_was_set_up_anew() -> None:
    script = Script()
    script.before = lambda number: {3: "invalid", 5: "lost"}.get(number)
    told: list[StepProgress] = []
    outcome = asyncio.run(carry_out(script, searching(searches=2, warm_up=WarmUp(duration_s=0.5)), told.append))
    # At the beginning, after the invalid trial and after the lost node; the second search finds what stands.
    assert [(each.target, each.duration_s) for each in script.warmed] == [("max", 0.5)] * 3
    assert (outcome.warm_ups, sum(each.warm_up for each in told)) == (3, 3)
    assert {run.plan.warm_ups for run in script.store.runs if run.plan is not None} == {1}


def test_a_grid_and_searches_on_one_platform_share_its_warm_up() -> None:
    script = Script()
    make(script, searching(grid=True, warm_up=WarmUp()))
    assert len(script.warmed) == 1


def test_so_many_invalid_trials_in_a_row_end_the_plan_and_the_searches_go_on_later() -> None:
    store = Store()
    script = Script(store)
    script.before = lambda number: "invalid"
    outcome = make(script, searching(searches=3, max_redo=0, stop=Stop(invalid_in_a_row=2)))
    assert (outcome.ended_by, outcome.stopped) == ("2 trials in a row were invalid", False)
    assert (script.taken, len(outcome.steps.failed), outcome.steps.cut) == (2, 2, True)
    again = make(Script(store), searching(searches=3))
    assert (len(again.steps.made), again.complete) == (3, True)


def test_invalid_trials_are_counted_on_from_the_grid_into_the_searches() -> None:
    script = Script()
    script.before = lambda number: "invalid"
    outcome = make(script, searching(grid=True, max_redo=0, searches=2, stop=Stop(invalid_in_a_row=3)))
    assert (outcome.ended_by, script.taken) == ("3 trials in a row were invalid", 3)
    assert len(outcome.steps.failed) == 1


def test_a_grid_that_a_condition_ends_is_followed_by_no_search() -> None:
    outcome = make(Script(), searching(grid=True, stop=Stop(at="2020-01-01 00:00")))
    assert outcome.ended_by == "it is 2020-01-01 00:00"
    assert (outcome.steps.made, outcome.steps.cut, outcome.steps_complete) == ([], False, False)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def execution_of(script: Script, **more: Any) -> tuple[PlanExecution, PlanRunner]:
    bench: Any = script
    execution = PlanExecution(searching(**more), bench)
    return execution, PlanRunner([execution], bench)


def test_a_pause_holds_after_the_running_trial_and_costs_the_search_no_time() -> None:
    async def body() -> None:
        script = Script()
        execution, runner = execution_of(script, search=QUICK.model_copy(update={"within_s": 1.0}))
        script.before = lambda number: execution.pause() if number == 2 else None
        task = asyncio.create_task(runner.run())
        await until(lambda: execution.status is ExecutionStatus.PAUSED)
        taken, spent_s = script.taken, execution.spent_s
        await asyncio.sleep(1.2)
        assert (script.taken, taken, script.told.count("given back")) == (2, 2, 0)
        assert execution.spent_s == pytest.approx(spent_s, abs=0.3)
        seen = execution.steps.current
        assert seen is not None
        assert (len(seen.picture.trials), execution.steps.number_of(seen), execution.steps.asked) == (2, 1, 1)
        assert seen.picture.found[0].startswith("ndr (adjusted) ")
        execution.resume()
        (outcome,) = await task
        assert outcome.steps.made[0].status == "done"

    asyncio.run(body())


def test_an_abort_while_paused_keeps_what_was_measured_and_the_search_goes_on_from_there() -> None:
    store = Store()
    unbroken = Script()
    (record,) = made(unbroken)

    async def body() -> None:
        script = Script(store)
        execution, runner = execution_of(script)
        script.before = lambda number: execution.pause() if number == 2 else None
        task = asyncio.create_task(runner.run())
        await until(lambda: execution.status is ExecutionStatus.PAUSED)
        await execution.abort()
        (outcome,) = await task
        assert (outcome.stopped, outcome.steps.made, len(store.runs)) == (True, [], 2)
        assert execution.status is ExecutionStatus.STOPPED
        assert [each.state for each in execution.steps.seen] == [StepState.PENDING]

    asyncio.run(body())
    again = Script(store)
    (resumed,) = made(again)
    assert again.taken == unbroken.taken - 2
    assert [t.load_pps for t in resumed.trials] == [t.load_pps for t in record.trials]


def test_finish_lets_the_running_trial_end_and_begins_no_other() -> None:
    async def body() -> None:
        script = Script()
        execution, runner = execution_of(script, searches=2)
        script.before = lambda number: runner.finish() if number == 2 else None
        (outcome,) = await runner.run()
        assert (outcome.stopped, script.taken, len(script.store.runs)) == (True, 2, 2)

    asyncio.run(body())


def test_a_lost_node_takes_the_search_again_from_its_stored_trials() -> None:
    unbroken = Script()
    (whole,) = made(unbroken)
    script = Script()
    script.before = lambda number: "lost" if number in (2, 4) else None
    outcome = make(script, searching(max_redo=1))
    assert outcome.complete
    assert script.told.count("connected again") == 2
    assert len(script.store.runs) == len(whole.trials), "no trial is taken twice"


@pytest.mark.parametrize("max_redo", [0, 2])
def test_a_node_that_stays_away_ends_the_plan_after_as_many_tries_as_it_grants_and_one_at_least(max_redo: int) -> None:
    script = Script()
    script.before = lambda number: "lost" if number > 1 else None
    with pytest.raises(NodeLost):
        make(script, searching(max_redo=max_redo))
    assert script.told.count("connected again") == max(1, max_redo)
    assert len(script.store.runs) == 1


def test_a_burst_that_took_too_long_is_judged_by_its_rate_and_not_by_its_count() -> None:
    class Stretched(Script):
        async def take(self, order: TrialRequest) -> Any:
            request, record = order.request, await super().take(order)
            evidence = {"stream": "s1", "offered_duration_s": 2 * request.duration_s, "requested_s": request.duration_s}
            reasons = (Reason(code="duration_stretched", detail="", evidence=evidence),)
            record = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": reasons})})
            self.store.runs[-1] = record
            return record

    bursts = EVERYTHING.model_copy(update={"goals": ("ndr", "back-to-back")})
    (record,) = made(Stretched(), searching(bursts))
    by_test = {test: [trial for trial in record.trials if trial.for_test == test] for test in ("load", "back-to-back")}
    assert all(trial.intended_packets > trial.offered_packets for trial in by_test["load"])
    assert all(trial.intended_packets == trial.offered_packets for trial in by_test["back-to-back"])


def test_what_this_testbed_cannot_search_is_refused_before_anything_is_touched() -> None:
    script = Script()
    with pytest.raises(ConfigError, match="is too short for ndr"):
        make(script, searching(Search(goals=("ndr",), trial_s=1.0)))
    assert script.told == []


def test_an_error_that_nobody_asked_for_is_no_stop() -> None:
    script = Script()

    async def take(*_: Any, **__: Any) -> Any:
        raise Aborted("by somebody")

    script.take = take  # type: ignore[method-assign]
    with pytest.raises(Aborted):
        make(script)


def test_the_request_of_a_search_is_what_the_testbed_is_held_for() -> None:
    script = Script()
    execution, _ = execution_of(script)
    asyncio.run(execution.look())
    assert execution.open_requests == [REQUEST.loadless()]
    assert execution.left_s is not None
    assert execution.left_s > 0
