"""What every platform driver does, and what the engine gets from it.

A driver runs on the operator's side and works on the UUT only through its agent, so that everything it changes is
undone by the agent when the run, the link or the console ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from labconsole.engine.ports import AgentLink


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


Attest = Callable[[AgentLink], Awaitable[dict[str, Any]]]
"""Asks the UUT what runs now, in the words of the attestation. Raises NodeError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A platform that is set up and forwards. ``attestation`` goes into the record: what exactly runs.

    ``attest`` asks again after each trial: what it then says must equal ``attestation``, or the run is void. It must
    hold nothing that changes by itself. None: the driver cannot ask.
    """

    paths: dict[str, StreamPath]
    attestation: dict[str, Any] = field(default_factory=dict)
    attest: Attest | None = None


class Driver(Protocol):
    """One platform driver. Created with the options of hosts.yaml; raises ConfigError for one it does not know."""

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Set the platform up for these streams. Raises NodeError; on an error nothing is left changed."""
        ...

    async def restore(self, uut: AgentLink) -> None:
        """Undo prepare(). Safe to call twice."""
        ...
