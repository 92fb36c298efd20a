"""Summary of trials of jobs: times per design point, the cost of virtualization, its growth with the guests, isolation.

Only valid trials enter, with the newest record of each. A set-up is one replicate: the mean of its trials (Kalibera and
Jones, ISMM 2013). Differences between points are paired by block (measure/paired_blocks.py), on the logarithm, as
everywhere (measure/statistics/effects.py). All overheads form one family (Holm). Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from labconsole.contracts.measured import FROM_MEMORY, HELD
from labconsole.experiments.job.limiting_resource import is_link_limited, is_possibly_cached
from labconsole.experiments.job.points import (
    PointKey,
    PointTimes,
    bare_platforms,
    build_point_times,
    enters,
    mean_of,
    point_key,
    slowest_of,
    split_times_by_guest,
)
from labconsole.experiments.job.record import JobRecord
from labconsole.measure.paired_blocks import (
    NOT_RANDOMIZED,
    Blocks,
    adjusted,
    assign_points,
    disambiguate_hypervisor,
    find_exclusion_code,
    find_outer_hypervisor,
    newest_trials,
    sort_key,
)
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, Effect, Word, equivalence_p, word
from labconsole.measure.statistics.regression import FEW_BLOCKS, Absent, LineInBlocks
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.jobs import JOBS

TWICE, THRICE = (1.8, 2.2), (2.7, 3.3)
"""Between these multiples of the time alone, a copy took twice or three times as long (Quétier et al., 3.1.3)."""

OUTCOME_CODES: Final = ("job_failed", "job_short", "guests_missing", "no_memory", "swapped")
"""Codes of trials that took too long, or too short a time, or needed more than the guests' machine has."""

FLAT_RATIO, FLAT_GUESTS = 0.05, 100
"""A job is flat if its time grows by less than this share of its time alone over this many more guests."""

GROWN = ("grows", "grows faster than linear")

Isolation = Literal[
    "between guests", "between processes", "neither", "inconclusive", "too few blocks", "read from memory"
]
NotDecided = Literal["held by the link", "read from memory"]
"""Why known times say nothing of what runs the guests."""

LeftOut = Literal["trials left out by outcome"]
LEFT_OUT: Final[LeftOut] = "trials left out by outcome"
"""Trials were excluded by one of the OUTCOME_CODES. The rest is a choice, of which nothing is claimed."""

Growth = Literal["flat", "grows", "grows faster than linear", "falls", "inconclusive"] | Absent | NotDecided | LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """The increase of a job's time in one of several guests over its time alone on the bare host, relative and in
    seconds.

    ``adjusted_p``: by Holm over all overheads. ``word``: the conclusion. If the times say nothing of what runs the
    guests, there is no p, and ``word`` says why.
    """

    key: PointKey
    bare: PointKey
    effect: Effect
    added_s: SetUpMean | None
    adjusted_p: float | None
    word: Word | NotDecided


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestsCurve:
    """One platform and job over the number of running guests. ``key``: that of the fewest.

    ``points``: in the order of their guests. ``alone_s``: on the bare host, or None if not measured. ``fit``: a line
    from the slopes within blocks, of the slowest copy where all guests work, or None if no block is complete. ``word``:
    the growth, where one guest works. Where all work, it says why the line has no intervals or says nothing, or is
    None.
    """

    key: PointKey
    points: tuple[PointTimes, ...]
    alone_s: float | None
    fit: LineInBlocks | None
    word: Growth | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationResult:
    """The isolation of two guests on one CPU, the first with one copy, the second with two.

    ``first``, ``second``: their times relative to one guest that works alone in the same crew. ``word``: the
    conclusion. ``held``: whether a link that all of them share was full. ``left_out``: whether trials were excluded by
    their outcome.
    """

    key: PointKey
    first: Effect
    second: Effect
    word: Isolation
    held: bool
    left_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSummary:
    """The results of a set of trials.

    ``testbeds``: fingerprint to name. ``emulated``: whether any testbed is emulated. ``superseded``: the number of
    trials that have a newer record. ``margin_ratio``: the largest overhead that does not matter. ``bare_platforms``:
    platforms whose guests are processes of the bare host.
    """

    points: tuple[PointTimes, ...]
    overheads: tuple[Overhead, ...]
    one_works: tuple[GuestsCurve, ...]
    all_work: tuple[GuestsCurve, ...]
    isolation: tuple[IsolationResult, ...]
    testbeds: Mapping[str, str]
    emulated: bool
    superseded: int
    margin_ratio: float | None
    bare_platforms: tuple[str, ...]

    def apart(self, key: PointKey) -> list[str]:
        """Describe what distinguishes this point from others with the same name in the summary."""
        keys = [each.key for each in self.points]
        parts = []
        if len({each.testbed_fingerprint for each in keys}) > 1:
            parts.append(f"on {self.testbeds[key.testbed_fingerprint]}")
        if len({each.program for each in keys if each.job == key.job and each.program}) > 1 and key.program:
            parts.append(f"program {key.program}")
        if len({each.kernel for each in keys if each.testbed_fingerprint == key.testbed_fingerprint}) > 1:
            parts.append(f"Linux {key.kernel or 'not known'}")
        return parts + disambiguate_hypervisor(key, keys)


