"""Values that no trial of a job can have: work longer than the trial, duplicate copies, missing bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.job.record import JobRecord
from labconsole.measure.recompute import guest_trial as trial
from labconsole.measure.recompute.discrepancy import Discrepancy, against

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
    yield from _times(record)
    yield from _disk(record)


def _request(record: JobRecord) -> Iterator[Discrepancy]:
    requested = record.requested
    if requested.size < 1 or requested.limit_s <= 0 or not 0 < (requested.cpu_quota_ratio or 1.0) <= 1:
        yield against("requested", "asks for an impossible size, limit or quota")


def _times(record: JobRecord) -> Iterator[Discrepancy]:
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


def _disk(record: JobRecord) -> Iterator[Discrepancy]:
    disk = record.disk
    if disk is None:
        return
    yield from trial.duplicate_problems("disk.guests", disk.guests, {"guest": lambda each: each.guest})
    working = {copy.guest for copy in record.copies}
    for place, each in enumerate(disk.guests):
        if each.guest not in working:
            yield against(f"disk.guests[{place}].guest", "did not work in this trial", each.guest[:80])
