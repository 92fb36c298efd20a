"""Design points summarized over their set-ups, with losses and delays, and the settings they belong to. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from labconsole.measure.admission import ContiguousSetUps
from labconsole.measure.groups import (
    ONE_SET_UP,
    Alike,
    GroupConditions,
    arrived_packets,
    block_of,
    design_of,
    disambiguate_platforms,
    rate_of,
)
from labconsole.measure.maximum import REACHED_LOSS_RATIO, MaximumChoice, choose_maximum, is_at_least
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.bounded_means import LossEstimate, is_loss_known, loss_of_counts, loss_of_trials
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups, set_up_means
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.model.design_point import FrameSize
from labconsole.model.record.extensions import PACKET_TIMES, PacketTimes
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP

# -- point losses ------------------------------------------------------------------------------------------------------
# Losses of a design point's trials, and the trials that lost next to nothing of the offered packets.


def lost_packets(runs: Sequence[RunRow], by_sides: bool) -> list[int | None]:
    """Packets lost by the unit under test, or by everything between the generator and the sink; None if unknown.

    If a trial has slightly more frames out than in, those are the unit under test's own, and no loss shows. A larger
    excess in any trial makes the loss of all unknown: else trials with larger losses would be left, and represent the
    rest.
    """
    found: list[int | None] = []
    for run in runs:
        some, of = (run.uut_lost_packets if by_sides else run.loss_packets), run.offered_packets
        if some is None or of is None:
            found.append(None)
        elif not is_loss_known(some, of):
            return [None] * len(runs)
        else:
            found.append(max(some, 0))
    return found


def missing_ratio(runs: Sequence[RunRow], lost: Sequence[int | None], by_sides: bool) -> float | None:
    """The share of offered packets that was lost or late, over trials with known loss; None if there are none."""
    missing = offered = 0
    late_known = True
    for run, some in zip(runs, lost, strict=True):
        if some is None:
            continue
        missing, offered = missing + some, offered + (run.offered_packets or 0)
        if by_sides:
            late_known = late_known and run.late_packets is not None
            missing += run.late_packets or 0
    if not offered:
        return None
    ratio = missing / offered
    return ratio if late_known or ratio >= REACHED_LOSS_RATIO else None


def full_run_ids(runs: Sequence[RunRow], lost: Sequence[int | None], by_sides: bool) -> frozenset[str]:
    """The trials that forwarded all that they were offered, if their loss is known.

    Their rate is the sender's, and a lower limit of what could be forwarded.
    """
    return frozenset(
        run.run_id
        for run, some in zip(runs, lost, strict=True)
        if some is not None
        and run.offered_packets
        and (some + (run.late_packets or 0) * by_sides) / run.offered_packets < REACHED_LOSS_RATIO
    )


# -- packet delays -----------------------------------------------------------------------------------------------------
# The delay of every packet of a trial, as far as its record has it, and the kernel probes used in it.


@dataclass(frozen=True, slots=True)
class PacketDelays:
    """``histograms``: of each stream, as in its record. ``longest_ns``: the longest of all."""

    histograms: tuple[str, ...]
    longest_ns: int


def read_packet_delays(streams: Sequence[Mapping[str, Any]], *, since_due: bool = False) -> PacketDelays | None:
    """Packet delays, or None unless every stream has a readable histogram of the delays of all packets that arrived.
    Measured from the sender's time stamps, or from the due times.
    """
    histograms, longest_ns = [], 0
    for stream in streams:
        try:
            times = PacketTimes.model_validate((stream.get("extensions") or {}).get(PACKET_TIMES))
            delay = times.due_ns if since_due else times.delay_ns
            if delay is None:
                return None
            if TimeHistogram.decoded(delay.histogram).total != delay.packets:
                return None
        except ValueError:  # missing, from another version, or broken: verify reports it
            return None
        histograms.append(delay.histogram)
        longest_ns = max(longest_ns, delay.max)
    return PacketDelays(tuple(histograms), longest_ns) if histograms else None


def list_kernel_probes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Extra work of the nodes' kernels during a trial, besides forwarding: it takes a part of a processor."""
    drops = (record.get("extensions") or {}).get("kernel_drops")
    timed = [(stream.get("extensions") or {}).get(PACKET_TIMES) for stream in record["streams"]]
    found = ("reasons for drops",) if isinstance(drops, Mapping) and "refused" not in drops else ()
    timing = [each for each in timed if isinstance(each, Mapping) and "refused" not in each]
    places = {by if (by := each.get("by")) in (GENERIC_XDP, NATIVE_XDP) else None for each in timing}
    how = sorted("times of packets" if by is None else f"times of packets by {by}" for by in places)
    return (*found, *how)


