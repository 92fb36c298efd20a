"""What trials of jobs come to: the time of each design point over its set-ups, what virtualization costs and how that
grows with the number of guests, isolation.

Only valid trials enter, of each the newest. A set-up is one replicate: the mean of its trials (Kalibera and Jones, ISMM
2013). What two points differ by is paired by block (measure/trials_of_guests.py), on the logarithm, as everywhere
(measure/statistics/effects.py); all overheads are one family (Holm). Pure.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from labconsole.measure.statistics.effects import MINIMUM_BLOCKS, Effect, Word, equivalence_p, word
from labconsole.measure.statistics.least_squares import Line, fit_line
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups, set_up_means
from labconsole.measure.trials_of_guests import (
    NOT_DRAWN,
    Blocks,
    adjusted,
    hypervisor,
    newest_trials,
    uut_kernel,
    with_points,
)
from labconsole.model.record.job import JobRecord

BARE_HOST = "raw"
"""The driver of a platform whose guests are processes of the bare host; hosts.yaml may call the platform otherwise."""

TWICE, THRICE = (1.8, 2.2), (2.7, 3.3)
"""Of the time alone: between these bounds a copy took twice, or three times, as long (Quétier et al., 3.1.3)."""

FLAT_RATIO, FLAT_GUESTS = 0.05, 100
"""A job that grows by less than so much of its time alone, over so many guests more, does not grow."""

LEAST_NUMBERS = 3
"""Of guests: through two every line goes."""

Isolation = Literal["between guests", "between processes", "neither", "inconclusive", "too few blocks"]
Growth = Literal[
    "flat",
    "grows",
    "grows faster than linear",
    "falls",
    "inconclusive",
    "too few numbers of guests",
    "all blocks took them in the same order",
]


class PointKey(NamedTuple):
    """A design point, with what every guest of the crew had, on one testbed; and which program, under which kernel and
    hypervisor, of what image: trials of another are trials of another point.
    """

    testbed_fingerprint: str
    platform: str
    job: str
    size: int
    guests: int
    working: str
    cpu: str
    crew: tuple[object, ...] = ()
    program: str = ""
    kernel: str = ""
    hypervisor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointTimes:
    """``seconds``: of a trial, the mean of its copies; of two guests with one and two copies None.

    ``between_guests_sd_s``: mean over trials of the deviation between the guests of one, ``jain``: of Jain's index of
    one over their times; None: one copy. ``slowest``: of a trial its last copy. ``clock_ratio``: least, mean, largest.
    ``left_out``: trials that do not enter, by the code that keeps them out. ``job_ids``: of those that enter.
    ``apart``: of two guests with one and two copies each of the three times; else empty.
    """

    key: PointKey
    seconds: SetUpMean | None
    slowest: SetUpMean | None
    between_guests_sd_s: float | None
    jain: float | None
    clock_ratio: tuple[float, float, float] | None
    left_out: Mapping[str, int]
    job_ids: tuple[str, ...]
    apart: tuple[SetUpMean, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """By how much longer a job takes in one guest of so many than alone on the bare host: relative to that, and in
    seconds. ``adjusted_p``: by Holm over all overheads; ``word``: what that says.
    """

    key: PointKey
    bare: PointKey
    effect: Effect
    added_s: SetUpMean | None
    adjusted_p: float | None
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestsCurve:
    """One platform and job over the number of guests that stand; ``key``: of the fewest.

    ``points``: in the order of their guests. ``alone_s``: on the bare host; None: not measured. ``fit``: a line through
    the set-ups' means, of the slowest copy where all work. ``word``: how it grows, where one works.
    """

    key: PointKey
    points: tuple[PointTimes, ...]
    alone_s: float | None
    fit: Line | None
    word: Growth | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationFound:
    """Of two guests on one CPU, the first with one copy, the second with two: their times relative to one that works
    alone in the same crew, and what that says (``word``).
    """

    key: PointKey
    first: Effect
    second: Effect
    word: Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSummary:
    """Everything that follows from these trials. ``testbeds``: fingerprint to name; ``emulated``: whether any is made
    of software. ``superseded``: trials of which a newer one is stored. ``margin_ratio``: a smaller overhead does not
    matter.
    """

    points: tuple[PointTimes, ...]
    overheads: tuple[Overhead, ...]
    one_works: tuple[GuestsCurve, ...]
    all_work: tuple[GuestsCurve, ...]
    isolation: tuple[IsolationFound, ...]
    testbeds: Mapping[str, str]
    emulated: bool
    superseded: int
    margin_ratio: float | None

    def apart(self, key: PointKey) -> list[str]:
        """What else tells this point from others of the summary that are called the same."""
        keys = [each.key for each in self.points]
        words = []
        if len({each.testbed_fingerprint for each in keys}) > 1:
            words.append(f"on {self.testbeds[key.testbed_fingerprint]}")
        if len({each.program for each in keys if each.job == key.job}) > 1:
            words.append(f"program {key.program}")
        if len({each.kernel for each in keys if each.testbed_fingerprint == key.testbed_fingerprint}) > 1:
            words.append(f"Linux {key.kernel or 'not known'}")
        if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
            words.append(key.hypervisor or "hypervisor not known")
        return words


def summarize_jobs(records: Iterable[JobRecord], family: Sequence[float] = ()) -> JobsSummary:
    """Points in the order of their names; what cannot be compared is left out. ``family``: p values of all that is
    claimed where these are shown; else overheads are a family of their own.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.job_id))
    newest = newest_trials(every)
    by_point: dict[PointKey, list[JobRecord]] = {}
    for key, record in with_points(newest, point_key):
        by_point.setdefault(key, []).append(record)
    entered = {key: [each for each in group if _enters(each)] for key, group in by_point.items()}
    points = {key: _times(key, by_point[key], entered[key]) for key in sorted(by_point)}
    bare, blocks = _Bare(entered), Blocks(every)
    margins = {record.plan.margin_ratio for record in newest}
    margin_ratio = margins.pop() if len(margins) == 1 else None
    return JobsSummary(
        points=tuple(points.values()),
        overheads=_overheads(entered, bare, blocks, margin_ratio, family),
        one_works=_curves(points, entered, bare, blocks, all_work=False),
        all_work=_curves(points, entered, bare, blocks, all_work=True),
        isolation=tuple(_isolations(entered, blocks)),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        emulated=any(each.emulated for each in newest),
        superseded=len(every) - len(newest),
        margin_ratio=margin_ratio,
    )


