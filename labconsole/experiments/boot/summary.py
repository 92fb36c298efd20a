"""Summary of boot trials: times and memory per point, lines over the number of guests, differences; as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

from labconsole.experiments.boot.derived_values import latest_s, resolution_s
from labconsole.experiments.boot.record import BootRecord
from labconsole.measure.paired_blocks import (
    Blocks,
    adjusted,
    assign_points,
    build_point_key,
    find_exclusion_code,
    name_platforms,
    newest_trials,
)
from labconsole.measure.statistics.effects import Effect, Word, equivalence_p, word
from labconsole.measure.statistics.regression import LineInBlocks
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.report.paper_abstracts import format_none_valid, pair_tools

# -- summary -----------------------------------------------------------------------------------------------------------
# Only valid trials enter, with the newest record of each. Each starts its own guests. Those of one block share a boot
# of the unit under test and a period of time, so the block is one replicate, the mean of its trials
# (docs/statistics.md). Cold is compared with hot, and platform with platform, in pairs of blocks
# (measure/paired_blocks.py), on the logarithm. All comparisons form one family (Holm). Pure.


class SeriesKey(NamedTuple):
    """The identity of a line over the number of guests.

    ``crew``: what every guest has, where that differs from the platform. ``kernel``: of the unit under test.
    ``hypervisor``: with its version and the image's. A start under another kernel or hypervisor is another point.
    """

    testbed_fingerprint: str
    platform: str
    start: str
    crew: tuple[int, ...] = ()
    kernel: str = ""
    hypervisor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPointResult:
    """The results of one point.

    ``startup_s``: by the clock outside. ``ready_s``: by the UUT's clock. ``first_s``: of the first guest. ``sd_s``: the
    deviation between the guests of a trial. ``resolution_s``: the error bound of the coarsest trial's time, or None if
    one is unknown. ``*_bytes``: of all guests, by each witness. ``*_switches_per_s``: context switches of the UUT's
    kernel before the start, while all guests are idle, and the increase per guest, for trials that report both.
    ``left_out``: the number of excluded trials by reason code. ``boot_ids``: the included ones.
    """

    key: SeriesKey
    guests: int
    startup_s: SetUpMean | None
    ready_s: SetUpMean | None
    first_s: SetUpMean | None
    sd_s: SetUpMean | None
    resolution_s: float | None
    used_bytes: SetUpMean | None
    pss_bytes: SetUpMean | None
    cgroup_bytes: SetUpMean | None
    hypervisor_bytes: SetUpMean | None
    before_switches_per_s: SetUpMean | None
    standing_switches_per_s: SetUpMean | None
    guest_switches_per_s: SetUpMean | None
    left_out: Mapping[str, int]
    boot_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootLines:
    """Lines over the number of guests: start-up time, and memory by each witness.

    The constant of memory is what the tool needs however many guests there are, the slope is what each guest needs. A
    line is None if there are too few numbers of guests or no block has them all.
    """

    key: SeriesKey
    startup_s: LineInBlocks | None
    used_bytes: LineInBlocks | None
    pss_bytes: LineInBlocks | None
    cgroup_bytes: LineInBlocks | None
    hypervisor_bytes: LineInBlocks | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartComparison:
    """The increase in start-up time at one point (``key``) over another (``than``), with as many ``guests``.

    ``adjusted_p``: by Holm over all comparisons. ``word``: the conclusion.
    """

    key: SeriesKey
    than: SeriesKey
    guests: int
    effect: Effect
    adjusted_p: float | None
    word: Word


@dataclass(frozen=True, kw_only=True)
class BootsSummary:
    """The results of a set of boot trials.

    ``cold_against_hot``, ``between_platforms``: one family of claims. ``testbeds``: fingerprint to name.
    ``superseded``: the number of trials that have a newer record.
    """

    points: tuple[BootPointResult, ...]
    lines: tuple[BootLines, ...]
    cold_against_hot: tuple[StartComparison, ...]
    between_platforms: tuple[StartComparison, ...]
    testbeds: Mapping[str, str]
    superseded: int

    @cached_property
    def names(self) -> dict[SeriesKey, str]:
        """The name of each series among the others, without its start: its platform, and what distinguishes it."""
        keys = [each.key for each in self.points]
        parts = name_platforms(keys, self.testbeds, lambda key: [f"{mib} MiB" for mib in key.crew])
        return {key: ", ".join(each) for key, each in parts.items()}


Take = Callable[[BootRecord], float | None]
Place = tuple[SeriesKey, int]
"""A series and a number of guests."""


def summarize_boots(records: Iterable[BootRecord], family: Sequence[float] = ()) -> BootsSummary:
    """Summarize by platform, start and number of guests.

    ``family``: p values of all claims in the place where these are shown. Without it, comparisons of starts are a
    family of their own.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.boot_id))
    newest = newest_trials(every)
    by_point: dict[Place, list[BootRecord]] = {}
    for key, record in assign_points(newest, series_key):
        by_point.setdefault((key, record.requested.guests), []).append(record)
    entered = {at: [each for each in group if each.verdict.status == "valid"] for at, group in by_point.items()}
    places = sorted(by_point)
    series = list(dict.fromkeys(key for key, _ in places))
    margins = {record.plan.margin_ratio for record in newest}
    cold = [((key, guests), (key._replace(start="hot"), guests)) for key, guests in places if key.start == "cold"]
    pairs = [(key, than) for key, than in cold if than in entered]
    blocks = Blocks(every)
    found = _compared(
        [*pairs, *_pair_platforms(places)], entered, blocks, margins.pop() if len(margins) == 1 else None, family
    )
    return BootsSummary(
        points=tuple(_point(*at, by_point[at], entered[at], blocks) for at in places),
        lines=tuple(_lines(key, {at[1]: entered[at] for at in places if at[0] == key}, blocks) for key in series),
        cold_against_hot=tuple(found[: len(pairs)]),
        between_platforms=tuple(found[len(pairs) :]),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        superseded=len(every) - len(newest),
    )