# -- points ------------------------------------------------------------------------------------------------------------
# Design points summarized over their set-ups, and the settings that they belong to. Pure, on plain rows: no pandas.
#
# A point's mean is the mean of its set-ups' means. Its loss is that of the unit under test if records separate the
# sides (method 2), else everything that was offered and not measured. A setting is all factors but the load.

DEDICATED = "none"
"""The background of the dedicated scenario: no second guest."""

IDLE = "idle"
"""An idle second guest: the paper's baseline for background load."""

CPU_LOADS = ("light", "heavy")
FORWARDING = ("forwarding-50", "forwarding-95")

Values = dict[Hashable, list[float]]
"""Values of trials, by block."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a record that conclusions rest on, in addition to the columns of a list of runs.

    ``maximum_target_bps``: the load at which the pilot fixed the maximum of this run's setting; ``fixed``: whether
    there was a pilot. ``shares``: each stream's share of the forwarded packets, if all were offered the same.
    ``second_bps``: offered to and forwarded by a forwarding second guest; ``second_packets``: its number of packets.
    ``one_way_ns``, ``pdv_ns``: p50 and p99 of the delay, one way and over the shortest, each the mean of the streams.
    ``place``: seed, order, position in the whole plan and repetitions of the point, if it has blocks.
    ``packet_delays``: of every packet of all streams, if all of them have it.
    """

    fixed: bool = False
    maximum_target_bps: int | Literal["max"] | None = None
    margin_ratio: float | None = None
    claims: tuple[str, ...] | None = None
    shares: Mapping[str, float] | None = None
    second_bps: tuple[float, float] | None = None
    second_packets: int | None = None
    one_way_ns: tuple[float, float] | None = None
    pdv_ns: tuple[float, float] | None = None
    witnesses: tuple[str, ...] = ()
    kernels_asked: tuple[str, ...] = ()
    place: tuple[int, str | None, int, int | None] | None = None
    packet_delays: PacketDelays | None = None
    delays_since_due: PacketDelays | None = None


