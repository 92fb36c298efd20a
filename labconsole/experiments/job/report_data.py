"""What the report's units of jobs share: the summary of a report's trials, marks, words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from labconsole.contracts.report import Mark
from labconsole.experiments.job.points import PointKey, PointTimes
from labconsole.experiments.job.summary import JobsSummary, summarize_jobs
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.jobs import JOBS
from labconsole.model.record.job import JobRecord
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_mark
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.points import platform_order

_last: list[tuple[Sequence[ExperimentRecord], Sequence[float], JobsSummary]] = []
"""Of the last report: its records and its family of claims, which are the same for all of its units, and their
summary."""

RESOURCES = ("cpu", "memory", "disk", "network")
"""In the order of both papers' figures."""

CLOCK = "Seconds by the clock outside, less what a job takes that does nothing"


def build_summary(material: Material) -> JobsSummary:
    """Reckoned once for all units of a report."""
    return summarize_last(material.of("job"), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of what a guest adds."""
    return [
        each.effect.p for each in summarize_last(experiments.get("job", ()), ()).overheads if each.effect.p is not None
    ]


def summarize_last(records: Sequence[ExperimentRecord], family: Sequence[float]) -> JobsSummary:
    """Of these records, reckoned once while they are the same and their family is."""
    if not _last or _last[0][0] is not records or _last[0][1] != family:
        jobs = (record for record in records if isinstance(record, JobRecord))
        _last[:] = [(records, family, summarize_jobs(jobs, family))]
    return _last[0][2]


def resource_of(key: PointKey) -> str:
    """What its job uses; "none" of one that is not known here."""
    job = JOBS.get(key.job)
    return "none" if job is None else job.resource


def format_job(key: PointKey) -> str:
    """``cpu-sqrt2 (2000 digits)``."""
    job = JOBS.get(key.job)
    return f"{key.job} ({key.size})" if job is None else job.words(key.size)


MEMORY = 2  # its place among what a crew is held to


def format_panel_title(summary: JobsSummary, key: PointKey, *, guests: bool = False) -> str:
    """Of a panel, in which every platform occurs once.

    Memory is left out where all guests that have this job have as much: the bare host, whose processes are held to
    none, stands beside.
    """
    job = (key.job, key.size)
    had = {(each.key.platform, memory_of(each.key)) for each in summary.points if (each.key.job, each.key.size) == job}
    alike = len(had) == len({name for name, _ in had}) and len({size for _, size in had} - {None}) <= 1
    return f"{format_job(key)}, {describe_settings(summary, key, guests=guests, memory=not alike)}"


def memory_of(key: PointKey) -> object:
    """MiB of each guest; None when it was not set."""
    return key.crew[MEMORY] if len(key.crew) > MEMORY else None


def format_cpu_limits(key: PointKey) -> list[str]:
    """What of the processors the guests are held to: ``weights 2048:1024``, ``quota 0.5``."""
    shares, quota_ratio = key.crew[:MEMORY] if key.crew else (None, None)
    weights = [f"weights {':'.join(map(str, shares))}"] if isinstance(shares, tuple) else []
    return weights if quota_ratio is None else [*weights, f"quota {quota_ratio}"]


def describe_settings(summary: JobsSummary, key: PointKey, *, guests: bool = False, memory: bool = True) -> str:
    """What else tells a point from others: what was asked, and what it was asked of."""
    return ", ".join([describe_request(key, guests=guests, memory=memory), *summary.apart(key)])


def describe_request(key: PointKey, *, guests: bool = False, memory: bool = True) -> str:
    """Where guests run, what they are held to, how many there are."""
    where = {"same": "one CPU for all", "own": "a CPU for each", "any": "any CPU"}[key.cpu]
    words = format_cpu_limits(key)
    if memory and memory_of(key) is not None:
        words.append(f"{memory_of(key)} MiB each")
    many = [f"{key.guests} guest{'s' if key.guests > 1 else ''}"] if guests else []
    return ", ".join([*many, where, *words])


def sort_platforms(keys: Iterable[PointKey]) -> list[str]:
    """In the same order in every figure."""
    return sorted({key.platform for key in keys}, key=platform_order)


def seconds_mark(x: float, found: SetUpMean, job_ids: Sequence[str] = ()) -> Mark:
    """A time at ``x``."""
    return build_mark(x, found, scale=1.0)


def format_seconds(found: SetUpMean | None) -> str:
    """``3.214 ± 0.020``."""
    if found is None:
        return UNKNOWN
    known = found.half_width is not None and found.scope == "set-ups"  # of one set-up it would speak for no other
    half = f" ± {format_number(found.half_width, 3)}" if known else ""
    return f"{format_number(found.mean, 3)}{half}"


def format_copies(point: PointTimes) -> str:
    """The mean over the copies; where a guest had one and another two, each by itself."""
    if not point.apart:
        return format_seconds(point.seconds)
    first, second = (" and ".join(map(format_seconds, of)) for of in point.times_by_guest)
    return f"first guest {first}; second guest {second}"


def select_timed(points: Iterable[PointTimes]) -> list[PointTimes]:
    """Those of which there is a mean."""
    return [each for each in points if each.seconds is not None]
