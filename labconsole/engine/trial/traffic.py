"""The traffic of one trial: its sources, the captures at its sinks, and taps for frames that are not its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.trial.setup import Flow, TrialSettings, capture_request, sink_port
from labconsole.errors import AgentError, NodeError, NodeLost, NodeUnreachable
from labconsole.model.record.run import Figures
from labconsole.network.nic_features import NicStamps
from labconsole.verdict.observations import NicClockObservation, StreamObservations, TappedFrames, TrialObservations
from labconsole.wire.capture import CaptureDied, DrainCapture, StopCapture
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.clocks import ReadNicClock
from labconsole.wire.foreign import (
    HoldSinkPorts,
    OwnStream,
    ReleaseSinkPorts,
    SinkPort,
    SinkPortState,
    StartTaps,
    StopTaps,
    TappedPort,
)
from labconsole.wire.generator import SentStream, StartGenerator
from labconsole.wire.message import R, Request

# -- sources -----------------------------------------------------------------------------------------------------------
# The sources of one trial: started together and awaited; their reports are always collected.

START_LEAD_S = 0.05
"""Delay between the command and the start of sending, so that the command reaches all sources in time."""

COLLECT_S = 5.0
"""Time that a stopped source may take to report."""


class Sources:
    """Manages the sources of a trial. ``nodes``: the sending nodes, each once."""

    def __init__(self, streams: Sequence[StreamObservations], links: dict[str, AgentLink], live: LiveStreams) -> None:
        self.nodes = list(dict.fromkeys(seen.stream.source.node for seen in streams))
        self._streams, self._links, self._live = streams, links, live
        self._done: dict[str, asyncio.Future[list[SentStream]]] = {}

    def finished(self, node: str, results: list[SentStream]) -> None:
        """Take a node's report that its streams have ended."""
        self._live.finished(node, results)
        if node in self._done and not self._done[node].done():
            self._done[node].set_result(results)

    def lost(self, node: str, reason: str, operation: str) -> None:
        """Give up waiting for a lost node."""
        if node in self._done and not self._done[node].done():
            self._done[node].set_exception(NodeLost(node, reason, operation=operation))

    async def start(self, progress_interval_s: float) -> float:
        """Send the start command to all sources; return the seconds until they begin."""
        loop = asyncio.get_running_loop()
        self._done = {node: loop.create_future() for node in self.nodes}
        for future in self._done.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())  # read later, or never after an abort
        lead_s = START_LEAD_S + max(self._links[node].round_trip_s for node in self.nodes)
        at_ns = time.monotonic_ns() + int(lead_s * 1e9)
        self._live.begin_sending(at_ns)

        async def begin(node: str) -> None:
            link = self._links[node]
            at_its_ns = at_ns + link.monotonic_offset_ns
            await link.ask(StartGenerator(at_monotonic_ns=at_its_ns, progress_interval_s=progress_interval_s))

        await run_concurrently(begin(node) for node in self.nodes)
        return lead_s

    async def wait(self, limit_s: float, interrupt: asyncio.Future[str]) -> bool:
        """Wait until all have ended or ``interrupt`` comes; return False if the time was up before."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while not all(f.done() for f in self._done.values()) and not interrupt.done():
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            pending: list[asyncio.Future[Any]] = [f for f in self._done.values() if not f.done()]
            await asyncio.wait([*pending, interrupt], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def collect(self, stop: Callable[[str], Awaitable[None]]) -> float | None:
        """Put every report into its stream, after stopping sources that still send.

        Returns the seconds between the first and the last source to start, clocks reconciled; None with one source.
        """
        late = [node for node, future in self._done.items() if not future.done()]
        for node in late:
            await stop(node)
        if late:
            await asyncio.wait([self._done[node] for node in late], timeout=COLLECT_S)
        starts: list[int] = []
        for node, future in self._done.items():
            if not future.done() or future.exception() is not None:
                continue
            for result in future.result():
                for seen in self._streams:
                    # A node reports for its own streams only.
                    if seen.stream.name == result.stream and seen.stream.source.node == node:
                        seen.generated = result
                if result.started_monotonic_ns is not None:
                    starts.append(result.started_monotonic_ns - self._links[node].monotonic_offset_ns)
        return (max(starts) - min(starts)) / 1e9 if len(starts) > 1 else None


# -- captures ----------------------------------------------------------------------------------------------------------
# The captures of one trial: opened before traffic, drained while packets arrive, closed and counted afterwards.

CLOCK_S = 10.0
CLOSE_S = 120.0
"""Time that a sink may take to count the rest of its capture."""


class TrialCaptures:
    """One capture at the sink of every stream. ``let_go`` requests a node to end something, and notes failures."""

    def __init__(
        self,
        seen: TrialObservations,
        flows: Sequence[Flow],
        links: dict[str, AgentLink],
        settings: TrialSettings,
        let_go: Callable[[str, Request[Any]], Awaitable[None]],
    ) -> None:
        self._seen, self._flows, self._links = seen, flows, links
        self._settings, self._let_go = settings, let_go
        self._dead: set[str] = set()

    async def start(self, stack: AsyncExitStack) -> None:
        """Open all captures; ``stack`` closes them, also after a failure."""

        async def open_one(flow: Flow, seen: StreamObservations) -> None:
            stream, node = seen.stream, seen.stream.sink.node
            by_nic = node in self._settings.nic_stamps
            if by_nic:
                token, change = f"stamps-{stream.name}", NicStamps(interface=stream.sink.interface)
                stack.push_async_callback(self._let_go, node, UndoChanges(token=token))
                try:
                    await self._links[node].ask(ApplyChanges(token=token, changes=[change]))
                except AgentError as exc:
                    if exc.code != "not_supported":
                        raise
                    text = (
                        f"{exc.message}; hosts.yaml requires it: remove capture_stamps: nic from {node}, or use a NIC "
                        "that stamps every frame"
                    )
                    raise AgentError(node, text, code=exc.code, operation=exc.operation, detail=exc.detail) from exc
                seen.nic_clock = NicClockObservation()
                await self._read_clock(seen)
            stack.push_async_callback(self._let_go, node, StopCapture(capture=stream.name))
            wish = capture_request(
                flow,
                capture=stream.name,
                generator=seen.prepared.generator if seen.prepared is not None else "",
                buffer_kib=self._settings.capture_buffer_kib,
                directory=self._settings.capture_directories.get(node),
                run_id=self._seen.run_id,
                spacing=self._settings.spacing,
                nic_stamps=by_nic,
            )
            await self._links[node].ask(wish)

        await run_concurrently(open_one(flow, seen) for flow, seen in zip(self._flows, self._seen.flows, strict=True))

    def note_death(self, node: str, event: CaptureDied) -> None:
        """Note that a capture of the trial ended by itself: once, however often its node says so."""
        own = any((flow.stream.name, flow.stream.sink.node) == (event.capture, node) for flow in self._flows)
        if own and event.capture not in self._dead:
            self._dead.add(event.capture)
            self._seen.notes.append({"node": node, "kind": "capture_died", "detail": event.message})

    async def drain(self) -> None:
        """Have the sinks count what they captured so far, so that closing is quick."""
        await run_concurrently(
            self._let_go(seen.stream.sink.node, DrainCapture(capture=seen.stream.name, sending_ns=_sending_ns(seen)))
            for seen in self._seen.flows
        )

    async def stop(self) -> None:
        """Close all captures. If one fails, the sink's counters remain, and the verdict reports it missing."""

        async def close_one(seen: StreamObservations) -> None:
            wish = StopCapture(capture=seen.stream.name, sending_ns=_sending_ns(seen))
            try:
                seen.capture = await self._links[seen.stream.sink.node].ask(wish, timeout_s=CLOSE_S)
            except NodeError as exc:
                self._seen.notes.append({"node": exc.node, "kind": "capture_failed", "detail": exc.message})
            await self._read_clock(seen)

        await run_concurrently(close_one(seen) for seen in self._seen.flows)

    async def _read_clock(self, seen: StreamObservations) -> None:
        """Read the clock of the NIC that stamps the capture, if any. A failure to read it does not end the trial."""
        if seen.nic_clock is None:
            return
        try:
            request = ReadNicClock(interface=seen.stream.sink.interface)
            seen.nic_clock.readings.append(await self._links[seen.stream.sink.node].ask(request, timeout_s=CLOCK_S))
        except NodeError as exc:
            seen.nic_clock.refused = exc.message


