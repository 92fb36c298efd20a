"""Whole tasks in the console, driven by keys, on a scripted session at the three sizes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import ScreenStackError
from textual.widgets import Button

from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.errors import StoreError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui import app as app_module
from labconsole.tui.app import ConsoleApp
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.fields import Field
from labconsole.tui.parts.overlay import Help
from labconsole.tui.parts.runs_table import RunsTable
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.parts.status import TopBar
from labconsole.tui.screens import SCREENS, ScreenEntry
from labconsole.tui.screens.bench.interfaces import InterfacesTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.bench.setup import Hint, SetupPanel
from labconsole.tui.screens.bench.streams import StreamsTable
from labconsole.tui.screens.runs.screen import RunsScreen
from support import fake_session
from support.driven_console import SIZES, console, picture, settle, text, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, link, make_inventory, make_record, refuse

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("size", SIZES)
async def test_a_trial_is_set_up_run_watched_and_found_among_the_runs(size: tuple[int, int]) -> None:
    async with console(lambda: FakeSession(hold=True), size) as (app, session, pilot):
        await pilot.press("e", "tab", "5", "0", "0", "tab", "tab")
        app.screen.query_one("#target", Field).value = ""
        await pilot.press(*"100M", "r")
        await until(pilot, lambda: app.state.trial is not None)
        session.rate_pps = 23_855
        for _ in range(30):
            session.advance()
        await settle(app, pilot)
        assert "sending" in text(app)
        assert "s1" in text(app)
        session.release.set()
        await until(pilot, lambda: not app.state.requested)
        request, repetitions = session.requests[0]
        assert (request.frame.bytes, request.target, request.sources, repetitions) == (500, 10**8, 3, 1)
        await settle(app, pilot)
        assert "✓ valid" in text(app)
        assert "0.000" in text(app)
        await pilot.press("f3")
        await until(
            pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.query_one(RunsTable).chosen is not None
        )
        await pilot.press("enter", "t")
        await until(pilot, lambda: "Stream s1" in text(app))
        assert session.store.records[0].run_id in text(app)


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.mode)
async def test_a_screen_looks_for_news_by_one_timer_only(entry: ScreenEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, str]] = []
    own = ConsoleScreen.set_interval

    def noted(screen: ConsoleScreen, interval: float, callback: Any = None, **more: Any) -> Any:
        begun.append((screen.tab.mode, callback.__name__))
        return own(screen, interval, callback, **more)

    monkeypatch.setattr(ConsoleScreen, "set_interval", noted)
    async with console(LabSession) as (app, _, pilot):
        await pilot.press(entry.function_key)
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen) and app.screen.tab is entry)
        await until(pilot, lambda: (entry.mode, "tick") in begun)
    assert len(set(begun)) == len(begun)


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_wider_than_the_screen_and_the_main_parts_are_there(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, session, pilot):
        session.advance()
        await settle(app, pilot)
        lines = picture(app)
        assert all(cell_len(line) <= size[0] for line in lines)
        shown = "\n".join(lines)
        for word in ("Set-up", "Streams", "Interfaces", "Quit", "total"):
            assert word in shown, word
        assert f"● {'7/7' if size[0] == 80 else '7 of 7'} nodes" in shown


async def test_a_refused_choice_is_said_beside_the_field_and_run_does_nothing() -> None:
    async with console() as (app, session, pilot):
        app.screen.query_one("#target", Field).value = "2Gbit"
        await settle(app, pilot)
        assert "line rate" in app.screen.query_one("#hint-target", Hint).problem
        assert "allowed: at most 1 Gbit/s" in text(app).replace("│", "")
        assert app.screen.query_one("#run", Button).disabled
        await pilot.press("r")
        await pilot.pause()
        assert session.requests == []
        assert app.focused is app.screen.query_one("#target")


async def test_letters_that_a_number_cannot_take_reach_the_console() -> None:
    async with console() as (app, session, pilot):
        field = app.screen.query_one("#frame_size", Field)
        field.focus()
        await pilot.pause()
        await pilot.press("1", "2", "8", "r")
        await until(pilot, lambda: bool(session.requests))
        assert field.value == "128"
        assert session.requests[0][0].frame.bytes == 128


async def test_aborting_asks_once_and_keeps_what_was_measured() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: not session.running)
        assert session.aborted
        assert len(session.store.records) == 1


async def test_quitting_in_mid_trial_asks_once_stops_traffic_and_saves() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert not session.aborted
        await pilot.press("y")
        await until(pilot, lambda: session.closed)
        assert session.aborted
        assert [run_id for run_id, _ in app.state.saved_runs] == [session.store.records[0].run_id]


async def test_quitting_without_a_trial_asks_nothing() -> None:
    async with console() as (_, session, pilot):
        await pilot.press("q")
        await until(pilot, lambda: session.closed)


async def test_pause_stops_painting_but_not_recording() -> None:
    async with console() as (app, session, pilot):
        session.rate_pps = 1000
        session.advance()
        session.advance()
        await settle(app, pilot)
        await pilot.press("space")
        before = text(app).splitlines()[2:]
        session.rate_pps = 77_777
        for _ in range(5):
            session.advance()
        await settle(app, pilot)
        assert text(app).splitlines()[2:] == before
        assert "FROZEN" in text(app)
        assert len(session.telemetry.interfaces[("src1", "", "eth1")].tx_pps) == 6
        await pilot.press("space")
        await settle(app, pilot)
        assert "FROZEN" not in text(app)
        assert text(app).splitlines()[2:] != before


async def test_the_cursor_stays_on_its_interface_when_others_come_and_go() -> None:
    async with console() as (app, session, pilot):
        await pilot.press("i", "down", "down", "down", "down")
        table = app.screen.query_one(InterfacesTable)
        chosen = table.cursor_key
        assert chosen[0] == "src3"
        session.telemetry.set_links("src1", [link(f"eth{i}", i + 1) for i in range(1, 9)])
        await settle(app, pilot)
        assert table.cursor_key == chosen
        assert len(table.keys()) > 18


async def test_the_first_look_at_a_screen_waits_for_no_style_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console() as (app, _, pilot):
        read = app.stylesheet.source
        await until(pilot, lambda: sum(Path(path).name == "screen.tcss" for path, _ in read) == len(SCREENS))
        monkeypatch.setattr(app.stylesheet, "read", None)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


async def test_text_from_nodes_is_never_markup_nor_an_escape() -> None:
    hostile = "[red]x[/]\x1b[2J\x07" + "A" * 10_000
    async with console() as (app, session, pilot):
        session.telemetry.set_links("src1", [link(hostile, 2)])
        session.say(NodeChanged(node="snk1", state=NodeState.FAILED, message=hostile))
        session.say(Notice(severity="error", message=hostile, node="uut"))
        await settle(app, pilot)
        shown = text(app)
        assert "[red]x[/]" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert all(cell_len(line) <= 120 for line in picture(app))


async def test_a_quiet_or_lost_node_shows_no_stale_rates() -> None:
    async with console() as (app, session, pilot):
        session.rate_pps = 5000
        session.advance()
        session.advance()
        session.telemetry.nodes["uut"].quiet = True
        session.say(NodeChanged(node="src1", state=NodeState.LOST, message="the link went away"))
        await settle(app, pilot)
        table = app.screen.query_one(InterfacesTable)
        assert table.cell_rx(("uut", "", "eth1"), 10)[0] == "–"
        assert table.cell_state(("uut", "", "eth1"), 8)[0] == "… quiet"
        assert table.cell_tx(("src1", "", "eth1"), 10)[0] == "–"
        assert "the link went away" in text(app)
        assert "6 of 7 nodes" in text(app)


async def test_a_voided_interval_is_said_and_shows_no_rate() -> None:
    async with console() as (app, session, pilot):
        session.rate_pps = 5000
        session.advance()
        session.advance()
        for values in session._totals.values():
            values[0] = 0
            values[1] = 0
        session.rate_pps = 0
        session.advance()
        await settle(app, pilot)
        table = app.screen.query_one(InterfacesTable)
        assert table.cell_state(("src1", "", "eth1"), 8)[0] == "! void"
        assert table.cell_tx(("src1", "", "eth1"), 10)[0] == "–"


async def test_what_the_engine_refuses_is_said_and_the_console_is_ready_again() -> None:
    async with console() as (app, session, pilot):
        session.refusal = refuse("background: is not available in this version")
        await pilot.press("r")
        await until(pilot, lambda: bool(app.state.notes) and "not available" in app.state.notes[-1].text)
        assert not app.state.requested


async def test_a_store_that_cannot_be_read_is_said() -> None:
    def broken() -> FakeSession:
        session = FakeSession()
        session.store.broken = True
        return session

    async with console(broken) as (app, _, pilot):
        await until(pilot, lambda: any("cannot be read" in n.text for n in app.state.notes))


async def test_a_session_that_cannot_be_made_ends_the_console_with_the_reason() -> None:
    def fail() -> FakeSession:
        raise refuse("hosts.yaml: no such file")

    app = ConsoleApp(fail)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.failure is not None)
    assert app.return_value == 2


async def test_a_store_that_cannot_be_opened_ends_the_console_with_the_reason_before_it_connects() -> None:
    class Closed(FakeSession):
        connected = False

        async def open(self) -> None:
            raise StoreError("runs.sqlite: it is no run store")

        async def connect(self) -> None:
            self.connected = True

    session = Closed()
    app = ConsoleApp(lambda: session)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value == StoreError.exit_code
    assert str(app.failure) == "runs.sqlite: it is no run store"
    assert not session.connected


async def test_the_run_id_is_copied_from_the_bench_and_from_the_list() -> None:
    def with_runs() -> FakeSession:
        session = FakeSession()
        request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1)
        session.store.records = [make_record(request, f"run-{i}") for i in range(3)]
        return session

    async with console(with_runs) as (app, _, pilot):
        await pilot.press("y")
        assert app.clipboard == ""
        await pilot.press("r")
        await until(pilot, lambda: app.state.last is not None and not app.state.requested)
        await pilot.press("y")
        assert app.state.last is not None and app.clipboard == app.state.last.run_id
        await pilot.press("f3")
        await until(pilot, lambda: app.screen.query_one("#runs", RunsTable).chosen is not None)
        await pilot.press("end", "up", "y")  # equally old runs stand in the order of their ids
        await pilot.pause()
        assert app.clipboard == "run-0"


async def test_the_streams_cursor_chooses_what_the_chart_shows() -> None:
    async with console() as (app, _, pilot):
        await pilot.press("n")
        await pilot.pause()
        assert app.screen.query_one(StreamsTable).chosen == "s2"
        assert "Stream s2 over time" in text(app)
        await pilot.press("N", "N")
        assert app.screen.query_one(StreamsTable).chosen == "s3"


async def test_a_small_terminal_shows_interfaces_topology_chart_and_nodes_in_turn() -> None:
    async with console(size=(80, 24)) as (app, session, pilot):
        await pilot.press("v")
        await settle(app, pilot)
        assert "Topology" in text(app)
        await pilot.press("v")
        await settle(app, pilot)
        assert "over time" in text(app)
        assert "Interfaces" not in text(app)
        await pilot.press("v")
        await settle(app, pilot)
        assert "rtt ms" in text(app)
        await pilot.press("v")
        await settle(app, pilot)
        assert "Interfaces" in text(app)


async def test_resizing_keeps_every_part_inside() -> None:
    async with console(size=(200, 60)) as (app, session, pilot):
        session.advance()
        for size in ((80, 24), (120, 40), (60, 15), (200, 60)):
            await pilot.resize_terminal(*size)
            await settle(app, pilot)
            assert all(cell_len(line) <= size[0] for line in picture(app))
        assert "Last runs" in text(app)


async def test_help_names_every_key_of_the_screen() -> None:
    async with console(size=(120, 60)) as (app, _, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.pause()
        shown = text(app)
        for words in (
            "Measure the design point",
            "Abort the trial",
            "Freeze the display",
            "saved runs",
            "Copy the run",
            "Quit",
        ):
            assert words in shown, words
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))


async def test_timers_that_outlast_the_screens_of_a_console_that_is_left_do_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # without plans

    def no_screen(app: ConsoleApp) -> None:
        raise ScreenStackError("No screens on stack")

    def stands(app: ConsoleApp, entry: ScreenEntry) -> bool:
        return isinstance(app.screen, ConsoleScreen) and app.screen.tab is entry and app.screen.is_up

    async with console(LabSession) as (app, _, pilot):
        for entry in SCREENS:
            await pilot.press(entry.function_key)
            await until(pilot, partial(stands, app, entry))
            screen = app.screen
            assert isinstance(screen, ConsoleScreen)
            timers = [timer._callback for timer in screen._timers if timer._callback is not None]
            assert screen.tick in timers
            with monkeypatch.context() as patch:
                patch.setattr(ConsoleApp, "screen", property(no_screen))
                for callback in timers:
                    callback()
                assert not screen.is_in_view
            assert screen.is_in_view


async def test_everything_with_a_key_is_in_the_command_palette() -> None:
    async with console() as (app, _, _pilot):
        words = " ".join(f"{c.title} {c.help}" for c in app.get_system_commands(app.screen))
        for key in (
            "(r)",
            "(a)",
            "(e)",
            "(n)",
            "(i)",
            "(space)",
            "(2, F3)",
            "(y)",
            "(d)",
            "(?, F1)",
            "(q)",
        ):
            assert key in words, key
        assert "(v)" not in words  # views are for small terminals


async def test_state_is_told_without_colour() -> None:
    async with console() as (app, session, pilot):
        session.say(NodeChanged(node="snk1", state=NodeState.FAILED, message="refuses the key"))
        await settle(app, pilot)
        shown = text(app)
        assert "● connected" in shown
        assert "✗ failed" in shown


async def test_light_and_dark_can_be_switched() -> None:
    async with console() as (app, _, pilot):
        assert app.current_theme.dark
        await pilot.press("d")
        assert not app.current_theme.dark


async def test_without_colour_the_screen_is_painted_in_greys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console() as (app, session, pilot):
        session.advance()
        await settle(app, pilot)
        # Textual's filter turns what is painted into greys; nothing may break on it, and words carry the state.
        assert app.no_color
        assert "● connected" in text(app)


async def test_many_interfaces_are_painted_without_making_a_widget_each() -> None:
    inventory = make_inventory(
        nodes={
            **make_inventory().model_dump(mode="json")["nodes"],
            **{f"n{i}": {"address": "127.0.0.1", "roles": ["sink"]} for i in range(90)},
        }
    )
    async with console(lambda: FakeSession(inventory)) as (app, session, pilot):
        for i in range(90):
            session.telemetry.set_links(f"n{i}", [link(f"eth{j}", j) for j in range(1, 9)])
        session.advance()
        session.advance()
        await settle(app, pilot)
        table = app.screen.query_one(InterfacesTable)
        assert len(table.keys()) > 730
        table.focus()
        await pilot.press("end")
        await settle(app, pilot)
        assert "n89" in text(app)
        assert len(app.screen.query("*")) < 120
        assert app.screen.query_one(TopBar) and app.screen.query_one(SetupPanel)


async def test_a_terminal_that_goes_away_in_mid_trial_ends_it_and_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app_module, "detach", lambda: None)
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        app.hang_up()
        await until(pilot, lambda: session.closed)
        assert len(session.store.records) == 1


async def test_a_console_that_is_left_takes_no_more_signals() -> None:
    """The kernel says a second time that a terminal is gone, and a demo still has its lab to take down."""
    async with console(FakeSession) as (app, session, pilot):
        app._alone = True
        await pilot.press("q")
        await until(pilot, lambda: session.closed)
    for number in (signal.SIGHUP, signal.SIGTERM):
        assert signal.signal(number, signal.SIG_DFL) is signal.SIG_IGN


async def test_the_process_ends_when_its_terminal_is_closed() -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(fake_session.__file__)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[3])},
        preexec_fn=own_terminal,
    )
    os.close(slave)
    seen = b""
    async with asyncio.timeout(30):
        while b"connected" not in seen:
            seen += await asyncio.to_thread(os.read, master, 65536)
        os.write(master, b"r")
        while b"sending" not in seen:
            seen += await asyncio.to_thread(os.read, master, 65536)
        os.close(master)
        assert await process.wait() == 0
