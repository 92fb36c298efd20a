"""A plan's execution: pause, resume, abort, and what is told of every trial, on a testbed that is a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from labconsole.contracts.ports import StoredTrial
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, Progress, TrialState
from labconsole.errors import Aborted, AgentError, ConfigError, LeaseTaken, NodeLost
from labconsole.model.plan.plan import Plan
from support.execution_script import EVERY, PLAN, Script, execute, plan_of, run, until


@pytest.fixture
def plan(tmp_path) -> Plan:
    return plan_of(PLAN, tmp_path)


def states(execution: PlanExecution) -> list[TrialState]:
    return [execution.grid[trial].state for trial in EVERY]


async def begun(plan: Plan) -> tuple[Script, PlanExecution, asyncio.Task]:
    """An execution whose first trial is running."""
    script = Script()
    execution = PlanExecution(plan, script)
    task = asyncio.create_task(execute(execution, script))
    assert await script.begun.get() == (0, 1)
    return script, execution, task


async def paused(plan: Plan) -> tuple[Script, PlanExecution, asyncio.Task]:
    """An execution that holds the testbed after its first trial."""
    script, execution, task = await begun(plan)
    execution.pause()
    assert execution.status is ExecutionStatus.PAUSING
    script.will_end("valid")
    await until(lambda: execution.status is ExecutionStatus.PAUSED)
    return script, execution, task


def test_every_trial_is_pending_then_running_then_as_it_came_out(plan):
    async def body():
        assert states(PlanExecution(plan, Script())) == [TrialState.PENDING] * 6
        script, execution, task = await begun(plan)
        assert execution.grid[0, 1].state is TrialState.RUNNING
        assert execution.left_s is not None
        script.will_end("valid", "suspect", *["valid"] * 4)
        outcome = await task
        assert states(execution) == [TrialState.VALID, TrialState.SUSPECT] + [TrialState.VALID] * 4
        assert (execution.status, outcome.taken, execution.left_s) == (ExecutionStatus.DONE, 6, None)
        assert execution.grid.failing()[0][1].why[0].startswith("below_target: ")
        assert execution.grid[0, 2].run_id == "run00002"

    run(body)


def test_a_pause_lets_the_trial_end_and_keeps_the_testbed_until_resumed(plan):
    async def body():
        script, execution, task = await paused(plan)
        assert (script.asked, script.leased) == ([(0, 1)], True)
        assert execution.grid[0, 1].state is TrialState.VALID
        spent_s = execution.spent_s
        assert execution.spent_s == pytest.approx(spent_s, abs=1e-3)
        execution.resume()
        script.will_end(*["valid"] * 5)
        await task
        assert (script.batches, script.asked) == (1, EVERY)

    run(body)


def test_a_pause_taken_back_in_time_holds_nothing_up(plan):
    async def body():
        script, execution, task = await begun(plan)
        execution.pause()
        execution.resume()
        assert execution.status is ExecutionStatus.RUNNING
        script.will_end(*["valid"] * 6)
        assert (await task).taken == 6

    run(body)


async def by_execution(execution: PlanExecution, script: Script) -> None:
    await execution.abort()


async def by_session(execution: PlanExecution, script: Script) -> None:
    await script.abort()


async def by_finish(execution: PlanExecution, script: Script) -> None:
    execution.finish()


@pytest.mark.parametrize("stop", [by_execution, by_session, by_finish])
def test_an_abort_ends_a_pause_and_lets_the_testbed_go(plan, stop: Callable):
    async def body():
        script, execution, task = await paused(plan)
        await stop(execution, script)
        outcome = await task
        assert (outcome.stopped, outcome.taken, script.leased) == (True, 1, False)
        assert execution.status is ExecutionStatus.STOPPED
        assert states(execution)[1:] == [TrialState.PENDING] * 5

    run(body)


def test_an_abort_in_a_trial_leaves_it_to_be_taken_again(plan):
    async def body():
        script, execution, task = await begun(plan)
        await execution.abort()
        assert execution.status is ExecutionStatus.STOPPING
        script.will_end("invalid")
        assert (await task).stopped
        assert execution.grid[0, 1].state is TrialState.INVALID
        assert execution.grid[0, 1].run_id == "run00001"

    run(body)


def test_an_abort_while_a_platform_is_set_up_stops_the_plan_and_is_no_failure(plan):
    async def body():
        script, execution, task = await begun(plan)
        await execution.abort()
        script.will_end(Aborted("aborted by the operator before anything was sent"))
        assert (await task).stopped
        assert (execution.status, execution.grid[0, 1].state) == (ExecutionStatus.STOPPED, TrialState.PENDING)

    run(body)


def test_finishing_lets_the_running_trial_end_and_counts_it(plan):
    async def body():
        script, execution, task = await begun(plan)
        execution.finish()
        script.will_end("valid")
        outcome = await task
        assert (outcome.stopped, outcome.taken, script.leased, script.aborted) == (True, 1, False, False)
        assert states(execution) == [TrialState.VALID] + [TrialState.PENDING] * 5

    run(body)


def test_an_abort_before_the_first_trial_begins_none(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        task = asyncio.create_task(execute(execution, script))
        await asyncio.sleep(0)
        await execution.abort()
        assert (await task).stopped
        assert script.asked == []

    run(body)


def test_a_session_that_was_aborted_before_holds_up_no_new_execution(plan):
    async def body():
        script = Script()
        await script.abort()
        script.will_end(*["valid"] * 6)
        assert (await execute(PlanExecution(plan, script), script)).taken == 6

    run(body)


def test_what_is_stored_is_shown_with_its_run_and_not_taken(plan):
    async def body():
        script = Script()
        script.held = [StoredTrial(0, 1, "old", "suspect"), StoredTrial(0, 9, "more", "valid")]
        execution = PlanExecution(plan, script)
        script.will_end(*["valid"] * 5)
        outcome = await execute(execution, script)
        assert (outcome.skipped, outcome.taken) == (1, 5)
        cell = execution.grid[0, 1]
        assert (cell.state, cell.run_id, cell.verdict) == (TrialState.STORED, "old", "suspect")
        assert execution.grid.count(TrialState.STORED, TrialState.VALID) == 6

    run(body)


def test_only_the_chosen_points_are_taken_and_their_places_are_the_whole_plans(plan):
    async def body():
        script = Script()
        script.held = [StoredTrial(0, 1, "old", "valid"), StoredTrial(1, 3, "old", "valid")]
        execution = PlanExecution(plan, script, only=frozenset({1}))
        script.will_end("valid", "valid")
        outcome = await execute(execution, script)
        assert (outcome.skipped, outcome.taken, execution.total) == (1, 2, 3)
        assert script.asked == [(1, 1), (1, 2)]

    run(body)


def test_redos_are_counted_and_say_why(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end("invalid", "valid", "invalid", "invalid", *["valid"] * 4)
        outcome = await execute(execution, script)
        assert (outcome.redone, len(outcome.invalid), outcome.complete) == (2, 1, False)
        first, second = execution.grid[0, 1], execution.grid[0, 2]
        assert (first.state, first.redone, first.why) == (TrialState.VALID, 1, ())
        assert (second.state, second.redone) == (TrialState.INVALID, 1)
        assert [trial for trial, _ in execution.grid.failing()] == [(0, 1), (0, 2)]

    run(body)


def test_a_lost_node_is_waited_for_and_the_trial_says_so(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end(NodeLost("snk1", "the cable", operation="x"), *["valid"] * 6)
        outcome = await execute(execution, script)
        assert (outcome.redone, outcome.taken, script.batches) == (1, 6, 2)
        assert execution.grid[0, 1].redone == 1

    run(body)


def test_a_node_that_is_lost_at_every_attempt_ends_the_execution(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end("valid", *[NodeLost("snk1", "the cable", operation="x")] * 3)
        with pytest.raises(NodeLost):
            await execute(execution, script)
        assert (execution.status, script.batches, execution.outcome.taken) == (ExecutionStatus.FAILED, 2, 1)
        assert isinstance(execution.outcome.problem, NodeLost)
        assert (execution.outcome.complete, execution.outcome.stopped) == (False, False)

    run(body)


def test_what_keeps_every_trial_from_beginning_ends_the_execution_with_the_reason(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end(*[ConfigError("is above what uut/eth1 carries")] * 2)
        with pytest.raises(ConfigError):
            await execute(execution, script)
        assert execution.status is ExecutionStatus.FAILED
        assert "above what uut/eth1 carries" in execution.detail
        assert execution.grid[0, 1].state is TrialState.PENDING

    run(body)


def test_a_platform_that_cannot_be_set_up_is_left_out_and_the_others_are_measured(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end(*[AgentError("uut", "the guest does not boot")] * 2, *["valid"] * 3)
        outcome = await execute(execution, script)
        assert (outcome.taken, outcome.refused) == (3, [("raw with background none: uut: the guest does not boot", 3)])
        assert script.asked == [(0, 1), (0, 1), (1, 1), (1, 2), (1, 3)]
        assert (execution.status, outcome.complete) == (ExecutionStatus.DONE, False)
        assert execution.grid[0, 3].why == ("uut: the guest does not boot",)

    run(body)


def test_a_testbed_that_another_operator_took_is_not_tried_again(plan):
    async def body():
        script = Script()
        execution = PlanExecution(plan, script)
        script.will_end("valid", LeaseTaken("uut", "bob@there", "his run"))
        with pytest.raises(LeaseTaken):
            await execute(execution, script)
        assert (script.asked, execution.status) == ([(0, 1), (0, 2)], ExecutionStatus.FAILED)

    run(body)


def test_progress_is_told_at_both_ends_of_every_trial(plan):
    async def body():
        script = Script()
        told: list[Progress] = []
        script.will_end(*["valid"] * 6)
        await execute(PlanExecution(plan, script, told.append), script)
        assert [(p.point.index, p.repetition) for p in told[::2]] == EVERY
        assert [p.done for p in told if p.last is not None] == [1, 2, 3, 4, 5, 6]
        assert told[0].left_s is None
        assert told[-1].left_s == 0

    run(body)
