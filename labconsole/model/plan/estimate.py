"""Estimated duration and storage of a plan, before it begins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.order import configuration, set_up_key
from labconsole.model.plan.plan import Plan

TRIAL_OVERHEAD_S = 0.6
"""Overhead of a trial beyond its traffic and its configured waits: arming, counting, saving. Measured on the local lab.
"""

PLATFORM_SWITCH_S = 1.0
"""Time to switch the UUT to another platform that boots nothing, or to another background."""

RUN_BYTES = 40_000
"""Size of one run with its time series in the store; it grows with the duration and the number of interfaces."""

SNAP_BYTES = 64
"""Maximum bytes of a packet in a capture (engine/trial/setup.py; a test compares the two)."""

CAPTURE_RECORD_BYTES = 16
"""Header that pcap writes before every packet."""


_PlacedRequest = tuple[DesignPoint, object]
"""A request, and the block's set-up that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated duration of a plan, without repeated attempts. ``per_trial_s`` is the mean.

    ``store_bytes``: growth of the store; ``capture_bytes``: space on a sink during its largest trial.
    """

    trials: int
    platform_switches: int
    warm_ups: int
    per_trial_s: float
    total_s: float
    store_bytes: int
    capture_bytes: int


def estimate(
    plan: Plan, inventory: Inventory, boots_s: Mapping[str, float], schedule: Sequence[tuple[int, int]] | None = None
) -> Estimate:
    """Time for the schedule (default: all of it): traffic, waits, a fixed overhead, platform set-ups, warm-ups.

    ``boots_s``: by platform, the extra time until one guest forwards. Two guests boot one after the other; a guest
    stays up if only the program in it changes. Every set-up of a block is a new one, also after one of the same
    platform; without blocks a running set-up is reused.
    """
    plan = plan.resolved(inventory)
    assert plan.settle_s is not None and plan.drain_s is not None
    trials = [
        (plan.every_point[trial[0]].request, plan.set_up_of(trial))
        for trial in (plan.schedule() if schedule is None else schedule)
    ]
    requests = [request for request, _ in trials]
    firsts = _first_of_each(trials, lambda each: (configuration(each[0]), each[1]))
    shapes = _first_of_each(trials, lambda each: each[1] or set_up_key(each[0], inventory))
    around_s = plan.drain_s + plan.settle_s + TRIAL_OVERHEAD_S
    traffic_s = sum(request.duration_s for request in requests)
    warm_s = sum(around_s + (plan.warm_up.duration_s or each.duration_s) for each in shapes) if plan.warm_up else 0.0
    switches_s = len(firsts) * PLATFORM_SWITCH_S + sum(boot_s(each, boots_s) for each in shapes)
    return Estimate(
        trials=len(requests),
        platform_switches=len(shapes),
        warm_ups=len(shapes) if plan.warm_up else 0,
        per_trial_s=around_s + (traffic_s / len(requests) if requests else plan.duration_s),
        total_s=traffic_s + len(requests) * around_s + switches_s + warm_s,
        store_bytes=len(requests) * RUN_BYTES,
        capture_bytes=largest_capture_bytes(set(requests), inventory),
    )


def _first_of_each(trials: Sequence[_PlacedRequest], key: Callable[[_PlacedRequest], object]) -> list[DesignPoint]:
    """The first request of each sequence of trials that share a set-up."""
    return [next(group)[0] for _, group in itertools.groupby(trials, key=key)]


def boot_s(request: DesignPoint, boots_s: Mapping[str, float]) -> float:
    """Time until the guests that this request needs forward."""
    return boots_s.get(request.platform, 0.0) * (1 if request.background == "none" else 2)


def largest_capture_bytes(requests: set[DesignPoint], inventory: Inventory) -> int:
    """Space for the largest capture of one trial on one sink, until it is counted and deleted."""
    largest = 0
    for request in requests:
        each = CAPTURE_RECORD_BYTES + min(SNAP_BYTES, request.frame.pkt_size_bytes)
        for stream in inventory.streams[: request.sources]:
            pps = request.intended_pps or request.frame.rate_pps(stream.link_speed_bps)
            largest = max(largest, round(pps * request.duration_s) * each)
    return largest
