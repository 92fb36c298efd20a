"""Shared data of the report units on jobs: summary, marks, text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from labconsole.contracts.report import Mark
from labconsole.experiments.job.points import PointKey, PointTimes
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import JobsSummary, summarize_jobs
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.jobs import JOBS
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_mark
from labconsole.report.formatting import format_mean
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.table_builder import Item, TableColumn, column, csv_column, join_columns, printed_column

_last: list[tuple[Sequence[ExperimentRecord], Sequence[float], JobsSummary]] = []
"""The last report's records, family of claims and summary. All units of a report share the same three."""

RESOURCES = ("cpu", "memory", "disk", "network")
"""The resources in the order of both papers' figures."""

CLOCK = "Seconds by the clock outside, less what a job takes that does nothing"


def build_summary(material: Material) -> JobsSummary:
    """Summarize the report's trials, once for all its units."""
    return summarize_last(material.of("job"), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """Return the p values of the overheads of guests."""
    return [
        each.effect.p for each in summarize_last(experiments.get("job", ()), ()).overheads if each.effect.p is not None
    ]


def summarize_last(records: Sequence[ExperimentRecord], family: Sequence[float]) -> JobsSummary:
    """Summarize these records, or return the last summary if records and family are the same."""
    if not _last or _last[0][0] is not records or _last[0][1] != family:
        jobs = (record for record in records if isinstance(record, JobRecord))
        _last[:] = [(records, family, summarize_jobs(jobs, family))]
    return _last[0][2]


def resource_of(key: PointKey) -> str:
    """Return the resource that its job uses, or "none" for an unknown job."""
    job = JOBS.get(key.job)
    return "none" if job is None else job.resource


def format_job(key: PointKey) -> str:
    """Format as ``cpu-sqrt2 (2000 digits)``."""
    job = JOBS.get(key.job)
    return f"{key.job} ({key.size})" if job is None else job.words(key.size)


MEMORY = 2  # the index of memory in ``PointKey.crew``


def format_panel_title(summary: JobsSummary, key: PointKey, *, guests: bool = False) -> str:
    """Format the title of a panel in which every platform occurs once.

    Memory is left out if all guests with this job have the same amount, because the bare host's processes, which have
    no limit, are in the panel, too.
    """
    job = (key.job, key.size)
    had = {(each.key.platform, memory_of(each.key)) for each in summary.points if (each.key.job, each.key.size) == job}
    alike = len(had) == len({name for name, _ in had}) and len({size for _, size in had} - {None}) <= 1
    return f"{format_job(key)}, {describe_settings(summary, key, guests=guests, memory=not alike)}"


def memory_of(key: PointKey) -> object:
    """Return the MiB of each guest, or None if it was not set."""
    return key.crew[MEMORY] if len(key.crew) > MEMORY else None


def format_cpu_limits(key: PointKey) -> list[str]:
    """Format the guests' processor limits: ``weights 2048:1024``, ``quota 0.5``."""
    shares, quota_ratio = key.crew[:MEMORY] if key.crew else (None, None)
    weights = [f"weights {':'.join(map(str, shares))}"] if isinstance(shares, tuple) else []
    return weights if quota_ratio is None else [*weights, f"quota {quota_ratio}"]


def describe_settings(summary: JobsSummary, key: PointKey, *, guests: bool = False, memory: bool = True) -> str:
    """Describe what distinguishes a point from others: the request, and the system that was measured."""
    return ", ".join([describe_request(key, guests=guests, memory=memory), *summary.apart(key)])


def describe_request(key: PointKey, *, guests: bool = False, memory: bool = True) -> str:
    """Describe the guests' placement, limits and number."""
    where = {"same": "one CPU for all", "own": "a CPU for each", "any": "any CPU"}[key.cpu]
    limits = format_cpu_limits(key)
    if memory and memory_of(key) is not None:
        limits.append(f"{memory_of(key)} MiB each")
    many = [f"{key.guests} guest{'s' if key.guests > 1 else ''}"] if guests else []
    return ", ".join([*many, where, *limits])


def sort_platforms(keys: Iterable[PointKey]) -> list[str]:
    """Sort platforms into the same order for every figure."""
    return sorted({key.platform for key in keys}, key=platform_order)


def seconds_mark(x: float, found: SetUpMean, job_ids: Sequence[str] = ()) -> Mark:
    """Return the mark of a time at ``x``."""
    return build_mark(x, found, scale=1.0)


def job_columns(key: Callable[[Item], PointKey]) -> TableColumn[Item]:
    """Platform and job, first in every table of jobs."""
    columns: list[TableColumn[Item]] = [
        column("platform", "platform", lambda item: key(item).platform),
        csv_column("job", lambda item: key(item).job),
        csv_column("size", lambda item: key(item).size),
        printed_column("job", lambda item: format_job(key(item))),
    ]
    return join_columns(columns)


def guests_column(summary: JobsSummary, key: Callable[[Item], PointKey]) -> TableColumn[Item]:
    """The number of guests; in print with all that distinguishes their point."""

    def show(item: Item) -> str:
        return describe_settings(summary, key(item), guests=True)

    return column("guests", "guests", lambda item: key(item).guests, show)


def format_seconds(found: SetUpMean | None) -> str:
    """Format as ``3.214 ± 0.020``."""
    return format_mean(found, places=3)


def format_copies(point: PointTimes) -> str:
    """Format the mean over the copies, or the time of each where a guest had one and another two."""
    if not point.apart:
        return format_seconds(point.seconds)
    first, second = (" and ".join(map(format_seconds, of)) for of in point.times_by_guest)
    return f"first guest {first}; second guest {second}"


def select_timed(points: Iterable[PointTimes]) -> list[PointTimes]:
    """Return the points that have a mean."""
    return [each for each in points if each.seconds is not None]
