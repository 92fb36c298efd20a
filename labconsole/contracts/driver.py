"""The interface of platform drivers, and what the engine gets from them.

A driver runs on the operator's side and works on the UUT only through its agent, so that the agent undoes every change
when the run, the link or the console ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from labconsole.contracts.ports import AgentLink
from labconsole.model.inventory import Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an installed hypervisor supports.

    ``statistics``: its guests' NICs have a Linux interface that counts. ``nic_models``: it reports the model of each
    NIC. ``idle_nics``: it knows the NICs of a guest that is not running. ``nic_credit``: the back ends of the NICs
    limit the guests' rate themselves.
    """

    pin: bool = False
    statistics: bool = False
    nic_models: bool = False
    exec: bool = False
    idle_nics: bool = False
    nic_credit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """What a driver declares before any platform is set up with it.

    ``summary`` and ``tried`` (the real hypervisor it has run with) are for people. ``Options``: the keys that
    hosts.yaml may have in addition to ``driver``. ``tools``: programs that it runs on the UUT. ``load_inside``:
    programs inside the second guest make its load; else the UUT's own programs do. ``boot_s``: time until one guest
    forwards, beyond changes to the network. ``processes``: regular expressions for the whole name (/proc/PID/comm) of a
    process that is a guest.
    """

    name: str
    summary: str
    tried: str
    Options: type[BaseModel]
    tools: tuple[str, ...] = ()
    load_inside: bool = True
    boot_s: float = 0.0
    processes: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWiring:
    """One stream as a driver sees it: the UUT's two NICs with their MACs, the sink's MAC, both test addresses."""

    name: str
    uut_in: str
    uut_in_mac: str
    uut_out: str
    uut_out_mac: str
    sink_mac: str
    source_ip: str
    sink_ip: str


@dataclass(frozen=True, slots=True)
class PathPoint:
    """One counter on a stream's path: ``statistic`` of ``interface`` (in ``namespace``) on the UUT."""

    hop: str
    namespace: str
    interface: str
    statistic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPath:
    """A stream's path: the MAC its source must send to, and the counters inside the UUT, in order."""

    destination_mac: str
    points: tuple[PathPoint, ...]


Ask = Callable[[AgentLink, str], Awaitable[str]]
"""Runs one shell line inside a guest and returns what it printed. Raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuest:
    """The second guest next to the one under test, as the engine needs it to put load on it.

    ``cpus``: the UUT's CPUs it is pinned to, or None if it is not pinned. ``ask``: runs a line inside, or None if that
    is impossible; ``cannot`` then says why. ``pid``: the process on the UUT whose threads and descendants are this
    guest, for the host's view of its CPU time, or None where there is no such process. ``same_pids``: processes inside
    have the UUT's process IDs, so that processes started later can be found from outside, too.
    """

    name: str
    cpus: str | None = None
    ask: Ask | None = None
    cannot: str = ""
    pid: int | None = None
    same_pids: bool = False


Attestation = dict[str, Any]
"""What exactly runs, for the record: our own facts, and the hypervisor's unmodified output."""

Attest = Callable[[AgentLink], Awaitable[Attestation]]
"""Reads what runs on the UUT now, in the form of the attestation. Raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A platform that is set up and forwards. ``attestation`` goes into the record: what exactly runs.

    ``attest`` reads it again after each trial. The result must equal ``attestation``, or the run is void, so it must
    not contain anything that changes by itself. It is None if the driver cannot read it. ``paths`` includes the second
    guest's streams. ``inside`` returns, by guest, a process on the UUT in that guest's network namespace; it is None if
    the guests have their own kernels or the namespaces are the agent's.
    """

    paths: dict[str, StreamPath]
    inside: Callable[[AgentLink], Awaitable[dict[str, int]]] | None = None
    second: SecondGuest | None = None
    attestation: Attestation = field(default_factory=dict)
    attest: Attest | None = None


class Driver(Protocol):
    """One platform driver.

    The platform's name and its options in hosts.yaml create it; an option that it does not know raises ConfigError.
    ``about`` is an attribute of the class; options may change it on the object.
    """

    about: DriverInfo

    def refusal(self, background: str) -> str | None:
        """Return why this platform cannot have such a background load, in one sentence, or None if it can. Asks no
        node.
        """
        ...

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Set the platform up for these streams. Raises NodeError; on an error nothing stays changed.

        ``second``: the streams through a second guest, which may be empty, or None for no second guest.
        """
        ...

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """Return what prepare() would do on the UUT as shell lines, as far as this is known without asking it."""
        ...

    async def restore(self, uut: AgentLink) -> None:
        """Undo prepare(). Safe to call twice."""
        ...


DriverFor = Callable[[str, Inventory], Driver]
"""Returns the driver of a platform of the inventory. Raises ConfigError for an unknown driver or option."""