def summarize_jobs(records: Iterable[JobRecord], family: Sequence[float] = ()) -> JobsSummary:
    """Summarize points in the order of their names, without what cannot be compared.

    ``family``: p values of all claims in the place where these are shown. Without it, overheads are a family of their
    own.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.job_id))
    newest = newest_trials(every)
    by_point = trials_of_points(every, newest)
    entered = {key: [each for each in group if enters(each)] for key, group in by_point.items()}
    points = {key: build_point_times(key, by_point[key], entered[key]) for key in sorted(by_point, key=sort_key)}
    bare, blocks = _Bare(entered), Blocks(every)
    margins = {record.plan.margin_ratio for record in newest}
    margin_ratio = margins.pop() if len(margins) == 1 else None
    return JobsSummary(
        points=tuple(points.values()),
        overheads=_overheads(entered, bare, blocks, margin_ratio, family),
        one_works=_curves(points, entered, bare, blocks, by_point, all_work=False),
        all_work=_curves(points, entered, bare, blocks, by_point, all_work=True),
        isolation=tuple(_isolations(entered, blocks, by_point)),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        emulated=any(each.emulated for each in newest),
        superseded=len(every) - len(newest),
        margin_ratio=margin_ratio,
        bare_platforms=tuple(bare.platforms),
    )


def trials_of_points(every: Sequence[JobRecord], newest: Iterable[JobRecord]) -> dict[PointKey, list[JobRecord]]:
    """Return the newest trials by point. ``every``: all trials, which identify the bare host's platforms."""
    found: dict[PointKey, list[JobRecord]] = {}
    key_of = partial(point_key, bare=bare_platforms(every))
    for key, record in assign_points(newest, key_of, ("hypervisor", "program")):
        found.setdefault(key, []).append(record)
    return found


class _Bare:
    """The bare host's trials with one process, for comparison."""

    def __init__(self, entered: Mapping[PointKey, Sequence[JobRecord]]) -> None:
        self.platforms = sorted({key.platform for key, group in entered.items() if bare_platforms(group)})
        self._entered = entered

    def of(self, key: PointKey) -> PointKey | None:
        """Return the point of the same job alone on the bare host, by the same program under the same kernel and
        hypervisor.

        The hypervisor is the one around the guests' kernel. In the first domain of Xen, for example, containers have
        the same one as the bare host, and Xen's guests do not.
        """
        for name in self.platforms:
            wanted = key._replace(platform=name, guests=1, working="one", crew=(), hypervisor="")
            for each, group in self._entered.items():
                if (
                    group
                    and each._replace(hypervisor="") == wanted
                    and find_outer_hypervisor(each) == find_outer_hypervisor(key)
                ):
                    return each
        return None


