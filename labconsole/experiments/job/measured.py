"""The quantity of a job's trial for comparisons: its copies' time, as in a report (points.py), or why it says nothing.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from labconsole.comparison.guest_trials import TrialFacts, build_guest_trials
from labconsole.contracts.measured import (
    FROM_MEMORY,
    HELD,
    Bound,
    MeasuredKind,
    MeasuredTrial,
    MeasuredValue,
    Quantity,
)
from labconsole.experiments.job.limiting_resource import is_link_limited, is_possibly_cached
from labconsole.experiments.job.plan import JobPoint
from labconsole.experiments.job.points import (
    PointKey,
    bare_platforms,
    enters,
    mean_of,
    point_key,
    split_times_by_guest,
    uneven,
)
from labconsole.experiments.job.record import RECORD as KIND
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.report_data import format_cpu_limits, memory_of
from labconsole.model.jobs import JOBS
from labconsole.model.record.summary import RunSummary


def _time(name: str) -> Quantity:
    return Quantity(name=name, unit="s", better="lower", shown_unit="s", places=3)


TIME = _time("time")
FIRST, SECOND = _time("time of the copy in the first guest"), _time("time of the copies in the second guest")
"""The quantities of two guests with one and two copies, which are not of one kind."""


def _trials(records: Sequence[JobRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return build_guest_trials(KIND.name, records, partial(_build_trial, bare=bare_platforms(records)))


def _build_trial(record: JobRecord, *, bare: Collection[tuple[str, str]]) -> TrialFacts:
    requested, key = record.requested, point_key(record, bare)
    return TrialFacts(
        id=record.job_id,
        factors={
            "platform": requested.platform,
            "job": requested.job,
            "size": requested.size,
            "command": requested.command,
            "guests": requested.guests,
            "working": key.working,
            "cpu": requested.cpu,
            "crew": key.crew,
        },
        words=_describe_point(record, key),
        values=_values(record) if enters(record) else {},
        set_up=record.set_up_id,
        work=key.program,
        from_memory=is_possibly_cached(record),
    )


def _values(record: JobRecord) -> dict[Quantity, MeasuredValue]:
    known_to_s = None if record.empty is None else record.empty.sd_s
    made = partial(MeasuredValue, bound=_bound(record), resolution=known_to_s)
    if uneven(record):
        first, second = map(statistics.fmean, split_times_by_guest(record))
        return {FIRST: made(first), SECOND: made(second)}
    return {TIME: made(mean_of(record))}


def _bound(record: JobRecord) -> Bound:
    job = JOBS.get(record.requested.job)
    if job is not None and job.resource == "disk" and is_possibly_cached(record):
        return FROM_MEMORY
    return HELD if is_link_limited([record]) else "exact"


def _describe_point(record: JobRecord, key: PointKey) -> str:
    requested = record.requested
    text = f"{requested.platform}: {requested.job} ({requested.size}) in {requested.guests} guests"
    if requested.job in JOBS:
        text = JobPoint.from_request(requested).words()
    memory = [] if memory_of(key) is None else [f"{memory_of(key)} MiB each"]
    return ", ".join([text, *format_cpu_limits(key), *memory])


MEASURED = MeasuredKind(kind=KIND, compared=("platform", "guests", "cpu", "crew"), trials=_trials)
