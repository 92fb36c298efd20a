"""Calibrating from the Check screen, by keys, on a scripted session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from labconsole.engine.leases import LeaseHolder
from labconsole.tui.parts.dialogs import Confirm
from support.driven_console import console, shown, text, until
from support.fake_lab_session import LabSession

pytestmark = pytest.mark.asyncio


def made(**changes: Any) -> Callable[[], LabSession]:
    def session() -> LabSession:
        session = LabSession()
        for name, value in changes.items():
            setattr(session, name, value)
        return session

    return session


async def test_it_asks_tells_every_trial_and_shows_what_each_source_and_sink_can_do():
    gate = asyncio.Semaphore(0)
    async with console(made(calibration_step=gate.acquire)) as (app, session, pilot):
        assert isinstance(session, LabSession)
        await pilot.press("5")
        await shown(app, pilot, "not calibrated")
        await pilot.press("c")
        await shown(app, pilot, "Calibrate the testbed?", "wired around the unit under test", "64, 500, 1000, 1500")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Confirm))
        assert session.calibrated == 0
        await pilot.press("c")
        await shown(app, pilot, "Calibrate the testbed?")
        await pilot.press("y")
        await shown(app, pilot, "calibration, checking whether the UUT")
        gate.release()
        await shown(app, pilot, "64 B, 1 source at max", "calibration, trial 1 of 3", "about 1 min 30 s left")
        assert "1/3" not in text(app), "counted in one place"
        assert "not calibrated" not in text(app)
        await pilot.press("r")
        await shown(app, pilot, "A calibration is running")
        gate.release()
        await shown(app, pilot, "src1 sends up to 100\u2009000", "loses nothing up to 60\u2009000", "calibrated")
        assert session.calibrated == 1
        assert not app.state.requested


async def test_it_is_aborted_by_a_key_and_keeps_nothing():
    gate = asyncio.Semaphore(0)
    async with console(made(calibration_step=gate.acquire)) as (app, session, pilot):
        await pilot.press("5", "c")
        await shown(app, pilot, "Calibrate the testbed?")
        await pilot.press("y")
        await shown(app, pilot, "calibration, checking")
        await pilot.press("a")
        await shown(app, pilot, "Abort the calibration?")
        await pilot.press("y")
        await until(pilot, lambda: session.aborted)
        gate.release()
        await shown(app, pilot, "nothing of it is kept", "not calibrated")
        assert session.envelope is None


async def test_what_has_to_be_connected_is_said_before_the_question_is_answered():
    async with console(made(rewired=False), size=(200, 60)) as (app, session, pilot):
        await pilot.press("5", "c")
        await shown(app, pilot, "Calibrate the testbed?", "bypassed by hand first", "connect src3/eth1 straight")
        await pilot.press("y")
        await shown(app, pilot, "Put the cables back")


async def test_neither_a_console_that_only_watches_nor_one_beside_others_calibrates():
    async with console(made(read_only=True)) as (app, session, pilot):
        await pilot.press("5", "c")
        await shown(app, pilot, "this console only watches: --read-only")
        assert isinstance(session, LabSession)
        assert session.calibrated == 0
    held = LeaseHolder(
        owner="eva@desk",
        purpose="plan nightly",
        since=datetime(2026, 3, 2, 9, tzinfo=UTC),
        until=None,
        observe=None,
        quiet=False,
        own=False,
    )
    async with console(made(holders={"uut": held})) as (app, session, pilot):
        await pilot.press("5", "c")
        await shown(app, pilot, "uut is leased by eva@desk")
        assert not isinstance(app.screen, Confirm)
