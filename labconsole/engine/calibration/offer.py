"""What can be calibrated on a testbed, and how its UUT is bypassed; shared by the command and the console."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from labconsole.engine.calibration.bypass import cabling
from labconsole.engine.calibration.calibration import MAXIMUM_TRIALS, RATE_SHARES, CalibrationRequest
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import Inventory, Platform
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S
from labconsole.model.record.envelope import Envelope

Bypass = Literal["lab", "patched", "inventory"]
"""Who bypasses the UUT: the lab itself, an operator who moves cables, or a platform of the inventory."""

USUAL_FRAME_SIZES = (64, 500, 1000, 1500)
USUAL_DURATION_S = 0.5
USUAL_TIME_LIMIT_S = 120.0
DRIVER = "bypass"


@dataclass(frozen=True)
class CalibrationMeans:
    """The functions that the engine needs in order to calibrate; both block.

    ``rewire`` wires a testbed around its UUT for the length of a with block, or returns None if only an operator can.
    ``save`` stores an envelope.
    """

    rewire: Callable[[Inventory], AbstractContextManager[None] | None]
    save: Callable[[Envelope], None]


@dataclass(frozen=True)
class CalibrationOffer:
    """A possible calibration: the request, how the UUT is bypassed, and the cables to move first."""

    wanted: CalibrationRequest
    bypass: Bypass
    cables: tuple[str, ...]
    about_s: float
    """Estimated duration of its trials, without those that tighten bounds."""


def add_bypass(inventory: Inventory) -> tuple[str, Inventory]:
    """The name of the bypass and the inventory that contains it; the bypass is added if the inventory has none."""
    for name, platform in inventory.platforms.items():
        if platform.driver == DRIVER:
            return name, inventory
    platforms = {**inventory.platforms, DRIVER: Platform(driver=DRIVER)}
    return DRIVER, inventory.model_copy(update={"platforms": platforms})


def calibration_request(
    inventory: Inventory,
    *,
    sizes_bytes: Sequence[int] = (),
    includes_fcs: bool = False,
    source_counts: Sequence[int] = (),
    points: Sequence[DesignPoint] = (),
    duration_s: float = USUAL_DURATION_S,
    time_limit_s: float = USUAL_TIME_LIMIT_S,
    generator: str | None = None,
    take_over: bool = False,
) -> CalibrationRequest:
    """Build a request from the arguments, then from what a plan's ``points`` need, then from defaults."""
    sizes = tuple(sizes_bytes or dict.fromkeys(r.frame.bytes for r in points)) or USUAL_FRAME_SIZES
    includes_fcs = inventory.defaults.frame(sizes[0], includes_fcs).includes_fcs
    if points and not sizes_bytes:
        includes_fcs = points[0].frame.includes_fcs
    everyone = len(inventory.streams)
    counts = tuple(source_counts or ((1, everyone) if inventory.emulated else (everyone,)))
    if points and not source_counts:
        counts = tuple(sorted({request.sources for request in points}))
    return CalibrationRequest(
        platform=add_bypass(inventory)[0],
        frames=tuple(FrameSize(size, includes_fcs) for size in dict.fromkeys(sizes)),
        source_counts=tuple(dict.fromkeys(counts)),
        duration_s=duration_s,
        generator=generator or (points[0].generator if points else inventory.defaults.generator),
        time_limit_s=time_limit_s,
        take_over=take_over,
    )


def calibration_offer(inventory: Inventory, wanted: CalibrationRequest, *, rewired: bool) -> CalibrationOffer:
    """Describe a calibration and how the UUT is bypassed for it; ``rewired``: the testbed does it by itself."""
    trials = len(wanted.frames) * len(wanted.source_counts) * (MAXIMUM_TRIALS + len(RATE_SHARES))
    about_s = trials * (wanted.duration_s + inventory.defaults.drain_s + TRIAL_OVERHEAD_S)
    if rewired:
        return CalibrationOffer(wanted, "lab", (), about_s)
    if wanted.platform in inventory.platforms:
        return CalibrationOffer(wanted, "inventory", (), about_s)
    cables = cabling(inventory, inventory.streams[: max(wanted.source_counts)])
    return CalibrationOffer(wanted, "patched", tuple(cables), about_s)
