"""What is measured now, on every screen; how the last plan ended until it was read; the time left."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.execution.stop_conditions import Stopwatch
from labconsole.engine.live.events import NodeChanged, NodeState, Phase, PhaseChanged, TrialStarted
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui.console.current_measurement import CurrentMeasurement, build_current_measurement, format_point
from labconsole.tui.console.state import ConsoleState, PlanEnd
from labconsole.tui.parts.status import MeasuringLine, fitting
from support.driven_console import SIZES, console, settle, text, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession

POINT = DesignPoint(
    platform="container", frame=FrameSize(64), sources=2, target=500_000_000, duration_s=10.0, background="idle"
)


def sending(state: ConsoleState, point: DesignPoint = POINT) -> None:
    started = TrialStarted(run_id="r1", request=point, repetition=3, repetitions=5)
    state.apply(started, now_s=100.0, wall_s=0.0)
    state.apply(PhaseChanged(run_id="r1", phase=Phase.SENDING, expected_s=10.0), now_s=100.0, wall_s=0.0)


def test_what_is_measured_is_said_with_its_place_and_time() -> None:
    state = ConsoleState(wait_per_trial_s=2.0)
    assert build_current_measurement(state, 100.0, 0.0) is None
    sending(state)
    now = build_current_measurement(state, 104.0, 0.0)
    assert now is not None
    assert now.what[0] == "container, 64 B, 2 sources at 500Mbit, background idle"
    assert now.place[0] == "repetition 3 of 5"
    assert now.step[0] == "sending, 6 s left"
    assert now.left_s == 2 * 12 + 8
    assert now.done_ratio == 2 / 5
    assert not now.by


def test_all_time_left_is_at_least_the_steps_and_does_not_run_while_a_trial_is_set_up() -> None:
    state = ConsoleState(wait_per_trial_s=1.0)
    point = replace(POINT, duration_s=5.0)

    def phase(phase: Phase, at_s: float, expected_s: float | None = None) -> None:
        state.apply(PhaseChanged(run_id="r1", phase=phase, expected_s=expected_s), now_s=at_s, wall_s=0.0)

    state.apply(TrialStarted(run_id="r1", request=point, repetition=1, repetitions=1), now_s=0.0, wall_s=0.0)
    phase(Phase.PREPARING, 0.0)
    assert state.all_left_s(4.0) == 6.0
    phase(Phase.SENDING, 4.0, 5.0)
    assert (state.step_wordings(7.0)[0], state.all_left_s(7.0)) == ("sending, 2 s left", 3.0)
    assert state.all_left_s(9.5) == 0.5
    phase(Phase.DRAINING, 9.5, 2.0)
    assert (state.step_wordings(9.5)[0], state.all_left_s(9.5)) == ("draining, 2 s left", 2.0)


def test_it_is_ready_when_the_nodes_are_there() -> None:
    state = ConsoleState()

    def shown() -> str:
        (row,) = MeasuringLine(state, "press r to start a trial").lines(80)
        return "".join(part for part, _ in row)

    for node in ("uut", "snk1"):
        state.apply(NodeChanged(node=node, state=NodeState.CONNECTING), now_s=1.0, wall_s=0.0)
    assert shown() == " ◌ connecting   to snk1, uut"
    state.apply(NodeChanged(node="snk1", state=NodeState.CONNECTED), now_s=2.0, wall_s=0.0)
    assert shown() == " ◌ connecting   to uut"
    state.apply(NodeChanged(node="uut", state=NodeState.FAILED, message="no route"), now_s=3.0, wall_s=0.0)
    assert shown() == " ■ ready   press r to start a trial"


def test_what_does_not_fit_is_said_in_fewer_words_and_the_time_left_goes_last() -> None:
    parts = (
        ("",),
        format_point(POINT),
        ("plan night, 34 of 120", "night 34/120", "34/120"),
        ("repetition 3 of 5", "3/5", ""),
        ("sending, 6 s left", "sending"),
        ("about 1 h 03 min left", "1 h 03 min", ""),
    )
    for room in range(200, 33, -1):
        words = [word for word in fitting(parts, room) if word]
        assert len(" · ".join(words)) <= room
        if room > 60:
            assert any("1 h 03 min" in word for word in words)
            assert any("container 64 B" in word or "container, 64 B" in word for word in words)


def test_time_that_a_node_is_waited_for_is_no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Stopwatch()
    watch.start()
    now[0] += 10
    watch.hold()
    watch.hold()
    now[0] += 120
    assert watch.spent_s == 10
    watch.go_on()
    watch.go_on()
    now[0] += 5
    assert watch.spent_s == 15
    watch.hold()
    now[0] += 30
    watch.stop()
    assert watch.spent_s == 15


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_every_screen_says_what_is_measured(size: tuple[int, int]) -> None:
    async with console(lambda: LabSession(hold=True), size) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        for key in "1234567":
            await pilot.press(key)
            await pilot.pause()
            await settle(app, pilot)
            await until(pilot, lambda: "▶ raw" in text(app) and "sending" in text(app))
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


@pytest.mark.asyncio
async def test_the_bench_shows_what_is_measured_and_the_set_up_when_it_is_wanted() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        trial = app.state.trial
        assert trial is not None
        trial.request = replace(trial.request, platform="bridge")  # as a plan measures what the fields do not say
        app.state.revision += 1
        await until(pilot, lambda: "Measured now" in text(app) and "bridge" in text(app))
        assert "Repetitions" not in text(app)
        await pilot.press("e")
        await until(pilot, lambda: "Set-up of the next run" in text(app))
        assert "Measured now" not in text(app)
        await pilot.press("tab", "tab", "tab", "tab", "tab", "tab", "tab")
        await until(pilot, lambda: "Measured now" in text(app))
        session.release.set()
        await until(pilot, lambda: not app.state.requested)
        await until(pilot, lambda: "Repetitions" in text(app))


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["0", "r"])
async def test_how_a_plan_ended_stays_in_sight_until_it_is_read_or_the_next_thing_begins(key: str) -> None:
    async with console() as (app, _, pilot):
        app.plan_over(PlanEnd(0.0, "error", "plan night failed: snk1: lost", failed=True))
        await until(pilot, lambda: "✗ 00:00 plan night failed: snk1: lost" in text(app))
        await pilot.press("7")
        await until(pilot, lambda: "plan night failed" in text(app).splitlines()[1])
        await pilot.press("1", key)
        await pilot.press("escape")
        await until(pilot, lambda: "plan night failed" not in text(app).splitlines()[1])


def test_somebody_elses_trial_is_told_apart() -> None:
    now = CurrentMeasurement(what=("raw",), place=("",), plan=("",), step=("sending",), by="eve@desk")
    from labconsole.tui.parts.status import _one_line

    assert "".join(text for text, _ in _one_line(now, 80)).startswith(" ◇ eve@desk measures · raw · sending")


@pytest.mark.asyncio
async def test_numbers_of_the_trial_before_are_not_called_live() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: "Streams · live" in text(app))
        for stream in session.telemetry.streams.values():
            stream.final = True
        app.state.apply(TrialStarted(run_id="next", request=POINT, repetition=2, repetitions=2), now_s=1, wall_s=1)
        await until(pilot, lambda: "Streams · of the trial before" in text(app))
        app.state.apply(PhaseChanged(run_id="next", phase=Phase.SENDING, expected_s=5), now_s=2, wall_s=2)
        await until(pilot, lambda: "Streams · live" in text(app))
        session.release.set()
        await until(pilot, lambda: not app.state.requested)


def test_between_the_trials_of_guests_and_after_the_last_it_is_said_which_of_how_many() -> None:
    guests: Any = SimpleNamespace(kind="job")
    plan: Any = SimpleNamespace(name="twenty", grid=False, guests=guests, experiments=())
    steps: Any = SimpleNamespace(current=None, asked=2, remaining=[1])
    outcome = SimpleNamespace(taken=0, skipped=0)
    state = ConsoleState(wait_per_trial_s=2.0)
    state.requested = True
    execution: Any = SimpleNamespace(
        plan=plan,
        steps=steps,
        running=True,
        salt="",
        outcome=outcome,
        total=0,
        current=None,
        left_s=0.0,
        status=ExecutionStatus.RUNNING,
    )
    state.execution = execution
    between = build_current_measurement(state, 100.0, 0.0)
    assert between is not None
    assert (between.plan[0], between.done_ratio, between.left_s) == ("plan twenty, job 1 of 2", 0.5, 0.0)
    steps.remaining = []
    over = build_current_measurement(state, 100.0, 0.0)
    assert over is not None
    assert over.plan == ("plan twenty, job 2 of 2, ending the guests", "twenty job 2/2, ending", "job 2/2")
    assert (over.step, over.left_s, over.done_ratio) == (("ending the guests",), None, 1.0)
    steps.asked = 0
    unknown = build_current_measurement(state, 100.0, 0.0)
    assert unknown is not None and unknown.plan[0] == "plan twenty"