def point_key(record: JobRecord) -> PointKey:
    """Which point a trial is of."""
    asked = record.requested
    crew = (asked.cpu_shares, asked.cpu_quota_ratio, None if is_bare(record) else asked.memory_mib)
    return PointKey(
        testbed_fingerprint=record.testbed_fingerprint,
        platform=asked.platform,
        job=asked.job,
        size=asked.size,
        guests=asked.guests,
        working="one" if asked.guests == 1 else asked.working,
        cpu=asked.cpu,
        crew=crew if any(each is not None for each in crew) else (),
        program="+".join(
            each[:12] for used in (record.program, record.client) if used is not None for each in used.sha256
        ),
        kernel=uut_kernel(record),
        hypervisor=hypervisor(record),
    )


def is_bare(record: JobRecord) -> bool:
    """Whether its guests were processes of the bare host."""
    return record.attestation.get("driver") == BARE_HOST


def _enters(record: JobRecord) -> bool:
    return record.verdict.status == "valid" and bool(record.copies) and None not in {
        copy.seconds for copy in record.copies
    }  # fmt: skip


def _seconds(record: JobRecord) -> list[float]:
    return [copy.seconds for copy in record.copies if copy.seconds is not None]


def _mean(record: JobRecord) -> float:
    return statistics.fmean(_seconds(record))


