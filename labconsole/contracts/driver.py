"""What every platform driver does, and what the engine gets from it.

A driver runs on the operator's side and works on the UUT only through its agent, so that everything it changes is
undone by the agent when the run, the link or the console ends.
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
    """What an installed hypervisor can be asked for. ``statistics``: its guests' NICs have a Linux interface that
    counts; ``nic_models``: it says which; ``idle_nics``: it knows the NICs of a guest that does not run;
    ``nic_credit``: the back ends of their NICs hold guests to a rate themselves."""

    pin: bool = False
    statistics: bool = False
    nic_models: bool = False
    exec: bool = False
    idle_nics: bool = False
    nic_credit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """What a driver says about itself, before any platform is set up with it.

    ``summary`` and ``tried`` (with which real hypervisor it has run) are for people. ``Options``: what hosts.yaml may
    say beside ``driver``. ``tools``: programs that it runs on the UUT. ``load_inside``: the second guest's load is made
    by programs inside it, else by the UUT's own. ``boot_s``: time until one guest forwards, beyond changes to the
    network. ``processes``: regular expressions for the whole name (/proc/PID/comm) of a process that is a guest.
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
    """One counter on a stream's way: ``statistic`` of ``interface`` (in ``namespace``) on the UUT."""

    hop: str
    namespace: str
    interface: str
    statistic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPath:
    """Where a stream goes: the MAC its source must send to, and the counters inside the UUT, in order."""

    destination_mac: str
    points: tuple[PathPoint, ...]


Ask = Callable[[AgentLink, str], Awaitable[str]]
"""Runs one shell line inside a guest and returns what it printed. Raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondGuest:
    """The guest beside the one under test, as far as the engine puts load on it.

    ``cpus``: the UUT's CPUs it is pinned to; None: it is not pinned. ``ask`` None: nothing can be run inside, and
    ``cannot`` says why. ``pid``: the process on the UUT whose threads and descendants are this guest, for the host's
    view of its CPU time; None where there is no such process. ``same_pids``: processes inside have the UUT's own
    numbers, so that those started later can be found from outside, too.
    """

    name: str
    cpus: str | None = None
    ask: Ask | None = None
    cannot: str = ""
    pid: int | None = None
    same_pids: bool = False


Attestation = dict[str, Any]
"""What exactly runs, for the record: a hypervisor's own words beside ours, kept as they came."""

Attest = Callable[[AgentLink], Awaitable[Attestation]]
"""Asks the UUT what runs now, in the words of the attestation. Raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A platform that is set up and forwards. ``attestation`` goes into the record: what exactly runs.

    ``attest`` asks again after each trial: what it then says must equal ``attestation``, or the run is void. It must
    hold nothing that changes by itself. None: the driver cannot ask. ``paths`` has the second guest's streams, too.
    ``inside`` asks, by guest, for a process on the UUT that is in its network namespace. None: its guests have kernels
    of their own, or the namespaces are the agent's.
    """

    paths: dict[str, StreamPath]
    inside: Callable[[AgentLink], Awaitable[dict[str, int]]] | None = None
    second: SecondGuest | None = None
    attestation: Attestation = field(default_factory=dict)
    attest: Attest | None = None


class Driver(Protocol):
    """One platform driver. Created with the platform's name and its options in hosts.yaml; raises ConfigError for one
    that it does not know. ``about`` stands on the class; options may change it on the object."""

    about: DriverInfo

    def refusal(self, background: str) -> str | None:
        """Why this platform cannot have such a background load, in one sentence; None: it can. Asks nobody."""
        ...

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Set the platform up for these streams. Raises NodeError; on an error nothing is left changed.

        ``second``: the streams that go through a second guest beside it, which may be none; None: no second guest.
        """
        ...

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """What prepare() would do on the UUT, as lines of a shell, as far as that can be told without asking it."""
        ...

    async def restore(self, uut: AgentLink) -> None:
        """Undo prepare(). Safe to call twice."""
        ...


DriverFor = Callable[[str, Inventory], Driver]
"""The driver of a platform of the inventory. Raises ConfigError for an unknown driver or option."""
