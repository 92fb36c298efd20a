"""A crew: guests that run side by side on one NIC of the UUT, each with its own address.

Programs run inside them, and a node outside takes the time (docs/jobs.md). A platform's driver starts the guests
through the UUT's agent, and they go away with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from labconsole.contracts.driver import Ask, Attest, Attestation, DriverInfo
from labconsole.contracts.ports import AgentLink
from labconsole.measure.external_timing import Nonce
from labconsole.model.inventory import Stream
from labconsole.model.record.kind import EmptyJobs, GuestEntry
from labconsole.model.record.run import SetUp


@dataclass(frozen=True, slots=True)
class BootMark:
    """The message a guest sends once when it is up: a ping of this size and pattern to the timekeeper's address."""

    address: str
    nonce: Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundNic:
    """The second NIC of a guest that forwards. It is on the UUT's NIC where streams come in.

    ``address`` includes its prefix length.
    """

    mac: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewMember:
    """One requested guest.

    ``name`` is also the agent's name for it, at most 15 characters. ``address`` includes its prefix length. ``cpus``:
    the UUT's CPUs it is pinned to, or None to keep the platform's setting. ``cpu_shares``: its weight among guests on
    the same CPU, or None. ``cpu_quota_ratio``: its limit as a share of one CPU, or None for no limit. ``disk_mib``: the
    size of its own disk, or 0 for no disk. ``boot_mark``: what it sends when it is up, or None. ``inbound``: its second
    NIC, or None.
    """

    name: str
    address: str
    mac: str
    memory_mib: int | None = None
    cpus: str | None = None
    cpu_shares: int | None = None
    cpu_quota_ratio: float | None = None
    disk_mib: int = 0
    boot_mark: BootMark | None = None
    inbound: InboundNic | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewWanted:
    """A requested crew.

    ``port``: the UUT's NIC that all guests share, on one bridge. ``limit_s``: how long a guest may take to start before
    it is given up, or None for the driver's limit. ``anew``: whether guests that run already are refused.
    ``inbound_port``: the UUT's NIC whose bridge carries the inbound NICs, or None if the guests have none.
    """

    members: tuple[CrewMember, ...]
    port: str
    limit_s: float | None = None
    anew: bool = False
    inbound_port: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingMember:
    """A running guest that takes lines on its console, by its name (wire/guests.py).

    ``ask`` runs one line in it. ``pid``: the process on the UUT whose descendants are this guest, if there is one.
    ``host_interface``: the other end of its NIC on the UUT, if there is one. ``started_ns``: the time of its start
    command, ``ready_ns``: when it reported that it was up, both by the UUT's monotonic clock. ``address``, ``mac``: the
    source of its packets, or None if as requested. ``disk``: the directory in the guest where its disk is mounted, if
    it has one. ``way_in``: how the console got into an installed guest whose start was timed. ``shell_pid``: the
    process on the UUT that leads to the shell of an installed guest; a guest that shares the UUT's kernel is below it.
    ``inbound_interface``: the other end of its inbound NIC on the UUT. ``inbound_mac``: that NIC's address, or None if
    as requested. ``in_namespace``: the guest is a network namespace of the UUT's kernel, that of ``pid`` or of its
    first child.
    """

    name: str
    ask: Ask
    pid: int | None = None
    host_interface: str | None = None
    started_ns: int | None = None
    ready_ns: int | None = None
    address: str | None = None
    mac: str | None = None
    disk: str | None = None
    way_in: GuestEntry | None = None
    shell_pid: int | None = None
    inbound_interface: str | None = None
    inbound_mac: str | None = None
    in_namespace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DisksBelow:
    """The UUT's storage for the guests' disks: directory, file system and device.

    ``number``: the device's number as in /proc/diskstats (``254:0``). ``files``: whether I/O uses the UUT's page cache
    or bypasses it, where the disks are files.
    """

    place: str
    file_system: str
    device: str
    number: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A running crew. ``attest`` runs again after each trial, as in Prepared.

    ``started_ns``: a time before the first guest started, by the UUT's monotonic clock. ``disks``: their storage, or
    None if the guests have no disks. ``own_stacks``: whether each guest has its own network stack instead of the UUT's.
    ``nic_credit``: whether the back ends of their NICs limit the rate themselves (network/xen_rate_limit.py).
    """

    members: tuple[StandingMember, ...]
    started_ns: int
    attestation: Attestation = field(default_factory=dict)
    attest: Attest | None = None
    disks: DisksBelow | None = None
    own_stacks: bool = True
    nic_credit: bool = False


@dataclass(slots=True, kw_only=True)
class StandingCrew:
    """A running crew with its timekeeper, and facts that are measured once for all its trials.

    ``empty``: the time of a job that does nothing. ``programs``: program to guest to the SHA-256 found there.
    ``reached``: guests that have had an answer from the timekeeper. ``loaded``: what an experiment has given its
    guests, by a key of that experiment.
    """

    crew: Crew
    members: tuple[CrewMember, ...]
    uut: AgentLink
    timekeeper: AgentLink
    stream: Stream
    address: str
    set_up: SetUp
    empty: EmptyJobs | None = None
    programs: dict[str, dict[str, str]] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)
    loaded: str = ""

    def begin_trial(self) -> SetUp:
        """Count one more trial in this set-up."""
        self.set_up = self.set_up.model_copy(update={"trial": self.set_up.trial + 1})
        return self.set_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The testbed right before guests start: the UUT, the timekeeper, and its address as the guests use it."""

    uut: AgentLink
    timekeeper: AgentLink
    stream: Stream
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewOffer:
    """What guests start from and what they are given.

    ``files``: option of the platform to the file or directory on the UUT that guests start from. ``place``: the
    directory on the UUT for copies of them. ``memory_mib``: the memory of each guest, or None if it has no fixed amount
    or the amount is unknown.

    ``installed``: the guests belong to the operator, and so do their files, which are never copied, and their MAC
    addresses, which are found once the guests run. ``never_started``: the reason why the program does not start these
    guests, or None if it does. ``in_namespaces``: each is to be a namespace, as StandingMember describes it.
    ``own_interfaces``: whether each can have an interface of its own on the UUT. ``no_programs``: why the guests find
    only the programs of their image, or None if they can find others.
    """

    place: str
    files: Mapping[str, str]
    memory_mib: int | None
    installed: bool = False
    never_started: str | None = None
    in_namespaces: bool = False
    own_interfaces: bool = True
    no_programs: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervisorWord:
    """A hypervisor's own memory report.

    ``command``: the command that printed it. ``free_bytes``: what the hypervisor has left, or None if it does not
    report it. ``guest_bytes``: memory per guest, for the guests it reports, by the hypervisor's name of each.
    """

    command: str
    free_bytes: int | None = None
    guest_bytes: Mapping[str, int] = field(default_factory=dict)


