"""Context shared by all checks: the testbed as the session knows it, the request, and shared readings of nodes.

Several checks use the same reading of a node. The first check that needs it requests it, and its failure is the failure
of each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.result import CheckFinding
from labconsole.errors import NodeUnreachable
from labconsole.model.design_point import MIN_PKT_SIZE_BYTES
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.plan.plan import Plan
from labconsole.wire.facts import NodeFacts, ReadFacts
from labconsole.wire.message import R, Request
from labconsole.wire.settings import NodeSettings, ReadSettings
from labconsole.wire.survey import Survey, TakeSurvey

if TYPE_CHECKING:
    from labconsole.engine.session import Session

READ_S = 8.0
"""Time limit for a node's answer to a reading."""

ETHERNET_HEADER_BYTES = 14
USUAL_PKT_SIZE_BYTES = 1500 + ETHERNET_HEADER_BYTES

NFT = "nft"
"""Program that lists firewall rules."""

STRESS = "stress"
"""Program that loads a second guest."""

FIX_TOKEN = "check"
"""The agents keep what --fix changed under this name, and undo it when the check's session ends."""

CheckOfNode = Callable[["CheckContext", str], Awaitable[CheckFinding]]

_BY_MODULE: dict[str, list[Check]] = {}


class Wave(IntEnum):
    """When a check is made: a wave runs on all nodes concurrently, one wave after the other."""

    FIRST = 0
    FIXES = 1
    """With --fix, later checks depend on these."""
    OTHERS = 2
    LINKS = 3
    """May reset a link, which would spoil other checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: a stable id, a title for people, the code, and a time limit.

    ``roles``: the nodes it runs on. ``without_link``: it also reports on a node that is not connected.
    """

    id: str
    title: str
    run: CheckOfNode
    roles: tuple[str, ...] = ("source", "uut", "sink")
    wave: Wave = Wave.OTHERS
    without_link: bool = False
    deadline_s: float = 10.0


def check(ident: str, title: str, **how: Any) -> Callable[[CheckOfNode], CheckOfNode]:
    """Register a coroutine of a context and a node as a check; ``how``: the other fields of Check."""

    def enter(run: CheckOfNode) -> CheckOfNode:
        entered = Check(id=ident, title=title, run=run, **how)
        _BY_MODULE.setdefault(run.__module__, []).append(entered)
        return run

    return enter


def find_checks(subjects: Iterable[ModuleType]) -> list[Check]:
    """The checks of these modules in reading order: prerequisites first, then in the order of the files."""
    found = [each for subject in subjects for each in _BY_MODULE.get(subject.__name__, ())]
    return sorted(found, key=lambda each: min(each.wave, Wave.OTHERS))  # sorted() is stable


