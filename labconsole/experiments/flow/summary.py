"""Summary of trials of flows: rates, measures and cost of each point, with intervals over set-ups; as plain data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from labconsole.experiments.flow.quantities import SharingResult, quantities
from labconsole.experiments.flow.rates import bin_rates, sent_to_at_once
from labconsole.experiments.flow.receive import lost_packets
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.ring import reported_bytes
from labconsole.experiments.flow.weights import WeightStepResult, weight_steps
from labconsole.measure.paired_blocks import (
    assign_points,
    build_point_key,
    find_exclusion_code,
    find_varying_fields,
    name_platforms,
    newest_trials,
    sort_key,
)
from labconsole.measure.statistics.bounded_means import drop_interval, lower_bounded, share_over_set_ups
from labconsole.measure.statistics.effects import Effect, Word
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.flow_scenarios import DiskBeside, WeightSteps
from labconsole.units import format_target

# -- cost --------------------------------------------------------------------------------------------------------------
# Processor seconds per gigabyte that guests sent, from what a record says of its machine. Pure.

GIGA = 1e9
SAID_ERROR = 0.1
"""Largest relative difference from the interfaces' rates at which iperf's report is believed. In a ring, only iperf
reports how much was sent over the whole time.
"""

NOT_RECORDED = "no time of the processors was recorded"


def machine_cpu_s_per_gb(record: FlowRecord) -> float | None:
    """Processor seconds of the UUT's machine per 10^9 bytes of payload that arrived, or None if not known. They include
    all else that runs there, other nodes too, while the trial was watched.
    """
    busy_s, carried_bytes = _busy_s(record), payload_bytes(record)
    return None if busy_s is None or not carried_bytes else busy_s / (carried_bytes / GIGA)


def unknown_because(record: FlowRecord) -> str | None:
    """Why machine_cpu_s_per_gb() is not known, or None if it is."""
    if _busy_s(record) is None:
        return NOT_RECORDED
    if payload_bytes(record):
        return None
    if not record.ring:
        return "how much payload arrived is not known, or none did"
    if payload_bytes(record) == 0:
        return "no payload was sent"
    if _ring_rates(record)[0] is None:
        return "of a guest iperf did not say how much it sent, or its interface was not counted"
    return f"the rates by iperf and by the guests' interfaces differ by more than {100 * SAID_ERROR:.0f} %"


def cpu_s_per_gb(record: FlowRecord) -> float | None:
    """Like machine_cpu_s_per_gb(), but None if the machine also hosts other nodes, whose time cannot be separated."""
    seen = _processors(record)
    return machine_cpu_s_per_gb(record) if seen is not None and seen.get("nodes") == [seen.get("node")] else None


def payload_bytes(record: FlowRecord) -> float | None:
    """Payload in bytes that arrived in total, or that a ring sent; None if it is not known of one guest."""
    if record.ring:
        said, seen = _ring_rates(record)
        if said is None or seen is None or abs(said - seen) > SAID_ERROR * seen:
            return None
        return float(sum(reported_bytes(each.output) or 0 for each in record.ring))
    if record.receivers:
        read = [one.udp_packets for one in record.receivers if one.udp_packets is not None]
        return float(sum(read) * record.requested.payload_bytes) if len(read) == len(record.receivers) else None
    return float(sum(flow.packets for flow in record.flows) * record.requested.payload_bytes) if record.flows else None


def _ring_rates(record: FlowRecord) -> tuple[float | None, float | None]:
    """The sums of the rates by iperf and by the interfaces; both are None if a guest's rate or bytes are not known."""
    rates = [(each.said_bps, each.out_bps) for each in record.ring]
    if any(None in both for both in rates) or None in [reported_bytes(each.output) for each in record.ring]:
        return None, None
    said, seen = (math.fsum(both[place] or 0.0 for both in rates) for place in (0, 1))
    return said, seen