BeforeStart = Callable[[Ground], Awaitable[Sequence[CrewMember]]]
"""Called right before guests start; returns the members, completed with facts that are known only then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HowMade:
    """How to make a crew that differs from the usual one.

    ``options``: options of the platform that replace those in hosts.yaml. ``port``: the UUT's NIC that the guests
    share, or None for the one that leads to the sink. ``limit_s``, ``anew``: as in CrewWanted.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    port: str | None = None
    limit_s: float | None = None
    anew: bool = False
    before: BeforeStart | None = None


USUAL = HowMade()


class CrewDriver(Protocol):
    """A platform driver that can make a crew."""

    about: DriverInfo

    def crew_refusal(self, wanted: CrewWanted) -> str | None:
        """Return why this platform cannot have such a crew, in one sentence, or None if it can. Asks no node."""
        ...

    async def check_node(self, uut: AgentLink) -> None:
        """Check on the UUT what guests depend on, before anything is changed. Raises NodeError where none can start."""

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """Start the crew; return once all guests report that they are up. Raises NodeError; on an error nothing stays
        changed.
        """
        ...

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        """Return what such guests start from and what they are given."""
        ...

    def crew_commands(self, wanted: CrewWanted) -> Sequence[str]:
        """Return what prepare_crew() would do on the UUT as shell lines, as far as this is known beforehand."""
        ...

    async def restore(self, uut: AgentLink) -> None:
        """Undo prepare_crew(). Safe to call twice."""
        ...