class Setting(NamedTuple):
    """All factors but the load. ``platform`` includes the conditions that distinguish it."""

    platform: str
    frame: FrameSize
    sources: int
    background: str
    conditions: GroupConditions


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSummary:
    """One design point. Rates are sums over the streams; ``*_bps`` is bandwidth on the wire, ``rate_*`` forwarded.

    ``values_bps``: of the trials by block. ``packets``: the fewest that arrived in a trial. ``missing_ratio``: the
    share of offered packets that the unit under test lost or that were late. ``full_run_ids``: the trials that miss
    next to nothing, so that more might have been forwarded. ``loss_of``: "uut", or "all" if the sides are unknown.
    ``loss_trials``: the number of trials behind both, those with known loss. ``boots``, ``stretches``: of each block's
    set-up; a stretch is None if several set-ups make up one block.
    """

    platform: str
    design: Alike
    target_bps: int | None
    offered_bps: SetUpMean
    rate_bps: SetUpMean
    rate_pps: SetUpMean
    loss: LossEstimate | None
    loss_of: Literal["uut", "all"]
    loss_trials: int
    missing_ratio: float | None
    full_run_ids: frozenset[str]
    values_bps: Values
    packets: int | None
    boots: dict[Hashable, str | None]
    stretches: dict[Hashable, int | None]
    run_ids: tuple[str, ...]
    blocks_of_runs: tuple[Hashable, ...]

    @property
    def frame(self) -> FrameSize:
        return self.design.frame

    @property
    def sources(self) -> int:
        return self.design.sources

    @property
    def background(self) -> str:
        return self.design.background

    @property
    def n(self) -> int:
        """The number of trials that entered."""
        return self.rate_bps.trials

    @property
    def set_ups(self) -> int:
        """The number of set-ups with at least one trial that entered."""
        return self.rate_bps.set_ups

    @property
    def load(self) -> float:
        """The target per source in bits per second; infinity for "as fast as possible"."""
        return math.inf if self.target_bps is None else float(self.target_bps)

    @property
    def key(self) -> Setting:
        """All factors but the target."""
        d = self.design
        return Setting(self.platform, d.frame, d.sources, d.background, d.conditions)

    @property
    def trial_values_bps(self) -> tuple[float, ...]:
        """The value of every trial, in the order of ``run_ids``."""
        taken = {block: iter(values) for block, values in self.values_bps.items()}
        return tuple(next(taken[block]) for block in self.blocks_of_runs)

    @property
    def carries_all(self) -> bool:
        """Whether next to nothing of the offered packets is missing."""
        return self.missing_ratio is not None and self.missing_ratio < REACHED_LOSS_RATIO

    @property
    def full_ratio(self) -> float:
        """The share of its trials that forwarded all that they were offered."""
        return len(self.full_run_ids) / self.n

    @property
    def full_values_bps(self) -> list[float]:
        """The forwarding rates of these trials."""
        values = zip(self.run_ids, self.trial_values_bps, strict=True)
        return [value for run_id, value in values if run_id in self.full_run_ids]


@dataclass(slots=True)
class _Group:
    """Runs of one point while they are collected."""

    run_ids: list[str] = field(default_factory=list)
    blocks: list[Hashable] = field(default_factory=list)
    offered: Values = field(default_factory=dict)
    bps: Values = field(default_factory=dict)
    pps: Values = field(default_factory=dict)
    runs: list[RunRow] = field(default_factory=list)


def make_points(runs: Iterable[RunRow], pool: Collection[str], taken: ContiguousSetUps) -> list[PointSummary]:
    """Every design point of runs that enter, ordered by its factors, raw first."""
    groups: dict[Alike, _Group] = {}
    for run in runs:
        design, rate = design_of(run, pool), rate_of(run)
        if design is None or rate is None or run.offered_bps is None:
            continue
        group = groups.get(design)
        if group is None:
            group = groups[design] = _Group()
        block = block_of(run)
        group.run_ids.append(run.run_id)
        group.blocks.append(block)
        group.runs.append(run)
        group.pps.setdefault(block, []).append(rate[0])
        group.bps.setdefault(block, []).append(rate[1])
        group.offered.setdefault(block, []).append(run.offered_bps)
    names = disambiguate_platforms(groups)
    made = [_point(names[design.platform, design.conditions], design, group, taken) for design, group in groups.items()]
    return sorted(made, key=point_order)


def _point(name: str, design: Alike, group: _Group, known: ContiguousSetUps) -> PointSummary:
    by_sides = all((run.method or 1) > 1 for run in group.runs)
    arrived = [arrived_packets(run) for run in group.runs]
    lost = lost_packets(group.runs, by_sides)
    return PointSummary(
        platform=name,
        design=design,
        target_bps=None if design.target_bps == "max" else int(design.target_bps),
        offered_bps=mean_of_point(group.offered),
        rate_bps=mean_of_point(group.bps),
        rate_pps=mean_of_point(group.pps),
        loss=_loss(group, lost),
        loss_of="uut" if by_sides else "all",
        loss_trials=sum(some is not None for some in lost),
        missing_ratio=missing_ratio(group.runs, lost, by_sides),
        full_run_ids=full_run_ids(group.runs, lost, by_sides),
        values_bps=group.bps,
        packets=None if None in arrived else min(count for count in arrived if count is not None),
        boots=_boots(group),
        stretches=_find_contiguous_set_ups(group, known),
        run_ids=tuple(group.run_ids),
        blocks_of_runs=tuple(group.blocks),
    )


