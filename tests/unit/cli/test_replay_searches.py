"""What a replay says of a plan's searches, to machines and to people."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import pytest

from labconsole.cli.commands.replay import execution
from labconsole.cli.main import main
from labconsole.cli.steps import SearchNarrator
from labconsole.cli.text.replay import ReplayScreen
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.execution.runner import PlanRunner
from labconsole.errors import LabError
from labconsole.model.plan.execution_options import WarmUp
from labconsole.model.plan.plan import Plan
from support.search_script import Script, made, searching


def replayed(script: Script, plan: Plan, *, as_json: bool) -> Outcome:
    screen, bench = ReplayScreen([plan], as_json=as_json), script

    def tell_step(progress: StepProgress) -> None:
        screen.leave_grid(progress.plan)
        SearchNarrator(as_json=as_json).narrate(progress)

    async def work() -> Outcome:
        session: Any = bench
        running = PlanExecution(plan, session, screen.update, on_step=tell_step)
        with screen.over([running]):
            (outcome,) = await PlanRunner([running], session).run()
        if plan.grid:
            screen.finished(running, 0)
        return outcome

    return asyncio.run(work())


def test_a_plan_begins_before_its_searches_also_when_its_grid_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script()
    replayed(script, searching(grid=True), as_json=True)
    script.store.searches.clear()
    capsys.readouterr()
    plan = searching(grid=True, warm_up=WarmUp())
    outcome = replayed(script, plan, as_json=True)
    assert SearchNarrator(as_json=True).narrate_outcome(plan, outcome) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [line["event"] for line in lines]
    assert told == ["plan_started", "search_started", "search_finished", "plan_finished", "searches_finished"]
    started, finished = lines[1], lines[-1]
    assert (started["search_number"], started["searches"], started["requested"]["platform"]) == (1, 1, "raw")
    assert (finished["made"], finished["skipped"], finished["trials"], finished["exit_status"]) == (1, 0, 0, 0)


def test_every_attempt_of_a_search_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script()
    script.before = lambda number: "invalid" if number == 2 else None
    replayed(script, searching(), as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tried = [line["run"] for line in lines if line["event"] == "search_trial"]
    assert [run["verdict"]["status"] for run in tried[:3]] == ["valid", "invalid", "valid"]
    assert [run["plan"]["attempt"] for run in tried[:3]] == [1, 1, 2]


def test_people_are_told_each_search_and_how_all_of_them_ended(capsys: pytest.CaptureFixture[str]) -> None:
    script, plan = Script(), searching(searches=2, warm_up=WarmUp())
    first = Script()
    made(first)
    script.before = lambda number: "stop" if number == first.taken + 1 else None
    outcome = replayed(script, plan, as_json=False)
    status = SearchNarrator(as_json=False).narrate_outcome(plan, outcome)
    told = capsys.readouterr()
    assert "t: search 1 of 2: raw, 1000 B" in told.err
    assert told.err.count("warm-up of raw, background none: discarded") == 1
    assert "ndr (adjusted): lower bound" in told.out
    assert f"t: searches stopped; 1 made by {first.taken + 1} trials, 0 stored before" in told.out
    assert status == 130


def test_a_stop_condition_and_what_could_not_be_searched_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(ended_by="it is 2020-01-01 00:00")
    outcome.steps.refused.append("raw, 64 B: the guest does not boot")
    assert SearchNarrator(as_json=False).narrate_outcome(searching(), outcome) == 1
    told = capsys.readouterr().out
    assert "t: searches ended because it is 2020-01-01 00:00; 0 made by 0 trials, 0 stored before" in told
    assert "  not searched: raw, 64 B: the guest does not boot" in told


def searched(script: Script, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("labconsole.api.testbed.load_testbed", lambda *_: (script.inventory, script.store))
    monkeypatch.setattr("labconsole.api.testbed.open_session", lambda *_, **__: script)
    monkeypatch.setattr(
        "labconsole.cli.session_runner.run_session", lambda session, nodes, work, _: asyncio.run(work(session))
    )
    return main(["search", "--frame-size", "1000", "--goals", "pdr-5%", *words])


def test_one_search_from_the_command_line_tells_others_what_it_is_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script()
    assert searched(script, monkeypatch, "--json") == 0
    *runs, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [run["run_id"] for run in runs] == [trial["run_id"] for trial in result["search"]["trials"]]
    assert {(run["plan"]["name"], run["plan"]["seed"]) for run in runs} == {("search", 0)}
    assert script.purposes == ["search: raw, 1000 B without FCS, 1 source, background none"]


@pytest.mark.parametrize("refused_from", [1, 3])
def test_a_search_on_a_platform_that_cannot_be_set_up_ends_with_the_reason(
    refused_from: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script()
    script.before = lambda number: "refused" if number >= refused_from else None
    assert searched(script, monkeypatch) == 1
    told = capsys.readouterr()
    assert "the guest does not boot" in told.err
    assert "Traceback" not in told.err


def test_what_no_search_could_be_set_up_for_is_told_before_the_replay_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script: Any = Script()
    script.before = lambda number: "refused"
    monkeypatch.setattr(execution, "run_session", lambda session, nodes, work, *_, **__: asyncio.run(work(session)))
    args = argparse.Namespace(json=True, take_over=False, verbose=0, retake=False, notify=None, metrics=None)
    with pytest.raises(LabError, match="the guest does not boot"):
        execution._replay(args, script, [searching()], [None])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["event"], last["made"], last["exit_status"]) == ("searches_finished", 0, 1)
    assert "the guest does not boot" in last["refused"][0]
