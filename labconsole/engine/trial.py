"""One trial (design.md section 6): the only procedure by which a number is taken.

counters before, captures listening, sources started together, traffic, stop, drain until counters stand still, captures
closed and counted, counters after. One stop path for success, error, abort and lost link: everything a trial starts on
a node is pushed on an exit stack and closed in reverse order, and whatever was seen until then is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from labconsole.engine.driver import Prepared
from labconsole.engine.events import Event, Phase, PhaseChanged
from labconsole.engine.live import LiveStreams
from labconsole.engine.observations import Snapshot, StreamSeen, TrialSeen, parse_snapshot
from labconsole.engine.ports import AgentLink
from labconsole.engine.together import together
from labconsole.errors import Aborted, LabError, LeaseTaken, MeasurementError, NodeError, NodeLost
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record import Failure
from labconsole.model.request import TrialRequest

UDP_SOURCE_PORT = 9
FIRST_UDP_SINK_PORT = 9
SNAP_BYTES = 64
"""Ethernet, IPv4, UDP and pktgen's 16 bytes are 58; a multiple of four keeps counting fast."""

START_LEAD_S = 0.05
"""Senders are told to start this much later, so that the word reaches all of them before."""

DRAIN_CAP_S = 10.0
"""The longest wait, beyond drain_s, for counters to stand still (slow NICs update theirs every 1-2 s)."""

CEILING_PPS = {"afpacket": 3_000_000, "pktgen": 20_000_000}
"""More than one thread of either generator has been seen to send. Only for the room that a capture may need."""

STILL_S = 0.1
"""Counters that do not move for this long stand still; the shortest drain_s that an inventory may ask for."""

COUNT_SLACK_RATIO = 0.02
COUNT_SLACK_S = 0.05
"""How much longer than asked a generator may take to send its count before it is stopped by time."""


class _Interrupted(Exception):
    """The operator aborted, or a node was lost, while the trial waited."""


def sink_port(index: int) -> int:
    """UDP destination port of the stream with this index in the inventory: tells streams apart in a capture."""
    return FIRST_UDP_SINK_PORT + index


