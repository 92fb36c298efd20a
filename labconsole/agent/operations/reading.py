"""A console's readings of a node. Readers that not every session needs are imported on first use."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Optional, TypeVar

from labconsole.agent.operations import handles
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading import facts
from labconsole.agent.reading.links import Links
from labconsole.wire.changes import NetworkState, ReadNetwork
from labconsole.wire.clocks import KeptClock, NicClock, ReadClockKeeper, ReadNicClock
from labconsole.wire.codec import WireError
from labconsole.wire.drops import DropCounters, ReadDrops
from labconsole.wire.facts import NodeFacts, ReadFacts
from labconsole.wire.foreign import (
    ForeignCounts,
    HoldSinkPorts,
    ReleaseSinkPorts,
    SinkPortStates,
    StartTaps,
    StopTaps,
)
from labconsole.wire.host_activity import NodeSurroundings, ReadSurroundings
from labconsole.wire.links import NodeLinks, NodeLinkState, ReadLinks
from labconsole.wire.memory import HeldMemories, HeldMemory, ReadMemory
from labconsole.wire.message import Done
from labconsole.wire.processor_work import BeginProcessorWork, EndProcessorWork, NodeWork
from labconsole.wire.settings import NodeSettings, ReadSettings
from labconsole.wire.usage import ProcessUsage, Usage

T = TypeVar("T")


class Reading:
    """The readings of one session."""

    def __init__(self, namespaces: Namespaces, links: Links) -> None:
        self._namespaces, self._links = namespaces, links
        self._taps: Any = None
        self._sink_ports: Any = None
        self._surroundings: Any = None
        self._work: Any = None

    def close(self) -> None:
        """Stop all counting at ports, and release all ports."""
        for part in (self._taps, self._sink_ports):
            if part is not None:
                part.close()

    async def in_namespace(self, name: Optional[str], work: Callable[[], T]) -> T:
        """Call ``work()`` in a thread inside this namespace, or None for the node's own."""
        namespace = self._namespaces.require(name or "")
        result: T = await _run_in_thread(linux.run_in_namespace, namespace, work)
        return result

    @handles(ReadFacts)
    async def facts(self, request: ReadFacts) -> NodeFacts:
        return NodeFacts(**await facts.read())

    @handles(ReadClockKeeper)
    async def clock_keeper(self, request: ReadClockKeeper) -> KeptClock:
        from labconsole.agent.reading import clocks

        return await clocks.read(request.keeper)

    @handles(ReadNicClock)
    async def nic_clock(self, request: ReadNicClock) -> NicClock:
        from labconsole.agent.reading import clocks

        def read() -> NicClock:
            ahead_ns, error_ns = clocks.offset_ns(request.interface)
            return NicClock(at_ns=time.time_ns() + ahead_ns, ahead_ns=ahead_ns, error_ns=error_ns)

        return await self.in_namespace(None, read)

    @handles(ReadLinks)
    async def links(self, request: ReadLinks) -> NodeLinks:
        return NodeLinks(links=[NodeLinkState(**link) for link in await self._links.read()])

    @handles(ReadSettings)
    async def settings(self, request: ReadSettings) -> NodeSettings:
        from labconsole.agent.reading import settings

        return NodeSettings(**await self.in_namespace(request.namespace, lambda: settings.read(request.ports)))

    @handles(ReadDrops)
    async def drops(self, request: ReadDrops) -> DropCounters:
        from labconsole.agent.reading import drops

        return DropCounters(**await drops.read(self._namespaces, request.interfaces))

    @handles(ReadSurroundings)
    async def surroundings(self, request: ReadSurroundings) -> NodeSurroundings:
        if self._surroundings is None:
            from labconsole.agent.reading.host_activity import HostActivity

            self._surroundings = HostActivity()
        guests, own = request.guests or [], request.own or []
        return NodeSurroundings(
            **await _run_in_thread(self._surroundings.read, request.begin, guests, own, request.console)
        )

    @handles(BeginProcessorWork)
    async def begin_work(self, request: BeginProcessorWork) -> Done:
        from labconsole.agent.reading.processor_work import WorkWindow

        self._work = WorkWindow()
        await _run_in_thread(self._work.begin, request.interfaces)
        return Done()

    @handles(EndProcessorWork)
    async def end_work(self, request: EndProcessorWork) -> NodeWork:
        found = None if self._work is None else await _run_in_thread(self._work.end)
        if found is None:
            raise WireError("not_found", "no window is open")
        self._work = None
        return NodeWork(**found)

    @handles(ProcessUsage)
    async def usage(self, request: ProcessUsage) -> Usage:
        from labconsole.agent.reading import process_usage

        return Usage(**await _run_in_thread(process_usage.read_usage, request.pids))

    @handles(ReadMemory)
    async def memory(self, request: ReadMemory) -> HeldMemories:
        from labconsole.agent.reading import process_usage

        found = await _run_in_thread(process_usage.read_memory, request.pids)
        return HeldMemories(processes=[HeldMemory(**each) for each in found])

    @handles(ReadNetwork)
    async def network(self, request: ReadNetwork) -> NetworkState:
        from labconsole.agent.reading import links
        from labconsole.network import sysctl

        def read() -> NetworkState:
            return NetworkState(
                sysctls=sysctl.read_many(request.sysctls or []),
                routes=links.read_routes() if request.routes else None,
                neighbours=links.read_neighbours() if request.neighbours else None,
            )

        return await self.in_namespace(request.namespace, read)

    @handles(StartTaps)
    async def start_taps(self, request: StartTaps) -> Done:
        from labconsole.agent.reading.port_listeners import PortTaps

        if self._taps is None:
            self._taps = PortTaps()
        self._taps.start(request.ports)
        return Done()

    @handles(StopTaps)
    async def stop_taps(self, request: StopTaps) -> ForeignCounts:
        return ForeignCounts(ports=[] if self._taps is None else self._taps.stop())

    @handles(HoldSinkPorts)
    async def hold_sink_ports(self, request: HoldSinkPorts) -> SinkPortStates:
        from labconsole.agent.reading.port_listeners import SinkPorts

        if self._sink_ports is None:
            self._sink_ports = SinkPorts()
        return SinkPortStates(ports=self._sink_ports.hold(request.ports))

    @handles(ReleaseSinkPorts)
    async def release_sink_ports(self, request: ReleaseSinkPorts) -> Done:
        if self._sink_ports is not None:
            self._sink_ports.close()
        return Done()


async def _run_in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a thread, so that the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)
