"""A session that is connected already calibrates its testbed, and measures with what it found."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.engine.calibration import CalibrationProgress
from labconsole.errors import Aborted
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from support.live_session import connected

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"cals{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


def wired(testbed: lab.LabStatus) -> str:
    status = lab.status(testbed.spec.name)
    assert status is not None
    return status.wired


def test_it_is_rewired_calibrated_saved_and_used(testbed: lab.LabStatus, tmp_path: Path):
    async def scenario() -> None:
        async with connected(Path(testbed.hosts_file), tmp_path / "runs.sqlite") as session:
            platforms = set(session.inventory.platforms)
            offer = await session.calibration_offer()
            assert (offer.bypass, offer.cables) == ("lab", ())
            offer = replace(offer, wanted=replace(offer.wanted, frames=(FrameSize(500),), source_counts=(1,)))

            def stop(progress: CalibrationProgress) -> None:
                if progress.trial > 1:
                    asyncio.ensure_future(session.abort())

            with pytest.raises(Aborted):
                await session.calibrate(offer, stop)
            assert (session.envelope, session.store.calibrations(), wired(testbed)) == (None, [], "through")

            told: list[CalibrationProgress] = []
            envelope = await session.calibrate(offer, told.append)
            assert (envelope.bypass, wired(testbed)) == ("lab", "through")
            assert told[-1].trial >= 5
            assert session.store.latest_calibration(session.inventory.fingerprint()) == envelope.to_json()
            assert (set(session.inventory.platforms), session.store.count()) == (platforms, 0)
            ask = DesignPoint(platform="raw", frame=FrameSize(500), sources=1, target=5_000_000, duration_s=0.3)
            (record,) = await session.run(ask)
            assert record.environment["calibration"]["id"] == envelope.calibration_id

    asyncio.run(scenario())
