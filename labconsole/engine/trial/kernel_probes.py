"""What nodes' kernels report on a trial beyond counters: drops, the work of processors, the times of every packet."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from labconsole.contracts.driver import Prepared
from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.engine.live.telemetry import LiveDelays
from labconsole.engine.trial.forwarding_proof import wait_forwarding
from labconsole.engine.trial.setup import TIMED_BY, Flow, stream_to_time
from labconsole.errors import Aborted, AgentError, NodeError, NodeLost, NodeSilent, NodeUnreachable
from labconsole.measure.packet_times import CLOCK_SET_NS
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import agreement, one_way_doubt
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import DropReasons, Inventory, PacketTiming
from labconsole.model.record.run import Figures
from labconsole.verdict.observations import (
    KernelWitness,
    StreamObservations,
    TimedStream,
    TrialObservations,
    UntimedStream,
    WorkWitness,
)
from labconsole.wire.kernel_drops import GuestInside, StartKernelDrops, StopKernelDrops
from labconsole.wire.message import R, Request
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
from labconsole.wire.processor_work import BeginProcessorWork, EndProcessorWork

# -- requests ----------------------------------------------------------------------------------------------------------
# Requests to a node's kernel for more than counts: restart a probe left by an earlier trial, and parse refusals.

TIMEOUT_S = 10.0


async def begin_probe(link: AgentLink, start: Request[R], stop: Request[Any], *, timeout_s: float = TIMEOUT_S) -> R:
    """Request the node to begin. Raises NodeError."""
    try:
        return await link.ask(start, timeout_s=timeout_s)
    except NodeError as exc:
        if parse_refusal(exc)[0] != "exists":
            raise
    await link.ask(stop, timeout_s=timeout_s)  # left by a trial whose end the node did not receive
    return await link.ask(start, timeout_s=timeout_s)


def parse_refusal(exc: NodeError) -> tuple[str, str]:
    """A code and a sentence."""
    return getattr(exc, "code", None) or "failed", exc.message


# -- kernel drops ------------------------------------------------------------------------------------------------------
# Makes the kernels of the unit under test and its host report where and why they drop test packets during a trial.
#
# Counting packets does not depend on it: a kernel that cannot report does not end a trial, and its reason is recorded.

BUDGET_RATIO = 0.01
"""Share of one processor, during traffic, that the drop counting may use if it was not requested explicitly."""

LOOKS = 150
SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.01, 0.25
"""Number of checks of the counting's processor use per trial."""


