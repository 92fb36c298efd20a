"""The second guest of one trial, determined before anything is changed.

A platform's driver says which backgrounds it cannot provide. A forwarding load is a share of the maximum that this
platform forwarded next to an idle second guest, so that maximum must have been measured first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from labconsole.contracts.driver import Driver, DriverFor
from labconsole.contracts.ports import RunSink, StoredMaximum
from labconsole.errors import ConfigError, MissingOnTestbed
from labconsole.model.design_point import BACKGROUND_FRAME_BYTES, BACKGROUNDS, FORWARDING_SHARES, DesignPoint
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.plan.order import REFERENCE_SOURCES
from labconsole.model.record.run import Figures
from labconsole.units import format_rate_bps


@dataclass(frozen=True, slots=True)
class SecondGuestSetup:
    """The set-up of a second guest.

    ``stream``: its stream, or None if none is free. ``request``: what is sent through the stream, or None.
    ``offered_pps``: the rate of the request, before a generator's delay is rounded to a whole number.
    """

    kind: str
    stream: Stream | None
    request: DesignPoint | None = None
    offered_pps: float = 0.0
    reference: Figures | None = None


def refusal(driver: Driver, platform: str, background: str) -> str | None:
    """Why a platform cannot provide this background, in one sentence, or None if it can. Sends no request."""
    if background == "none":
        return None
    driver_refusal = getattr(driver, "refusal", None)  # a plug-in driver may know nothing of second guests
    return f"platform {platform} has no second guest" if driver_refusal is None else driver_refusal(background)


def check_background(request: DesignPoint, inventory: Inventory, driver_for: DriverFor, *, where: str = "") -> None:
    """Refuse a background that the platform cannot provide. Raises ConfigError naming those that it can."""
    driver = driver_for(request.platform, inventory)
    sentence = refusal(driver, request.platform, request.background)
    if sentence is not None:
        can = [kind for kind in BACKGROUNDS if refusal(driver, request.platform, kind) is None]
        raise MissingOnTestbed(
            f"is not available on platform {request.platform}: {sentence}",
            need=f"a platform {request.platform} that can have the load {request.background}",
            key=f"{where}background",
            value=request.background,
            allowed=", ".join(can),
        )


async def second_guest_setup(
    request: DesignPoint,
    inventory: Inventory,
    driver_for: DriverFor,
    store: RunSink,
    reference: StoredMaximum | None = None,
) -> SecondGuestSetup | None:
    """The requested second guest, or None. Raises ConfigError, StoreError.

    ``reference``: the maximum fixed by a plan's pilot, or None for the newest stored one.
    """
    check_background(request, inventory, driver_for)
    if request.background == "none":
        return None
    stream = inventory.second_stream(request.sources)
    if request.background not in FORWARDING_SHARES:
        return SecondGuestSetup(request.background, stream)
    assert stream is not None  # check_request
    found = reference or await asyncio.to_thread(find_reference, request, inventory, store)
    if found is None:
        raise missing_reference(request)
    return forwarding(request, stream, found)


def forwarding(request: DesignPoint, stream: Stream, found: StoredMaximum) -> SecondGuestSetup:
    """A second guest whose stream carries its share of the maximum. Raises ConfigError."""
    share = FORWARDING_SHARES[request.background]
    offered_pps = share * found.measured_pps
    frame = replace(request.frame, bytes=BACKGROUND_FRAME_BYTES)
    target_bps = round(frame.rate_bps(offered_pps))
    if not 0 < target_bps <= stream.link_speed_bps:
        raise ConfigError(
            f"needs {format_rate_bps(target_bps)} on stream {stream.name}, which its link cannot carry",
            key="background",
            value=request.background,
        )
    second_request = replace(request, frame=frame, sources=1, target=target_bps)
    reference = {
        "share_ratio": share,
        "measured_pps": found.measured_pps,
        "runs": found.runs,
        "run_id": found.run_id,
        "target_bps": found.target_bps,
        "background": "idle",
        "frame_size_bytes": BACKGROUND_FRAME_BYTES,
        "sources": REFERENCE_SOURCES,
    }
    return SecondGuestSetup(request.background, stream, second_request, offered_pps, reference)


def find_reference(request: DesignPoint, inventory: Inventory, store: RunSink) -> StoredMaximum | None:
    """The stored maximum that defines a forwarding load, or None. Blocking."""
    return store.maximum(
        platform=request.platform,
        testbed_fingerprint=inventory.fingerprint(),
        background="idle",
        frame=replace(request.frame, bytes=BACKGROUND_FRAME_BYTES),
        sources=REFERENCE_SOURCES,
    )


def check_reference(request: DesignPoint, inventory: Inventory, store: RunSink) -> None:
    """Refuse a load defined by a maximum that is not stored, or too high for its link. Blocking.

    Raises ConfigError, StoreError.
    """
    stream = inventory.second_stream(request.sources)
    if request.background in FORWARDING_SHARES and stream is not None:
        found = find_reference(request, inventory, store)
        if found is None:
            raise missing_reference(request)
        forwarding(request, stream, found)


def missing_reference(request: DesignPoint) -> ConfigError:
    """The error for a missing maximum, with the command to run first."""
    others = ", ".join(kind for kind in BACKGROUNDS if kind not in FORWARDING_SHARES)
    return ConfigError(
        f"needs a stored maximum of platform {request.platform} with an idle second guest",
        key="background",
        value=request.background,
        allowed=f"{others}, or this one after: {reference_command(request)}",
    )


def reference_command(request: DesignPoint) -> str:
    """The command line that measures the maximum."""
    fcs = " --includes-fcs" if request.frame.includes_fcs else ""
    return (
        f"labconsole run --platform {request.platform} --background idle --frame-size {BACKGROUND_FRAME_BYTES}{fcs} "
        f"--sources {REFERENCE_SOURCES} --target max --duration {request.duration_s:g} --repetitions 3"
    )


def is_reference(request: DesignPoint, of: DesignPoint) -> bool:
    """Whether a run of ``request`` measures the maximum that defines the forwarding load of ``of``."""
    return (
        request.platform == of.platform
        and request.background == "idle"
        and request.target == "max"
        and request.sources == REFERENCE_SOURCES
        and request.frame == replace(of.frame, bytes=BACKGROUND_FRAME_BYTES)
    )
