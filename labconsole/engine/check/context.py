"""What every check is given: the testbed as the session knows it, what was asked for, and readings shared by checks.

Several checks look at the same reading of a node. It is asked for once, by whoever needs it first, and its failure is
the failure of each of them.
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
"""How long a node may take to answer a reading."""

ETHERNET_HEADER_BYTES = 14
USUAL_PKT_SIZE_BYTES = 1500 + ETHERNET_HEADER_BYTES

NFT = "nft"
"""Lists the rules of a firewall."""

STRESS = "stress"
"""Makes a second guest's load."""

FIX_TOKEN = "check"
"""Under this name the agents keep what --fix changed, to undo it when the check's session ends."""

CheckOfNode = Callable[["CheckContext", str], Awaitable[CheckFinding]]

_BY_MODULE: dict[str, list[Check]] = {}


class Wave(IntEnum):
    """When a check is made: all of a wave on all nodes side by side, one wave after the other."""

    FIRST = 0
    FIXES = 1
    """With --fix, what the others find depends on these."""
    OTHERS = 2
    LINKS = 3
    """May reset a link, which would spoil what others look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: a stable id, a title for people, the code, and how long it may take.

    ``roles``: on which nodes. ``without_link``: it has something to say of a node that is not connected.
    """

    id: str
    title: str
    run: CheckOfNode
    roles: tuple[str, ...] = ("source", "uut", "sink")
    wave: Wave = Wave.OTHERS
    without_link: bool = False
    deadline_s: float = 10.0


def check(ident: str, title: str, **how: Any) -> Callable[[CheckOfNode], CheckOfNode]:
    """Enter a coroutine of a context and a node as a check; ``how``: the other fields of Check."""

    def enter(run: CheckOfNode) -> CheckOfNode:
        entered = Check(id=ident, title=title, run=run, **how)
        _BY_MODULE.setdefault(run.__module__, []).append(entered)
        return run

    return enter


def find_checks(subjects: Iterable[ModuleType]) -> list[Check]:
    """The checks of these modules in the order of reading: what others depend on, then as they stand in the files."""
    found = [each for subject in subjects for each in _BY_MODULE.get(subject.__name__, ())]
    return sorted(found, key=lambda each: min(each.wave, Wave.OTHERS))  # sorted() is stable