def stream_filter(stream: Stream, index: int) -> str:
    """The pcap filter that matches exactly this stream's test frames: addresses, ports and pktgen's magic."""
    return (
        f"udp and src host {stream.source_ip} and dst host {stream.sink_ip} and src port {UDP_SOURCE_PORT} "
        f"and dst port {sink_port(index)} and udp[8:4] = 0xbe9be955"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """What the testbed's defaults or a plan say about how to take a trial."""

    drain_s: float
    sample_interval_s: float
    capture_buffer_kib: int
    capture_directories: dict[str, str | None] = field(default_factory=dict)
    spacing: bool = False
    """Look at how evenly frames arrive, too: in calibrations."""


class Trial:
    """One execution of a request on connected nodes. Once traffic has begun, failures are in what it has seen."""

    def __init__(
        self,
        *,
        run_id: str,
        inventory: Inventory,
        request: TrialRequest,
        links: dict[str, AgentLink],
        prepared: Prepared,
        settings: TrialSettings,
        live: LiveStreams,
        emit: Callable[[Event], None],
    ) -> None:
        self._inventory, self._request, self._links = inventory, request, links
        self._prepared, self._settings, self._live, self._emit = prepared, settings, live, emit
        self._streams = inventory.streams[: request.sources]
        self._uut = inventory.uut
        self._interrupt: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._done: dict[str, asyncio.Future[list[dict[str, Any]]]] = {}
        self._operation = "prepare"
        self._began = False
        self.seen = TrialSeen(
            run_id=run_id,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            streams=[StreamSeen(stream, prepared.paths[stream.name]) for stream in self._streams],
            attestation=prepared.attestation,
        )

    # What may happen to a trial from outside

    def abort(self) -> None:
        """Stop at the next possible moment; what was measured is kept. Safe to call at any time, twice too."""
        self.seen.aborted = True
        if not self._interrupt.done():
            self._interrupt.set_result("aborted by the operator")

    def node_lost(self, node: str, reason: str) -> None:
        """A link is gone. A node that this trial uses ends it."""
        if node not in self._nodes():
            return
        if self.seen.failure is None:
            self.seen.failure = Failure(
                failure="node_lost", operation=self._operation, node=node, message=f"{node}: {reason}"
            )
        if node in self._done and not self._done[node].done():
            self._done[node].set_exception(NodeLost(node, reason, operation=self._operation))
        if not self._interrupt.done():
            self._interrupt.set_result(reason)

    def lease_taken(self, lost: LeaseTaken) -> None:
        """Another operator took the testbed over: what comes after this is not ours to count."""
        if self.seen.failure is None:
            self.seen.failure = Failure(
                failure=lost.failure, operation=self._operation, node=lost.node, message=lost.message
            )
        self.seen.notes.append({"node": lost.node, "kind": "lease_taken", "detail": lost.message, "by": lost.by})
        if not self._interrupt.done():
            self._interrupt.set_result(lost.message)

    def on_agent_event(self, node: str, event: dict[str, Any]) -> None:
        """Take one checked event of an agent that matters to the trial."""
        kind = event["event"]
        if kind == "generator.done" and node in self._done and not self._done[node].done():
            self._done[node].set_result(event["streams"])
        elif kind == "generator":
            self._live.add_progress(node, event)
        elif kind == "counters":
            self._live.add_counters(node, event)
            self.seen.samples += 1
            self.seen.missed_samples += event["missed"]
        elif kind == "capture.died":
            self.seen.notes.append({"node": node, "kind": "capture_died", "detail": event["message"]})

    # The procedure

    async def execute(self) -> TrialSeen:
        """Run the trial to whatever end it comes. Raises LabError only if no packet was sent yet."""
        started = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                await self._take(stack)
        except _Interrupted:
            if not self._began:
                self._refuse()
        except LabError as exc:
            if not self._began:
                raise  # nothing was sent: this is no run that failed, but none at all
            self._note_failure(exc)
        self.seen.timeline["total_s"] = time.monotonic() - started
        return self.seen

    async def _take(self, stack: AsyncExitStack) -> None:
        clock = _Stopwatch(self.seen.timeline)
        self._phase(Phase.ARMING)
        self._operation = "arm"
        if self._request.intended_packets is None:
            # How much a capture may have to hold depends on which generator runs.
            await self._prepare_generators(stack)
            await self._start_captures(stack)
        else:
            # Neither needs the other, and both take their time.
            await together([self._prepare_generators(stack), self._start_captures(stack)])
        self.seen.before = await self._read_counters()
        if self._request.observe == "quiet":
            await self._quiet(stack)
        clock.lap("arm_s")
        self._check_interrupt()
        self._phase(Phase.SENDING, self._request.duration_s)
        self._operation = "generator.start"
        await self._send()
        clock.lap("send_s")
        self._phase(Phase.DRAINING, self._settings.drain_s)
        self._operation = "drain"
        self.seen.drained = await self._drain()
        clock.lap("drain_s")
        self._phase(Phase.COUNTING)
        self._operation = "capture.stop"
        await self._close_captures()
        # After the captures, so that nothing the NIC counted while they were open is missing from the difference.
        self.seen.after = await self._read_counters(surviving=True)
        clock.lap("count_s")

    def _phase(self, phase: Phase, expected_s: float | None = None) -> None:
        self._emit(PhaseChanged(run_id=self.seen.run_id, phase=phase, expected_s=expected_s))

    def _check_interrupt(self) -> None:
        if self._interrupt.done():
            raise _Interrupted

    def _refuse(self) -> NoReturn:
        """Interrupted before the first packet: no run, so no record either."""
        failure = self.seen.failure
        if failure is not None and failure.failure == LeaseTaken.failure:
            raise MeasurementError(failure.message)
        if failure is not None and failure.node is not None:
            raise NodeLost(failure.node, failure.message.removeprefix(f"{failure.node}: "), operation=failure.operation)
        raise Aborted("aborted by the operator before anything was sent")

    def _note_failure(self, exc: LabError) -> None:
        if self.seen.failure is None:
            self.seen.failure = Failure(
                failure=exc.failure,
                operation=getattr(exc, "operation", None) or self._operation,
                node=getattr(exc, "node", None),
                message=str(exc),
            )

    def _nodes(self) -> list[str]:
        names = [self._uut]
        for stream in self._streams:
            names += [stream.source.node, stream.sink.node]
        return list(dict.fromkeys(names))

    def _sources(self) -> list[str]:
        return list(dict.fromkeys(stream.source.node for stream in self._streams))

    async def _on_each(
        self, nodes: Sequence[str], op: str, args: Callable[[str], dict[str, Any] | None], *, timeout_s: float = 30.0
    ) -> dict[str, dict[str, Any]]:
        """Ask several nodes at once."""
        results: dict[str, dict[str, Any]] = {}

        async def ask(node: str) -> None:
            results[node] = await self._links[node].request(op, args(node), timeout_s=timeout_s)

        await together(ask(node) for node in nodes)
        return results

    async def _read_counters(self, *, surviving: bool = False) -> dict[str, Snapshot]:
        """Counters of every node of the trial now; with ``surviving``, of those that still answer."""
        snapshots: dict[str, Snapshot] = {}

        async def read(node: str) -> None:
            try:
                snapshots[node] = parse_snapshot(await self._links[node].request("counters.read", timeout_s=10))
            except NodeError as exc:
                if not surviving:
                    raise
                self._note_failure(exc)

        await together(read(node) for node in self._nodes())
        return snapshots

    def _generator_args(self, node: str) -> dict[str, Any]:
        request = self._request
        line_packets = {s.name: int(request.line_rate_pps(s) * request.duration_s) + 1 for s in self._streams}
        cap_s = request.duration_s
        if request.intended_packets is not None:
            cap_s = request.duration_s * (1 + COUNT_SLACK_RATIO) + COUNT_SLACK_S
        specs = []
        for index, stream in enumerate(self._streams):
            if stream.source.node != node:
                continue
            cpus = self._inventory.nodes[node].generator_cpus
            specs.append(
                {
                    "stream": stream.name,
                    "interface": stream.source.interface,
                    "generator": request.generator,
                    "destination_mac": self._prepared.paths[stream.name].destination_mac,
                    "source_mac": None,
                    "source_ip": stream.source_ip,
                    "sink_ip": stream.sink_ip,
                    "udp_source_port": UDP_SOURCE_PORT,
                    "udp_sink_port": sink_port(index),
                    "pkt_size_bytes": request.pkt_size_bytes,
                    "delay_ns": request.delay_ns,
                    "count": request.intended_packets,
                    "duration_s": cap_s,
                    # Never endless: if every stop fails, traffic ends by itself at twice what the link can carry.
                    "max_count": min(2 * max(line_packets[stream.name], request.intended_packets or 0), 4_000_000_000),
                    "cpus": list(cpus) if cpus else None,
                }
            )
        return {"streams": specs}

    async def _prepare_generators(self, stack: AsyncExitStack) -> None:
        for node in self._sources():
            stack.push_async_callback(self._let_go, node, "generator.close", {})
        replies = await self._on_each(self._sources(), "generator.prepare", self._generator_args)
        by_name = {entry["stream"]: entry for reply in replies.values() for entry in reply["streams"]}
        for seen in self.seen.streams:
            seen.prepared = by_name.get(seen.stream.name)
            self._live.begin(seen.stream, self._request, (seen.prepared or {}).get("generator", ""))

    async def _start_captures(self, stack: AsyncExitStack) -> None:
        request = self._request

        async def start(index: int, stream: Stream) -> None:
            stack.push_async_callback(self._let_go, stream.sink.node, "capture.stop", {"capture": stream.name})
            expected = request.intended_packets or self._most_packets(stream)
            await self._links[stream.sink.node].request(
                "capture.start",
                {
                    "capture": stream.name,
                    "interface": stream.sink.interface,
                    "filter": stream_filter(stream, index),
                    "snap_bytes": SNAP_BYTES,
                    "buffer_kib": self._settings.capture_buffer_kib,
                    "directory": self._settings.capture_directories.get(stream.sink.node),
                    "expected_packets": expected,
                    "keep_path": None,
                    "spacing_gap_ns": request.delay_ns if self._settings.spacing else None,
                },
            )

        await together(start(index, stream) for index, stream in enumerate(self._streams))

    def _most_packets(self, stream: Stream) -> int:
        """What a stream at target max can bring at most: the line rate, or what its generator can do."""
        prepared = next((seen.prepared for seen in self.seen.streams if seen.stream is stream), None) or {}
        ceiling_pps = CEILING_PPS.get(prepared.get("generator", ""), max(CEILING_PPS.values()))
        return int(min(self._request.line_rate_pps(stream), ceiling_pps) * self._request.duration_s) + 1

    async def _quiet(self, stack: AsyncExitStack) -> None:
        """The UUT samples into its own memory while traffic runs: watching it can cause the loss one measures."""
        await self._links[self._uut].request("counters.quiet", {"on": True})
        stack.push_async_callback(self._let_go, self._uut, "counters.quiet", {"on": False})

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        sources = self._sources()
        self._began = True
        self._done = {node: loop.create_future() for node in sources}
        for future in self._done.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())  # read later, or never after an abort
        lead_s = START_LEAD_S + max(self._links[node].round_trip_s for node in sources)
        at_ns = time.monotonic_ns() + int(lead_s * 1e9)
        await self._on_each(
            sources,
            "generator.start",
            lambda node: {
                "at_monotonic_ns": at_ns + self._links[node].monotonic_offset_ns,
                "progress_interval_s": self._settings.sample_interval_s,
            },
        )
        limit_s = lead_s + self._request.duration_s * (1 + COUNT_SLACK_RATIO) + COUNT_SLACK_S + 5
        deadline = loop.time() + limit_s
        while not all(f.done() for f in self._done.values()):
            if self._interrupt.done():
                self._operation = "generator.stop"
                break
            left_s = deadline - loop.time()
            if left_s <= 0:
                self.seen.notes.append({"kind": "generator_overdue", "detail": f"not done {limit_s:.1f} s after start"})
                break
            pending: list[asyncio.Future[Any]] = [f for f in self._done.values() if not f.done()]
            await asyncio.wait([*pending, self._interrupt], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        await self._collect_generators()

    async def _collect_generators(self) -> None:
        """Results of all sources; those still sending are stopped first."""
        late = [node for node, future in self._done.items() if not future.done()]
        for node in late:
            await self._let_go(node, "generator.stop", {})
        if late:
            await asyncio.wait([self._done[node] for node in late], timeout=5)
        starts: list[int] = []
        for node, future in self._done.items():
            if not future.done() or future.exception() is not None:
                continue
            for result in future.result():
                for seen in self.seen.streams:
                    # A node speaks for its own streams only.
                    if seen.stream.name == result["stream"] and seen.stream.source.node == node:
                        seen.generated = result
                        self._live.offered_final(result["stream"], result)
                if result["started_monotonic_ns"] is not None:
                    starts.append(result["started_monotonic_ns"] - self._links[node].monotonic_offset_ns)
        if len(starts) > 1:
            self.seen.start_skew_s = (max(starts) - min(starts)) / 1e9

    async def _drain(self) -> bool:
        """Wait at least drain_s, then until the counters of UUT and sinks stand still. True if they did.

        Sinks count their captures meanwhile, so that closing them is quick.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        drains = [self._let_go(s.sink.node, "capture.drain", {"capture": s.name}) for s in self._streams]
        await together([*drains, asyncio.sleep(self._settings.drain_s - STILL_S)])
        previous = await self._still_counts()
        while True:
            await asyncio.sleep(STILL_S)
            current = await self._still_counts()
            if current == previous:
                return True
            previous = current
            if loop.time() - begun > self._settings.drain_s + DRAIN_CAP_S:
                return False

    async def _still_counts(self) -> dict[str, list[int]]:
        """The packet counters whose standing still means that nothing is on its way any more."""
        snapshots = await self._read_counters(surviving=True)
        points: dict[str, list[tuple[str, str]]] = {}
        for seen in self.seen.streams:
            points.setdefault(seen.stream.sink.node, []).append(("", seen.stream.sink.interface))
            points.setdefault(self._uut, []).extend((p.namespace, p.interface) for p in seen.path.points)
        return {
            node: [snapshots[node][key].values[k] for key in keys for k in (0, 1) if key in snapshots[node]]
            for node, keys in points.items()
            if node in snapshots
        }

    async def _close_captures(self) -> None:
        async def stop(seen: StreamSeen) -> None:
            try:
                seen.capture = await self._links[seen.stream.sink.node].request(
                    "capture.stop", {"capture": seen.stream.name}, timeout_s=120
                )
            except NodeError as exc:
                # The sink's counters still stand; the verdict says that the capture is missing.
                self.seen.notes.append({"node": exc.node, "kind": "capture_failed", "detail": exc.message})

        await together(stop(seen) for seen in self.seen.streams)

    async def _let_go(self, node: str, op: str, args: dict[str, Any]) -> None:
        """Ask a node to end something. A node that cannot answer ends it by itself when its link ends."""
        try:
            await self._links[node].request(op, args, timeout_s=20)
        except NodeError as exc:
            if getattr(exc, "code", None) not in ("no_such_capture", "not_prepared"):
                self.seen.notes.append({"node": node, "kind": "cleanup", "detail": f"{op}: {exc.message}"})


class _Stopwatch:
    """Names how long each part of a trial took, for the record's timeline."""

    def __init__(self, timeline: dict[str, float]) -> None:
        self._timeline, self._last = timeline, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._timeline[name] = now - self._last
        self._last = now