def _overheads(
    entered: Mapping[PointKey, Sequence[JobRecord]],
    bare: _Bare,
    blocks: Blocks[JobRecord],
    margin_ratio: float | None,
    family: Sequence[float],
) -> tuple[Overhead, ...]:
    found: list[tuple[PointKey, PointKey, Effect, SetUpMean | None, NotDecided | None]] = []
    for key in sorted(entered, key=sort_key):
        base = bare.of(key)
        if key.working != "one" or not entered[key] or base is None or key.platform in bare.platforms:
            continue
        ours, theirs = (blocks.means(entered[each], mean_of) for each in (key, base))
        added = {block: [value - theirs[block]] for block, value in ours.items() if block in theirs}
        effect = blocks.effect(entered[key], entered[base], mean_of)
        has_interval = len(added) > 1 and effect.absent != NOT_RANDOMIZED
        why = not_decided(entered[key], entered[base])
        effect = effect if why is None else replace(effect, p=None)
        found.append((key, base, effect, mean_over_set_ups(added) if has_interval else None, why))
    adjusted_p = adjusted([effect.p for _, _, effect, _, _ in found], family)
    # Equivalence stays unknown if one of the two is limited by its link: it could have been faster.
    same = [
        None
        if margin_ratio is None or why is not None or is_link_limited(entered[base]) or is_link_limited(entered[key])
        else equivalence_p(effect, margin_ratio)
        for key, base, effect, _, why in found
    ]
    equivalent = adjusted(same)
    return tuple(
        Overhead(key=key, bare=base, effect=effect, added_s=added, adjusted_p=p, word=why or word(p, equal))
        for (key, base, effect, added, why), p, equal in zip(found, adjusted_p, equivalent, strict=True)
    )


def not_decided(ours: Sequence[JobRecord], theirs: Sequence[JobRecord]) -> NotDecided | None:
    """Return why the times of two points say nothing of the cost of either, or None if they do."""
    if _cached_unlike(ours, theirs):
        return FROM_MEMORY
    return HELD if is_link_limited(ours) and is_link_limited(theirs) else None


def _cached_unlike(*points: Sequence[JobRecord]) -> bool:
    """Return whether memory answered for a disk or, for served files, in some trials but not in others."""
    cached = {is_possibly_cached(record) for point in points for record in point}
    job = JOBS.get(points[0][0].requested.job)
    return True in cached and (False in cached or (job is not None and job.resource == "disk"))


def find_outcome_exclusion(trials: Iterable[JobRecord]) -> str | None:
    """Return the code by which trials are excluded for their outcome, so that the included ones are a choice, or
    None.
    """
    return find_exclusion_code(OUTCOME_CODES, (record for record in trials if not enters(record)))


def _curves(
    points: Mapping[PointKey, PointTimes],
    entered: Mapping[PointKey, Sequence[JobRecord]],
    bare: _Bare,
    blocks: Blocks[JobRecord],
    by_point: Mapping[PointKey, Sequence[JobRecord]],
    *,
    all_work: bool,
) -> tuple[GuestsCurve, ...]:
    """Return the curve of each platform and job that was measured with several numbers of guests."""
    groups: dict[PointKey, list[PointKey]] = {}
    for key in points:
        if key.working == ("all" if all_work else "one") or key.guests == 1:
            groups.setdefault(key._replace(guests=0, working=""), []).append(key)
    found = []
    for keys in groups.values():
        ordered = sorted((key for key in keys if entered[key]), key=lambda each: each.guests)
        if len(ordered) < 2:
            continue
        base = bare.of(ordered[0])
        alone = points[base].seconds if base is not None else None
        first = points[ordered[0]].seconds
        alone_s = None if alone is None else alone.mean
        fit = blocks.line({key.guests: entered[key] for key in ordered}, slowest_of if all_work else mean_of)
        unit_s = alone_s if alone_s is not None else None if first is None else first.mean
        absent = FEW_BLOCKS if fit is None else fit.absent
        grown: Growth | None = absent if all_work or absent or fit is None else growth(fit, unit_s)
        if any(find_outcome_exclusion(by_point[key]) for key in keys):
            grown = LEFT_OUT
        # No growth is no finding where the link sets the time, but growth in spite of the link is.
        link_limited = absent is None and any(is_link_limited(entered[key]) for key in ordered)
        cached = absent is None and _cached_unlike(*(entered[key] for key in ordered))
        found.append(
            GuestsCurve(
                key=ordered[0],
                points=tuple(points[key] for key in ordered),
                alone_s=alone_s,
                fit=fit,
                word=FROM_MEMORY if cached else HELD if link_limited and grown not in GROWN else grown,
            )
        )
    return tuple(found)


