"""Makes the sinks' kernels count and time every packet of a trial's streams.

Other counts do not depend on it: a sink whose kernel cannot do it does not end a trial, and its reason is recorded. Its
packets are counted by a filter without a program, if available.
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
"""Interval between two readings of the counts so far."""

READING_SHARE = 20
"""After a reading, the node is left alone for this many times the reading's duration."""


class PacketTimers:
    """The timers of one trial; afterwards their counts are in each stream's ``times``."""

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
        """Start at all sinks concurrently, before the captures, so that no capture has seen more."""
        await run_concurrently(self._start(node) for node in self._own)

    async def prove(
        self, inventory: Inventory, prepared: Prepared, request: DesignPoint, interrupt: asyncio.Future[str]
    ) -> list[Figures]:
        """If starting may have reset the sinks' links, prove again that the platform forwards.

        Its ports were down, too, and it may have forgotten learned addresses. Returns notes for the record, or none
        after an ``interrupt``. Raises NodeError if no frame comes through.
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
        effort = f"{proof.sent_packets} frames were sent until it forwarded again, {proof.duration_s:.2f} s"
        detail = f"native XDP may have reset the links of sinks: {effort}"
        return [{"node": inventory.uut, "kind": "learning", "detail": detail, **proof.to_json()}]

    @asynccontextmanager
    async def followed(self, tell: Callable[[int, DelaysSoFar, int], None]) -> AsyncIterator[None]:
        """Within this context, call ``tell`` periodically with each stream's place and counts so far.

        A node that fails to answer gets no further request.
        """
        polling = asyncio.create_task(run_concurrently(self._follow(node, tell) for node in sorted(self._timing)))
        try:
            yield
        finally:
            polling.cancel()
            await asyncio.wait((polling,))
            if not polling.cancelled() and (problem := polling.exception()) is not None:
                log.error("delays so far could not be shown: %r", problem)  # the measurement does not depend on it

    async def _follow(self, node: str, tell: Callable[[int, DelaysSoFar, int], None]) -> None:
        pause_s = EVERY_S
        while node in self._timing:
            await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                report = await self._links[node].ask(ReadPacketTimes(), timeout_s=TIMEOUT_S)
            except NodeError:
                return
            pause_s = max(EVERY_S, READING_SHARE * (time.monotonic() - began_s))
            for port in report.ports:
                for seen, so_far in zip(self._seen[node].get(port.interface, ()), port.streams, strict=False):
                    tell(self._streams.index(seen), so_far, report.clock_moved_ns)

    async def stop(self) -> None:
        """Collect the counts. Safe to call twice.

        Call it after the captures have stopped and before the counters are read for the last time, so that no witness
        that counts longer has seen less.
        """
        await run_concurrently(
            [*map(self._stop, sorted(self._timing)), *map(self._stop_count, sorted(self._counting))],
        )

    async def _start(self, node: str) -> None:
        ports = [TimedPort(interface=name, streams=own) for name, own in self._own[node].items()]
        self._timing.add(node)  # also if the answer is late or no longer awaited: stop ends it
        try:
            request = StartPacketTimes(ports=ports, by=self._by)
            started = await begin_probe(self._links[node], request, StopPacketTimes(), timeout_s=self._answer_s)
            self._memory_bytes[node] = started.memory_bytes
        except NodeSilent as exc:
            # It may still be starting, with links that are down: send nothing until the node confirms the end.
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
            result = await self._links[node].ask(StopPacketTimes(), timeout_s=self._answer_s)
        except NodeError as exc:
            self._untimed(node, *parse_refusal(exc))
            return
        self._untimed(node, "failed", "the node did not report this stream")
        for port in result.ports:
            for seen, counted in zip(self._seen[node].get(port.interface, ()), port.streams, strict=False):
                memory_bytes = self._memory_bytes.get(node)
                seen.times = TimedStream(counted, result.clock_moved_ns, memory_bytes, self._by, port.xdp)

    async def _stop_count(self, node: str) -> None:
        self._counting.discard(node)
        try:
            result = await self._links[node].ask(StopPacketCount(), timeout_s=TIMEOUT_S)
        except NodeError:
            return  # it counts none, and the reason why it times none is known
        for port in result.ports:
            for seen, packets in zip(self._seen[node].get(port.interface, ()), port.packets, strict=False):
                if isinstance(seen.times, UntimedStream):
                    seen.times = replace(seen.times, counted_packets=packets)

    def _untimed(self, node: str, code: str, message: str) -> None:
        for streams in self._seen[node].values():
            for seen in streams:
                seen.times = UntimedStream(code, message)
