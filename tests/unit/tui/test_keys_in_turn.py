"""Keys that come in one burst do what they do one by one."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import App
from textual.widgets import Input

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
