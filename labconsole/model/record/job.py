"""The record of one trial of a job in guests, format 1: what each copy's marks showed, and what surrounded them.

Times are seconds; clocks are named: ``outside`` is the timekeeper's, ``host`` the UUT's, ``inside`` the guest's own.
docs/jobs.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labconsole.model.record.crew_trial import Bytes, CrewTrialRef, Guests, Ns, ProgramRecord, Seconds, TimekeeperRecord
from labconsole.model.record.environment import Attestation, Environment
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.run import Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel

JOB_FORMAT = 1


class JobRequested(StrictModel):
    """The design point, and what every guest of the crew was to have. None: as the platform is set up."""

    platform: str
    job: str
    size: int
    command: str
    guests: Guests
    working: Literal["one", "all", "one-two"]
    cpu: Literal["same", "own", "any"]
    limit_s: float
    cpu_shares: tuple[int, ...] | None = None
    cpu_quota_ratio: float | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None


class CopyRecord(StrictModel):
    """One copy of the job. The four marks are by the timekeeper's wall clock; None: not seen, or not known.

    ``outside_s``: from the reply to the first mark to the request of the second; ``seconds``: less what an empty job
    takes. ``host_s``: from handing the line over to its end, by the UUT's clock, where the guest had one copy only.
    ``ping_status``: how the ping before the job ended; 0 says that its answer came, and the job began then.
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
        """``seconds`` as they are shown: a job that failed sooner than an empty one ends took no time that is known."""
        return self.seconds if self.seconds is not None and self.seconds > 0 else None


class EmptyJobs(StrictModel):
    """Jobs that do nothing, in the same crew before its first trial: what sending marks and the shell take."""

    each_s: tuple[Seconds, ...]
    mean_s: Seconds
    sd_s: Seconds


class GuestDiskBytes(StrictModel):
    """What a guest's processes on the UUT read from devices and wrote, by their kernel's account. None: not known.

    Bytes written are counted when a process hands them over, so that they may still be in the UUT's page cache.
    """

    guest: str
    read_bytes: Bytes | None
    written_bytes: Bytes | None


class DiskRecord(StrictModel):
    """What the device below the guests' disks did in the window, by the UUT's counters: whoever asked for it.

    ``job_…``: what all copies together have written until it was on the device, and read past every cache; None: they
    may have read from memory.
    """

    place: str
    file_system: str
    device: str
    device_read_bytes: Bytes | None
    device_written_bytes: Bytes | None
    job_read_bytes: Bytes | None
    job_written_bytes: Bytes
    guests: tuple[GuestDiskBytes, ...]


class JobRecord(ExperimentRecord):
    """One trial. ``status`` failed: nothing can be concluded from it, and ``failure`` says why.

    ``start_skew_s``: between the first and the last start mark. ``swapped_pages``: that the UUT moved in or out of swap
    meanwhile, None: not known. ``disk`` None: the job has nothing to do with disks. ``set_up`` None: its guests did not
    come, or no attempt told of a copy: there are none, and the verdict says why.
    ``client``: what the timekeeper asked for the job with, where it did. ``link_speed_bps``: of a job that sends, of
    the slowest link between guests and timekeeper; None: it does not, or it is not known.
    """

    job_id: str
    format: int = JOB_FORMAT
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: CrewTrialRef
    requested: JobRequested
    set_up: SetUp | None
    empty: EmptyJobs | None
    program: ProgramRecord | None
    client: ProgramRecord | None = None
    copies: tuple[CopyRecord, ...]
    timekeeper: TimekeeperRecord | None
    start_skew_s: Seconds | None
    swapped_pages: int | None
    disk: DiskRecord | None = None
    link_speed_bps: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    in_force: InForce | None = None
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment
    status: Literal["done", "failed"]
    failure: str | None = None