class CheckContext:
    """One preflight's view of a testbed."""

    def __init__(self, session: Session[Any], plan: Plan | None, *, fix: bool) -> None:
        self.inventory: Inventory = session.inventory
        self.session, self.fix = session, fix
        self.plan = plan.resolved(self.inventory) if plan is not None else None
        self.leased: list[str] = []
        """Nodes leased by the check."""
        self._readings: dict[tuple[str, str], asyncio.Future[Any]] = {}

    @property
    def links(self) -> dict[str, AgentLink]:
        """The links that are up now."""
        return self.session.links

    def link(self, node: str) -> AgentLink:
        """A node's link. Raises NodeUnreachable with the reason if the node is not connected."""
        if node not in self.links:
            raise NodeUnreachable(node, self.why_not(node), operation="check")
        return self.links[node]

    def why_not(self, node: str) -> str:
        """Why a node is not connected, in its own words."""
        return self.session.telemetry.nodes[node].message or "is not connected"

    async def facts(self, node: str) -> NodeFacts:
        """The node's facts now; since it was connected, users may have logged in or installed tools."""
        return await self.read(node, ReadFacts())

    def roles(self, node: str) -> tuple[str, ...]:
        """The node's roles: source, uut, sink."""
        return tuple(self.inventory.nodes[node].roles)

    def streams(self, sources: int | None = None) -> list[Stream]:
        """The streams under check: as many as the plan uses at most, including a second guest's own, else all."""
        most = sources or (max(self.plan.sources) if self.plan is not None else len(self.inventory.streams))
        if sources is None and self.plan is not None:
            wanted = {(p.request.sources, p.request.background != "none") for p in self.plan.points}
            own = [self.inventory.second_stream(number) for number, shared in wanted if shared]
            most = max([most, *(self.inventory.streams.index(stream) + 1 for stream in own if stream is not None)])
        return list(self.inventory.streams[:most])

    def platforms(self) -> list[str]:
        """The platforms under check: the plan's, else the inventory's first; never one that bypasses the UUT."""
        named = list(self.plan.platforms) if self.plan is not None else list(self.inventory.platforms)[:1]
        there = self.inventory.platforms
        return [name for name in named if name in there and there[name].driver != "bypass"]

    def tools(self) -> dict[str, str]:
        """Programs that the platforms under check run on the UUT, by name, with the platform."""
        about = {name: self.session.driver_for(name, self.inventory).about for name in self.platforms()}
        needed = {tool: name for name, driver in about.items() for tool in driver.tools}
        points = self.plan.points if self.plan is not None else ()
        wanted = {point.request.platform for point in points if point.request.background in ("light", "heavy")}
        loaded = [name for name, driver in about.items() if name in wanted and not driver.load_inside]
        if loaded:
            needed[STRESS] = f"the background load of {', '.join(loaded)}"
        return needed

    def usable(self) -> tuple[list[Stream], list[str]]:
        """The streams over which frames can be sent now, and the reasons why the others are not usable."""
        usable, reasons = [], []
        for stream in self.streams():
            reason = next((r for r in (self.blocked(*place) for place in self.hops(stream)) if r is not None), None)
            if reason is None:
                usable.append(stream)
            else:
                reasons.append(f"{stream.name}: {reason}")
        return usable, reasons

    def blocked(self, node: str, interface: str) -> str | None:
        """Why this console cannot send frames through a port, or None if it can."""
        if node not in self.links:
            return f"{node} is not connected"
        if node not in self.leased:
            return f"this console does not hold the lease of {node}"
        live = self.session.telemetry.interfaces.get((node, "", interface))
        if live is None:
            return f"{node} has no {interface}"
        return None if live.link.up and live.link.carrier else f"{node}/{interface} has no carrier"

    def ports(self, node: str) -> dict[str, list[Stream]]:
        """The node's data interfaces, and the streams that pass them."""
        found: dict[str, list[Stream]] = {}
        for stream in self.inventory.streams:
            for where, interface in self.hops(stream):
                if where == node:
                    found.setdefault(interface, []).append(stream)
        return found

    def hops(self, stream: Stream) -> list[tuple[str, str]]:
        """(node, interface) of every data port on a stream's path, in order."""
        return [
            (stream.source.node, stream.source.interface),
            (self.inventory.uut, stream.uut_in),
            (self.inventory.uut, stream.uut_out),
            (stream.sink.node, stream.sink.interface),
        ]

    async def read(self, node: str, request: Request[R]) -> R:
        """A node's answer to a request, read once for all checks."""
        key = (node, request.op)
        if key not in self._readings:
            self._readings[key] = asyncio.ensure_future(self.link(node).ask(request, timeout_s=READ_S))
        # A check that exceeds its time must not cancel the reading for the others.
        reply: R = await asyncio.shield(self._readings[key])
        return reply

    async def settings(self, node: str) -> NodeSettings:
        """The node's settings."""
        return await self.read(node, ReadSettings())

    async def survey(self, node: str) -> Survey:
        """The node's survey: tools, disk, processes, leftovers and more."""
        directory, guests = self.inventory.nodes[node].capture_dir, list(self.session.guest_processes())
        return await self.read(node, TakeSurvey(tools=[NFT, *self.tools()], capture_directory=directory, guests=guests))

    def forget(self, node: str) -> None:
        """Discard readings of this node, because something was changed there."""
        for key in [key for key in self._readings if key[0] == node]:
            self._readings.pop(key).cancel()

    def frame_sizes(self) -> tuple[int, int]:
        """Shortest and longest frame in bytes without FCS: the plan's, else the usual Ethernet limits."""
        if self.plan is None:
            return MIN_PKT_SIZE_BYTES, USUAL_PKT_SIZE_BYTES
        sizes = [point.request.frame.pkt_size_bytes for point in self.plan.points]
        return min(sizes), max(sizes)

    async def close(self) -> None:
        """Cancel readings that no check awaits."""
        for task in self._readings.values():
            task.cancel()
        await asyncio.gather(*self._readings.values(), return_exceptions=True)


def alike(texts: dict[str, str]) -> str:
    """Texts by port, with equal ones grouped: ``"eth1, eth2 up; eth3 down"``."""
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(sorted(names))} {text}" for text, names in groups.items())
