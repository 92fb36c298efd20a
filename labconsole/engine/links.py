"""The links to a testbed's nodes, concurrent requests over them, and the clean-up that a lost node prevented."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from labconsole.contracts.ports import AgentLink, Connect, OnAgentEvent
from labconsole.engine.live.events import Event, NodeChanged, NodeState, Notice
from labconsole.engine.live.history import RecordedLink
from labconsole.engine.live.telemetry import Telemetry
from labconsole.errors import LabError, NodeError, NodeLost, NodeUnreachable
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.envelope import NodeVersions, node_versions
from labconsole.wire.counters import CountersSampled, StartCounters
from labconsole.wire.facts import NodeFacts, ReadFacts
from labconsole.wire.lease import WatchLease
from labconsole.wire.links import LinksChanged, ReadLinks
from labconsole.wire.message import AgentEvent
from labconsole.wire.processors import ProcessorsSampled
from labconsole.wire.session import AgentNotice, OnlyWatch

# -- concurrent requests -----------------------------------------------------------------------------------------------
# Run several requests to nodes concurrently, each of them to its end.


async def run_concurrently(jobs: Iterable[Awaitable[object]]) -> None:
    """Run the jobs concurrently; raise the first LabError, but only after every job has ended.

    A plain task group would cancel the other jobs at the first error, possibly while a node starts something that
    nothing would stop afterwards.
    """
    errors: list[LabError] = []

    async def to_the_end(job: Awaitable[object]) -> None:
        try:
            await job
        except LabError as exc:
            errors.append(exc)

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(to_the_end(job))
    if errors:
        raise errors[0]


# -- links -------------------------------------------------------------------------------------------------------------
# The links to a testbed's nodes: connected concurrently, watched, and re-established with back-off when lost.

log = logging.getLogger("labconsole.engine")

RECONNECT_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Waits between attempts to reach a node again; the last one repeats. Each varies by up to a quarter, so that nodes
lost together do not all reconnect at once."""

MAX_NOTICES = 1000
"""Of one node that are passed on: headless commands print each, and a console keeps 5000 of everything."""


