"""What the set-up refuses beside its fields, before anything is asked of the testbed; and what is remembered of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Button

from labconsole.errors import LeaseHeld
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console.memory import ConsoleMemory
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.bench.setup import Hint, fit_whole_words
from support.driven_console import SIZES, console, picture, settle, text, until
from support.fake_session import FakeSession

pytestmark = pytest.mark.asyncio


def problem(app: ConsoleApp, field: str) -> str:
    return app.screen.query_one(f"#hint-{field}", Hint).problem


@pytest.mark.parametrize("size", SIZES)
async def test_a_frame_above_the_mtu_is_refused_beside_its_field(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, session, pilot):
        app.screen.query_one("#frame_size", Field).focus()
        await pilot.pause()
        await pilot.press(*"9000", "r")
        await settle(app, pilot)
        assert problem(app, "frame_size") == "is above what src1/eth1 carries (MTU 1500)"
        assert app.screen.query_one("#run", Button).disabled and session.requests == []
        assert "✗ above what src1/eth1" in text(app) and "allowed: at most 1514" in text(app)


async def test_a_frame_is_judged_again_once_its_interfaces_are_known() -> None:
    session = FakeSession()
    app = ConsoleApp(lambda: session)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and app.screen.is_mounted)
        session.telemetry.interfaces.clear()
        app.screen.query_one("#frame_size", Field).value = "9000"
        await pilot.pause()
        assert problem(app, "frame_size") == ""
        await session.connect()
        await until(pilot, lambda: "MTU 1500" in problem(app, "frame_size"))


async def test_a_share_of_a_maximum_that_is_not_stored_is_refused_until_it_is() -> None:
    async with console() as (app, session, pilot):
        app.screen.query_one("#sources", Field).value = "1"
        app.screen.query_one("#background", Choice).value = "forwarding-50"
        await until(pilot, lambda: problem(app, "background") != "")
        await settle(app, pilot)
        assert "✗ needs a stored" in text(app)
        await pilot.press("r")
        await settle(app, pilot)
        assert session.requests == []
        assert any("--background idle" in note.text and "--target max" in note.text for note in app.state.notes)
        session.maximum_stored = True
        app.load_runs()  # as after a trial
        await until(pilot, lambda: problem(app, "background") == "")
        await settle(app, pilot)
        await pilot.press("r")
        await until(pilot, lambda: bool(session.requests))


async def test_only_a_set_up_that_was_accepted_and_run_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "set-ups.json"
    session = FakeSession()
    session.refusal = LeaseHeld("uut", "eva@desk has it")
    app = ConsoleApp(lambda: session, memory=ConsoleMemory(path))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and bool(session.telemetry.interfaces))
        await settle(app, pilot)
        app.screen.query_one("#frame_size", Field).value = "777"
        await pilot.press("r")
        await until(pilot, lambda: len(session.requests) == 1)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen) and not app.state.requested)
        await settle(app, pilot)
        assert not path.exists()
        session.refusal = None
        await pilot.press("r")
        await until(pilot, path.exists)
    kept = ConsoleMemory(path).recall(session.inventory.testbed)
    assert kept is not None and kept.frame_size == "777"


@pytest.mark.parametrize("size", SIZES)
async def test_two_platforms_of_one_driver_are_told_apart_and_every_share_says_of_what(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, _, pilot):
        app.screen.query_one("#target", Field).value = "5Mbit"
        await settle(app, pilot)
        shown = {}
        for platform in ("raw", "bridge"):
            app.screen.query_one("#platform", Choice).value = platform
            await settle(app, pilot)
            shown[platform] = next(line for line in picture(app) if "Platform" in line)
            assert "forwarding" in shown[platform]
        assert "route" in shown["raw"] and "forwarding bridge" in shown["bridge"]
        target = next(line for line in picture(app) if "Target" in line)
        assert "0.5 % of" in target


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("background", ["idle", "light", "heavy"])
async def test_no_word_beside_a_field_is_cut(size: tuple[int, int], background: str) -> None:
    async with console(size=size) as (app, _, pilot):
        app.screen.query_one("#background", Choice).value = background
        await settle(app, pilot)
        for hint in app.screen.query(Hint):
            shown, _tone = hint.lines(hint.size.width)[0][0]
            assert shown in hint.wordings, "a whole wording, none of its words left out"


async def test_words_are_left_out_whole() -> None:
    assert fit_whole_words("second guest: stress --cpu 1", 20) == "second guest: …"