class CheckContext:
    """One preflight's view of a testbed."""

    def __init__(self, session: Session[Any], plan: Plan | None, *, fix: bool) -> None:
        self.inventory: Inventory = session.inventory
        self.session, self.fix = session, fix
        self.plan = plan.resolved(self.inventory) if plan is not None else None
        self.leased: list[str] = []
        """Nodes whose lease the check holds."""
        self._readings: dict[tuple[str, str], asyncio.Future[Any]] = {}

    @property
    def links(self) -> dict[str, AgentLink]:
        """The links that stand now."""
        return self.session.links

    def link(self, node: str) -> AgentLink:
        """Raises NodeUnreachable with the reason when the node is not connected."""
        if node not in self.links:
            raise NodeUnreachable(node, self.why_not(node), operation="check")
        return self.links[node]

    def why_not(self, node: str) -> str:
        """Why a node is not connected, in its own words."""
        return self.session.telemetry.nodes[node].message or "is not connected"

    async def facts(self, node: str) -> NodeFacts:
        """What the node says of itself now: since it was connected, somebody may have logged in or installed a tool."""
        return await self.read(node, ReadFacts())

    def roles(self, node: str) -> tuple[str, ...]:
        """Source, uut, sink."""
        return tuple(self.inventory.nodes[node].roles)

    def streams(self, sources: int | None = None) -> list[Stream]:
        """The streams under check: all, or as many as the plan uses at most, a second guest's own included."""
        most = sources or (max(self.plan.sources) if self.plan is not None else len(self.inventory.streams))
        if sources is None and self.plan is not None:
            asked = {(p.request.sources, p.request.background != "none") for p in self.plan.points}
            own = [self.inventory.second_stream(number) for number, beside in asked if beside]
            most = max([most, *(self.inventory.streams.index(stream) + 1 for stream in own if stream is not None)])
        return list(self.inventory.streams[:most])

    def platforms(self) -> list[str]:
        """The platforms under check: the plan's, else the inventory's first. None that bypasses the UUT."""
        named = list(self.plan.platforms) if self.plan is not None else list(self.inventory.platforms)[:1]
        there = self.inventory.platforms
        return [name for name in named if name in there and there[name].driver != "bypass"]

    def tools(self) -> dict[str, str]:
        """What the platforms under check run on the UUT: program to platform."""
        about = {name: self.session.driver_for(name, self.inventory).about for name in self.platforms()}
        needed = {tool: name for name, driver in about.items() for tool in driver.tools}
        points = self.plan.points if self.plan is not None else ()
        wanted = {point.request.platform for point in points if point.request.background in ("light", "heavy")}
        loaded = [name for name, driver in about.items() if name in wanted and not driver.load_inside]
        if loaded:
            needed[STRESS] = f"the background load of {', '.join(loaded)}"
        return needed

    def usable(self) -> tuple[list[Stream], list[str]]:
        """The streams over which frames can be sent now, and why each of the others cannot."""
        usable, reasons = [], []
        for stream in self.streams():
            reason = next((r for r in (self.blocked(*place) for place in self.hops(stream)) if r is not None), None)
            if reason is None:
                usable.append(stream)
            else:
                reasons.append(f"{stream.name}: {reason}")
        return usable, reasons

    def blocked(self, node: str, interface: str) -> str | None:
        """Why no frame of ours can pass a port; None when it can."""
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
        """(node, interface) of every data port on a stream's way, in order."""
        return [
            (stream.source.node, stream.source.interface),
            (self.inventory.uut, stream.uut_in),
            (self.inventory.uut, stream.uut_out),
            (stream.sink.node, stream.sink.interface),
        ]

    async def read(self, node: str, request: Request[R]) -> R:
        """A node's answer, asked for once however many checks want it."""
        key = (node, request.op)
        if key not in self._readings:
            self._readings[key] = asyncio.ensure_future(self.link(node).ask(request, timeout_s=READ_S))
        # A check that runs out of time must not take the reading from the others.
        reply: R = await asyncio.shield(self._readings[key])
        return reply

    async def settings(self, node: str) -> NodeSettings:
        """How the node is set."""
        return await self.read(node, ReadSettings())

    async def survey(self, node: str) -> Survey:
        """What else is on the node."""
        directory, guests = self.inventory.nodes[node].capture_dir, list(self.session.guest_processes())
        return await self.read(node, TakeSurvey(tools=[NFT, *self.tools()], capture_directory=directory, guests=guests))

    def forget(self, node: str) -> None:
        """Read this node anew from now on: something was changed there."""
        for key in [key for key in self._readings if key[0] == node]:
            self._readings.pop(key).cancel()

    def frame_sizes(self) -> tuple[int, int]:
        """Shortest and longest frame in bytes without FCS: the plan's, else what Ethernet has as a rule."""
        if self.plan is None:
            return MIN_PKT_SIZE_BYTES, USUAL_PKT_SIZE_BYTES
        sizes = [point.request.frame.pkt_size_bytes for point in self.plan.points]
        return min(sizes), max(sizes)

    async def close(self) -> None:
        """End readings nobody waits for any more."""
        for task in self._readings.values():
            task.cancel()
        await asyncio.gather(*self._readings.values(), return_exceptions=True)


def alike(said: dict[str, str]) -> str:
    """What each of several ports says, those that say the same together: ``"eth1, eth2 up; eth3 down"``."""
    groups: dict[str, list[str]] = {}
    for name, text in said.items():
        groups.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(sorted(names))} {text}" for text, names in groups.items())
