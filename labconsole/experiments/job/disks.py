"""The disks of guests whose jobs use them: emptied before a trial, with the device's counters during it.

The guest's caches and the host's may keep a job's reads and writes from the device. So the kernel of the unit under
test gives the bytes of the device in the window, and the read bytes of its processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew, StandingMember
from labconsole.errors import MeasurementError
from labconsole.experiments.job.disk_verdict import jobs_volume
from labconsole.experiments.job.record import CopyRecord, DiskRecord, GuestDiskBytes
from labconsole.model.jobs import DiskWork
from labconsole.platforms.base.crew_disks import find_disk, prepare_disks
from labconsole.wire.execution import Execute

SECTOR_BYTES = 512
_ASK_S = 60.0
_IO = re.compile(r"^(\d{1,10}) (\d{1,18}) (\d{1,18})$", re.MULTILINE)
_SECTORS = re.compile(r"^ *(\d{1,9}) +(\d{1,9}) \S+ \d+ \d+ (\d{1,15}) \d+ \d+ \d+ (\d{1,15}) ", re.MULTILINE)

_USED = """\
add() {
  while read -r key value; do
    case $key in read_bytes:) got=$((got + value));; write_bytes:) put=$((put + value));; esac
  done <"/proc/$1/io"
  for child in $(cat /proc/$1/task/*/children 2>/dev/null); do add "$child"; done
}
cat /proc/diskstats
for guest; do got=0 put=0; add "$guest"; echo "$guest $got $put"; done 2>/dev/null"""
"""The kernel adds the bytes of exited children to the process that has waited for them."""


@dataclass(frozen=True, slots=True)
class DiskCounts:
    """The device's counters, in sectors, and the bytes that each process and its descendants read and wrote, by PID."""

    read_sectors: int | None
    written_sectors: int | None
    used: Mapping[int, tuple[int, int]]


def parse_counts(text: str, device: str) -> DiskCounts:
    """Parse the line of this device (``254:0``) in /proc/diskstats, and the lines of the processes. Pure."""
    devices = {f"{major}:{minor}": (int(got), int(put)) for major, minor, got, put in _SECTORS.findall(text)}
    read, written = devices.get(device, (None, None))
    return DiskCounts(read, written, {int(pid): (int(got), int(put)) for pid, got, put in _IO.findall(text)})


class DiskWatch:
    """The disks of a crew in one trial. Raises MeasurementError if the guests have none."""

    def __init__(self, work: DiskWork, size: int, crew: StandingCrew, copies: Mapping[str, int]) -> None:
        self._work, self._size, self._crew, self._copies = work, size, crew, copies
        below = crew.crew.disks
        if below is None:
            raise MeasurementError("the job works on a disk, but the guests have no disks")
        self._below = below
        self._before: DiskCounts | None = None
        self._after: DiskCounts | None = None

    async def make_ready(self, limit_s: float) -> None:
        """Empty the disks (prepare_disks())."""
        await prepare_disks(self._crew, self._copies, self._work, self._size, limit_s)

    def of(self, guest: str) -> tuple[str, int] | None:
        """Return the guest's disk (find_disk())."""
        return find_disk(self._crew, guest)

    async def __aenter__(self) -> None:
        """Begin the window."""
        self._before = await self._counts()

    async def __aexit__(self, *exception: object) -> None:
        """End the window. Reads no counters if the work in it failed."""
        if exception[0] is None:
            self._after = await self._counts()

    async def _counts(self) -> DiskCounts:
        pids = [str(pid) for member in self._workers() for pid in _processes(member)]
        done = await self._crew.uut.ask(
            Execute(argv=["sh", "-c", _USED, "sh", *pids], timeout_s=_ASK_S), timeout_s=_ASK_S + 10
        )
        return parse_counts(done.stdout, self._below.number)

    def _workers(self) -> list[StandingMember]:
        return [member for member in self._crew.crew.members if member.name in self._copies]

    def seen(self, copies: Sequence[CopyRecord]) -> DiskRecord | None:
        """Return the record of the window, or None if it did not finish."""
        before, after, below = self._before, self._after, self._below
        if before is None or after is None:
            return None
        guests = []
        for member in self._workers():
            first, last = (_used(counts, member) for counts in (before, after))
            read, written = (None, None) if first is None or last is None else map(_increase, first, last)
            guests.append(GuestDiskBytes(guest=member.name, read_bytes=read, written_bytes=written))
        job_read, job_written = jobs_volume(self._work, self._size, copies)
        return DiskRecord(
            place=below.place,
            file_system=below.file_system,
            device=below.device,
            device_read_bytes=_bytes(before.read_sectors, after.read_sectors),
            device_written_bytes=_bytes(before.written_sectors, after.written_sectors),
            job_read_bytes=job_read,
            job_written_bytes=job_written,
            guests=tuple(guests),
        )


def _processes(member: StandingMember) -> list[int]:
    """Return the processes with all the guest's I/O in them and their descendants; empty if unknown."""
    if member.pid is None:
        return []
    return [member.pid] if member.shell_pid is None else [member.pid, member.shell_pid]


def _used(counts: DiskCounts, member: StandingMember) -> tuple[int, int] | None:
    """Return the bytes that the guest read and wrote, or None if unknown."""
    found = [counts.used.get(pid) for pid in _processes(member)]
    known = [each for each in found if each is not None]
    if not found or len(known) < len(found):
        return None
    return sum(each[0] for each in known), sum(each[1] for each in known)


def _increase(first: int, last: int) -> int | None:
    return last - first if last >= first else None


def _bytes(first: int | None, last: int | None) -> int | None:
    """Return the increase in bytes, or None if unknown or if the counter went down, which means another device."""
    sectors = None if first is None or last is None else _increase(first, last)
    return None if sectors is None else sectors * SECTOR_BYTES
