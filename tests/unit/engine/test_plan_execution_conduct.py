"""How a plan is carried out beside its points: warm-ups, retries, stop conditions, commands, several plans in one go."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, Progress, TrialState
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.execution.stop_conditions import StopConditions, Stopwatch
from labconsole.errors import AgentError, MeasurementError, NodeLost
from labconsole.model.plan.execution_options import Stop
from labconsole.model.plan.plan import Plan
from support.execution_script import EVERY, PLAN, Script, execute, left_to_take, plan_of, run


def valid(trial, request) -> str:
    return "valid"


def test_a_warm_up_is_taken_after_every_setting_up_and_told_and_counted(tmp_path):
    async def body():
        script = Script(valid)
        told: list[Progress] = []
        outcome = await execute(
            PlanExecution(plan_of(PLAN + "warm_up: {duration_s: 0.2}\n", tmp_path), script, told.append), script
        )
        assert (outcome.taken, outcome.warm_ups) == (6, 2)
        assert [(r.platform, r.target, r.duration_s) for r in script.warmed] == [
            ("raw", "max", 0.2),
            ("container", "max", 0.2),
        ]
        assert script.warm_ups == [1] * 6
        assert [p.point.index for p in told if p.warm_up] == [0, 1]

    run(body)


def test_an_invalid_trial_is_followed_by_another_warm_up_because_the_platform_is_set_up_anew(tmp_path):
    async def body():
        script = Script()
        script.will_end("invalid", *["valid"] * 6)
        outcome = await execute(PlanExecution(plan_of(PLAN + "warm_up: {target: same}\n", tmp_path), script), script)
        assert outcome.warm_ups == 3
        assert {r.target for r in script.warmed} == {10**7}

    run(body)


def test_without_a_warm_up_records_say_that_there_was_none(tmp_path):
    async def body():
        script = Script(valid)
        await execute(PlanExecution(plan_of(PLAN, tmp_path), script), script)
        assert (script.warm_ups, script.warmed) == ([0] * 6, [])

    run(body)


def test_what_a_plan_does_not_name_is_not_taken_again(tmp_path):
    async def body():
        script = Script()
        script.will_end("invalid", *["valid"] * 5)
        outcome = await execute(
            PlanExecution(plan_of(PLAN + "retry: {codes: [no_packets]}\n", tmp_path), script), script
        )
        assert (outcome.redone, len(outcome.invalid)) == (0, 1)

    run(body)


def test_a_retry_waits_as_long_as_the_plan_says(tmp_path):
    async def body():
        script = Script()
        script.will_end("invalid", *["valid"] * 6)
        await execute(PlanExecution(plan_of(PLAN + "retry: {pause_s: 7}\n", tmp_path), script), script)
        assert script.settled.count(7.0) == 1

    run(body)


@pytest.mark.parametrize(
    ("stop", "taken", "words"),
    [
        ("{invalid_in_a_row: 2}", 2, "2 trials in a row were invalid"),
        ("{after_s: 1.0e-9}", 1, "s of measuring are over"),
        ("{at: 2020-01-01 00:00}", 0, "it is 2020-01-01 00:00"),
    ],
)
def test_a_condition_ends_a_plan_early_and_says_which(tmp_path, stop, taken, words):
    async def body():
        script = Script(lambda trial, request: "invalid")
        execution = PlanExecution(
            plan_of(PLAN.replace("max_redo: 1", "max_redo: 0") + f"stop: {stop}\n", tmp_path), script
        )
        outcome = await execute(execution, script)
        assert (outcome.taken <= taken, outcome.stopped, outcome.complete) == (True, False, False)
        assert words in outcome.ended_by
        assert (execution.status, execution.detail) == (ExecutionStatus.STOPPED, outcome.ended_by)
        assert not script.leased

    run(body)


SWEEP = """\
plan: sweep
platforms: [raw]
frame_sizes: [64, 1500]
targets: [50Mbit, 40Mbit, 30Mbit, 20Mbit, 10Mbit]
duration_s: 1
order: as-listed
settle_s: 0
"""


def test_a_loss_sweep_ends_after_two_loss_free_targets_in_a_row(tmp_path):
    async def body():
        script = Script(valid)
        script.losses = {(0, 1): 0.5, (1, 1): 0.0, (2, 1): 0.1, (5, 1): 0.1}
        execution = PlanExecution(plan_of(SWEEP + "stop: {lowering: {lossless: 2}}\n", tmp_path), script)
        outcome = await execute(execution, script)
        assert [point for point, _ in script.asked] == [0, 1, 2, 3, 4, 5, 6, 7]
        assert (outcome.left_out, outcome.complete, execution.status) == (2, True, ExecutionStatus.DONE)
        assert execution.grid[8, 1].state is TrialState.LEFT_OUT
        assert execution.grid.failing() == []
        again = PlanExecution(execution.plan, script)
        assert ((await execute(again, script)).taken, again.outcome.left_out) == (0, 2)

    run(body)


def test_targets_above_one_that_loses_too_much_are_left_out(tmp_path):
    async def body():
        script = Script(valid)
        script.losses = dict.fromkeys([(4, r) for r in (1, 2)], 0.01) | dict.fromkeys([(3, r) for r in (1, 2)], 0.3)
        text = SWEEP.replace("[50Mbit, 40Mbit, 30Mbit, 20Mbit, 10Mbit]", "[max, 40Mbit, 30Mbit, 20Mbit, 10Mbit]")
        text = text.replace("[64, 1500]", "[64]").replace("as-listed", "blocked-random") + "repetitions: 2\n"
        plan = plan_of(text + "stop: {raising: {loss_ratio: 0.1, repetitions: 2}}\n", tmp_path)
        outcome = await execute(PlanExecution(plan, script), script)
        schedule = plan.schedule()
        known = max(schedule.index((3, r)) for r in (1, 2))
        after = [trial for trial in schedule[known:] if trial[0] in (0, 1, 2)]
        assert outcome.left_out == len(after)
        assert set(script.asked).isdisjoint(after)

    run(body)


def test_a_loss_rules_out_no_load_of_another_generator_or_observation(tmp_path):
    async def body():
        script = Script(valid)
        script.losses = {(0, 1): 0.5}
        rows = "".join(
            f"  - {{platform: raw, frame_size: 64, target: {target}{more}}}\n"
            for target, more in (
                ("10Mbit", ", generator: afpacket"),
                ("20Mbit", ", generator: afpacket"),
                ("20Mbit", ""),
                ("20Mbit", ", generator: afpacket, observe: live"),
            )
        )
        text = f"plan: x\nduration_s: 1\norder: as-listed\nsettle_s: 0\npoints:\n{rows}"
        plan = plan_of(text + "stop: {raising: {loss_ratio: 0.1}}\n", tmp_path)
        outcome = await execute(PlanExecution(plan, script), script)
        assert script.asked == [(0, 1), (2, 1), (3, 1)]
        assert outcome.left_out == 1

    run(body)


def test_commands_run_once_around_a_plan_also_when_a_node_is_lost_on_the_way(tmp_path):
    async def body():
        log = tmp_path / "log"
        line = "import os, sys; print(sys.argv[1], *(os.environ['LABCONSOLE_' + k] for k in ('PLAN', 'ENDING')), "
        line += "file=open(sys.argv[2], 'a'))"
        keys = "".join(
            f"{key}:\n  - run: [{sys.executable}, {tmp_path}/note.py, {key}, {log}]\n" for key in ("pre", "post")
        )
        (tmp_path / "note.py").write_text(line)
        script = Script()
        script.will_end("valid", NodeLost("snk1", "the cable", operation="x"), *["valid"] * 5)
        await execute(PlanExecution(plan_of(PLAN + keys, tmp_path), script), script)
        assert log.read_text().splitlines() == ["pre small ", "post small done"]

    run(body)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("[/nowhere/tune]", "pre command /nowhere/tune could not be started: No such file"),
        ("[sh, -c, 'echo no switch; exit 3']", "failed with exit status 3: no switch"),
        ("{run: [sleep, '60'], timeout_s: 0.05}", "pre command sleep 60 did not end within 0.05 s"),
    ],
)
def test_a_pre_command_that_fails_ends_the_plan_before_its_first_trial_and_post_runs(tmp_path, command, words):
    async def body():
        text = PLAN + f"pre: [{command}]\npost: [[touch, {tmp_path}/after]]\n"
        script = Script(valid)
        execution = PlanExecution(plan_of(text, tmp_path), script)
        with pytest.raises(MeasurementError, match=words):
            await execute(execution, script)
        assert (script.asked, script.leased, execution.status) == ([], False, ExecutionStatus.FAILED)
        assert (tmp_path / "after").exists()

    run(body)


def test_a_post_command_that_fails_costs_no_run_and_is_told(tmp_path):
    async def body():
        script = Script(valid)
        outcome = await execute(PlanExecution(plan_of(PLAN + "post: [['false']]\n", tmp_path), script), script)
        assert (outcome.taken, outcome.complete) == (6, False)
        assert outcome.refused == [("post command false failed with exit status 1, and printed nothing", 0)]

    run(body)


def two(tmp_path: Path, script: Script) -> list[PlanExecution]:
    plans = [plan_of(PLAN, tmp_path), plan_of(PLAN.replace("small", "large").replace("[64]", "[1500]"), tmp_path)]
    return [PlanExecution(plan, script) for plan in plans]


def test_several_plans_hold_the_testbed_once(tmp_path):
    async def body():
        script = Script(valid)
        executions = two(tmp_path, script)
        outcomes = await PlanRunner(executions, script).run()
        assert ([o.taken for o in outcomes], script.batches) == ([6, 6], 1)
        assert script.purposes == ["plans small, large"]
        assert [c.status for c in executions] == [ExecutionStatus.DONE] * 2

    run(body)


def test_what_stops_one_plan_stops_those_after_it_and_they_say_so(tmp_path):
    async def body():
        script = Script()
        executions = two(tmp_path, script)
        runner = PlanRunner(executions, script)
        task = asyncio.create_task(runner.run())
        await script.begun.get()
        runner.finish()
        script.will_end("valid")
        outcomes = await task
        assert [(o.taken, o.stopped) for o in outcomes] == [(1, True), (0, True)]
        assert [c.status for c in executions] == [ExecutionStatus.STOPPED] * 2

    run(body)


def test_a_plan_of_which_nothing_is_measurable_does_not_keep_the_next_from_it(tmp_path):
    async def body():
        script = Script(lambda t, request: AgentError("uut", "no") if request.frame.bytes == 64 else "valid")
        executions = two(tmp_path, script)
        with pytest.raises(AgentError):
            await PlanRunner(executions, script).run()
        assert [c.outcome.taken for c in executions] == [0, 6]
        assert [c.status for c in executions] == [ExecutionStatus.FAILED, ExecutionStatus.DONE]

    run(body)


SHAPES = [
    PLAN,
    PLAN.replace("as-listed", "blocked-random").replace("[64]", "[64, 500]") + "warm_up: true\n",
    PLAN.replace("as-listed", "full-random").replace("[64]", "[64, 500]"),
    SWEEP + "repetitions: 3\nstop: {lowering: {lossless: 2}}\n",
    SWEEP.replace("as-listed", "blocked-random") + "repetitions: 3\nstop: {raising: {loss_ratio: 0.4}}\n",
]


@settings(max_examples=60, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 2**32), only=st.booleans())
def test_a_plan_interrupted_anywhere_and_resumed_gives_what_an_unbroken_one_gives(tmp_path_factory, shape, seed, only):
    """Killed, aborted, finished, node lost, trials invalid: the same trials in the same order, none twice.

    None invalid so often that it is given up: what its loss would have left out is taken meanwhile.
    """
    plan = plan_of(shape, tmp_path_factory.mktemp("plan"))
    dice = random.Random(seed)
    losses = {trial: dice.choice([0.0, 0.0, 0.05, 0.5]) for trial in plan.schedule()}
    points = frozenset(dice.sample(range(len(plan.points)), max(1, len(plan.points) // 2))) if only else None

    async def unbroken() -> list[tuple[int, int]]:
        script = Script(valid)
        script.losses = losses
        await execute(PlanExecution(plan, script, only=points), script)
        return [(trial.point, trial.repetition) for trial in script.held]

    async def broken() -> list[tuple[int, int]]:
        once_invalid: set[tuple[int, ...]] = set()

        def answer(trial, request):
            chance = dice.random()
            if chance < 0.1:
                raise asyncio.CancelledError  # as kill -9 leaves it: nothing is said to anybody
            if chance < 0.2:
                execution.finish()
            elif chance < 0.3:
                return NodeLost("snk1", "the cable", operation="x")
            elif chance < 0.4 and trial not in once_invalid:
                once_invalid.add(trial)
                return "invalid"
            return dice.choice(["valid", "suspect"])

        script = Script(answer)
        script.losses = losses
        for _ in range(1000):
            if not left_to_take(plan, script.held, points):
                break
            execution = PlanExecution(plan, script, only=points)
            with suppress(asyncio.CancelledError, NodeLost):
                await execute(execution, script)
            assert execution.status in (ExecutionStatus.DONE, ExecutionStatus.STOPPED, ExecutionStatus.FAILED)
        return [(trial.point, trial.repetition) for trial in script.held]

    whole, pieces = asyncio.run(unbroken()), asyncio.run(broken())
    assert len(set(pieces)) == len(pieces), "no trial counts twice"
    assert set(pieces) == set(whole)


def test_the_extension_of_a_finished_plan_takes_only_what_is_new(tmp_path):
    async def body():
        script = Script(valid)
        await execute(PlanExecution(plan_of(PLAN, tmp_path), script), script)
        longer: Plan = plan_of(PLAN.replace("repetitions: 3", "repetitions: 4"), tmp_path)
        script.asked.clear()
        outcome = await execute(PlanExecution(longer, script), script)
        assert (outcome.skipped, outcome.taken, script.asked) == (len(EVERY), 2, [(0, 4), (1, 4)])

    run(body)


def test_a_valid_trial_ends_a_row_of_invalid_ones():
    conditions = StopConditions(Stop(invalid_in_a_row=2), Stopwatch())
    conditions.begin()
    for status, met in (("invalid", False), ("valid", False), ("invalid", False), ("invalid", True)):
        conditions.saw(status)
        assert bool(conditions.met) is met