class LinkPool:
    """One task per node keeps its link. ``links``: those that are up; ``facts``: each node's own report.

    ``on_event`` gets every checked event of an agent after telemetry has it, ``on_lost`` a node's name and the reason.
    ``only_watch``: the agents are requested to refuse everything except watching.
    """

    def __init__(
        self,
        inventory: Inventory,
        telemetry: Telemetry,
        *,
        connect: Connect,
        emit: Callable[[Event], None],
        on_event: OnAgentEvent,
        on_lost: Callable[[str, str], None],
        only_watch: bool = False,
    ) -> None:
        self.links: dict[str, AgentLink] = {}
        self.facts: dict[str, NodeFacts] = {}
        self._inventory, self._telemetry = inventory, telemetry
        self._connect_node, self._emit = connect, emit
        self._on_event, self._on_lost, self._only_watch = on_event, on_lost, only_watch
        self._closed = False
        self._notices: Counter[str] = Counter()
        self._connecting = 0
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, asyncio.Event] = {}
        self._again: dict[str, asyncio.Event] = {}

    async def connect(self, nodes: Iterable[str]) -> None:
        """Start keeping these nodes connected; return when none of them is being connected any more.

        A failing node raises nothing here: it is reported as NodeChanged and retried in the background.
        """
        if self._closed:
            return
        names = list(nodes)
        for name in names:
            if name not in self._keepers:
                self._tried[name], self._again[name] = asyncio.Event(), asyncio.Event()
                self._keepers[name] = asyncio.create_task(self._keep(name), name=f"link {name}")
        for name in names:
            await self._tried[name].wait()

    async def close(self) -> None:
        """Close every link for good; return when the agents are gone or their time limits have passed."""
        self._closed = True
        for task in self._keepers.values():
            task.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        self._keepers.clear()

    @property
    def awaits_answer(self) -> bool:
        """Whether an answer of a node is pending, also while connecting; answers are used to compare clocks."""
        return self._connecting > 0 or any(link.awaits_answer for link in self.links.values())

    def reconnect(self, name: str) -> bool:
        """Retry a node now, without waiting for its back-off. Returns False if it is not waiting."""
        live = self._telemetry.nodes.get(name)
        if name not in self._again or live is None or live.retry_at_s is None:
            return False
        self._again[name].set()
        return True

    def require(self, names: Iterable[str]) -> dict[str, AgentLink]:
        """The links of these nodes. Raises NodeUnreachable for the first that is not connected, with the reason."""
        links = {}
        for name in names:
            if name not in self.links:
                message = self._telemetry.nodes[name].message or "is not connected"
                raise NodeUnreachable(name, message, operation="connect")
            links[name] = self.links[name]
        return links

    def versions(self, streams: Iterable[Stream]) -> dict[str, NodeVersions]:
        """Current kernels and drivers of the nodes at both ends of these streams."""
        ends: dict[str, set[str]] = {}
        for stream in streams:
            for end in (stream.source, stream.sink):
                ends.setdefault(end.node, set()).add(end.interface)
        found = {}
        for node, interfaces in ends.items():
            lives = {name: self._telemetry.interfaces.get((node, "", name)) for name in sorted(interfaces)}
            found[node] = node_versions(
                self.facts.get(node), {name: live.link.driver for name, live in lives.items() if live is not None}
            )
        return found

    async def measure_clocks(self, links: Iterable[AgentLink]) -> None:
        """Compare these nodes' clocks with ours again, concurrently. Raises NodeLost.

        Two crystals drift apart by tens of microseconds per second. With an offset taken at the beginning, sources
        would start a tenth of a second apart after an hour of trials, and the same offset would hide that skew.
        """
        compared = list(links)
        await run_concurrently(link.measure_clock() for link in compared)
        for link in compared:
            self.tell_clock(link)

    def tell_clock(self, link: AgentLink) -> None:
        """Publish the link's latest clock measurement."""
        live = self._telemetry.nodes[link.name]
        live.round_trip_s, live.clock_offset_ns = link.round_trip_s, link.clock_offset_ns
        live.clock_error_ns = link.clock_error_ns
        self._telemetry.revision += 1

    async def _keep(self, name: str) -> None:
        failures = 0
        while True:
            self._tried[name].clear()
            self._tell(name, NodeState.CONNECTING)
            link: AgentLink | None = None
            try:
                self._connecting += 1
                try:
                    link = await self._dial(name)
                    await self._adopt(link)
                finally:
                    self._connecting -= 1
                failures = 0
                self._tried[name].set()
                reason = await link.wait_lost()
                self.links.pop(name, None)
                self._tell(name, NodeState.LOST, reason)
                self._on_lost(name, reason)
            except LabError as exc:
                self._tell(name, NodeState.FAILED, getattr(exc, "message", str(exc)))
            except Exception as exc:
                log.exception("keeping the link to %s", name)
                self._tell(name, NodeState.FAILED, f"internal error: {type(exc).__name__}: {exc}")
            finally:
                self._tried[name].set()
                self.links.pop(name, None)
                if link is not None:
                    await link.close()
            wait_s = RECONNECT_S[min(failures, len(RECONNECT_S) - 1)]
            await self._back_off(name, wait_s * random.uniform(0.75, 1.25))
            failures += 1

    async def _dial(self, name: str) -> AgentLink:
        history, began = self._telemetry.nodes[name].history, time.monotonic()
        outcome = "given up"
        try:
            link = await self._connect_node(name, self._inventory, self._receive)
            outcome = "ok"
            return RecordedLink(link, history)
        except LabError as exc:
            outcome = str(getattr(exc, "message", exc))
            raise
        finally:
            history.tried_to_connect(self._inventory.nodes[name].address, outcome, time.monotonic() - began)

    async def _back_off(self, name: str, seconds: float) -> None:
        live, again = self._telemetry.nodes[name], self._again[name]
        again.clear()
        live.retry_at_s = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await again.wait()
        except TimeoutError:
            pass
        finally:
            live.retry_at_s = None

    async def _adopt(self, link: AgentLink) -> None:
        name = link.name
        if self._only_watch:
            await link.ask(OnlyWatch())  # first of all: from here on the agent refuses everything else
        self._telemetry.set_links(name, (await link.ask(ReadLinks())).links)
        self.facts[name] = await link.ask(ReadFacts())
        # Before the counters: while another session counts there, they do not start yet.
        await link.ask(WatchLease(on=True))
        await link.ask(StartCounters(interval_s=self._inventory.defaults.sample_interval_s))
        self.links[name] = link
        live = self._telemetry.nodes[name]
        live.facts = self.facts[name]
        self.tell_clock(link)
        live.kernel = link.hello.kernel or ""
        self._tell(name, NodeState.CONNECTED)

    def _tell(self, name: str, state: NodeState, message: str = "") -> None:
        live = self._telemetry.nodes[name]
        if (live.state, live.message) == (state, message):
            return
        if live.state is NodeState.FAILED and state is NodeState.CONNECTING:
            return  # keep the reason on screen during the retry
        live.enter(state, message)
        self._telemetry.revision += 1
        self._emit(NodeChanged(node=name, state=state, message=message))

    def _receive(self, node: str, event: AgentEvent) -> None:
        if isinstance(event, CountersSampled):
            self._telemetry.add_counters(node, event)
            self._telemetry.nodes[node].missed_samples += event.missed
        elif isinstance(event, ProcessorsSampled):
            self._telemetry.set_processors(node, event)
        elif isinstance(event, LinksChanged):
            self._telemetry.set_links(node, event.links)
        elif isinstance(event, AgentNotice):
            self._pass_on(node, event)
        self._on_event(node, event)

    def _pass_on(self, node: str, notice: AgentNotice) -> None:
        """Emit a notice of a node, and after the last that is passed on say so once."""
        self._notices[node] += 1
        if self._notices[node] <= MAX_NOTICES:
            self._emit(Notice(severity="warning", message=notice.message, node=node))
        elif self._notices[node] == MAX_NOTICES + 1:
            words = f"sent more than {MAX_NOTICES} notices; further ones are not shown"
            self._emit(Notice(severity="warning", message=words, node=node))


