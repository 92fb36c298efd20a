"""The record of one start of guests, format 1: when each came, what all of them use of the memory, what was cached.

Times are seconds since the first guest's start command; ``mark`` is by the timekeeper's clock, ``ready`` by the UUT's.
docs/boot.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from labconsole.model.record.crew_trial import Bytes, CrewTrialRef, Guests, Ns, Seconds, TimekeeperRecord
from labconsole.model.record.environment import Attestation, Environment
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.run import Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel

BOOT_FORMAT = 1

SignedNs = Annotated[int, Field(gt=-(2**63), lt=2**63)]


class BootRequested(StrictModel):
    """The design point, and what every guest was to have. None: as the platform is set up."""

    platform: str
    guests: Guests
    start: Literal["cold", "hot"]
    limit_s: float
    memory_mib: int | None = None


class ClockRelation(StrictModel):
    """How the UUT's monotonic clock becomes the timekeeper's wall clock. Offsets: the node's monotonic clock less the
    console's, each known to its ``error_ns``; ``timekeeper_*``: both clocks of the timekeeper at one moment.
    """

    uut_offset_ns: SignedNs
    uut_error_ns: Ns
    timekeeper_offset_ns: SignedNs
    timekeeper_error_ns: Ns
    timekeeper_monotonic_ns: Ns
    timekeeper_wall_ns: Ns


class GuestEntry(StrictModel):
    """How an installed guest was come into. ``tries``: of its way in, the one that led inside counted; ``gap_s``: from
    the beginning of the last that did not lead inside to the beginning of the one that did: by so much earlier it may
    have been there (None: the first one led inside). ``mark_tries``: its pings until it had found the timekeeper,
    each for a second; None: it did not say. ``joined_s``: from its start command until its NIC was on the bridge that
    labconsole makes, before which no mark arrives; None: the bridge is the operator's.
    """

    tries: Annotated[int, Field(ge=1)]
    gap_s: Annotated[float, Field(ge=0)] | None
    mark_tries: Annotated[int, Field(ge=1)] | None
    joined_s: Annotated[float, Field(ge=0)] | None


class GuestBootRecord(StrictModel):
    """One guest. None: not seen, or not known.

    ``mark_ns``: when its mark came, by the timekeeper's wall clock; ``started_ns``, ``ready_ns``: its start command and
    its word that it is up, by the UUT's monotonic clock. ``mark_s``, ``ready_s``: since the first guest's start
    command; ``own_s``: of the mark, since its own. ``pss_bytes``: of its processes, pages that several share divided
    among them; ``cgroup_bytes``: of its own control group, ``cgroup_reason``: why that is not known;
    ``hypervisor_bytes``: as its hypervisor has it. ``way_in``: of an installed guest.
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
    """What the guests start from, right before they do: an option of the platform, the path on the UUT (of a copy, or
    the operator's own), pages in all and pages that were in the page cache.
    """

    option: str
    path: str
    pages: Annotated[int, Field(ge=0)]
    cached_pages: Annotated[int, Field(ge=0)]


class MemoryUse(StrictModel):
    """Of the UUT. ``used_bytes``: by how much less was available ``quiet_s`` after the last guest was up than right
    before the first was started. ``pss_bytes``, ``cgroup_bytes``: sums over the guests; None where one is not known.
    ``ksm_run``: whether the kernel merges equal pages (0: no), ``ksm_pages_sharing``: pages that it saves.
    ``hypervisor_bytes``: by the hypervisor's own word, as ``hypervisor_command`` gave it: how much less it has left
    where it says that (``hypervisor_free_*``), else the sum over the guests; None: it has no word of its own.
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
    """A time in which nothing was asked of the UUT but to say its counts, by its monotonic clock, and context switches
    of its whole kernel in it: also those of labconsole's agent there, which takes samples all the time.
    """

    took_ns: Annotated[int, Field(gt=0, lt=2**63)]
    switches: Annotated[int, Field(ge=0, lt=2**63)]
    switches_per_s: Annotated[float, Field(ge=0, le=1e28, allow_inf_nan=False)]


class IdleSwitches(StrictModel):
    """Right before the start, and while all guests stand. None: not all came, or the kernel does not say."""

    before: QuietTime | None
    standing: QuietTime | None


class BootRecord(ExperimentRecord):
    """One start. ``status`` failed: nothing can be concluded from it, and ``failure`` says why.

    ``startup_s``: until the last guest's mark, ``ready_s``: until the last one's word; None: one did not come.
    ``sd_s``: between the guests' marks. ``mark_zero_ns``: the first start command, by the timekeeper's wall clock,
    known to ``clock_error_s``; ``clock_error_allowed_s``: beyond which that is a doubt, None: it was not judged.
    ``files`` None: the platform names none, so nothing is said of the page cache. ``idle`` None: not looked at.
    """

    boot_id: str
    format: int = BOOT_FORMAT
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: CrewTrialRef
    requested: BootRequested
    set_up: SetUp | None
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
    in_force: InForce | None = None
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment
    status: Literal["done", "failed"]
    failure: str | None = None
