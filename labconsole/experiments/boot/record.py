"""The record of one boot of guests, format 1: when each was up, their memory use, and the cached files.

Times are seconds since the first guest's start command; ``mark`` is by the timekeeper's clock, ``ready`` by the UUT's.
docs/boot.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labconsole.model.record.kind import (
    Bytes,
    GuestEntry,
    Guests,
    GuestTrialRecord,
    Ns,
    RecordKind,
    Seconds,
    TimekeeperRecord,
    columns_of,
)
from labconsole.model.strict_model import StrictModel

SignedNs = Annotated[int, Field(gt=-(2**63), lt=2**63)]


class BootRequested(StrictModel):
    """The design point, and common settings of every guest. None means the platform's default."""

    platform: str
    guests: Guests
    start: Literal["cold", "hot"]
    limit_s: float
    memory_mib: int | None = None


class ClockRelation(StrictModel):
    """The relation of the UUT's monotonic clock to the timekeeper's wall clock. Offsets: the node's monotonic clock
    minus the console's, each with its bound ``error_ns``; ``timekeeper_*``: both clocks of the timekeeper at one
    moment.
    """

    uut_offset_ns: SignedNs
    uut_error_ns: Ns
    timekeeper_offset_ns: SignedNs
    timekeeper_error_ns: Ns
    timekeeper_monotonic_ns: Ns
    timekeeper_wall_ns: Ns


class GuestBootRecord(StrictModel):
    """One guest. None means not seen, or not known.

    ``mark_ns``: arrival of its mark, by the timekeeper's wall clock; ``started_ns``, ``ready_ns``: its start command
    and its own report that it is up, by the UUT's monotonic clock. ``mark_s``, ``ready_s``: since the first guest's
    start command; ``own_s``: the mark, since its own. ``pss_bytes``: memory of its processes, with shared pages divided
    among them; ``cgroup_bytes``: memory of its own control group, ``cgroup_reason``: why that is not known;
    ``hypervisor_bytes``: memory by its hypervisor's count. ``way_in``: for an installed guest.
    """

    guest: str
    address: str
    mac: str | None
    started_ns: Ns | None
    ready_ns: Ns | None
    mark_ns: Ns | None
    mark_s: Seconds | None
    ready_s: Seconds | None
    own_s: Seconds | None
    pss_bytes: Bytes | None
    cgroup_bytes: Bytes | None
    hypervisor_bytes: Bytes | None = None
    way_in: GuestEntry | None = None
    cgroup_reason: str | None = None


class CachedFiles(StrictModel):
    """One of the guests' files right before they start: the platform's option, the path on the UUT (of a copy, or the
    operator's own), all its pages and those in the page cache.
    """

    option: str
    path: str
    pages: Annotated[int, Field(ge=0)]
    cached_pages: Annotated[int, Field(ge=0)]


class MemoryUse(StrictModel):
    """Memory of the UUT. ``used_bytes``: decrease in available memory from right before the first start to ``quiet_s``
    after the last guest was up. ``pss_bytes``, ``cgroup_bytes``: sums over the guests, or None if one is not known.
    ``ksm_run``: whether the kernel merges equal pages (0: no), ``ksm_pages_sharing``: pages it saves.
    ``hypervisor_bytes``: memory by the hypervisor's count, from ``hypervisor_command``: the decrease in its free memory
    if it reports that (``hypervisor_free_*``), else the sum over the guests, or None if it has no count of its own.
    """

    quiet_s: Seconds
    available_before_bytes: Bytes | None
    available_after_bytes: Bytes | None
    used_bytes: Annotated[int, Field(gt=-(2**63), lt=2**63)] | None
    pss_bytes: Bytes | None
    cgroup_bytes: Bytes | None
    ksm_run: int | None
    ksm_pages_sharing: int | None
    hypervisor_command: str | None = None
    hypervisor_free_before_bytes: Bytes | None = None
    hypervisor_free_after_bytes: Bytes | None = None
    hypervisor_bytes: Annotated[int, Field(gt=-(2**63), lt=2**63)] | None = None


class QuietTime(StrictModel):
    """A period in which the UUT only reports counts, by its monotonic clock, and its whole kernel's context switches in
    it. They include those of labconsole's agent there, which takes samples all the time.
    """

    took_ns: Annotated[int, Field(gt=0, lt=2**63)]
    switches: Annotated[int, Field(ge=0, lt=2**63)]
    switches_per_s: Annotated[float, Field(ge=0, le=1e28, allow_inf_nan=False)]


class IdleSwitches(StrictModel):
    """Right before the start, and while all guests run. None if a guest is missing or the kernel does not report it."""

    before: QuietTime | None
    standing: QuietTime | None


class BootRecord(GuestTrialRecord):
    """One boot. ``status`` failed: it supports no conclusion, and ``failure`` gives the reason.

    ``startup_s``: until the last guest's mark, ``ready_s``: until the last guest's own report, or None if one is
    missing. ``sd_s``: standard deviation of the guests' marks. ``mark_zero_ns``: the first start command, by the
    timekeeper's wall clock, with the bound ``clock_error_s``; ``clock_error_allowed_s``: the bound above which it is
    doubted, or None if it was not judged. ``files``: None if the platform names none, so the page cache is unknown.
    ``idle``: None if not measured.
    """

    boot_id: str
    requested: BootRequested
    clocks: ClockRelation | None
    mark_zero_ns: Ns | None
    clock_error_s: Seconds | None
    clock_error_allowed_s: Seconds | None = None
    guests: tuple[GuestBootRecord, ...]
    startup_s: Seconds | None
    ready_s: Seconds | None
    sd_s: Seconds | None
    file_system: str | None
    files: tuple[CachedFiles, ...] | None
    memory: MemoryUse | None
    idle: IdleSwitches | None = None
    swapped_pages: int | None
    timekeeper: TimekeeperRecord | None

    @property
    def timekeeper_node(self) -> str | None:
        """The timekeeper."""
        return None if self.timekeeper is None else self.timekeeper.node


RECORD = RecordKind(
    name="boot",
    plural="boots",
    record=BootRecord,
    format=1,
    columns=columns_of,
    measured=lambda record: {
        "startup_s": [each.mark_s for each in record.guests],
        "ready_s": [each.ready_s for each in record.guests],
        "used_bytes": [None if record.memory is None else record.memory.used_bytes],
    },
)