def _by_set_up(records: Sequence[JobRecord], value: Callable[[list[float]], float]) -> list[float]:
    """Of each set-up the mean of its trials, of each of which ``value`` is taken."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record.set_up.id, []).append(value(_seconds(record)))
    return list(set_up_means(found).values())


def _times(key: PointKey, every: Sequence[JobRecord], entered: Sequence[JobRecord]) -> PointTimes:
    means: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    several = [seconds for record in entered if len(seconds := _seconds(record)) > 1]
    for record in entered:
        means.setdefault(record.set_up.id, []).append(statistics.fmean(_seconds(record)))
        slowest.setdefault(record.set_up.id, []).append(max(_seconds(record)))
    ratios = [copy.clock_ratio for record in entered for copy in record.copies if copy.clock_ratio is not None]
    uneven = key.working == "one-two"  # its copies are not of one kind
    jains = (
        [] if uneven else [jain for times in several if (jain := jain_index(1 / each for each in times)) is not None]
    )
    left_out = Counter(_why_not(each) for each in every if not _enters(each))
    return PointTimes(
        key=key,
        seconds=mean_over_set_ups(means) if means and not uneven else None,
        slowest=mean_over_set_ups(slowest) if slowest and not uneven else None,
        between_guests_sd_s=None if uneven or not several else statistics.fmean(map(statistics.stdev, several)),
        jain=statistics.fmean(jains) if jains else None,
        clock_ratio=(min(ratios), statistics.fmean(ratios), max(ratios)) if ratios else None,
        left_out=dict(left_out),
        job_ids=tuple(each.job_id for each in entered),
        apart=tuple(_apart(entered)) if uneven and entered else (),
    )


def _apart(entered: Sequence[JobRecord]) -> Iterator[SetUpMean]:
    for place in range(3):  # the first guest's, both of the second
        of_set_ups: dict[str, list[float]] = {}
        for record in entered:
            of_set_ups.setdefault(record.set_up.id, []).append(_seconds(record)[place])
        yield mean_over_set_ups(of_set_ups)


def _why_not(record: JobRecord) -> str:
    return record.verdict.reasons[0].code if record.verdict.reasons else "no time"


class _Bare:
    """The bare host's trials with one process, to compare with."""

    def __init__(self, entered: Mapping[PointKey, Sequence[JobRecord]]) -> None:
        self.platforms = sorted({key.platform for key, group in entered.items() if any(map(is_bare, group))})
        self._entered = entered

    def of(self, key: PointKey) -> PointKey | None:
        """The same job alone there, by the same program under the same kernel."""
        for name in self.platforms:
            wanted = key._replace(platform=name, guests=1, working="one", crew=(), hypervisor="")
            for each, group in self._entered.items():
                if group and each._replace(hypervisor="") == wanted:
                    return each
        return None


def _overheads(
    entered: Mapping[PointKey, Sequence[JobRecord]], bare: _Bare, blocks: Blocks[JobRecord], margin_ratio: float | None,
    family: Sequence[float],
) -> tuple[Overhead, ...]:  # fmt: skip
    found: list[tuple[PointKey, PointKey, Effect, SetUpMean | None]] = []
    for key in sorted(entered):
        base = bare.of(key)
        if key.working != "one" or not entered[key] or base is None or base == key:
            continue
        ours, theirs = (blocks.means(entered[each], _mean) for each in (key, base))
        added = {block: [value - theirs[block]] for block, value in ours.items() if block in theirs}
        effect = blocks.effect(entered[key], entered[base], _mean)
        told = len(added) > 1 and effect.absent != NOT_DRAWN
        found.append((key, base, effect, mean_over_set_ups(added) if told else None))
    adjusted_p = adjusted([effect.p for _, _, effect, _ in found], family)
    same = [None if margin_ratio is None else equivalence_p(effect, margin_ratio) for _, _, effect, _ in found]
    equivalent = adjusted(same)
    return tuple(
        Overhead(key=key, bare=base, effect=effect, added_s=added, adjusted_p=p, word=word(p, equal))
        for (key, base, effect, added), p, equal in zip(found, adjusted_p, equivalent, strict=True)
    )