def _pair_platforms(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return each pair of places that differ only in the platform, once."""
    alike: dict[tuple[SeriesKey, int], list[Place]] = {}
    for key, guests in places:
        alike.setdefault((key._replace(platform="", hypervisor=""), guests), []).append((key, guests))
    return [
        (other, one)
        for group in alike.values()
        for one, other in combinations(group, 2)
        if one[0].platform != other[0].platform
    ]


def _compared(
    pairs: Sequence[tuple[Place, Place]],
    entered: Mapping[Place, Sequence[BootRecord]],
    blocks: Blocks[BootRecord],
    margin_ratio: float | None,
    family: Sequence[float],
) -> list[StartComparison]:
    effects = [blocks.effect(entered[ours], entered[theirs], _startup) for ours, theirs in pairs]
    different = adjusted([effect.p for effect in effects], family)
    equal = adjusted([None if margin_ratio is None else equivalence_p(effect, margin_ratio) for effect in effects])
    return [
        StartComparison(
            key=ours[0], than=theirs[0], guests=ours[1], effect=effect, adjusted_p=p, word=word(p, equivalent)
        )
        for (ours, theirs), effect, p, equivalent in zip(pairs, effects, different, equal, strict=True)
    ]


def series_key(record: BootRecord) -> SeriesKey:
    """Return the series that a trial belongs to."""
    memory_mib = record.requested.memory_mib
    return build_point_key(SeriesKey, record, crew=() if memory_mib is None else (memory_mib,))


def _startup(record: BootRecord) -> float | None:
    return record.startup_s


def _ready(record: BootRecord) -> float | None:
    return record.ready_s


def _first(record: BootRecord) -> float | None:
    times = [each.mark_s for each in record.guests if each.mark_s is not None]
    return min(times) if times else None


def _deviation(record: BootRecord) -> float | None:
    return record.sd_s


def _used(record: BootRecord) -> float | None:
    return None if record.memory is None else record.memory.used_bytes


def _pss(record: BootRecord) -> float | None:
    return None if record.memory is None else record.memory.pss_bytes


def _cgroup(record: BootRecord) -> float | None:
    return None if record.memory is None else record.memory.cgroup_bytes


def _hypervisor(record: BootRecord) -> float | None:
    return None if record.memory is None else record.memory.hypervisor_bytes


def _idle_switches(record: BootRecord) -> float | None:
    quiet = None if record.idle is None else record.idle.before
    return None if quiet is None else quiet.switches_per_s


def _guest_switches(record: BootRecord) -> float | None:
    quiet = None if record.idle is None else record.idle.standing
    return None if quiet is None else quiet.switches_per_s


def _more_a_guest(record: BootRecord) -> float | None:
    before, standing = _idle_switches(record), _guest_switches(record)
    return None if before is None or standing is None else (standing - before) / record.requested.guests


def _point(
    key: SeriesKey, guests: int, every: Sequence[BootRecord], entered: Sequence[BootRecord], blocks: Blocks[BootRecord]
) -> BootPointResult:
    def mean(take: Take) -> SetUpMean | None:
        values: dict[Hashable, list[float]] = {}
        for each in entered:
            if (value := take(each)) is not None:
                values.setdefault(blocks.replicate(each), []).append(value)
        return mean_over_set_ups(values) if values else None

    left_out = Counter(
        each.verdict.reasons[0].code for each in every if each.verdict.status != "valid" and each.verdict.reasons
    )
    return BootPointResult(
        key=key,
        guests=guests,
        startup_s=mean(_startup),
        ready_s=mean(_ready),
        first_s=mean(_first),
        sd_s=mean(_deviation),
        resolution_s=latest_s([resolution_s(each.guests, each.clock_error_s) for each in entered]),
        used_bytes=mean(_used),
        pss_bytes=mean(_pss),
        cgroup_bytes=mean(_cgroup),
        hypervisor_bytes=mean(_hypervisor),
        before_switches_per_s=mean(_idle_switches),
        standing_switches_per_s=mean(_guest_switches),
        guest_switches_per_s=mean(_more_a_guest),
        left_out=dict(left_out),
        boot_ids=tuple(each.boot_id for each in entered),
    )


def _lines(key: SeriesKey, of: Mapping[int, Sequence[BootRecord]], blocks: Blocks[BootRecord]) -> BootLines:
    def line(take: Take) -> LineInBlocks | None:
        return blocks.line(of, take)

    return BootLines(
        key=key,
        startup_s=line(_startup),
        used_bytes=line(_used),
        pss_bytes=line(_pss),
        cgroup_bytes=line(_cgroup),
        hypervisor_bytes=line(_hypervisor),
    )


# -- platform comparison -----------------------------------------------------------------------------------------------
# The memory that each guest takes from the machine, compared between tools in pairs of blocks. Pure.

OUTCOME_CODES: Final = ("guests_missing", "no_memory", "swapped")
"""Codes of boot trials that needed more than the machine has. The trials left at such a number of guests are a
choice.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryComparison:
    """The difference between the memory taken at one series (``key``) and another (``than``), over the number of
    guests.

    ``line``: None if no block has both. ``absent``: why the comparison allows no conclusion.
    """

    key: SeriesKey
    than: SeriesKey
    line: LineInBlocks | None
    absent: str | None


def compare_memory(records: Iterable[BootRecord]) -> list[MemoryComparison]:
    """Compare every two platforms with the same request, even if no trial of one of them enters."""
    every = sorted(records, key=lambda each: (each.started_at, each.boot_id))
    requested: dict[SeriesKey, dict[int, list[BootRecord]]] = {}
    for key, record in assign_points(newest_trials(every), series_key):
        requested.setdefault(key, {}).setdefault(record.requested.guests, []).append(record)
    entered = {key: {n: valid for n, group in of.items() if (valid := _valid(group))} for key, of in requested.items()}
    blocks, found = Blocks(every), list[MemoryComparison]()
    for key, than in pair_tools(requested):
        none = [each.platform for each in (key, than) if not entered[each]]
        both = entered[key].keys() & entered[than].keys()
        failed = (
            trial for each in (key, than) for n in both for trial in requested[each][n] if trial not in entered[each][n]
        )
        out = find_exclusion_code(OUTCOME_CODES, failed)
        found.append(
            MemoryComparison(
                key=key,
                than=than,
                line=blocks.line_apart(entered[key], entered[than], taken_bytes),
                absent=format_none_valid(none) if none else f"trials left out by {out}" if out else None,
            )
        )
    return found


def _valid(trials: Iterable[BootRecord]) -> list[BootRecord]:
    return [each for each in trials if each.verdict.status == "valid"]


def taken_bytes(record: BootRecord) -> float | None:
    """Return by how much the free memory of the machine decreased.

    The hypervisor's figure is used where it reports one, because Xen's first domain sees only its own memory; otherwise
    that of the UUT's kernel.
    """
    memory = record.memory
    if memory is None:
        return None
    return memory.used_bytes if memory.hypervisor_free_before_bytes is None else memory.hypervisor_bytes