def _busy_s(record: FlowRecord) -> float | None:
    seen = _processors(record)
    if seen is None:
        return None
    busy, cpus, window_s = (seen.get(name) for name in ("busy_ratio", "cpus", "window_s"))
    if not all(_is_number(each) for each in (busy, cpus, window_s)):
        return None
    return float(busy) * float(cpus) * float(window_s)  # type: ignore[arg-type]


def _processors(record: FlowRecord) -> Mapping[str, Any] | None:
    """What the record says of the processors of the UUT's machine, or None."""
    uut = record.environment.get("uut")
    for each in record.influences:
        nodes = each.get("nodes")
        if each.get("kind") == "cpu" and isinstance(nodes, list) and uut in nodes:
            return each
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


# -- summary -----------------------------------------------------------------------------------------------------------
# Uses the newest usable record of each trial, if its verdict is valid. Trials of one crew are one set-up
# (docs/statistics.md). Pure.

V = TypeVar("V")

OUTCOME_CODES = ("no_packets", "duration_cut", "offered_short", "rate_uncertain")
"""Codes that exclude trials because of their outcome, so that the included ones are a selection."""

DISTINGUISHING_FIELDS = (
    ("cpu", "CPU {}"),
    ("payload_bytes", "payload {} B"),
    ("duration_s", "for {:g} s"),
    ("bin_s", "in bins of {:g} s"),
)
"""Fields of a point that are part of its name if points differ in them."""