def mixed(blocks: Collection[Hashable]) -> bool:
    """Whether runs without a set-up are pooled with set-ups, so that the number of set-ups is unknown."""
    return len(blocks) > 1 and ONE_SET_UP in blocks


def mean_of_point(values: Mapping[Hashable, Sequence[float]]) -> SetUpMean:
    """The mean over set-ups; if runs without a set-up are pooled with them, without interval and deviation."""
    found = mean_over_set_ups(values)
    if not mixed(values.keys()):
        return found
    return replace(found, ci_low=None, ci_high=None, sd=None, scope="too few", set_ups=found.set_ups - 1)


def _find_contiguous_set_ups(group: _Group, known: ContiguousSetUps) -> dict[Hashable, int | None]:
    found: dict[Hashable, int | None] = {}
    for block, set_up in {(block, run.set_up or "") for run, block in zip(group.runs, group.blocks, strict=True)}:
        own = known.get((block, set_up))
        found[block] = own if found.get(block, own) == own else None
    return found


def _boots(group: _Group) -> dict[Hashable, str | None]:
    """The boot of each block's set-up, from any of its runs that has it."""
    found: dict[Hashable, str | None] = {}
    for run, block in zip(group.runs, group.blocks, strict=True):
        found[block] = found.get(block) or run.boot_id
    return found


def _loss(group: _Group, lost: Sequence[int | None]) -> LossEstimate | None:
    """The loss over the trials whose counters were read, or None if there are none. Has no bounds if runs are mixed."""
    trials: dict[Hashable, list[tuple[int, int]]] = {}
    for run, block, some in zip(group.runs, group.blocks, lost, strict=True):
        if some is not None:
            trials.setdefault(block, []).append((some, run.offered_packets or 0))
    if not trials:
        return None
    return loss_of_counts(*trials.values()) if mixed(group.bps) else loss_of_trials(trials)


def platform_order(name: str) -> tuple[bool, str]:
    """Sort key: the bare host first, as in the papers, then by name. The same order in every selection of runs."""
    return (not name.startswith("raw"), name)


def background_order(kind: str) -> tuple[int, str]:
    """Sort key: from no second guest to the heaviest load."""
    kinds = (DEDICATED, IDLE, *CPU_LOADS, *FORWARDING)
    return (kinds.index(kind) if kind in kinds else len(kinds), kind)


def point_order(p: PointSummary) -> tuple[object, ...]:
    """Sort key: size, platform, sources, background, target."""
    d = p.design
    where = (d.frame, platform_order(p.platform), d.sources, background_order(d.background))
    return (*where, p.load)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumReading:
    """The maximum that a setting forwards, as far as known.

    ``point``: at the load where it is read. ``rate``: over the blocks that it may be read from. ``is_maximum``: False
    if there is one load. ``can_claim``: False if the load was chosen for having the highest mean, because there are too
    few set-ups or no run at the pilot's load entered. Then the value is too high on average, and supports no
    conclusion. ``at_least``: the highest load was still carried, so that the maximum lies there or beyond, wherever it
    is read; None if unknown.
    """

    setting: Setting
    point: PointSummary
    rate: SetUpMean
    means_bps: dict[Hashable, float]
    choice: MaximumChoice
    is_maximum: bool
    can_claim: bool
    at_least: bool | None
    highest: PointSummary
    loads: int


