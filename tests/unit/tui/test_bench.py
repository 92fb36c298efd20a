"""The bench's whole task: order and narrow the interfaces, repeat a point, mind who else has the testbed, tiny terminals."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import NodeChanged, NodeState
from labconsole.engine.live.telemetry import LiveDelays
from labconsole.errors import LeaseHeld
from labconsole.measure.statistics.repetitions import summarize
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Delay
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console import clock
from labconsole.tui.console.form import FormValues
from labconsole.tui.console.memory import ConsoleMemory
from labconsole.tui.console.settings import Settings
from labconsole.tui.console.state import TOTAL, RepetitionFigures
from labconsole.tui.parts.action import KeyBar
from labconsole.tui.parts.dialogs import Confirm, Pick
from labconsole.tui.parts.fields import Field
from labconsole.tui.parts.overlay import Help
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens import SCREENS
from labconsole.tui.screens.bench.interfaces import InterfacesTable
from labconsole.tui.screens.bench.nodes import UutView
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.wire.host_activity import NodeSurroundings
from support.asking import partly
from support.driven_console import SIZES, console, picture, settle, text, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, make_record

ESCAPE = "\x1b]0;owned\x07[bold]\u202eexe\u200b"


def rows(app: ConsoleApp) -> list[str]:
    return ["/".join((key[0], key[2])) for key in list(app.screen.query_one(InterfacesTable).keys())]


@pytest.mark.asyncio
async def test_interfaces_are_sorted_by_key_and_the_cursor_stays_on_its_row() -> None:
    async with console() as (app, session, pilot):
        session.rate_pps = 5000
        session.advance()
        session.advance()
        await pilot.press("i", "down", "down")
        table = app.screen.query_one(InterfacesTable)
        chosen = table.cursor_key
        await pilot.press("s", *"rx", "enter")
        assert table.sort == "rx" and "by rx pps" in str(table.border_title)
        assert rows(app)[0].split("/")[0] in ("uut", "snk1", "snk2", "snk3")  # sources receive nothing
        assert table.cursor_key == chosen
        order = rows(app)
        await pilot.press("S")
        assert rows(app) != order and table.cursor_key == chosen
        await settle(app, pilot)
        assert "▌ " in text(app)


@pytest.mark.asyncio
async def test_the_scale_follows_rows_in_sight_at_once_and_the_others_within_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = clock.monotonic_s() + 60
    async with console(size=(80, 24)) as (app, session, _):
        session.rate_pps = 5000
        session.advance()
        session.advance()
        monkeypatch.setattr(clock, "monotonic_s", lambda: now_s)
        table = app.screen.query_one(InterfacesTable)
        live, keys = session.telemetry.interfaces, list(table.keys())
        assert len(keys) > table.size.height  # the last one is out of sight

        def scale() -> str:
            table.paint()
            return str(table.border_subtitle)

        now_s += 1
        first = scale()
        live[keys[-1]].rx_pps.append(2e9)
        assert scale() == first
        now_s += 1
        second = scale()
        live[keys[0]].rx_pps.append(9e12)
        assert first != second != scale()


@pytest.mark.asyncio
async def test_what_is_not_known_is_sorted_last_whichever_way() -> None:
    async with console() as (app, session, pilot):
        session.advance()
        session.advance()
        session.say(NodeChanged(node="uut", state=NodeState.LOST, message="gone"))
        table = app.screen.query_one(InterfacesTable)
        for reverse in (False, True):
            table.set_sort("rx", reverse=reverse)
            lost = len([row for row in rows(app) if row.startswith("uut/")])
            assert lost and all(row.startswith("uut/") for row in rows(app)[-lost:])


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_typing_narrows_the_interfaces_and_esc_shows_them_all_again(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, session, pilot):
        everything = rows(app)
        await pilot.press("slash", *"uut eth5")
        await settle(app, pilot)
        assert rows(app) == ["uut/eth5"]
        assert "eth5" in text(app)
        await pilot.press("enter", "r")
        await until(pilot, lambda: len(session.requests) == 1)  # the letters belong to the console again
        await until(pilot, lambda: not app.state.requested)
        await pilot.press("slash", "escape")
        assert rows(app) == everything


@pytest.mark.asyncio
async def test_a_node_is_jumped_to_by_a_part_of_its_name_and_from_the_palette() -> None:
    async with console() as (app, _, pilot):
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press(*"snk", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        assert app.screen.query_one(InterfacesTable).cursor_key[0] == "snk2"
        commands = {command.title: command.callback for command in app.get_system_commands(app.screen)}
        await commands["Go to src3"]()
        assert app.screen.query_one(InterfacesTable).cursor_key[0] == "src3"


class Repeating(FakeSession):
    """Every trial ends when told so, each with another loss; the third is invalid."""

    def __init__(self) -> None:
        super().__init__()
        self.step = asyncio.Semaphore(0)
        self.trials = 0

    async def traffic(self, request: DesignPoint) -> None:
        self.trials += 1
        self.loss, self.status = 0.01 * self.trials, "invalid" if self.trials == 3 else "valid"
        await self.step.acquire()


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_repetitions_accumulate_to_mean_and_interval_while_they_run(size: tuple[int, int]) -> None:
    async with console(Repeating, size) as (app, session, pilot):
        assert isinstance(session, Repeating)
        app.screen.query_one("#repetitions", Field).value = "5"
        await pilot.press("r")
        for done in range(1, 5):
            await until(pilot, partial(lambda done: session.trials == done, done))
            session.step.release()
            await until(pilot, partial(lambda done: app.state.repetitions.done == done, done))
        await settle(app, pilot)
        await settle(app, pilot)
        shown = text(app)
        assert "Repetitions 4 of 5" in shown and "1 invalid excluded" in shown
        measured = [r.streams[0].measured_pps for r in session.store.records if r.verdict.status != "invalid"]
        expected = summarize([float(value) for value in measured if value is not None])
        found = app.state.repetitions.quantities["s1"].measured
        assert found is not None and found.n == 3
        assert (found.mean, found.half_width) == pytest.approx((expected.mean, expected.half_width))
        assert f"{expected.mean:,.0f}".replace(",", "\u2009") in shown
        session.step.release()
        await until(pilot, lambda: not app.state.requested)
        assert app.state.repetitions.done == 5  # they stay to be read


def test_two_runs_have_a_mean_but_no_interval() -> None:
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)
    repetitions = RepetitionFigures()
    repetitions.begin(request, 1, 2)
    for number, loss in enumerate((0.0, 0.5)):
        repetitions.begin(request, number + 1, 2)
        repetitions.add(make_record(request, f"run-{number}", loss=loss))
    total = repetitions.quantities[TOTAL].loss
    assert total is not None and total.mean == pytest.approx(0.25, rel=1e-3) and total.ci_low is None


def delay(p50_ns: int, *, one_way: bool) -> Delay:
    quantiles = {"p50": p50_ns, "p99": 10 * p50_ns, "p999": 20 * p50_ns, "max": 30 * p50_ns}
    return Delay.model_validate(
        {
            "packets": 1000,
            "pair_every_packets": 10,
            "one_way": one_way,
            "reason": None if one_way else "no shared clock",
            "clock_bound_ns": 0 if one_way else None,
            "pdv_ns": quantiles,
            "ipdv_ns": None,
            "one_way_ns": {**quantiles, "min": 1, "mean": 5.0} if one_way else None,
        }
    )


@pytest.mark.asyncio
async def test_percentiles_of_delay_come_in_with_every_repetition_and_say_what_they_are() -> None:
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)
    async with console(Repeating, (200, 60)) as (app, _, pilot):
        repetitions = app.state.repetitions
        for number, (p50_ns, one_way, words) in enumerate(
            [
                (20_000, True, ("delay p50", "20.0", "200.0")),
                (40_000, True, ("delay p50", "30.0", "300.0")),
                (60_000, False, ("PDV p50", "40.0", "400.0")),
            ],
            start=1,
        ):
            record = make_record(request, f"run-{number}")
            stream = record.streams[0].model_copy(update={"delay": delay(p50_ns, one_way=one_way)})
            repetitions.begin(request, number, 3)
            repetitions.add(record.model_copy(update={"streams": (stream,)}))
            app.state.revision += 1
            await until(pilot, partial(lambda words: all(word in text(app) for word in words), words))


def test_another_point_begins_anew() -> None:
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)
    repetitions = RepetitionFigures()
    repetitions.begin(request, 1, 3)
    repetitions.add(make_record(request, "run-0"))
    repetitions.begin(request, 1, 3)
    assert (repetitions.done, repetitions.quantities) == (0, {})


def holder(owner: str = "eva@desk") -> LeaseHolder:
    since = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    return LeaseHolder(
        owner=owner, purpose="plan dedicated", since=since, until=None, observe="quiet", quiet=True, own=False
    )


@pytest.mark.asyncio
async def test_who_holds_the_testbed_is_said_and_it_is_taken_over_only_after_a_question() -> None:
    def held() -> FakeSession:
        session = FakeSession()
        session.holders = {"uut": holder()}
        session.refusal = LeaseHeld("uut", "is held by eva@desk for plan dedicated", code="lease_held", operation="run")
        return session

    async with console(held) as (app, session, pilot):
        await settle(app, pilot)
        assert "leased by eva@desk" in text(app)
        assert session.looks == []  # looking would disturb her
        for answer, requests in (("n", 1), ("y", 3)):
            await pilot.press("r")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            assert "eva@desk" in text(app)
            await pilot.press(answer)
            await until(pilot, lambda: not isinstance(app.screen, Confirm) and not app.state.requested)
            await until(pilot, partial(lambda requests: len(session.requests) == requests, requests))
        assert session.taken_over and len(session.store.records) == 1


@pytest.mark.asyncio
async def test_a_session_that_may_only_look_says_so_on_every_screen() -> None:
    def looking() -> FakeSession:
        session = LabSession()
        session.read_only = True
        return session

    async with console(looking) as (app, _, pilot):
        for entry in SCREENS:
            await pilot.press(entry.function_key)
            await settle(app, pilot)
            assert "READ-ONLY" in picture(app)[0], entry.title


def look(**surroundings: Any) -> UutView:
    told = {"load": None, "cpus": None, "guests": [], "sessions": [], "logins": [], **surroundings}
    return UutView(Inspection(at_wall_s=0.0, surroundings=partly(NodeSurroundings, told)))


def test_what_runs_on_the_uut_is_said_in_words_and_the_unknown_is_not_made_up() -> None:
    assert look(load=[0.5], cpus=4, guests=[], sessions=[], logins=[]).describe({}, "uut") == (
        ("no guests · load 0.50 on 4 CPUs · free", "no guests · load 0.50 on 4 CPUs", "no guests"),
        "muted",
    )
    words, tone = look(
        load=[2.0], cpus=4, guests=[{"name": "deb12", "pid": 1}], sessions=[7], logins=[{}, {}]
    ).describe({}, "uut")
    assert words[0] == "! guest deb12 · load 2.00 on 4 CPUs · 1 other console, 2 logins · free" and tone == "warn"
    assert look().describe({}, "uut")[0][0] == "no guests · free"
    assert UutView(Inspection(at_wall_s=0.0)).describe({}, "uut")[0][0] == "free"
    assert UutView().describe({}, "uut")[0] == ("not inspected yet",)


def test_what_a_node_says_of_itself_is_harmless() -> None:
    for words in (
        look(guests=[{"name": ESCAPE + "x" * 10_000}]).describe({}, "uut")[0],
        UutView().describe({"uut": holder(ESCAPE * 100)}, "uut")[0],
        UutView().describe({ESCAPE: holder(ESCAPE)}, "uut")[0],
    ):
        for wording in words:
            assert wording.isprintable() and len(wording) < 250, wording


@pytest.mark.asyncio
async def test_a_node_that_never_answers_keeps_nobody_from_working() -> None:
    class Dead(FakeSession):
        async def inspect(self, node: str) -> Inspection:
            await asyncio.Event().wait()
            raise AssertionError

    async with console(Dead) as (app, session, pilot):
        await settle(app, pilot)
        await pilot.press("r")
        await until(pilot, lambda: app.state.last is not None)
        await pilot.press("q")
        await until(pilot, lambda: session.closed)


@pytest.mark.asyncio
async def test_the_uut_is_not_looked_at_while_a_trial_runs() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await until(pilot, lambda: session.looks == ["uut"])
        await pilot.press("r")
        await until(pilot, lambda: app.state.trial is not None)
        for _ in range(5):
            assert isinstance(app.screen, BenchScreen)
            app.screen._looked_s = None
            await settle(app, pilot)
        assert session.looks == ["uut"]
        session.release.set()
        await until(pilot, lambda: len(session.looks) == 2)


@pytest.mark.asyncio
async def test_no_size_however_small_ends_the_console() -> None:
    async with console(LabSession) as (app, session, pilot):
        for entry in SCREENS:
            await pilot.resize_terminal(40, 10)
            await pilot.press(entry.function_key)
            await settle(app, pilot)
            await pilot.resize_terminal(1, 1)
            await settle(app, pilot)
        await pilot.press("f2", "question_mark")
        await pilot.resize_terminal(10, 3)
        await settle(app, pilot)
        await pilot.press("escape")
        await pilot.resize_terminal(500, 8)
        session.advance()
        await settle(app, pilot)
        await pilot.press("r")
        await until(pilot, lambda: len(session.store.records) == 1)


@pytest.mark.asyncio
async def test_the_set_up_that_was_run_last_is_there_next_time(tmp_path: Path) -> None:
    path = tmp_path / "state" / "set-ups.json"

    async def turn(first: bool) -> None:
        session = FakeSession()
        app = ConsoleApp(lambda: session, memory=ConsoleMemory(path))
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: isinstance(app.screen, BenchScreen) and app.screen.is_mounted)
            await settle(app, pilot)
            field = app.screen.query_one("#frame_size", Field)
            if first:
                field.value = "777"
                await settle(app, pilot)
                await pilot.press("r")
                await until(pilot, lambda: bool(session.requests) and path.exists())
            else:
                assert field.value == "777"

    await turn(first=True)
    await turn(first=False)
    assert ConsoleMemory(path).recall("elsewhere") is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"t": 1}', '{"t": {"platform": "raw"}}', "[" * 100_000, "\0"])
def test_a_memory_that_is_damaged_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set-ups.json"
    path.write_text(content)
    assert ConsoleMemory(path).recall("t") is None
    values = FormValues("raw", "64", "1", "10Mbit", "none", "5", "1")
    ConsoleMemory(path).keep("t", values)
    assert ConsoleMemory(path).recall("t") == values


@pytest.mark.asyncio
async def test_a_key_of_the_operators_own_works_instead_and_is_in_the_help() -> None:
    made = FakeSession()
    app = ConsoleApp(lambda: made, Settings(keymap={"run": "f9"}, theme="labconsole-light", sort="drops"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and app.screen.is_mounted)
        await until(pilot, lambda: bool(made.telemetry.interfaces))
        await settle(app, pilot)
        assert not app.current_theme.dark
        assert app.screen.query_one(InterfacesTable).sort == "drops"
        await pilot.press("r")
        await pilot.pause()
        assert made.requests == []
        await pilot.press("f9")
        await until(pilot, lambda: len(made.requests) == 1)
        assert isinstance(app.screen, BenchScreen)
        sections = dict(app.help_sections(app.screen))
        assert "F9" in dict(sections["On the Bench screen"])
        assert "Run  F9" in text(app) and "F9 Run" in picture(app)[-1]


@pytest.mark.asyncio
async def test_typing_into_the_filter_starts_nothing() -> None:
    async with console() as (app, session, pilot):
        await pilot.press("slash", *"rqa1 ")
        assert isinstance(app.focused, Input) and app.focused.value == "rqa1 "
        assert session.requests == [] and app.is_running


@pytest.mark.asyncio
async def test_a_click_on_a_key_in_the_last_line_does_what_the_key_does() -> None:
    async with console() as (app, _, pilot):
        await until(pilot, lambda: "? Help" in picture(app)[-1])
        await pilot.click(KeyBar, offset=(picture(app)[-1].index("? Help"), 0))
        await until(pilot, lambda: isinstance(app.screen, Help))


@pytest.mark.asyncio
async def test_a_larger_terminal_never_shows_fewer_columns() -> None:
    columns: dict[str, list[set[str]]] = {}
    for size in ((80, 24), (104, 30), (119, 40), (120, 40), (200, 60)):
        async with console(lambda: FakeSession(hold=True), size) as (app, session, pilot):
            app.screen.query_one("#repetitions", Field).value = "5"
            await pilot.press("r")
            await until(pilot, lambda: session.running)
            await settle(app, pilot)
            for id in ("streams", "repeated", "interfaces"):
                table = app.screen.query_one(f"#{id}", LineTable)
                columns.setdefault(id, []).append({column.name for column, _ in table._layout})
            assert isinstance(app.screen, BenchScreen)
            app.screen.set_view("nodes")  # what a small terminal shows in its place
            await settle(app, pilot)
            table = app.screen.query_one("#nodes", LineTable)
            columns.setdefault("nodes", []).append({column.name for column, _ in table._layout} - {"text"})
    for id, shown in columns.items():
        for fewer, more in pairwise(shown):
            assert fewer <= more, (id, fewer - more)
    assert "loss_packets" in columns["streams"][0] and {"offered", "n"} <= columns["repeated"][0]


@pytest.mark.asyncio
async def test_the_state_of_an_interface_is_a_whole_word() -> None:
    async with console(size=(80, 24)) as (app, session, pilot):
        for state, word in ((NodeState.CONNECTING, "✗ offline "), (NodeState.LOST, "✗ lost ")):
            session.say(NodeChanged(node="src1", state=state))
            await settle(app, pilot)
            row = next(line for line in picture(app) if "src1" in line and "eth1" in line and "✗" in line)
            assert word in row


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_delays_of_all_packets_so_far_stand_beside_the_loss_where_they_are_known(size: tuple[int, int]) -> None:
    async with console(lambda: FakeSession(hold=True), size) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: bool(session.telemetry.streams))
        await settle(app, pilot)
        assert "p50 µs" not in text(app)
        session.telemetry.streams["s1"].delays = LiveDelays(33_500, 598_000, 4_073_400)
        session.telemetry.revision += 1
        await until(pilot, lambda: "33.5" in text(app) and "598.0" in text(app))
        header = next(line for line in text(app).splitlines() if "p50 µs" in line)
        assert header.index("loss %") < header.index("p50 µs") < header.index("p99 µs")
        assert "p50, p99 of the one-way delay" in text(app)
        session.release.set()
        await until(pilot, lambda: not app.state.requested)
        await until(pilot, lambda: "p50 µs" not in text(app))  # the record of this one was not timed
