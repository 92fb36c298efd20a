"""A console that only watches, and the trial of another operator on any console, driven by keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from labconsole.engine.live.events import NodeChanged, NodeState, Phase
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock
from labconsole.tui.console.current_measurement import CurrentMeasurement, build_current_measurement
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.dialogs import AskText
from labconsole.tui.parts.status import MeasuringLine, _two_lines
from support.driven_console import SIZES, console, picture, settle, text, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, make_record

pytestmark = pytest.mark.asyncio
REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=2, target=10_000_000, duration_s=5.0)
REFUSED = "this console only watches: --read-only"


def observed(**changes: object) -> ObservedTrial:
    at = datetime.fromtimestamp(clock.wall_s(), UTC)
    values: dict[str, object] = {
        "run_id": "run-7",
        "operator": "eva@desk",
        "purpose": "plan night",
        "request": REQUEST,
        "repetition": 2,
        "repetitions": 5,
        "plan": "night",
        "block": 1,
        "set_ups": 3,
        "phase": Phase.SENDING,
        "started": at,
        "phase_started": at,
        "phase_until": None,
        "since": at,
        "until": None,
    }
    return ObservedTrial(**{**values, **changes})  # type: ignore[arg-type]


def measured(state: ConsoleState) -> CurrentMeasurement:
    now = build_current_measurement(state, 0.0, clock.wall_s())
    assert now is not None
    return now


def watching() -> FakeSession:
    session = LabSession()
    session.read_only = True
    session.store.records.append(make_record(REQUEST, "run-1"))
    return session


async def test_a_console_that_only_watches_says_so_and_no_key_does_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with console(watching) as (app, session, pilot):
        await settle(app, pilot)
        assert "◇ watching" in picture(app)[1] and "press r" not in text(app)
        assert app.screen.query_one("#run").disabled
        for screen, key in (("1", "r"), ("2", "n"), ("4", "r"), ("5", "r"), ("6", "o")):
            await pilot.press(screen)
            await pilot.pause()
            app.clear_notifications()
            await pilot.press(key)
            await until(pilot, lambda: any(note.message == REFUSED for note in app._notifications))
            assert not isinstance(app.screen, AskText)
        assert isinstance(session, LabSession)
        assert (session.requests, session.checks, session.running) == ([], [], False)


@pytest.mark.parametrize("session", [watching, FakeSession])
async def test_anothers_trial_is_seen_while_it_runs(session: type[FakeSession]):
    async with console(session) as (app, fake, pilot):
        fake.observed = observed()
        fake.begin_streams(REQUEST)
        fake.rate_pps = 14_000.0
        for _ in range(15):
            fake.advance()
        await settle(app, pilot)
        assert "◇ eva@desk measures · " in picture(app)[1]
        assert "plan night · repetition 2 of 5, block 1 of 3" in picture(app)[1]
        assert "sending" in picture(app)[2]
        assert "Measured now by eva@desk" in text(app)
        assert "Streams · live, of eva@desk" in text(app)
        row = next(line for line in picture(app) if "s1" in line and "14" in line)
        assert "≈" in row, "what is lost is an estimate while it runs"
        fake.observed = None
        fake.telemetry.revision += 1
        await settle(app, pilot)
        assert "eva@desk" not in picture(app)[1]


def ends_with(app: ConsoleApp, words: str) -> bool:
    return picture(app)[1].rstrip().endswith(words)


@pytest.mark.parametrize("size", SIZES)
async def test_anothers_search_is_called_a_search_and_a_plan_of_that_name_a_plan(size: tuple[int, int]):
    async with console(watching, size) as (app, fake, pilot):
        for purpose, words, others in (
            ("search: raw, 64 B", "search", "plan"),
            ("plan search", "plan search", "night"),
        ):
            fake.observed = observed(plan="search", purpose=purpose, repetitions=1, block=None)
            fake.telemetry.revision += 1
            for key in ("1", "7"):
                await pilot.press(key)
                await until(pilot, partial(ends_with, app, words))
                assert others not in picture(app)[1]


async def test_what_another_operator_says_is_text_only():
    state = ConsoleState(observed=observed(operator="\x1b[31m" + "x" * 999, plan="[b]\x07" * 60))
    line = MeasuringLine(state)
    for width in (80, 120, 200):
        for spans in line.lines(width):
            assert "".join(words for words, _ in spans).isprintable()
            assert sum(len(words) for words, _ in spans) <= width


async def test_the_name_of_another_operator_is_no_markup():
    async with console() as (app, fake, pilot):
        fake.observed = observed(operator="eve[/]@host [@click=app.quit]x[/]")
        fake.telemetry.revision += 1
        await until(pilot, lambda: "Measured now by eve[/]@host [@click=app.quit]x[/]"[:40] in text(app))


async def test_a_phase_that_begins_in_the_future_has_no_bar():
    later = datetime.now(UTC) + timedelta(seconds=60)
    trial = observed(phase_started=later, phase_until=later + timedelta(microseconds=2))
    for spans in MeasuringLine(ConsoleState(observed=trial)).lines(200):
        assert sum(len(words) for words, _ in spans) <= 200


async def test_a_node_that_is_away_has_neither_round_trip_nor_clock():
    async with console(LabSession) as (app, session, pilot):
        await pilot.press("6")
        await until(pilot, lambda: "src2" in text(app))
        before = next(line for line in picture(app) if " src2 " in line)
        assert "0.41" in before
        for state in (NodeState.LOST, NodeState.FAILED):
            session.say(NodeChanged(node="src2", state=state, message="gone"))
            await until(pilot, partial(row_says, app, state.value))
            after = next(line for line in picture(app) if " src2 " in line)
            assert "0.41" not in after and "–" in after


def row_says(app: ConsoleApp, words: str) -> bool:
    """Whether the row of src2 in the table of nodes says so: the event lines may say it earlier."""
    return any(words in line for line in picture(app) if "│  src2 " in line)


async def test_a_trial_of_guests_is_shown_by_its_words() -> None:
    trial = observed(
        guest_words="container: 2 guests offer 10Mbit", phase=Phase.MEASURING, plan=None, block=None, repetitions=1
    )
    state = ConsoleState(observed=trial)
    first, second = ("".join(words for words, _ in spans) for spans in _two_lines(measured(state), 120))
    assert first.startswith(" ◇ eva@desk measures · container: 2 guests offer 10Mbit ")
    assert "measuring" in second
    assert state.current_request is None and state.measures


async def test_a_console_that_only_watches_says_where_trials_are_announced_and_offers_nothing_it_refuses() -> None:
    state = ConsoleState(read_only=True, announcer="src1")
    line = MeasuringLine(state)
    assert "src1 is not connected, so no trial can be seen" in line.lines(120)[0][2][0]
    state.apply(NodeChanged(node="src1", state=NodeState.CONNECTED), now_s=0, wall_s=0)
    assert "no trial is announced" in line.lines(120)[0][2][0]
    async with console(watching) as (app, _, pilot):
        await settle(app, pilot)
        assert not app.screen.query_one("#run").display and not app.screen.query_one("#abort").display
        keys = picture(app)[-1]
        assert "r Run" not in keys and "a Abort" not in keys and "q Quit" in keys


async def test_a_run_that_waits_for_nodes_says_for_which() -> None:
    state = ConsoleState(requested=True, connecting={"src2", "src1"})
    assert state.step_wordings(0)[0] == "waiting for src1, src2 to connect"
    state.stopping = True
    assert state.step_wordings(0) == ("stopping",)