class SettingPoints:
    """The points of one setting, by load, and its maximum. ``pilot_load``: the load that a pilot fixed, if any."""

    def __init__(self, setting: Setting, points: Sequence[PointSummary], pilot_load: float | None) -> None:
        self.setting = setting
        self.by_load = {point.load: point for point in points}
        self._pilot_load = pilot_load
        self._readings: dict[frozenset[float], MaximumReading] = {}

    @property
    def loads(self) -> frozenset[float]:
        """The loads at which it was measured."""
        return frozenset(self.by_load)

    def read(self, loads: frozenset[float] | None = None) -> MaximumReading:
        """Read the maximum, or the one over some loads that it shares with another setting."""
        chosen = self.loads if loads is None else loads
        reading = self._readings.get(chosen)
        if reading is None:
            reading = self._readings[chosen] = self._read(chosen)
        return reading

    def _read(self, loads: frozenset[float]) -> MaximumReading:
        points = {load: point for load, point in self.by_load.items() if load in loads}
        # Loads that another setting shares may lack the pilot's; a report says if it was measured nowhere.
        pilot = None if self._pilot_load in self.loads - loads else self._pilot_load
        blocks: set[Any] = {block for point in points.values() for block in point.values_bps if block != ONE_SET_UP}
        first: Hashable = min(blocks, default=None)  # by number, then plan and testbed
        choice = choose_maximum({load: point.values_bps for load, point in points.items()}, pilot, first)
        if choice.load is None:  # labelled as the highest mean, and no basis for a conclusion
            point = max(points.values(), key=lambda each: (each.rate_bps.mean, -each.load))
            values: Mapping[Hashable, Sequence[float]] = point.values_bps
        else:
            point, values = points[choice.load], choice.values
        whole = len(values) == len(point.values_bps)
        highest = points[max(points)]
        return MaximumReading(
            setting=self.setting,
            point=point,
            rate=point.rate_bps if whole else mean_of_point(values),
            means_bps=set_up_means(values),
            choice=choice,
            is_maximum=choice.is_maximum,
            can_claim=choice.load is not None,
            at_least=is_at_least(highest.load, highest.load, highest.missing_ratio),
            highest=highest,
            loads=len(points),
        )


def make_settings(
    points: Sequence[PointSummary], facts: Mapping[str, RunFacts], fixed: Mapping[Any, int | str] | None = None
) -> dict[Setting, SettingPoints]:
    """The points by setting, each with its pilot's load if all its runs agree on one.

    ``fixed``: the pilot's load by (platform, frame size, sources, background), for rows that have no records.
    """
    groups: dict[Setting, list[PointSummary]] = {}
    for point in points:
        groups.setdefault(point.key, []).append(point)
    made = {}
    for setting, of_setting in groups.items():
        d = of_setting[0].design
        pilot_loads: set[int | str | None] = {
            known.maximum_target_bps
            for point in of_setting
            for run_id in point.run_ids
            if (known := facts.get(run_id)) is not None and known.fixed
        }
        if fixed is not None:
            pilot_loads = {fixed.get((d.platform, d.frame.bytes, d.sources, d.background))}
        (load,) = pilot_loads if len(pilot_loads) == 1 else (None,)
        made[setting] = SettingPoints(
            setting, of_setting, None if load is None else math.inf if load == "max" else float(load)
        )
    return made


# -- delays ------------------------------------------------------------------------------------------------------------
# Delay at a design point, if its trials report one.

NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class DelayAt:
    """Delay at one point: medians and 99th percentiles of its trials. ``kind``: over the shortest (RFC 5481, PDV) if
    the clocks of the nodes are not shown to agree.
    """

    kind: Literal["one way", "over the shortest"]
    p50_ns: SetUpMean
    p99_ns: SetUpMean


def find_delay(point: PointSummary, facts: Mapping[str, RunFacts]) -> DelayAt | None:
    """Delay at a point, or None if no trial reports one. One-way only if all trials with a delay report it so."""
    known = [
        (block, facts[run_id])
        for run_id, block in zip(point.run_ids, point.blocks_of_runs, strict=True)
        if run_id in facts and facts[run_id].pdv_ns is not None
    ]
    if not known:
        return None
    one_way = all(fact.one_way_ns is not None for _, fact in known)
    p50: Values = {}
    p99: Values = {}
    for block, fact in known:
        delay = fact.one_way_ns if one_way else fact.pdv_ns
        if delay is not None:
            p50.setdefault(block, []).append(delay[0])
            p99.setdefault(block, []).append(delay[1])
    return DelayAt("one way" if one_way else "over the shortest", mean_of_point(p50), mean_of_point(p99))
