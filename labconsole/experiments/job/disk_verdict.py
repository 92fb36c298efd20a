"""Reasons and notes from comparing the device below guests' disks with the guests' jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labconsole.experiments.job.record import CopyRecord, DiskRecord
from labconsole.model.jobs import DiskWork
from labconsole.model.record.run import Figures, Reason
from labconsole.verdict.reasons import reason

KIB, MIB = 1024, 1024 * 1024
SURPLUS_RATIO, SURPLUS_BYTES = 1.05, 4 * 2**20
"""A note reports what a device does beyond this share of the jobs' bytes plus this many bytes."""

_VOLUME = re.compile(r"READ (\d{1,12}) WRITTEN (\d{1,12})\b")


def jobs_volume(work: DiskWork, size: int, copies: Sequence[CopyRecord]) -> tuple[int | None, int]:
    """Return the bytes that all copies read past every cache, or None if unknown, and the bytes that they wrote to
    disk.

    Some jobs print these numbers; they print nothing if they failed.
    """
    if not work.tells:
        many = size * len(copies) * MIB
        return None if work.reads_mib is None else work.reads_mib * many, work.writes_mib * many
    volumes = [_VOLUME.search(copy.output) for copy in copies]
    read = sum(int(each[1]) for each in volumes if each is not None) * KIB
    return None if None in volumes else read, sum(int(each[2]) for each in volumes if each is not None) * KIB


def disk_reasons(seen: DiskRecord, copies: Sequence[CopyRecord]) -> Iterator[Reason]:
    """Report if fewer bytes reached the device than the jobs wrote, or fewer came from it than they read past every
    cache.
    """
    if any(copy.exit_status != 0 for copy in copies):
        return  # the copy did not do all its work, which another reason reports
    for verb, device, job in (
        ("written to", seen.device_written_bytes, seen.job_written_bytes),
        ("read from", seen.device_read_bytes, seen.job_read_bytes or 0),
    ):
        if device is None:
            detail = f"how much was {verb} {seen.device}, below the guests' disks, is not known"
            yield reason("not_observed", detail, device=seen.device)
        elif device < job:
            detail = f"{format_mib(device)} were {verb} {seen.device} in the window, but the jobs did {format_mib(job)}"
            yield reason("buffered_by_host", detail, device=seen.device, device_bytes=device, job_bytes=job)
    # The counters of a device with other users would not show this.
    known = [each for each in seen.guests if each.read_bytes is not None]
    if seen.job_read_bytes and len(known) == len(seen.guests):
        total = sum(each.read_bytes or 0 for each in known)
        if total < seen.job_read_bytes <= (seen.device_read_bytes or 0):
            did = format_mib(seen.job_read_bytes)
            detail = f"the guests' processes read {format_mib(total)} from devices, but the jobs did {did}"
            yield reason(
                "buffered_by_host", detail, device=seen.device, device_bytes=total, job_bytes=seen.job_read_bytes
            )


def format_mib(count: int) -> str:
    """Format as ``64.0 MiB``."""
    return f"{count / MIB:.1f} MiB"


def disk_notes(seen: DiskRecord | None, work: DiskWork | None, size: int, copies: int, uut: str) -> Iterator[Figures]:
    """Report an influence if the device did clearly more than the jobs, and one if less was read from it than by
    them.
    """
    if seen is None:
        return
    again = 0 if work is None else work.memory_reads_mib * size * copies * MIB
    if seen.device_read_bytes is not None and seen.device_read_bytes < again:
        source = (
            f"of {format_mib(again)} that the jobs read, {format_mib(seen.device_read_bytes)} came from {seen.device}"
        )
        yield {
            "node": uut,
            "kind": "read_from_memory",
            "detail": f"{source}; the rest was in memory",
            "read_bytes": again,
            "device_bytes": seen.device_read_bytes,
        }
    more = {
        "written": _beyond(seen.device_written_bytes, seen.job_written_bytes),
        "read": _beyond(seen.device_read_bytes, seen.job_read_bytes),
    }
    surplus = {verb: count for verb, count in more.items() if count is not None}
    if surplus:
        amounts = " and ".join(f"{format_mib(count)} were {verb}" for verb, count in surplus.items())
        yield {
            "node": uut,
            "kind": "disk_shared",
            "detail": f"{amounts} on {seen.device} beyond what the jobs did: by others, or by file systems",
            **{f"{verb}_bytes": count for verb, count in surplus.items()},
        }


def _beyond(device: int | None, job: int | None) -> int | None:
    """Return the surplus, or None if it is too small to report."""
    if device is None or job is None or device <= SURPLUS_RATIO * job + SURPLUS_BYTES:
        return None
    return device - job
