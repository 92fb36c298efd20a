"""A crew: any number of guests that stand side by side on one NIC of the UUT, each with an address of its own.

Programs are run inside them, and a node outside takes the time (docs/jobs.md). What stands is made by a platform's
driver through the UUT's agent, and gone with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from labconsole.contracts.driver import Ask, Attest, Attestation, DriverInfo
from labconsole.contracts.ports import AgentLink
from labconsole.measure.external_timing import Nonce
from labconsole.model.inventory import Stream
from labconsole.model.record.boot import GuestEntry
from labconsole.model.record.job import EmptyJobs
from labconsole.model.record.run import SetUp


@dataclass(frozen=True, slots=True)
class BootMark:
    """What a guest sends once, when it is up: a ping of this size and pattern to the timekeeper's address."""

    address: str
    nonce: Nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundNic:
    """The second NIC of a guest that forwards, on the UUT's NIC that streams come in at; ``address`` with its prefix
    length.
    """

    mac: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewMember:
    """One guest as it is wanted.

    ``name`` is also what the agent calls it, at most 15 characters; ``address`` has its prefix length. ``cpus``: the
    UUT's CPUs that it is pinned to; ``cpu_shares`` its weight among those that want the same CPU, ``cpu_quota_ratio``
    how much of one CPU it may have at most. None: as the platform is set up, or no limit. ``disk_mib`` 0: no disk of
    its own. ``boot_mark``: what it sends when it is up; None: nothing. ``inbound`` None: it has one NIC.
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
    """A crew as it is wanted. ``port``: the UUT's NIC that all of them share, on one bridge. ``limit_s``: a guest that
    takes longer to come is given up; None: as the driver has it. ``anew``: only of guests that do not run yet.
    ``inbound_port``: the UUT's NIC on whose bridge their inbound NICs are; None: none of them has one.
    """

    members: tuple[CrewMember, ...]
    port: str
    limit_s: float | None = None
    anew: bool = False
    inbound_port: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingMember:
    """A guest that stands, and takes lines on its console, by its name (wire/guests.py).

    ``ask`` runs one line in it. ``pid``: the process on the UUT whose descendants are this guest, where there is one;
    ``host_interface`` the other end of its NIC on the UUT, where there is one. ``started_ns``: its start command,
    ``ready_ns``: when it said that it was up, by the UUT's monotonic clock. ``address``, ``mac``: where its packets
    come from; None: as was wanted. ``disk``: the directory in it that its disk is, where it has one. ``way_in``: how an
    installed guest, whose start was timed, was come into. ``shell_pid``: the process on the UUT that leads to the shell
    of an installed guest, below which that is where it shares the UUT's kernel. ``inbound_interface``: the other end of
    its inbound NIC on the UUT, ``inbound_mac`` that NIC's address; None: as was wanted. ``in_namespace``: it is a
    network namespace of the UUT's kernel, that of ``pid`` or of its first child.
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
    """What is under the guests' disks on the UUT: the directory they are in, on which file system, on which device.

    ``number``: the device's, as /proc/diskstats has it (``254:0``). ``files``: what is read and written through the
    UUT's page cache or past it, where the disks are files.
    """

    place: str
    file_system: str
    device: str
    number: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A crew that stands. ``attest`` is asked again after each trial, as Prepared has it.

    ``started_ns``: before the first guest was started, by the UUT's monotonic clock. ``disks`` None: they have none.
    ``own_stacks``: whether each guest has a network stack of its own, and not the UUT's. ``nic_credit``: whether the
    back ends of their NICs hold them to a rate themselves (network/xen_rate_limit.py).
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
    """A crew that stands, with who takes its time. ``empty``: what a job that does nothing takes in it;
    ``programs``: program to guest to the SHA-256 that it has there; ``reached``: guests that the timekeeper
    has answered. All are found out once, for all its trials. ``loaded``: what its guests have been given, by a word
    of the experiment's.
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
        """Count one more trial in it."""
        self.set_up = self.set_up.model_copy(update={"trial": self.set_up.trial + 1})
        return self.set_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What there is right before guests are started: the UUT, the timekeeper and the address that it has for them."""

    uut: AgentLink
    timekeeper: AgentLink
    stream: Stream
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewOffer:
    """What guests start from and are given. ``files``: option of the platform to the file or directory on the UUT that
    guests start from; ``place``: the directory there in which copies of them may be; ``memory_mib``: that all of them
    are given, None: none of their own, or nobody knows.

    ``installed``: the guests are the operator's. So are the files, of which there are no copies, and the MAC addresses,
    which are found when the guests have been started. ``never_started``: why nobody starts
    them; None: they are started. ``in_namespaces``: each is to be a namespace that StandingMember names.
    ``own_interfaces``: each may have an interface of its own on the UUT; False: none has one. ``no_programs``: why they
    find no programs but those of their image; None: they may find others.
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
    """What a hypervisor says of memory. ``command``: by which it was asked; ``free_bytes``: what it has left, None: it
    does not say; ``guest_bytes``: of each guest that it says it of, by the hypervisor's name of it.
    """

    command: str
    free_bytes: int | None = None
    guest_bytes: Mapping[str, int] = field(default_factory=dict)


BeforeStart = Callable[[Ground], Awaitable[Sequence[CrewMember]]]
"""Is asked right before guests are started; returns them, told what only then is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HowMade:
    """How a crew is to be made otherwise than usual. ``options``: of the platform, in place of what hosts.yaml says.
    ``port``: the UUT's NIC that its guests share; None: the one that leads to the sink.
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
        """Why this platform cannot have such a crew, in one sentence; None: it can. Asks nobody."""
        ...

    async def check_node(self, uut: AgentLink) -> None:
        """Ask what guests depend on there, before anything is changed. Raises NodeError where none could be."""

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """Make it; returns once all say that they are up. Raises NodeError; on an error nothing is left changed."""
        ...

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        """What such guests start from and are given."""
        ...

    def crew_commands(self, wanted: CrewWanted) -> Sequence[str]:
        """What prepare_crew() would do on the UUT, as lines of a shell, as far as that can be told."""
        ...

    async def restore(self, uut: AgentLink) -> None:
        """Undo it. Safe to call twice."""
        ...
