"""How long a plan takes and how much room it needs, reckoned before it begins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.order import configuration, set_up_key
from labconsole.model.plan.plan import Plan

TRIAL_OVERHEAD_S = 0.6
"""Budget of a trial beyond its traffic and its configured waits: arming, counting, saving. As on the local lab."""

PLATFORM_SWITCH_S = 1.0
"""Budget for handing the unit under test to another platform that has nothing to boot, or for another background."""

RUN_BYTES = 40_000
"""Room in the store for one run with its time series; it grows with the duration and the number of interfaces."""

SNAP_BYTES = 64
"""What a capture keeps of a packet at most (engine/trial/setup.py, which a test holds this to)."""

CAPTURE_RECORD_BYTES = 16
"""What pcap writes before every packet."""


_Asked = tuple[DesignPoint, object]
"""A request, and the set-up of a block that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a plan takes. What goes wrong and is redone comes on top. ``per_trial_s`` is the mean.

    ``store_bytes``: what the store grows by; ``capture_bytes``: room on a sink while its largest trial runs.
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
    """Time for the schedule (default: all of it): traffic, waits, a fixed overhead, platforms set up, warm-ups.

    ``boots_s``: platform to what it takes on top until one guest forwards. Two guests boot one after the other, and a
    guest is kept while only what runs in it changes. Every set-up of a block is made anew, also after one of the same
    platform; otherwise what stands is used again.
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


def _first_of_each(trials: Sequence[_Asked], key: Callable[[_Asked], object]) -> list[DesignPoint]:
    """The first request of every stretch of trials that share what has to stand."""
    return [next(group)[0] for _, group in itertools.groupby(trials, key=key)]


def boot_s(request: DesignPoint, boots_s: Mapping[str, float]) -> float:
    """What it takes until the guests that this request needs forward."""
    return boots_s.get(request.platform, 0.0) * (1 if request.background == "none" else 2)


def largest_capture_bytes(requests: set[DesignPoint], inventory: Inventory) -> int:
    """Room that the largest capture of one trial takes on one sink, until it is counted and deleted."""
    largest = 0
    for request in requests:
        each = CAPTURE_RECORD_BYTES + min(SNAP_BYTES, request.frame.pkt_size_bytes)
        for stream in inventory.streams[: request.sources]:
            pps = request.intended_pps or request.frame.rate_pps(stream.link_speed_bps)
            largest = max(largest, round(pps * request.duration_s) * each)
    return largest