class FlowPointKey(NamedTuple):
    """Key of a point. ``limits_bps``: empty without limits. ``kernel``: of the unit under test. ``hypervisor``: with
    its version and the image's.
    """

    testbed_fingerprint: str
    platform: str
    guests: int
    cpu: str
    offered_bps: int
    limits_bps: tuple[int, ...]
    greedy: int
    second_after_s: float
    payload_bytes: int
    duration_s: float
    bin_s: float
    memory_mib: int | None = None
    kernel: str = ""
    hypervisor: str = ""
    pattern: str = "out"
    weights: tuple[Any, ...] = ()
    disk: tuple[Any, ...] = ()

    @property
    def disk_job(self) -> DiskBeside | None:
        """The last guest's work on its disk, or None."""
        return DiskBeside(job=self.disk[0], from_s=self.disk[1], to_s=self.disk[2]) if self.disk else None

    @property
    def weighted(self) -> WeightSteps | None:
        """The weights by which the guests share the link, or None."""
        return WeightSteps(every_s=self.weights[0], steps=self.weights[1]) if self.weights else None

    @property
    def scenario(self) -> str:
        """The scenario as text, without the number of guests and the platform."""
        return ", ".join(self.scenario_parts)

    @property
    def scenario_parts(self) -> tuple[str, ...]:
        """The parts of ``scenario``."""
        limits = ", ".join(map(format_target, self.limits_bps))
        if self.pattern == "ring":
            return ("in a ring", f"limit {limits}") if limits else ("in a ring",)
        if self.pattern == "in":
            return (f"sent {format_target(self.offered_bps)}{' each' if self.guests > 1 else ''}",)
        parts = [f"limit {limits}" if limits else "no limit"]
        parts += [self.weighted.words()] if self.weighted else []
        parts += [self.disk_job.words()] if self.disk_job else []
        parts += [f"{self.greedy} flows to one"] if self.greedy > 1 else []
        parts += [f"the first alone for {self.second_after_s:g} s"] if self.second_after_s else []
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestResult:
    """One guest at a point.

    ``shared_bps``: its payload rate while all send; in a ring, the rate of frames at its interface; for a guest that
    receives, what it read. ``attained_ratio``: share of its limit that it reached. ``spread_bps``: its deviation over
    bins. ``bins_bps``: the mean of every bin, from the first packet of any guest on.
    """

    guest: str
    shared_bps: SetUpMean | None
    attained_ratio: SetUpMean | None
    spread_bps: SetUpMean | None
    lost_packets: SetUpMean | None
    bins_bps: tuple[SetUpMean, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPointResult:
    """Result of a point.

    ``line_bps``: what the link carries of its payload. ``line_ratio``: the sum as a share of that, None if rates do not
    add up. ``median_id``: the trial whose longest dominance is the median; a figure draws its path.

    ``jain`` has a lower bound alone. ``dominant_ratio``, ``starved_ratio`` (of the guest that starves most) and
    ``lost_ratios`` are shares of rare events, with the intervals that losses have. ``dominant_s``, ``recovered_s`` and
    ``weight_error`` have no interval (measure/statistics/bounded_means.py).

    ``lost_ratios``: for guests that receive, the share of the sent packets lost at each place. ``recovered_s``: of
    trials in which the others returned to 95 % after the work on the disk. ``not_recovered``: number of trials in which
    they did not while they sent. ``cpu_s_per_gb``: of the unit under test, if its machine hosts nothing else;
    ``machine_cpu_s_per_gb``: of that machine. ``left_out``: number of excluded trials by code. ``flow_ids``: the
    included trials. ``by_outcome``: a code that excludes some because of their outcome, or None.
    """

    key: FlowPointKey
    line_bps: float
    sum_bps: SetUpMean | None
    line_ratio: SetUpMean | None
    jain: SetUpMean | None
    interference_ratio: SetUpMean | None
    alone_spread_bps: SetUpMean | None
    dominant_ratio: SetUpMean | None
    dominant_s: SetUpMean | None
    starved_ratio: SetUpMean | None
    first_share_ratio: SetUpMean | None
    lost_ratios: Mapping[str, SetUpMean]
    during_disk_ratio: SetUpMean | None
    recovered_s: SetUpMean | None
    not_recovered: int
    cpu_s_per_gb: SetUpMean | None
    machine_cpu_s_per_gb: SetUpMean | None
    weight_error: SetUpMean | None
    weight_steps: tuple[WeightStepResult, ...]
    guests: tuple[GuestResult, ...]
    median_id: str | None
    left_out: Mapping[str, int]
    flow_ids: tuple[str, ...]
    by_outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BareHostComparison:
    """Payload of all guests at a point (``key``) compared with the bare host's (``bare``).

    The bare host has as many processes if that was measured, or else one. ``adjusted_p``: by Holm over all comparisons.
    ``equivalent_p``: of two one-sided tests within the margin, by Holm over these. ``both_full``: both fill the link,
    so that a higher rate cannot be seen. ``one_full``: one of them does, and might be faster over another link.
    ``trials``: the included ones of both sides.
    """

    key: FlowPointKey
    bare: FlowPointKey
    ours_bps: SetUpMean
    bare_bps: SetUpMean
    effect: Effect
    adjusted_p: float | None
    equivalent_p: float | None
    margin_ratio: float | None
    word: Word
    both_full: bool
    one_full: bool
    trials: tuple[str, ...]

    @property
    def said(self) -> str:
        """The finding, with a note if the link may cause it."""
        if self.both_full:
            return f"{self.word}, both fill the link"
        bounded = self.word in ("equivalent", "different, within the margin")
        return f"{self.word}, one of them fills the link" if self.one_full and bounded else self.word


@dataclass(frozen=True, kw_only=True)
class FlowsSummary:
    """Everything derived from these trials. ``testbeds``: fingerprint to name. ``superseded``: number of trials with a
    newer record. ``compared``: empty unless requested (report_data.py).
    """

    points: tuple[FlowPointResult, ...]
    testbeds: Mapping[str, str]
    superseded: int
    compared: tuple[BareHostComparison, ...] = ()

    def name_of(self, key: FlowPointKey) -> str:
        """The platform, with what distinguishes it from others of this name."""
        return ", ".join(self.name_parts(key))

    def name_parts(self, key: FlowPointKey) -> tuple[str, ...]:
        """The parts of that name."""
        return self._names[key]

    @cached_property
    def _names(self) -> dict[FlowPointKey, tuple[str, ...]]:
        keys = [each.key for each in self.points]
        varying = find_varying_fields(keys, DISTINGUISHING_FIELDS)
        several_offered = len({key.offered_bps for key in keys if key.pattern == "out"}) > 1

        def details(key: FlowPointKey) -> list[str]:
            parts = [f"{key.memory_mib} MiB"] if key.memory_mib is not None else []
            parts += [template.format(getattr(key, name)) for name, template in varying]
            if several_offered and key.pattern == "out":
                parts.append(f"offers {format_target(key.offered_bps)} a flow")
            return parts

        return name_platforms(keys, self.testbeds, details)


def flow_key(record: FlowRecord) -> FlowPointKey:
    """The point that a trial belongs to."""
    weights, disk = record.requested.weights, record.requested.disk
    return build_point_key(
        FlowPointKey,
        record,
        weights=() if weights is None else (weights.every_s, weights.steps),
        disk=() if disk is None else (disk.job, disk.from_s, disk.to_s),
    )


def summarize_flows(records: Iterable[FlowRecord]) -> FlowsSummary:
    """Summarize trials by point."""
    every = sorted(records, key=lambda each: (each.started_at, each.flow_id))
    newest = newest_trials(every)
    by_point: dict[FlowPointKey, list[FlowRecord]] = {}
    for key, record in assign_points(newest, flow_key):
        by_point.setdefault(key, []).append(record)
    order = sorted(by_point, key=sort_key)
    return FlowsSummary(
        points=tuple(_point(key, by_point[key]) for key in order),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        superseded=len(every) - len(newest),
    )


def _point(key: FlowPointKey, every: Sequence[FlowRecord]) -> FlowPointResult:
    entered = [each for each in every if each.verdict.status == "valid"]
    known = {each.flow_id: quantities(each) for each in entered}

    by_set_up: dict[str, list[FlowRecord]] = {}
    for each in entered:
        by_set_up.setdefault(each.set_up_id, []).append(each)

    def by_trial(take: Callable[[FlowRecord, SharingResult], V | None]) -> dict[str, list[V]]:
        values = {name: [take(each, known[each.flow_id]) for each in group] for name, group in by_set_up.items()}
        return {name: kept for name, group in values.items() if (kept := [each for each in group if each is not None])}

    def mean(take: Callable[[FlowRecord, SharingResult], float | None]) -> SetUpMean | None:
        values = by_trial(take)
        return mean_over_set_ups(values) if values else None

    def mean_alone(take: Callable[[FlowRecord, SharingResult], float | None]) -> SetUpMean | None:
        found = mean(take)
        return None if found is None else drop_interval(found)

    def share(take: Callable[[FlowRecord, SharingResult], tuple[int, int] | None], of: int = 1) -> SetUpMean | None:
        return share_over_set_ups(by_trial(take), of)

    names = [sender.guest for sender in entered[0].senders] if entered else []
    ring = [each.guest for each in entered[0].ring] if entered else []
    received = [each.guest for each in entered[0].receivers] if entered else []
    lost = {each.flow_id: lost_packets(each.receivers) for each in entered}
    places = dict.fromkeys(place for each in lost.values() for place in each)
    at_places = {place: share(lambda record, _, place=place: lost[record.flow_id].get(place)) for place in places}  # type: ignore[misc]
    starved = [share(lambda _, found, name=name: found.starved_bins.get(name), len(names)) for name in names]  # type: ignore[misc]
    jain = mean(lambda record, _: record.jain)
    adds_up = all(sent_to_at_once(each.receivers) for each in entered)
    left_out = Counter(
        each.verdict.reasons[0].code for each in every if each.verdict.status != "valid" and each.verdict.reasons
    )
    return FlowPointResult(
        key=key,
        line_bps=every[0].line_bps,
        sum_bps=mean(lambda record, found: record.sum_bps),
        line_ratio=mean(lambda record, found: record.line_ratio) if adds_up else None,
        jain=None if jain is None else lower_bounded(jain),
        interference_ratio=mean(lambda record, found: found.interference_ratio),
        alone_spread_bps=mean(lambda record, found: found.alone_spread_bps),
        dominant_ratio=share(lambda _, found: found.dominant_bins),
        dominant_s=mean_alone(lambda _, found: found.dominant_s),
        starved_ratio=max((each for each in starved if each is not None), key=lambda each: each.mean, default=None),
        first_share_ratio=mean(lambda record, found: found.first_share_ratio),
        lost_ratios={place: found for place, found in at_places.items() if found is not None},
        during_disk_ratio=mean(lambda record, _: None if record.disk is None else record.disk.during_ratio),
        recovered_s=mean_alone(lambda record, _: None if record.disk is None else record.disk.recovered_s),
        not_recovered=sum(
            each.disk.recovered_s is None and each.disk.during_ratio is not None
            for each in entered
            if each.disk is not None
        ),
        cpu_s_per_gb=mean(lambda record, _: cpu_s_per_gb(record)),
        machine_cpu_s_per_gb=mean(lambda record, _: machine_cpu_s_per_gb(record)),
        weight_error=mean_alone(lambda record, _: None if record.weights is None else record.weights.mean_error_ratio),
        weight_steps=weight_steps(key.weights[1] if key.weights else (), by_set_up, limited=bool(key.limits_bps)),
        guests=(
            *(_guest(place, name, key, entered, mean) for place, name in enumerate(names)),
            *(
                _plain_guest(place, name, mean, lambda each, at: each.ring[at].out_bps)
                for place, name in enumerate(ring)
            ),
            *(
                _plain_guest(place, name, mean, lambda each, at: each.receivers[at].payload_bps)
                for place, name in enumerate(received)
            ),
        ),
        median_id=_median_id(entered, known),
        left_out=dict(left_out),
        flow_ids=tuple(each.flow_id for each in entered),
        by_outcome=find_exclusion_code(OUTCOME_CODES, (each for each in every if each.verdict.status != "valid")),
    )


def _plain_guest(
    place: int,
    name: str,
    mean: Callable[[Callable[[FlowRecord, SharingResult], float | None]], SetUpMean | None],
    rate: Callable[[FlowRecord, int], float | None],
) -> GuestResult:
    """A guest with a rate, and nothing over time."""
    return GuestResult(
        guest=name,
        shared_bps=mean(lambda record, _: rate(record, place)),
        attained_ratio=None,
        spread_bps=None,
        lost_packets=None,
        bins_bps=(),
    )


def _guest(
    place: int,
    name: str,
    key: FlowPointKey,
    entered: Sequence[FlowRecord],
    mean: Callable[[Callable[[FlowRecord, SharingResult], float | None]], SetUpMean | None],
) -> GuestResult:
    bins = max(1, round(key.duration_s / key.bin_s))
    over_time = {each.flow_id: bin_rates(each.flows, name, bins, key.payload_bytes, key.bin_s) for each in entered}
    found = [mean(lambda record, _, number=number: over_time[record.flow_id][number]) for number in range(bins)]  # type: ignore[misc]
    return GuestResult(
        guest=name,
        shared_bps=mean(lambda record, _: record.senders[place].shared_bps),
        attained_ratio=mean(lambda _, found: found.attained.get(name)),
        spread_bps=mean(lambda _, found: found.spread_bps.get(name)),
        lost_packets=mean(lambda record, _: record.senders[place].lost_packets),
        bins_bps=tuple(each for each in found if each is not None),
    )


def _median_id(entered: Sequence[FlowRecord], known: Mapping[str, SharingResult]) -> str | None:
    """The trial of the lower median, and of equal ones the earliest."""
    order = sorted(
        (found, place, each.flow_id)
        for place, each in enumerate(entered)
        if (found := known[each.flow_id].dominant_s) is not None
    )
    return order[(len(order) - 1) // 2][2] if order else None
