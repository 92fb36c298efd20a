"""The record of one trial of a job in guests, format 1: times of each copy from its marks, and the circumstances.

Times are seconds; clocks are named: ``outside`` is the timekeeper's, ``host`` the UUT's, ``inside`` the guest's own.
docs/jobs.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labconsole.model.record.kind import (
    Bytes,
    EmptyJobs,
    Guests,
    GuestTrialRecord,
    Ns,
    Placing,
    ProgramRecord,
    RecordKind,
    Seconds,
    TimekeeperRecord,
    columns_of,
)
from labconsole.model.strict_model import StrictModel


class JobRequested(StrictModel):
    """The design point, and common settings of every guest of the crew. None means the platform's default."""

    platform: str
    job: str
    size: int
    command: str
    guests: Guests
    working: Literal["one", "all", "one-two"]
    cpu: Placing
    limit_s: float
    cpu_shares: tuple[int, ...] | None = None
    cpu_quota_ratio: float | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None


class CopyRecord(StrictModel):
    """One copy of the job. The four marks are by the timekeeper's wall clock; None means not seen, or not known.

    ``outside_s``: from the reply to the first mark to the request of the second; ``seconds``: without the time of an
    empty job. ``host_s``: from handing the line over to its end, by the UUT's clock, if the guest had only one copy.
    ``ping_status``: exit status of the ping before the job; 0 means that its reply arrived and the job began then.
    ``inside_s``: by the guest's own uptime, which has two digits; ``clock_ratio`` is inside over outside.
    """

    guest: str
    copy_number: int
    address: str
    mac: str
    start_request_ns: Ns | None
    start_reply_ns: Ns | None
    end_request_ns: Ns | None
    end_reply_ns: Ns | None
    asked_ns: Ns | None
    answered_ns: Ns | None
    inside_start_s: Seconds | None
    inside_end_s: Seconds | None
    ping_status: int | None
    exit_status: int | None
    output: str
    outside_s: Seconds | None
    host_s: Seconds | None
    inside_s: Seconds | None
    clock_ratio: Seconds | None
    seconds: Seconds | None

    @property
    def time_s(self) -> float | None:
        """``seconds`` for display, or None if a failed job ended sooner than an empty one: its time is unknown."""
        return self.seconds if self.seconds is not None and self.seconds > 0 else None


class GuestDiskBytes(StrictModel):
    """Bytes that a guest's processes on the UUT read from devices and wrote, by their kernel's account. None means not
    known.

    Written bytes count when a process hands them over, so they may still be in the UUT's page cache.
    """

    guest: str
    read_bytes: Bytes | None
    written_bytes: Bytes | None


class DiskRecord(StrictModel):
    """Work of the device below the guests' disks in the window, by the UUT's counters, for all processes.

    ``job_…``: the data that all copies together write to the device and read past every cache, or None if they may
    have read from memory.
    """

    place: str
    file_system: str
    device: str
    device_read_bytes: Bytes | None
    device_written_bytes: Bytes | None
    job_read_bytes: Bytes | None
    job_written_bytes: Bytes
    guests: tuple[GuestDiskBytes, ...]


class JobRecord(GuestTrialRecord):
    """One trial. ``status`` failed: it supports no conclusion, and ``failure`` gives the reason.

    ``start_skew_s``: between the first and the last start mark. ``swapped_pages``: pages that the UUT swapped in or out
    meanwhile, or None if unknown. ``disk``: None for jobs without disks. ``set_up``: None if its guests did not start
    or no attempt reported a copy; then there are no copies, and the verdict says why. ``client``: the program that the
    timekeeper requested the job with, if any. ``link_speed_bps``: for a job that sends, the slowest link between guests
    and timekeeper, or None if unknown or it does not send.
    """

    job_id: str
    requested: JobRequested
    empty: EmptyJobs | None
    program: ProgramRecord | None
    client: ProgramRecord | None = None
    copies: tuple[CopyRecord, ...]
    timekeeper: TimekeeperRecord | None
    start_skew_s: Seconds | None
    swapped_pages: int | None
    disk: DiskRecord | None = None
    link_speed_bps: Annotated[int, Field(ge=1, lt=2**63)] | None = None

    @property
    def timekeeper_node(self) -> str | None:
        """The timekeeper."""
        return None if self.timekeeper is None else self.timekeeper.node


RECORD = RecordKind(
    name="job",
    plural="jobs",
    record=JobRecord,
    format=1,
    columns=columns_of,
    measured=lambda record: {"seconds": [copy.seconds for copy in record.copies]},
)
