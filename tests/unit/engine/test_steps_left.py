"""How long steps still take: by the estimate, or by how long the trials of the one under way have taken."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.contracts.picture import PictureTrial, StepPicture
from labconsole.engine.execution.progress import Outcome, StepState, StepView
from labconsole.engine.execution.steps import StepBench, Steps


def left_s(*seen: StepView, spent_s: float) -> float:
    execution: Any = SimpleNamespace(spent_s=spent_s)
    nothing: Any = None
    steps = Steps(execution, nothing, nothing, nothing)
    steps._requested = list(seen)
    return steps.left_s


def test_others_go_at_the_pace_of_those_that_are_done():
    done = [step(), step()]
    for each, took_s in zip(done, (6.0, 9.0), strict=True):
        each.state, each.took_s = StepState.DONE, took_s
    assert left_s(*done, step(), step(), spent_s=15.0) == pytest.approx(2 * 7.5)
    assert left_s(*done, step(begun_s=13.0), step(), spent_s=15.0) == pytest.approx(2 * 7.5 - 2.0)


def step(*, trials: int = 0, left: int | None = None, begun_s: float | None = None) -> StepView:
    nothing: Any = None
    taken = tuple(PictureTrial(part=0, at=1.0, duration_s=1.0) for _ in range(trials))
    state = StepState.PENDING if begun_s is None else StepState.RUNNING
    return StepView(nothing, state, shown=StepPicture(trials=taken, left_trials=left), estimate_s=30.0, begun_s=begun_s)


@pytest.mark.parametrize(
    ("under_way", "expected_s"),
    [
        (step(begun_s=40.0), 10.0),
        (step(begun_s=40.0, trials=5), 10.0),
        (step(begun_s=40.0, trials=5, left=8), 32.0),
        (step(begun_s=0.0, trials=10, left=5), 30.0),  # the estimate has long passed
        (step(begun_s=60.0, left=8), 30.0),
    ],
)
def test_a_step_that_says_how_many_trials_are_left_is_reckoned_by_those_it_took(under_way: StepView, expected_s: float):
    assert left_s(under_way, spent_s=60.0) == pytest.approx(expected_s)
    assert left_s(under_way, step(), spent_s=60.0) == pytest.approx(expected_s + 30.0)


@pytest.mark.parametrize("stopping", [False, True])
def test_a_trial_that_no_other_attempt_follows_is_not_told_as_taken_again(stopping: bool):
    async def settle(for_s: float) -> None: ...

    conduct, told = SimpleNamespace(settle_s=None, retry=SimpleNamespace(pause_s=0.0)), list[str]()
    execution: Any = SimpleNamespace(stopping=stopping, outcome=Outcome(), plan=conduct)
    session: Any = SimpleNamespace(settle=settle)
    nothing: Any = None
    seen = step(begun_s=0.0)
    steps = Steps(execution, session, nothing, lambda progress: told.append(progress.again))
    steps._requested = [seen]
    asyncio.run(StepBench(steps, seen, nothing).over("invalid", again="guests_missing: g1"))
    again = [] if stopping else ["guests_missing: g1"]
    assert (told, execution.outcome.steps.redone) == (again, len(again))
