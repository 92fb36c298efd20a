"""Watches the ends of a trial's streams for foreign frames, and keeps the sinks' own kernels from sending any.

The taps name foreign frames for the verdict. They watch the ends only, never the unit under test: watching it changes
the measurement, and the other ends of its cables see the same frames. Counting does not depend on them, so a node that
cannot watch does not end a trial: its excess frames then have no name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial.setup import Flow, sink_port
from labconsole.errors import NodeError, NodeLost, NodeUnreachable
from labconsole.model.record.run import Figures
from labconsole.verdict.observations import TappedFrames, TrialObservations
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
from labconsole.wire.message import R, Request

EVERY_BELOW_PPS = 50_000
"""Up to this rate on a port, every frame may be inspected: at 0.3 microseconds each, 1.5 % of one processor."""

TIMEOUT_S = 10.0


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
            return await self._links[node].ask(request, timeout_s=TIMEOUT_S)
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
            reply = await self._links[node].ask(HoldSinkPorts(ports=ports), timeout_s=TIMEOUT_S)
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
            await self._links[node].ask(ReleaseSinkPorts(), timeout_s=TIMEOUT_S)

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