class KernelDropWatch:
    """Drop counting of one trial, on the unit under test and its host; afterwards the results are in ``seen``."""

    def __init__(
        self,
        seen: TrialObservations,
        inventory: Inventory,
        links: Mapping[str, AgentLink],
        sinks: Sequence[str],
        wanted: DropReasons,
        duration_s: float,
        inside: Callable[[AgentLink], Awaitable[dict[str, int]]] | None,
    ) -> None:
        self._seen, self._inventory, self._links = seen, inventory, links
        self._sinks, self._wanted, self._duration_s = list(sinks), wanted, duration_s
        self._inside = inside
        self._guests: list[GuestInside] = []
        self._counting: list[tuple[AgentLink, KernelWitness]] = []

    async def start(self) -> None:
        """Start counting, before the counters are read for the first time."""
        if self._wanted == "off":
            return
        budget_ns = round(BUDGET_RATIO * self._duration_s * 1e9) if self._wanted == "auto" else None
        uut, host = self._inventory.uut, self._inventory.host
        self._seen.kernel = KernelWitness(asked=self._wanted, budget_ns=budget_ns)
        # Set first, so that stop ends it even if an answer comes too late or is no longer awaited.
        self._counting = [(self._links[uut], self._seen.kernel)]
        if host is not None:
            carries = self._inventory.nodes[host].carries or {}
            below = KernelWitness(asked=self._wanted, budget_ns=budget_ns, host=host, carries=carries)
            self._seen.host_kernel = below
            self._counting.append((self._links[host], below))
        if self._inside is not None:
            with suppress(NodeError):  # without them only the node's own namespaces are covered
                found = await self._inside(self._links[uut])
                self._guests = [GuestInside(name=name, pid=pid) for name, pid in found.items()]
        await run_concurrently([self._begin(*each) for each in self._counting])

    async def _begin(self, link: AgentLink, witness: KernelWitness) -> None:
        look_s = min(max(self._duration_s / LOOKS, SHORTEST_LOOK_S), LONGEST_LOOK_S)
        request = StartKernelDrops(
            sinks=self._sinks,
            budget_ns=witness.budget_ns,
            look_every_s=look_s,
            guests=self._guests if witness.host is None else [],
        )
        try:
            witness.started = await begin_probe(link, request, StopKernelDrops())
        except (NodeLost, NodeUnreachable):
            return  # the trial learns that by itself
        except NodeError as exc:
            self._counting.remove((link, witness))
            witness.refused = parse_refusal(exc)

    async def stop(self) -> None:
        """Collect the counts, after the counters were read for the last time. Safe to call twice."""
        await run_concurrently([self._end(*each) for each in self._counting])

    async def _end(self, link: AgentLink, witness: KernelWitness) -> None:
        try:
            witness.drops = await link.ask(StopKernelDrops(), timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return
        except NodeError as exc:
            if witness.started is not None:
                witness.refused = parse_refusal(exc)
        self._counting.remove((link, witness))


# -- processor work ----------------------------------------------------------------------------------------------------
# Makes the unit under test report the work of its processors during a trial's traffic, in telemetry trials only.


class ProcessorWatch:
    """Records the processors' work in one trial on the unit under test; the result is in ``seen.work``.

    Counting packets does not depend on it: a node that cannot report does not end a trial, and its reason is recorded.
    """

    def __init__(
        self, seen: TrialObservations, link: AgentLink, node: str, ports: Sequence[str], *, wanted: bool
    ) -> None:
        self._seen, self._link, self._node, self._ports, self._wanted = seen, link, node, list(ports), wanted
        self._open = False

    async def begin(self) -> None:
        """Start, right before traffic."""
        if not self._wanted:
            return
        self._seen.work = witness = WorkWitness(self._node)
        try:
            await self._link.ask(BeginProcessorWork(interfaces=self._ports), timeout_s=TIMEOUT_S)
            self._open = True
        except (NodeLost, NodeUnreachable):
            return  # the trial learns that by itself
        except NodeError as exc:
            witness.refused = parse_refusal(exc)

    async def end(self) -> None:
        """Stop, right after traffic."""
        witness = self._seen.work
        if witness is None or not self._open:
            return
        self._open = False
        try:
            witness.done = await self._link.ask(EndProcessorWork(), timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return
        except NodeError as exc:
            witness.refused = parse_refusal(exc)


# -- packet times ------------------------------------------------------------------------------------------------------
# Makes the sinks' kernels count and time every packet of a trial's streams.
#
# Other counts do not depend on it: a sink whose kernel cannot do it does not end a trial, and its reason is recorded.
# Its packets are counted by a filter without a program, if available.

log = logging.getLogger("labconsole.engine")

TIMES_EVERY_S = 1.0
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
        pause_s = TIMES_EVERY_S
        while node in self._timing:
            await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                report = await self._links[node].ask(ReadPacketTimes(), timeout_s=TIMEOUT_S)
            except NodeError:
                return
            pause_s = max(TIMES_EVERY_S, READING_SHARE * (time.monotonic() - began_s))
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


# -- live delays -------------------------------------------------------------------------------------------------------
# Delays of a stream's packets so far, for display while a trial runs. Pure.


def live_delays(
    seen: StreamObservations, flow: Flow, so_far: DelaysSoFar, clock_moved_ns: int, nodes: Mapping[str, Any]
) -> LiveDelays | None:
    """The delays, or None without packets or if the clocks are not proved to agree well enough.

    ``nodes``: each node's facts, and its clocks' relation to ours.
    """
    if not so_far.delay or so_far.negative_packets or abs(clock_moved_ns) > CLOCK_SET_NS:
        return None
    ends = flow.stream.source.node, flow.stream.sink.node
    clocks_ns = agreement(ends, nodes.get(ends[0]), nodes.get(ends[1])).bound_ns
    paced = seen.prepared is not None and seen.prepared.generator == "pktgen"
    delays = TimeHistogram.of(so_far.delay)
    median_ns = delays.quantile_ns(0.5)
    _, doubt = one_way_doubt(clocks_ns, flow.request.delay_ns if paced else 0, median_ns)
    return (
        None if doubt is not None else LiveDelays(median_ns, delays.supported_quantile_ns(0.99), delays.quantile_ns(1))
    )
