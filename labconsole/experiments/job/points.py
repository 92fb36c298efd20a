"""Trials of jobs as design points: the points, their included trials, and their times. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labconsole.experiments.job.plan import COPIES_OF_ONE_TWO
from labconsole.experiments.job.record import JobRecord
from labconsole.measure.paired_blocks import BARE_HOST, build_point_key
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups


class PointKey(NamedTuple):
    """A design point on one testbed, with the limits of every guest and the program.

    Trials under another kernel, hypervisor or image are trials of another point.
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
    """The times of one point.

    ``seconds``: the mean over a trial's copies, or None for two guests with one and two copies. ``slowest``: a trial's
    last copy. ``between_guests_sd_s``: the mean over trials of the deviation between a trial's guests, ``jain``: that
    of Jain's index over their times, each None with one copy. ``clock_ratio``: least, mean, largest. ``left_out``: the
    number of excluded trials by reason code. ``job_ids``: the included trials. ``apart``: the three times of two guests
    with one and two copies, the first guest's first, else empty.
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

    @property
    def times_by_guest(self) -> tuple[tuple[SetUpMean, ...], tuple[SetUpMean, ...]]:
        """The times of the first guest's copies and of the second's, for two guests with one and two copies."""
        return self.apart[: COPIES_OF_ONE_TWO[0]], self.apart[COPIES_OF_ONE_TWO[0] :]


def point_key(record: JobRecord, bare: Collection[tuple[str, str]]) -> PointKey:
    """Return the point of a trial. ``bare``: the platforms of the bare host, see bare_platforms()."""
    requested = record.requested
    crew = (requested.cpu_shares, requested.cpu_quota_ratio, None if is_bare(record, bare) else requested.memory_mib)
    programs = [used for used in (record.program, record.client) if used is not None]
    return build_point_key(
        PointKey,
        record,
        working="one" if requested.guests == 1 else requested.working,
        crew=crew if any(each is not None for each in crew) else (),
        program="+".join(each[:12] for used in programs for each in used.sha256),
    )


def bare_platforms(records: Iterable[JobRecord]) -> frozenset[tuple[str, str]]:
    """Return (testbed fingerprint, platform) of the platforms whose guests are processes of the bare host."""
    return frozenset(
        (each.testbed_fingerprint, each.requested.platform)
        for each in records
        if each.attestation.get("driver") == BARE_HOST
    )


def is_bare(record: JobRecord, bare: Collection[tuple[str, str]]) -> bool:
    """Return whether its guests are processes of the bare host.

    A trial that ended before its guests were read counts like the others of its platform.
    """
    driver = record.attestation.get("driver")
    if driver is None:
        return (record.testbed_fingerprint, record.requested.platform) in bare
    return bool(driver == BARE_HOST)


def enters(record: JobRecord) -> bool:
    if record.verdict.status != "valid" or not record.copies or None in {copy.seconds for copy in record.copies}:
        return False
    return not uneven(record) or len(record.copies) == sum(COPIES_OF_ONE_TWO)


def uneven(record: JobRecord) -> bool:
    """Return whether its copies differ in kind: one guest had one copy, another two."""
    return record.requested.working == "one-two" and record.requested.guests > 1


def split_times_by_guest(record: JobRecord) -> tuple[list[float], list[float]]:
    """Return the known times of the first guest's copies and of the second's, where they are uneven."""
    first, copies = COPIES_OF_ONE_TWO[0], record.copies
    one, two = ([each.seconds for each in of if each.seconds is not None] for of in (copies[:first], copies[first:]))
    return one, two


def seconds_of(record: JobRecord) -> list[float]:
    return [copy.seconds for copy in record.copies if copy.seconds is not None]


def mean_of(record: JobRecord) -> float:
    return statistics.fmean(seconds_of(record))


def slowest_of(record: JobRecord) -> float:
    return max(seconds_of(record))


def build_point_times(key: PointKey, every: Sequence[JobRecord], entered: Sequence[JobRecord]) -> PointTimes:
    means: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    several = [seconds for record in entered if len(seconds := seconds_of(record)) > 1]
    for record in entered:
        means.setdefault(record.set_up_id, []).append(statistics.fmean(seconds_of(record)))
        slowest.setdefault(record.set_up_id, []).append(max(seconds_of(record)))
    ratios = [copy.clock_ratio for record in entered for copy in record.copies if copy.clock_ratio is not None]
    apart = key.working == "one-two"
    jains = [] if apart else [jain for times in several if (jain := jain_index(1 / each for each in times)) is not None]
    left_out = Counter(_why_not(each) for each in every if not enters(each))
    return PointTimes(
        key=key,
        seconds=mean_over_set_ups(means) if means and not apart else None,
        slowest=mean_over_set_ups(slowest) if slowest and not apart else None,
        between_guests_sd_s=None if apart or not several else statistics.fmean(map(statistics.stdev, several)),
        jain=statistics.fmean(jains) if jains else None,
        clock_ratio=(min(ratios), statistics.fmean(ratios), max(ratios)) if ratios else None,
        left_out=dict(left_out),
        job_ids=tuple(each.job_id for each in entered),
        apart=tuple(_apart(entered)) if apart and entered else (),
    )


def _apart(entered: Sequence[JobRecord]) -> Iterator[SetUpMean]:
    for place in range(sum(COPIES_OF_ONE_TWO)):
        of_set_ups: dict[str, list[float]] = {}
        for record in entered:
            of_set_ups.setdefault(record.set_up_id, []).append(seconds_of(record)[place])
        yield mean_over_set_ups(of_set_ups)


def _why_not(record: JobRecord) -> str:
    return record.verdict.reasons[0].code if record.verdict.reasons else "no time"