def _curves(
    points: Mapping[PointKey, PointTimes],
    entered: Mapping[PointKey, Sequence[JobRecord]],
    bare: _Bare,
    blocks: Blocks[JobRecord],
    *,
    all_work: bool,
) -> tuple[GuestsCurve, ...]:
    """Of each platform and job that was measured with several numbers of guests."""
    groups: dict[PointKey, list[PointKey]] = {}
    for key in points:
        if entered[key] and (key.working == ("all" if all_work else "one") or key.guests == 1):
            groups.setdefault(key._replace(guests=0, working=""), []).append(key)
    found = []
    for keys in groups.values():
        ordered = sorted(keys, key=lambda each: each.guests)
        if len(ordered) < 2:
            continue
        values: list[tuple[float, float]] = []
        for key in ordered:
            of_set_ups = _by_set_up(entered[key], max if all_work else statistics.fmean)
            values += [(float(key.guests), value) for value in of_set_ups]
        base = bare.of(ordered[0])
        alone = points[base].seconds if base is not None else None
        first = points[ordered[0]].seconds
        alone_s = None if alone is None else alone.mean
        fit = fit_line(values) if len({x for x, _ in values}) >= LEAST_NUMBERS else None
        unit_s = alone_s if alone_s is not None else None if first is None else first.mean
        drawn = all(blocks.drawn(entered[one], entered[other]) for one, other in pairwise(ordered))
        found.append(
            GuestsCurve(
                key=ordered[0],
                points=tuple(points[key] for key in ordered),
                alone_s=alone_s,
                fit=fit,
                word=None if all_work else growth(fit, unit_s) if drawn else NOT_DRAWN,
            )
        )
    return tuple(found)


def growth(fit: Line | None, alone_s: float | None) -> Growth:
    """How the time of one guest's job goes with the number of guests that stand beside it: by intervals."""
    if fit is None or fit.slope_low is None or fit.slope_high is None or not alone_s:
        return "too few numbers of guests"
    allowed = FLAT_RATIO * alone_s / FLAT_GUESTS
    if -allowed <= fit.slope_low and fit.slope_high <= allowed:
        return "flat"
    if fit.slope_high < 0:
        return "falls"
    if fit.slope_low <= 0:
        return "inconclusive"
    return "grows faster than linear" if fit.bend_low is not None and fit.bend_low > 0 else "grows"


def _isolations(entered: Mapping[PointKey, Sequence[JobRecord]], blocks: Blocks[JobRecord]) -> Iterable[IsolationFound]:
    for key in sorted(entered):
        alone = key._replace(working="one")
        # Who shares no processor with the others is kept apart from them by having one of its own.
        if key.working == "one-two" and key.cpu == "same" and entered[key] and entered.get(alone):
            yield _isolation(key, entered[key], entered[alone], blocks)


def _isolation(
    key: PointKey, records: Sequence[JobRecord], of_one: Sequence[JobRecord], blocks: Blocks[JobRecord]
) -> IsolationFound:
    """In one crew, and so in one set-up: its trials take turns."""

    def of_crew(record: JobRecord) -> str:
        return record.set_up.id

    def times(copies: Callable[[list[float]], float]) -> Effect:
        return blocks.effect(
            records, of_one, lambda each: copies(_seconds(each)), lambda each: _mean(each), within=of_crew
        )

    one, two = times(lambda seconds: seconds[0]), times(lambda seconds: statistics.fmean(seconds[1:]))
    return IsolationFound(key=key, first=one, second=two, word=_isolation_word(one, two))


def _isolation_word(first: Effect, second: Effect) -> Isolation:
    """By intervals that lie inside the bounds, or wholly outside, and by nothing less."""
    if first.ci_low is None or second.ci_low is None:
        return "too few blocks" if min(first.blocks, second.blocks) < MINIMUM_BLOCKS else "inconclusive"
    if _inside(first, TWICE) and _inside(second, THRICE):
        return "between guests"
    if _inside(first, THRICE) and _inside(second, THRICE):
        return "between processes"
    neither = _outside(second, THRICE) or (_outside(first, TWICE) and _outside(first, THRICE))
    return "neither" if neither else "inconclusive"


def _inside(effect: Effect, bounds: tuple[float, float]) -> bool:
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    return bounds[0] <= 1 + effect.ci_low and 1 + effect.ci_high <= bounds[1]


def _outside(effect: Effect, bounds: tuple[float, float]) -> bool:
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    return 1 + effect.ci_high < bounds[0] or bounds[1] < 1 + effect.ci_low
