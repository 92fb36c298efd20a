"""Keys that come in one burst do what they do one by one."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.drivers.headless_driver import HeadlessDriver
from textual.widget import Widget
from textual.widgets import Input

from labconsole.tui.console import runtime
from labconsole.tui.console.runtime import KeyQueueApp
from labconsole.tui.screens.bench.screen import BenchScreen
from support.driven_console import console, until


def burst(app: App[int], *keys: str) -> None:
    """As the terminal gives them when they were read at once."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.asyncio
async def test_digits_after_a_tab_go_into_the_next_field() -> None:
    async with console() as (app, _, pilot):
        burst(app, "e", "tab", "ctrl+u", *"777", "tab", "ctrl+u", "2", "tab", "ctrl+u", *"20M", "tab")
        values = {"frame_size": "777", "sources": "2", "target": "20M"}
        await until(pilot, lambda: app.focused is not None and app.focused.id == "background")
        assert {name: app.screen.query_one(f"#{name}", Input).value for name in values} == values


@pytest.mark.asyncio
async def test_what_is_typed_ahead_goes_into_the_dialog_that_opens() -> None:
    async with console() as (app, _, pilot):
        burst(app, "g", *"uut")
        await until(pilot, lambda: not isinstance(app.screen, BenchScreen) and bool(app.screen.query(Input)))
        await until(pilot, lambda: app.screen.query_one(Input).value == "uut")


@pytest.mark.asyncio
async def test_text_pasted_after_a_tab_goes_into_the_next_field() -> None:
    async with console() as (app, _, pilot):
        burst(app, "e", "tab", "ctrl+u")
        app.post_message(events.Paste("888"))
        burst(app, "tab")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "sources")
        assert app.screen.query_one("#frame_size", Input).value == "888"


@pytest.mark.asyncio
async def test_a_key_whose_widget_went_away_does_not_hold_the_next_ones_up() -> None:
    async with console() as (app, _, pilot):
        burst(app, "g", *"uut", "escape", "g", *"snk", "escape", "e", "tab", "ctrl+u", *"99")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "frame_size")
        await until(pilot, lambda: app.screen.query_one("#frame_size", Input).value == "99")


class Busy(Widget, can_focus=True):
    """Is not done with the first key that it gets until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()

    async def on_key(self, event: events.Key) -> None:
        await self.free.wait()


class WithBusy(KeyQueueApp):
    BINDINGS = [Binding("ctrl+q", "leave", "Leave", priority=True)]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(HeadlessDriver)
        self.left = False

    def compose(self) -> ComposeResult:
        yield Busy()

    def action_leave(self) -> None:
        self.left = True


@pytest.mark.asyncio
async def test_one_busy_widget_holds_all_keys_up_once_and_not_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "KEY_LIMIT_S", 0.2)
    app = WithBusy()
    looks: list[object] = []
    look = app._look

    async def counted(passed: runtime.Passed, widget: Widget) -> None:
        looks.append(passed)
        await look(passed, widget)

    monkeypatch.setattr(app, "_look", counted)
    async with app.run_test():
        app.query_one(Busy).focus()
        burst(app, *"abcdefghij", "ctrl+q")
        async with asyncio.timeout(30):
            while not app.left:  # a pilot's pause would wait for the busy one
                await asyncio.sleep(0.01)
        assert len(looks) <= 2 * 0.2 / runtime.KEY_LOOK_S + 2  # one limit for all, and perhaps one for the screen
        app.query_one(Busy).free.set()


@pytest.mark.asyncio
async def test_keys_that_are_left_over_when_the_console_is_left_are_dropped() -> None:
    async with console() as (app, _, pilot):
        burst(app, "e", *["tab"] * 20)
        app.exit(0)
        await pilot.pause()
    await app._next_key()
    assert not app._keys
