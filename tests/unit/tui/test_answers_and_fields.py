"""What a key must never do by accident: say yes, abort, or change what is asked for. And who may choose the keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import LeaseHeld
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console.memory import ConsoleMemory
from labconsole.tui.console.settings import Settings
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.parts.overlay import Help
from labconsole.tui.parts.status import TopBar
from labconsole.tui.screens.bench.interfaces import InterfacesTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.bench.setup import SetupPanel
from support.driven_console import SIZES, console, picture, settle, text, until
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("asks", ["a", "q"])
@pytest.mark.parametrize("answer", ["enter", "escape", "n"])
async def test_only_its_own_key_says_yes(asks: str, answer: str) -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        await pilot.press(asks)
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "y: yes      n, esc, enter, q: no" in text(app)
        await pilot.press(answer)
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        await settle(app, pilot)
        assert session.running and not session.aborted and not session.closed


@pytest.mark.parametrize("answer", ["enter", "escape", "n", "y"])
async def test_a_testbed_is_taken_over_only_by_the_key_for_yes(answer: str) -> None:
    async with console() as (app, session, pilot):
        session.refusal = LeaseHeld("uut", "eva@desk has it")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(answer)
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and not app.state.requested)
        await settle(app, pilot)
        assert session.taken_over == (answer == "y")


async def test_esc_never_asks_to_abort_it_leaves_the_field() -> None:
    async with console(lambda: FakeSession(hold=True)) as (app, session, pilot):
        await pilot.press("r")
        await until(pilot, lambda: session.running)
        await pilot.press("e", "escape")
        await settle(app, pilot)
        assert isinstance(app.screen, BenchScreen)
        assert app.focused is app.screen.query_one("#streams")
        await pilot.press("escape")
        await settle(app, pilot)
        assert isinstance(app.screen, BenchScreen) and session.running


@pytest.mark.parametrize(("size", "by_mouse"), [((120, 40), False), *((size, True) for size in SIZES)])
async def test_what_is_typed_after_run_does_not_change_what_was_asked_for(
    size: tuple[int, int], by_mouse: bool
) -> None:
    async with console(lambda: FakeSession(hold=True), size) as (app, session, pilot):
        field = app.screen.query_one("#repetitions", Field)
        field.focus()
        await pilot.pause()
        await pilot.press("5")
        if by_mouse:
            await pilot.click("#run")
        else:
            await pilot.press("r")
        await until(pilot, lambda: session.running)
        assert app.focused is app.screen.query_one("#streams")
        bench = app.screen
        await pilot.press("2")
        await settle(app, pilot)
        assert field.value == "5" and session.requests[0][1] == 5
        assert app.screen is not bench, "the digit is a screen's again"


async def test_up_and_down_go_between_fields_and_change_nothing() -> None:
    async with console() as (app, _, pilot):
        panel = app.screen.query_one(SetupPanel)
        before = panel.values()
        await pilot.press("e", "up")
        assert app.focused is not None and app.focused.id == "platform"
        seen = []
        for _ in range(7):
            seen.append(app.focused.id if app.focused is not None else None)
            await pilot.press("down")
        assert seen == ["platform", "frame_size", "sources", "target", "background", "duration", "repetitions"]
        assert app.focused is not None and app.focused.id == "repetitions", "the last field is the end"
        await pilot.press("up")
        assert app.focused is not None and app.focused.id == "duration"
        assert panel.values() == before


async def test_plus_and_minus_take_common_values_and_the_last_line_says_so() -> None:
    async with console() as (app, _, pilot):
        size, platform = app.screen.query_one("#frame_size", Field), app.screen.query_one("#platform", Choice)
        size.focus()
        await until(pilot, lambda: "+ More" in picture(app)[-1] and "- Less" in picture(app)[-1])
        await pilot.press("plus")
        assert size.value == "128"
        await pilot.press("minus", "minus")
        assert size.value == "60"
        platform.focus()
        await until(pilot, lambda: "→ Next" in picture(app)[-1])
        await pilot.press("right")
        assert platform.value == "bridge"
        await pilot.press("minus")
        assert platform.value == "raw"


async def test_the_cursor_of_a_table_is_moved_as_in_vi() -> None:
    async with console() as (app, _, pilot):
        await pilot.press("i")
        table = app.screen.query_one(InterfacesTable)
        await pilot.press("j", "j", "k")
        assert table.cursor_index == 1
        await pilot.press("G")
        assert table.cursor_index == len(table.keys()) - 1
        await pilot.press("ctrl+u")
        assert table.cursor_index < len(table.keys()) - 1
        await pilot.press("home")
        assert table.cursor_index == 0
        await pilot.press("ctrl+d")
        assert table.cursor_index > 1


@pytest.mark.parametrize("size", SIZES)
async def test_the_names_in_the_top_line_are_clicked(size: tuple[int, int]) -> None:
    async with console(LabSession, size) as (app, _, pilot):
        for tab in [*app.tabs[1:], app.tabs[0]]:
            line = picture(app)[0]
            assert f"{tab.key} {tab.title}" in line, "every screen's name is there"
            await pilot.click(TopBar, offset=(line.index(f"{tab.key} {tab.title}") + 3, 0))
            await until(pilot, lambda mode=tab.mode: app.current_mode == mode)  # type: ignore[misc]
            await settle(app, pilot)
            await until(pilot, lambda: bool(app.screen.query(TopBar)))
            app.screen.query_one(TopBar).paint()
            await pilot.pause()


async def test_keys_of_dialogs_and_tables_can_be_changed() -> None:
    made = FakeSession(hold=True)
    keymap = {"answer-yes": "j", "help": "h", "row-down": "z"}
    app = ConsoleApp(lambda: made, Settings(keymap=keymap))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and bool(made.telemetry.interfaces))
        await settle(app, pilot)
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        table = app.screen.query_one(InterfacesTable)
        await pilot.press("i", "z")
        assert table.cursor_index == 1
        await pilot.press("r")
        await until(pilot, lambda: made.running)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "j: yes" in text(app)
        await pilot.press("y")
        await settle(app, pilot)
        assert isinstance(app.screen, Confirm)
        await pilot.press("j")
        await until(pilot, lambda: made.aborted)


async def test_the_theme_chosen_last_is_there_next_time_unless_the_settings_name_one(tmp_path: Path) -> None:
    def make(settings: Settings) -> ConsoleApp:
        return ConsoleApp(FakeSession, settings, ConsoleMemory(None, tmp_path / "state" / "theme"))

    first = make(Settings())
    async with first.run_test() as pilot:
        await until(pilot, lambda: isinstance(first.screen, BenchScreen) and first.screen.is_mounted)
        await settle(first, pilot)
        assert first.theme == "labconsole-dark"
        first.theme = "labconsole-high-contrast"
        await pilot.pause()
    assert make(Settings()).theme == "labconsole-high-contrast"
    assert make(Settings(theme="ansi-light")).theme == "ansi-light"
    (tmp_path / "state" / "theme").write_text("no such theme")
    assert make(Settings()).theme == "labconsole-dark"


async def test_a_console_that_is_left_says_how_much_it_saved_not_every_id() -> None:
    state = ConsoleState()
    assert state.describe_saved_runs("/runs.sqlite") == []
    state.saved_runs = [("a", "2026-11-29T08:00:00Z")]
    assert state.describe_saved_runs("/runs.sqlite") == ["1 run saved in /runs.sqlite: a"]
    state.saved_runs.append(("b", "2026-11-29T08:01:00Z"))
    assert state.describe_saved_runs("/runs.sqlite") == [
        "2 runs saved in /runs.sqlite: a to b",
        "to list them: labconsole runs list --limit 2 --where run=a,b --store /runs.sqlite",
    ]
    state.saved_runs = [(f"run-{number}", f"2026-11-29T08:{number % 60:02}:00.5Z") for number in range(121)]
    assert state.describe_saved_runs("/runs.sqlite") == [
        "121 runs saved in /runs.sqlite: run-0 to run-120",
        "to list all runs of this time, from any console: labconsole runs list --limit 10000 --where "
        "'started>=2026-11-29T08:00:00 started<=2026-11-29T08:00:00' --store /runs.sqlite",
    ]
