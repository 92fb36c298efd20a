"""Recompute a stored trial of a job: its times from its marks, its verdict from its observations."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from labconsole.experiments.job.disk_verdict import jobs_volume
from labconsole.experiments.job.plan import COPIES_OF_ONE_TWO
from labconsole.experiments.job.plausibility import find_implausible
from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.experiments.job.rules import RULES
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, against, same
from labconsole.measure.recompute.verdict_check import empty_trial_problems, recompute_verdict, unjudged_reasons
from labconsole.model.jobs import JOBS


def recompute_job(record: JobRecord) -> list[Discrepancy]:
    """Return what of a trial does not follow from its data, or contradicts itself."""
    found = list(_empty(record))
    for index, copy in enumerate(record.copies):
        where = f"copies[{index}]"
        again = _times(copy, None if record.empty is None else record.empty.mean_s)
        for name, value in again.items():
            stored: Number = getattr(copy, name)
            if not same(stored, value):
                found.append(Discrepancy(where=f"{where}.{name}", stored=stored, recomputed=value))
        found += _order(where, copy)
    starts = [copy.start_reply_ns for copy in record.copies if copy.start_reply_ns is not None]
    skew_s = (max(starts) - min(starts)) / 1e9 if len(starts) > 1 else None
    if not same(record.start_skew_s, skew_s):
        found.append(Discrepancy(where="start_skew_s", stored=record.start_skew_s, recomputed=skew_s))
    found += _copies(record)
    found += _disk(record)
    return [*found, *find_implausible(record), *recompute_verdict(record, RULES)]


def _times(copy: CopyRecord, empty_s: float | None) -> dict[str, float | None]:
    outside_s = _difference_s(copy.start_reply_ns, copy.end_request_ns)
    inside_s = None
    if copy.inside_start_s is not None and copy.inside_end_s is not None:
        inside_s = copy.inside_end_s - copy.inside_start_s
    return {
        "outside_s": outside_s,
        "host_s": _difference_s(copy.asked_ns, copy.answered_ns),
        "inside_s": inside_s,
        "clock_ratio": inside_s / outside_s if inside_s is not None and outside_s else None,
        "seconds": outside_s - empty_s if outside_s is not None and empty_s is not None else None,
    }


def _difference_s(begin_ns: int | None, end_ns: int | None) -> float | None:
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) / 1e9


def _empty(record: JobRecord) -> Iterator[Discrepancy]:
    empty = record.empty
    if empty is None:
        return
    if len(empty.each_s) < 2:
        yield against("empty.each_s", "has fewer than two jobs, and so no standard deviation", len(empty.each_s))
        return
    for name, value in (("mean_s", statistics.fmean(empty.each_s)), ("sd_s", statistics.stdev(empty.each_s))):
        if not same(getattr(empty, name), value):
            yield Discrepancy(where=f"empty.{name}", stored=getattr(empty, name), recomputed=value)


def _order(where: str, copy: CopyRecord) -> Iterator[Discrepancy]:
    marks = [copy.start_request_ns, copy.start_reply_ns, copy.end_request_ns, copy.end_reply_ns]
    seen = [mark for mark in marks if mark is not None]
    if seen != sorted(seen):
        yield against(where, "its marks are not in the order in which they were sent")


def _copies(record: JobRecord) -> Iterator[Discrepancy]:
    """Check the number of copies: as in the design point, or none if nothing was observed, as the verdict then says."""
    requested = record.requested
    if record.set_up is None:
        yield from empty_trial_problems(record, record.copies)
        return
    wanted = {"one": 1, "all": requested.guests, "one-two": sum(COPIES_OF_ONE_TWO)}[requested.working]
    if len(record.copies) != wanted:
        yield Discrepancy(where="copies", stored=len(record.copies), recomputed=wanted)


def _disk(record: JobRecord) -> Iterator[Discrepancy]:
    """Check the jobs' disk bytes by what the jobs are and what they printed."""
    job = JOBS.get(record.requested.job)
    if record.disk is None or job is None or job.disk is None:
        return
    found = jobs_volume(job.disk, record.requested.size, record.copies)
    for name, value in zip(("job_read_bytes", "job_written_bytes"), found, strict=True):
        if getattr(record.disk, name) != value:
            yield Discrepancy(where=f"disk.{name}", stored=getattr(record.disk, name), recomputed=value)


RECOMPUTE = recompute_job


def UNJUDGED(record: JobRecord) -> Iterator[str]:
    """Return what of its verdict cannot be judged again."""
    return unjudged_reasons(record, RULES)