# -- deferred cleanup --------------------------------------------------------------------------------------------------
# Clean-up that a lost UUT prevented: its agent undid its own changes, but a hypervisor keeps guests running.


class Restorable(Protocol):
    """The part of a driver that undoes what it did."""

    async def restore(self, uut: AgentLink) -> None: ...


class DeferredCleanup:
    """Drivers that have something to undo as soon as the UUT is back."""

    def __init__(self, inventory: Inventory, pool: LinkPool, emit: Callable[[Event], None]) -> None:
        self._inventory, self._pool, self._emit = inventory, pool, emit
        self._drivers: list[Restorable] = []

    def defer(self, driver: Restorable) -> None:
        """Note the driver if its guests outlive the agent; otherwise nothing is left to undo."""
        if getattr(driver, "outlives_agent", False):  # a plug-in driver may lack the attribute
            self._drivers.append(driver)

    async def settle(self, *more: Restorable) -> None:
        """Restore noted drivers and ``more``. What cannot be undone is reported."""
        drivers, self._drivers = [*self._drivers, *more], []
        link = self._pool.links.get(self._inventory.uut)
        for driver in drivers:
            if link is None:
                self.defer(driver)
                continue
            try:
                await driver.restore(link)
            except NodeLost:
                self.defer(driver)
            except NodeError as exc:
                self._emit(Notice(severity="warning", message=f"restoring the platform: {exc.message}", node=link.name))
