"""Having the sinks' kernels count and time every packet of a trial's streams.

Counts need none of this: a sink whose kernel cannot do it does not end a trial, and its word why is kept. There
packets are counted by a filter that takes no program, where that may be had.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from labconsole.contracts.driver import Prepared
from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial.forwarding_proof import wait_forwarding
from labconsole.engine.trial.kernel_probes import TIMEOUT_S, begin_probe, parse_refusal
from labconsole.engine.trial.setup import TIMED_BY, Flow, stream_to_time
from labconsole.errors import Aborted, AgentError, NodeError, NodeLost, NodeSilent, NodeUnreachable
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory, PacketTiming
from labconsole.model.record.run import Figures
from labconsole.verdict.observations import StreamObservations, TimedStream, UntimedStream
from labconsole.wire.packet_times import (
    LINK_S,
    NATIVE_XDP,
    SOCKET_FILTER,
    DelaysSoFar,
    ReadPacketTimes,
    StartPacketCount,
    StartPacketTimes,
    StopPacketCount,
    StopPacketTimes,
    StreamToTime,
    TimedPort,
)

log = logging.getLogger("labconsole.engine")

EVERY_S = 1.0
"""How often it is asked what was counted so far."""

READING_SHARE = 20
"""So many times as long as a node took to tell it is left alone afterwards."""


class PacketTimers:
    """The timers of one trial; what they counted is each stream's ``times`` once they have stopped."""

    def __init__(
        self,
        streams: Sequence[StreamObservations],
        flows: Sequence[Flow],
        links: Mapping[str, AgentLink],
        *,
        wanted: PacketTiming,
    ) -> None:
        self._links, self._streams, self._by = links, list(streams), TIMED_BY.get(wanted, SOCKET_FILTER)
        self._seen: dict[str, dict[str, list[StreamObservations]]] = {}
        # A start that fails waits for links twice.
        self._answer_s = TIMEOUT_S + (2 * LINK_S if self._by == NATIVE_XDP else 0)
        self._own: dict[str, dict[str, list[StreamToTime]]] = {}
        for seen, flow in zip(streams, flows, strict=True) if wanted != "off" else ():
            node, interface = flow.stream.sink.node, flow.stream.sink.interface
            own = stream_to_time(flow.stream, flow.index, flow.request)
            self._own.setdefault(node, {}).setdefault(interface, []).append(own)
            self._seen.setdefault(node, {}).setdefault(interface, []).append(seen)
        self._timing: set[str] = set()
        self._counting: set[str] = set()
        self._memory_bytes: dict[str, int | None] = {}

    async def start(self) -> None:
        """Begin, at all sinks at once: before the captures, so that none of them has seen more."""
        await run_concurrently(self._start(node) for node in self._own)

    async def prove(
        self, inventory: Inventory, prepared: Prepared, request: DesignPoint, interrupt: asyncio.Future[str]
    ) -> list[Figures]:
        """Where beginning may have reset the sinks' links, have the platform show once more that it forwards: its ports
        were down, too, and what it had learned by them may be gone. Returns what the record tells of that, nothing
        where there is an ``interrupt``. Raises NodeError where nothing comes through.
        """
        if self._by != NATIVE_XDP or not self._own:
            return []
        streams, links = [seen.stream for seen in self._streams], dict(self._links)
        try:
            proof = await wait_forwarding(
                inventory, links, prepared, streams, generator=request.generator, stopping=interrupt.done, apart=True
            )
        except Aborted:
            return []
        told = f"{proof.sent_packets} frames were sent until it forwarded again, {proof.duration_s:.2f} s"
        detail = f"native XDP may have reset the links of sinks: {told}"
        return [{"node": inventory.uut, "kind": "learning", "detail": detail, **proof.to_json()}]

    @asynccontextmanager
    async def followed(self, tell: Callable[[int, DelaysSoFar, int], None]) -> AsyncIterator[None]:
        """Meanwhile it is told again and again, by the stream's place, what was counted so far. A node that does not
        say it is asked no more.
        """
        asking = asyncio.create_task(run_concurrently(self._follow(node, tell) for node in sorted(self._timing)))
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait((asking,))
            if not asking.cancelled() and (problem := asking.exception()) is not None:
                log.error("delays so far could not be shown: %r", problem)  # what is measured does not rest on it

    async def _follow(self, node: str, tell: Callable[[int, DelaysSoFar, int], None]) -> None:
        pause_s = EVERY_S
        while node in self._timing:
            await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                told = await self._links[node].ask(ReadPacketTimes(), timeout_s=TIMEOUT_S)
            except NodeError:
                return
            pause_s = max(EVERY_S, READING_SHARE * (time.monotonic() - began_s))
            for port in told.ports:
                for seen, so_far in zip(self._seen[node].get(port.interface, ()), port.streams, strict=False):
                    tell(self._streams.index(seen), so_far, told.clock_moved_ns)

    async def stop(self) -> None:
        """Take what was counted: after the captures and before the counters are read the last time, so that nobody who
        counts longer has seen less. Safe to call twice.
        """
        await run_concurrently(
            [*map(self._stop, sorted(self._timing)), *map(self._stop_count, sorted(self._counting))],
        )

    async def _start(self, node: str) -> None:
        ports = [TimedPort(interface=name, streams=own) for name, own in self._own[node].items()]
        self._timing.add(node)  # also when the answer comes late or nobody waits for it any more: stop ends it
        try:
            asked = StartPacketTimes(ports=ports, by=self._by)
            started = await begin_probe(self._links[node], asked, StopPacketTimes(), timeout_s=self._answer_s)
            self._memory_bytes[node] = started.memory_bytes
        except NodeSilent as exc:
            # It may be at it still, with links that are down: nothing is sent before it says that this has ended.
            self._timing.discard(node)
            self._untimed(node, *parse_refusal(exc))
            with suppress(AgentError):
                await self._links[node].ask(StopPacketTimes(), timeout_s=self._answer_s)
        except (NodeLost, NodeUnreachable) as exc:
            self._untimed(node, *parse_refusal(exc))
        except NodeError as exc:
            self._timing.discard(node)
            self._untimed(node, *parse_refusal(exc))
            self._counting.add(node)
            with suppress(NodeError):
                await begin_probe(self._links[node], StartPacketCount(ports=ports), StopPacketCount())

    async def _stop(self, node: str) -> None:
        self._timing.discard(node)
        try:
            told = await self._links[node].ask(StopPacketTimes(), timeout_s=self._answer_s)
        except NodeError as exc:
            self._untimed(node, *parse_refusal(exc))
            return
        self._untimed(node, "failed", "the node did not tell of this stream")
        for port in told.ports:
            for seen, counted in zip(self._seen[node].get(port.interface, ()), port.streams, strict=False):
                memory_bytes = self._memory_bytes.get(node)
                seen.times = TimedStream(counted, told.clock_moved_ns, memory_bytes, self._by, port.xdp)

    async def _stop_count(self, node: str) -> None:
        self._counting.discard(node)
        try:
            told = await self._links[node].ask(StopPacketCount(), timeout_s=TIMEOUT_S)
        except NodeError:
            return  # it counts none, and why it times none is known
        for port in told.ports:
            for seen, packets in zip(self._seen[node].get(port.interface, ()), port.packets, strict=False):
                if isinstance(seen.times, UntimedStream):
                    seen.times = replace(seen.times, counted_packets=packets)

    def _untimed(self, node: str, code: str, message: str) -> None:
        for streams in self._seen[node].values():
            for seen in streams:
                seen.times = UntimedStream(code, message)
