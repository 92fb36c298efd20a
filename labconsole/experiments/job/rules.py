"""The rules for each reason of a job's trial, written a second time: code to condition on its record. Pure.

They share no code with verdict.py and disk_verdict.py, which judged it. docs/jobs.md and docs/data-format.md explain
the codes.
"""

from __future__ import annotations

from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.measure.recompute import verdict_check as common
from labconsole.measure.recompute.verdict_check import VerdictRules
from labconsole.model.tolerances import Tolerances

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
    return backwards or common.is_mark_forged(record.timekeeper)


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
    return is_unread or common.is_mark_dropped(record.timekeeper) or common.is_program_unknown(record.program)


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
        "programs_differ": lambda record, limits: common.is_program_unlike(record.program),
        "mark_forged": _is_forged,
        "swapped": common.is_swapped,
        "buffered_by_host": _is_buffered,
    },
    also={
        "guests_missing": lambda record, limits: any(
            copy.exit_status is None and copy.end_request_ns is not None for copy in record.copies
        ),
        "witnesses_disagree": _is_contradicted,
        "not_observed": _is_unobserved,
        "clock_stepped": lambda record, limits: common.is_clock_set(record.timekeeper, _outside_s(record), limits),
    },
    excused={"job_failed": _is_over_limit},
)