def _sending_ns(seen: StreamObservations) -> int | None:
    """How long the stream was sent; packets that came later than that after the first one were queued."""
    return seen.generated.elapsed_ns if seen.generated is not None else None


# -- foreign taps ------------------------------------------------------------------------------------------------------
# Watches the ends of a trial's streams for foreign frames, and keeps the sinks' own kernels from sending any.
#
# The taps name foreign frames for the verdict. They watch the ends only, never the unit under test: watching it changes
# the measurement, and the other ends of its cables see the same frames. Counting does not depend on them, so a node
# that cannot watch does not end a trial: its excess frames then have no name.

EVERY_BELOW_PPS = 50_000
"""Up to this rate on a port, every frame may be inspected: at 0.3 microseconds each, 1.5 % of one processor."""

TAPS_TIMEOUT_S = 10.0


class ForeignTaps:
    """The taps of one trial; their counts are in ``seen.foreign`` once they have stopped."""

    def __init__(self, seen: TrialObservations, links: dict[str, AgentLink], flows: Sequence[Flow]) -> None:
        self._seen, self._links = seen, links
        self._ports = ports_to_watch(flows)
        self._watching: list[str] = []
        self._holder = SinkPortHolder(seen, links, flows)

    async def open(self, stack: AsyncExitStack) -> None:
        """Keep the sinks' kernels from answering; ``stack`` stops the taps, then releases the sinks' ports."""
        stack.push_async_callback(self._holder.release)
        stack.push_async_callback(self.stop)
        await self._holder.hold()

    async def start(self) -> None:
        """Start to watch, on all nodes concurrently."""
        await run_concurrently(self._start(node) for node in self._ports)

    async def stop(self) -> None:
        """Collect the counts, after the counters were read for the last time."""
        await run_concurrently(self._stop(node) for node in self._watching)

    async def _start(self, node: str) -> None:
        self._watching.append(node)
        if await self._ask(node, StartTaps(ports=self._ports[node])) is None:
            self._watching.remove(node)

    async def _stop(self, node: str) -> None:
        reply = await self._ask(node, StopTaps())
        for port in reply.ports if reply is not None else ():
            self._seen.foreign[node, port.interface] = TappedFrames(port.every, port.received, port.sent)

    async def _ask(self, node: str, request: Request[R]) -> R | None:
        try:
            return await self._links[node].ask(request, timeout_s=TAPS_TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return None  # the trial learns that by itself
        except NodeError as exc:
            self._seen.notes.append({"node": node, "kind": "foreign_unnamed", "detail": f"{request.op}: {exc.message}"})
            return None


class SinkPortHolder:
    """Occupies the UDP ports at the sinks that a trial's streams go to, so that no kernel answers a test frame.

    If a port cannot be occupied, the trial continues: the notes say so, and the taps name the answers.
    """

    def __init__(self, seen: TrialObservations, links: dict[str, AgentLink], flows: Sequence[Flow]) -> None:
        self._seen, self._links = seen, links
        self._ports: dict[str, list[SinkPort]] = {}
        for flow in flows:
            port = SinkPort(sink_ip=flow.stream.sink_ip, udp_sink_port=sink_port(flow.index))
            self._ports.setdefault(flow.stream.sink.node, []).append(port)

    async def hold(self) -> None:
        """Occupy the ports of all sinks, before anything is counted."""
        await run_concurrently(self._hold(node, ports) for node, ports in self._ports.items())

    async def release(self) -> None:
        """Release the ports, once nothing is counted any more."""
        await run_concurrently(self._release(node) for node in self._ports)

    async def _hold(self, node: str, ports: list[SinkPort]) -> None:
        try:
            reply = await self._links[node].ask(HoldSinkPorts(ports=ports), timeout_s=TAPS_TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return  # the trial learns that by itself
        except NodeError as exc:
            self._note(node, f"the streams' UDP ports are not bound: {exc.message}")
            return
        for port, state in zip(ports, reply.ports, strict=True):
            if problem := describe_unheld_port(port, state):
                self._note(node, problem[0], sink_ip=port.sink_ip, udp_port=port.udp_sink_port, state=state.state)

    async def _release(self, node: str) -> None:
        with suppress(NodeError):  # its agent releases them when it ends
            await self._links[node].ask(ReleaseSinkPorts(), timeout_s=TAPS_TIMEOUT_S)

    def _note(self, node: str, detail: str, **figures: Any) -> None:
        note: Figures = {"node": node, "kind": "sink_port_not_held", "detail": detail, **figures}
        self._seen.notes.append(note)


def describe_unheld_port(port: SinkPort, state: SinkPortState) -> tuple[str, str] | None:
    """The problem with a port that the agent could not occupy, and the remedy; None if there is no problem."""
    where, number = f"UDP port {port.udp_sink_port} of {port.sink_ip}", port.udp_sink_port
    if state.state in ("held", "not_local"):
        return None
    if state.state == "in_use":
        return (
            f"{where} is in use by another program, which receives the test frames and may answer them",
            f"stop that program (ss -ulnp sport = :{number}), or give the stream another sink_ip",
        )
    why = f": {state.message}" if state.message else ""
    return (
        f"{where} cannot be bound{why}; the kernel answers test frames with ICMP port unreachable",
        "log in as root, or remove sink_ip from the sink's interface (ip address del)",
    )


def ports_to_watch(flows: Sequence[Flow]) -> dict[str, list[TappedPort]]:
    """The ends of streams by node, each once, with all streams that use it."""
    found: dict[tuple[str, str], list[OwnStream]] = {}
    rates_pps: dict[tuple[str, str], float] = {}
    for flow in flows:
        stream, intended_pps = flow.stream, flow.request.intended_pps
        own = OwnStream(source_ip=stream.source_ip, sink_ip=stream.sink_ip, udp_sink_port=sink_port(flow.index))
        for end in (stream.source, stream.sink):
            key = (end.node, end.interface)
            found.setdefault(key, []).append(own)
            rates_pps[key] = rates_pps.get(key, 0.0) + (float("inf") if intended_pps is None else intended_pps)
    ports: dict[str, list[TappedPort]] = {}
    for (node, interface), streams in found.items():
        every = rates_pps[node, interface] <= EVERY_BELOW_PPS
        ports.setdefault(node, []).append(TappedPort(interface=interface, streams=streams, every=every))
    return ports