def growth(fit: LineInBlocks, alone_s: float | None) -> Growth:
    """Return how the time of one guest's job depends on the number of other running guests, by intervals."""
    low, high = fit.slope.low, fit.slope.high
    if low is None or high is None or not alone_s:
        return fit.absent or "inconclusive"
    allowed = FLAT_RATIO * alone_s / FLAT_GUESTS
    if -allowed <= low and high <= allowed:
        return "flat"
    if high < 0:
        return "falls"
    if low <= 0:
        return "inconclusive"
    bend = None if fit.bend is None else fit.bend.low
    return "grows faster than linear" if bend is not None and bend > 0 else "grows"


def _isolations(
    entered: Mapping[PointKey, Sequence[JobRecord]],
    blocks: Blocks[JobRecord],
    by_point: Mapping[PointKey, Sequence[JobRecord]],
) -> Iterable[IsolationResult]:
    for key in sorted(entered, key=sort_key):
        alone = key._replace(working="one")
        # Guests without a shared processor are isolated by having their own.
        if key.working == "one-two" and key.cpu == "same" and entered[key] and entered.get(alone):
            found = _isolation(key, entered[key], entered[alone], blocks)
            out = any(find_outcome_exclusion(by_point[each]) for each in (key, alone))
            yield replace(found, left_out=out)


def _isolation(
    key: PointKey, records: Sequence[JobRecord], of_one: Sequence[JobRecord], blocks: Blocks[JobRecord]
) -> IsolationResult:
    """Compare in one crew, and so in one set-up, whose trials take turns."""

    def of_crew(record: JobRecord) -> str:
        return record.set_up_id

    def times(guest: int) -> Effect:
        return blocks.effect(
            records, of_one, lambda each: statistics.fmean(split_times_by_guest(each)[guest]), mean_of, within=of_crew
        )

    one, two = times(0), times(1)
    word = FROM_MEMORY if _cached_unlike(records, of_one) else _isolation_word(one, two)
    return IsolationResult(key=key, first=one, second=two, word=word, held=is_link_limited(records), left_out=False)


def _isolation_word(first: Effect, second: Effect) -> Isolation:
    """Return the conclusion, only from intervals that lie inside the bounds or wholly outside."""
    if first.ci_low is None or second.ci_low is None:
        return "too few blocks" if min(first.blocks, second.blocks) < MINIMUM_BLOCKS else "inconclusive"
    if _is_within(first, TWICE) and _is_within(second, THRICE):
        return "between guests"
    if _is_within(first, THRICE) and _is_within(second, THRICE):
        return "between processes"
    neither = _is_outside(second, THRICE) or (_is_outside(first, TWICE) and _is_outside(first, THRICE))
    return "neither" if neither else "inconclusive"


def _is_within(effect: Effect, bounds: tuple[float, float]) -> bool:
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    return bounds[0] <= 1 + effect.ci_low and 1 + effect.ci_high <= bounds[1]


def _is_outside(effect: Effect, bounds: tuple[float, float]) -> bool:
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    return 1 + effect.ci_high < bounds[0] or bounds[1] < 1 + effect.ci_low
