"""Recompute a stored trial of a job: its times from its marks, its verdict from its observations."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from labconsole.experiments.job.disk_verdict import jobs_volume
from labconsole.experiments.job.plan import COPIES_OF_ONE_TWO
from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, against, differences, same
from labconsole.measure.recompute.guest_trial import (
    VerdictRules,
    empty_trial_problems,
    recompute_verdict,
    unjudged_reasons,
)
from labconsole.model.jobs import JOBS
from labconsole.model.tolerances import Tolerances

# -- plausibility ------------------------------------------------------------------------------------------------------
# Values that no trial of a job can have: work longer than the trial, duplicate copies, missing bytes. Pure.

MOST_STATUS = 255


def find_implausible(record: JobRecord) -> Iterator[Discrepancy]:
    """Find the values of a record that no trial can have."""
    yield from trial.common_problems(record)
    yield from _request(record)
    copies, guests = record.copies, {copy.guest for copy in record.copies}
    yield from trial.numbering_problems("copies", "copy_number", copies)
    yield from trial.address_problems(record, "copies", copies)
    if len(guests) > record.requested.guests:
        yield against("copies", f"are of {len(guests)} guests, and there were {record.requested.guests}", len(guests))
    yield from trial.program_problems("program", record.program, record.requested.guests)
    yield from _implausible_times(record)
    yield from _implausible_disk(record)


def _request(record: JobRecord) -> Iterator[Discrepancy]:
    requested = record.requested
    if requested.size < 1 or requested.limit_s <= 0 or not 0 < (requested.cpu_quota_ratio or 1.0) <= 1:
        yield against("requested", "asks for an impossible size, limit or quota")


def _implausible_times(record: JobRecord) -> Iterator[Discrepancy]:
    """Find copies with times outside the trial, by any clock, or with an end before the beginning."""
    for place, copy in enumerate(record.copies):
        where = f"copies[{place}]"
        yield from trial.duration_problems(
            record, ((f"{where}.outside_s", copy.outside_s), (f"{where}.host_s", copy.host_s))
        )
        yield from trial.sign_problems(((f"{where}.host_s", copy.host_s), (f"{where}.inside_s", copy.inside_s)))
        for name in ("exit_status", "ping_status"):
            status = getattr(copy, name)
            if status is not None and not 0 <= status <= MOST_STATUS:
                yield against(f"{where}.{name}", "is not the status of a program", status)
    marks = [
        mark for copy in record.copies for mark in (copy.start_request_ns, copy.end_request_ns) if mark is not None
    ]
    if marks:
        yield from trial.duration_problems(record, [("copies", (max(marks) - min(marks)) / 1e9)])
    empty = record.empty
    if empty is not None:
        yield from trial.sign_problems((f"empty.each_s[{place}]", each) for place, each in enumerate(empty.each_s))


def _implausible_disk(record: JobRecord) -> Iterator[Discrepancy]:
    disk = record.disk
    if disk is None:
        return
    yield from trial.duplicate_problems("disk.guests", disk.guests, {"guest": lambda each: each.guest})
    working = {copy.guest for copy in record.copies}
    for place, each in enumerate(disk.guests):
        if each.guest not in working:
            yield against(f"disk.guests[{place}].guest", "did not work in this trial", each.guest[:80])


# -- rules -------------------------------------------------------------------------------------------------------------
# The rules for each reason of a job's trial, written a second time: code to condition on its record. Pure.
#
# They share no code with verdict.py and disk_verdict.py, which judged it. docs/jobs.md and docs/data-format.md explain
# the codes.

HUNDREDTH = 0.01
"""The share of a time by which guests may begin apart, or two clocks may run apart."""

EMPTY_SDS, EMPTY_RATIO = 100, 0.05
"""The least duration of a job in standard deviations of an empty job, and the largest share of it that the empty jobs
of the other copies may be.
"""


def _is_mark_lost(copy: CopyRecord) -> bool:
    marks = (copy.start_request_ns, copy.start_reply_ns, copy.end_request_ns)
    return None in marks or bool(copy.ping_status)


def _is_failed(copy: CopyRecord) -> bool:
    return copy.exit_status is not None and copy.exit_status != 0


def _is_forged(record: JobRecord, limits: Tolerances) -> bool:
    backwards = any(copy.outside_s is not None and copy.outside_s < 0 for copy in record.copies)
    return backwards or trial.is_mark_forged(record.timekeeper)


def _outside_s(record: JobRecord) -> list[float]:
    return [copy.outside_s for copy in record.copies if copy.outside_s is not None]


def _is_apart(record: JobRecord, limits: Tolerances) -> bool:
    times_s, skew_s = _outside_s(record), record.start_skew_s
    return skew_s is not None and bool(times_s) and skew_s > HUNDREDTH * min(times_s)


def _is_short(record: JobRecord, limits: Tolerances) -> bool:
    ended = [copy for copy in record.copies if copy.exit_status == 0]
    times_s = [copy.seconds for copy in ended if copy.seconds is not None]
    if record.empty is None or not times_s:
        return False
    others_s = (len(ended) - 1) * record.empty.mean_s
    return min(times_s) < EMPTY_SDS * record.empty.sd_s or others_s > EMPTY_RATIO * min(times_s)


def _is_contradicted(record: JobRecord, limits: Tolerances) -> bool:
    return any(
        copy.outside_s > (1 + HUNDREDTH) * copy.host_s
        for copy in record.copies
        if copy.outside_s is not None and copy.host_s is not None
    )


def _is_buffered(record: JobRecord, limits: Tolerances) -> bool:
    disk = record.disk
    if disk is None or any(copy.exit_status != 0 for copy in record.copies):
        return False
    written, read = disk.device_written_bytes, disk.device_read_bytes
    wanted = disk.job_read_bytes or 0
    if (written is not None and written < disk.job_written_bytes) or (read is not None and read < wanted):
        return True
    each = [guest.read_bytes for guest in disk.guests]
    return bool(wanted) and None not in each and sum(part or 0 for part in each) < wanted <= (read or 0)


def _is_unobserved(record: JobRecord, limits: Tolerances) -> bool:
    disk = record.disk
    is_unread = disk is not None and None in (disk.device_read_bytes, disk.device_written_bytes)
    is_unread = is_unread and all(copy.exit_status == 0 for copy in record.copies)
    return is_unread or trial.is_mark_dropped(record.timekeeper) or trial.is_program_unknown(record.program)


def _is_over_limit(record: JobRecord, limits: Tolerances) -> bool:
    """Return whether a job did not end in time, which leaves a copy without an end in a guest that the reason names."""
    unended = {copy.guest for copy in record.copies if copy.exit_status is None and copy.end_request_ns is None}
    for reason in record.verdict.reasons:
        places = (reason.evidence or {}).get("places") or [reason.evidence or {}]
        named = {place.get("guest") for place in places if isinstance(place, dict) and "limit_s" in place}
        if reason.code == "job_failed" and named and named <= unended:
            return True
    return False


RULES: VerdictRules[JobRecord] = VerdictRules(
    only={
        "mark_lost": lambda record, limits: any(map(_is_mark_lost, record.copies)),
        "job_failed": lambda record, limits: any(map(_is_failed, record.copies)),
        "start_skew": _is_apart,
        "job_short": _is_short,
        "programs_differ": lambda record, limits: trial.is_program_unlike(record.program),
        "mark_forged": _is_forged,
        "swapped": trial.is_swapped,
        "buffered_by_host": _is_buffered,
    },
    also={
        "guests_missing": lambda record, limits: any(
            copy.exit_status is None and copy.end_request_ns is not None for copy in record.copies
        ),
        "witnesses_disagree": _is_contradicted,
        "not_observed": _is_unobserved,
        "clock_stepped": lambda record, limits: trial.is_clock_set(record.timekeeper, _outside_s(record), limits),
    },
    excused={"job_failed": _is_over_limit},
)


# -- recomputation -----------------------------------------------------------------------------------------------------


def recompute_job(record: JobRecord) -> list[Discrepancy]:
    """Return what of a trial does not follow from its data, or contradicts itself."""
    found = list(_empty(record))
    for index, copy in enumerate(record.copies):
        where = f"copies[{index}]"
        again = _times(copy, None if record.empty is None else record.empty.mean_s)
        found += differences({f"{where}.{name}": (getattr(copy, name), value) for name, value in again.items()})
        found += _order(where, copy)
    skew_s = trial.compute_skew_s(copy.start_reply_ns for copy in record.copies)
    found += differences({"start_skew_s": (record.start_skew_s, skew_s)})
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
UNJUDGED = partial(unjudged_reasons, rules=RULES)
