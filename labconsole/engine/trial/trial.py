"""One trial (docs/method.md, "The course of a trial"): the only procedure by which a number is measured.

Read counters, open captures, start sources together, wait for the traffic, stop, drain until counters are steady, close
and count captures, read counters again. There is one stop path for success, error, abort and lost link: everything that
a trial starts on a node is pushed on an exit stack and closed in reverse order. Earlier observations are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NoReturn

from labconsole.contracts.driver import Prepared
from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.engine.live.events import Event, Phase, PhaseChanged
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.trial.background import BackgroundLoad
from labconsole.engine.trial.kernel_probes import KernelDropWatch, PacketTimers, ProcessorWatch, live_delays
from labconsole.engine.trial.second_guest import SecondGuestSetup
from labconsole.engine.trial.setup import Flow, TrialSettings, longest_s, stream_spec
from labconsole.engine.trial.traffic import ForeignTaps, Sources, TrialCaptures
from labconsole.engine.trial.window import Readings, ports_by_node
from labconsole.errors import Aborted, LabError, LeaseTaken, MeasurementError, NodeError, NodeLost
from labconsole.model.design_point import DesignPoint
from labconsole.model.generator import generator_options
from labconsole.model.identity import utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Failure
from labconsole.verdict.observations import (
    Snapshot,
    StreamObservations,
    TrialObservations,
    counting_points,
    data_ports,
    parse_snapshot,
)
from labconsole.wire import capture, counters, generator, message, session
from labconsole.wire.packet_times import DelaysSoFar
from labconsole.wire.stream_spec import StreamSpec

DRAIN_CAP_S = 10.0
"""Maximum wait beyond drain_s for counters to become steady (slow NICs update theirs every 1-2 s)."""

STILL_S = 0.1
"""Counters that do not change for this long are steady; also the smallest drain_s that an inventory may have."""

OVERDUE_S = 5.0
"""Time beyond its sending time that a generator is waited for."""


class _Interrupted(Exception):
    """The operator aborted, or a node was lost, while the trial waited."""


class Trial:
    """One execution of a request on connected nodes. After traffic has begun, failures are part of the observations."""

    def __init__(
        self,
        *,
        run_id: str,
        inventory: Inventory,
        request: DesignPoint,
        links: dict[str, AgentLink],
        prepared: Prepared,
        settings: TrialSettings,
        live: LiveStreams,
        emit: Callable[[Event], None],
        nodes: Mapping[str, Any],
        guests: Sequence[str] = (),
        second_guest: SecondGuestSetup | None = None,
    ) -> None:
        self._inventory, self._request, self._links = inventory, request, links
        self._prepared, self._settings, self._live, self._emit = prepared, settings, live, emit
        self._node_facts = nodes
        self._flows = [Flow(s, request, index) for index, s in enumerate(inventory.streams[: request.sources])]
        if second_guest is not None and second_guest.request is not None and second_guest.stream is not None:
            place = inventory.streams.index(second_guest.stream)
            self._flows.append(Flow(second_guest.stream, second_guest.request, place))
        self._uut = uut = inventory.uut
        self._interrupt: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._load: BackgroundLoad | None = None
        if second_guest is not None and prepared.second is not None:
            self._load = BackgroundLoad(second_guest, prepared.second, links[self._uut], stopping=self._interrupt.done)
        self._operation = "prepare"
        self._began = False
        streams = [StreamObservations(flow.stream, prepared.paths[flow.stream.name]) for flow in self._flows]
        self.seen = TrialObservations(
            run_id=run_id,
            started_at=utc_now(),
            streams=streams[: request.sources],
            second_streams=streams[request.sources :],
            second_request=second_guest.request if second_guest is not None else None,
            attestation=prepared.attestation,
        )
        ports = [port for stream in self.seen.flows for port in data_ports(stream, self._uut)]
        pids = [prepared.second.pid] if prepared.second is not None and prepared.second.pid is not None else []
        by_node = ports_by_node(self._nodes(), ports)
        self._readings = Readings(self.seen, links, by_node, guests, {self._uut: pids}, inventory)
        sinks, of_s = [flow.stream.sink_ip for flow in self._flows], request.duration_s
        self._kernel = KernelDropWatch(self.seen, inventory, links, sinks, settings.drop_reasons, of_s, prepared.inside)
        self._work = ProcessorWatch(self.seen, links[uut], uut, by_node[uut], wanted=settings.telemetry)
        self._timers = PacketTimers(self.seen.flows, self._flows, links, wanted=settings.packet_times)
        self._sources = Sources(self.seen.flows, links, live)
        self._captures = TrialCaptures(self.seen, self._flows, links, settings, self._let_go)

    # External events

    def abort(self) -> None:
        """Stop as soon as possible, keeping observations. Safe to call at any time, also twice."""
        self.seen.aborted = True
        if not self._interrupt.done():
            self._interrupt.set_result("aborted by the operator")

    def node_lost(self, node: str, reason: str) -> None:
        """A link is gone; if this trial uses the node, the trial ends."""
        if node not in self._nodes():
            return
        if self.seen.failure is None:
            self.seen.failure = Failure(
                failure="node_lost", operation=self._operation, node=node, message=f"{node}: {reason}"
            )
        self._sources.lost(node, reason, self._operation)
        if not self._interrupt.done():
            self._interrupt.set_result(reason)

    def lease_taken(self, lost: LeaseTaken) -> None:
        """Another operator took the testbed over: end the trial, because later counts are not ours."""
        if self.seen.failure is None:
            self.seen.failure = Failure(
                failure=lost.failure, operation=self._operation, node=lost.node, message=lost.message
            )
        self.seen.notes.append({"node": lost.node, "kind": "lease_taken", "detail": lost.message, "by": lost.by})
        if not self._interrupt.done():
            self._interrupt.set_result(lost.message)

    def on_agent_event(self, node: str, event: message.AgentEvent) -> None:
        """Take one checked event of an agent that matters to the trial."""
        if isinstance(event, generator.GeneratorDone):
            self._sources.finished(node, event.streams)
        elif isinstance(event, generator.GeneratorProgress):
            self._live.add_progress(node, event)
        elif isinstance(event, counters.CountersSampled):
            self._live.add_counters(node, event)
            self.seen.samples += 1
            self.seen.missed_samples += event.missed
        elif isinstance(event, capture.CaptureDied):
            self._captures.note_death(node, event)

    # The procedure

    async def execute(self) -> TrialObservations:
        """Run the trial to its end. Raises LabError only if no packet was sent yet."""
        started = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                await self._take(stack)
        except _Interrupted:
            if not self._began:
                self._refuse()
        except LabError as exc:
            if not self._began:
                raise  # nothing was sent: this is not a failed run, but none at all
            self._note_failure(exc)
        for seen in self.seen.flows:
            seen.sink_samples = self._live.sink_samples(seen.stream.name)
        if self._load is not None:
            self.seen.background = self._load.result()
            self.seen.notes += self._load.notes
        self.seen.timeline["total_s"] = time.monotonic() - started
        return self.seen

    async def _take(self, stack: AsyncExitStack) -> None:
        clock = _Stopwatch(self.seen.timeline)
        self._phase(Phase.ARMING)
        self._operation = "arm"
        taps = ForeignTaps(self.seen, self._links, self._flows)
        await taps.open(stack)  # stops after the counters, so that the taps have seen all that those count
        stack.push_async_callback(self._timers.stop)
        await self._timers.start()
        self.seen.notes += await self._timers.prove(self._inventory, self._prepared, self._request, self._interrupt)
        await run_concurrently([self._readings.open(), taps.start(), self._arm(stack)])
        if self._load is not None:
            self._operation = "background"
            stack.push_async_callback(self._end_load)
            await self._load.start()
            self._operation = "arm"
        stack.push_async_callback(self._kernel.stop)
        await self._kernel.start()
        await run_concurrently([self._count_before(), self._readings.drops(begin=True)])
        if self._request.observe == "quiet":
            await self._quiet(stack)
        clock.lap("arm_s")
        self._check_interrupt()
        self._phase(Phase.SENDING, self._request.duration_s)
        self._operation = "generator.start"
        async with self._timers.followed(self._tell_delays):
            await self._send()
        clock.lap("send_s")
        self._phase(Phase.DRAINING, self._settings.drain_s)
        self._operation = "drain"
        self.seen.drained = await self._drain()
        clock.lap("drain_s")
        self._phase(Phase.COUNTING)
        self._operation = "capture.stop"
        await run_concurrently([self._captures.stop(), self._readings.close(), self._attest()])
        await self._timers.stop()
        # After the captures, so that the difference includes everything that the NIC counted while they were open.
        await run_concurrently([self._count_after(), self._readings.drops(begin=False)])
        await self._kernel.stop()
        clock.lap("count_s")

    def _tell_delays(self, place: int, so_far: DelaysSoFar, clock_moved_ns: int) -> None:
        seen, flow = self.seen.flows[place], self._flows[place]
        self._live.add_times(seen.stream.name, live_delays(seen, flow, so_far, clock_moved_ns, self._node_facts))

    async def _count_before(self) -> None:
        self.seen.before = await self._read_counters()

    async def _count_after(self) -> None:
        self.seen.after = await self._read_counters(surviving=True)

    async def _end_load(self) -> None:
        """End the background load, also after a failure, so that it does not run in the next trial."""
        assert self._load is not None
        try:
            await self._load.stop()
        except NodeLost:
            pass  # it ended with its agent
        except NodeError as exc:
            self._note_failure(exc)

    async def _arm(self, stack: AsyncExitStack) -> None:
        if self._request.intended_packets is None:
            # The space that a capture may need depends on the generator.
            await self._prepare_generators(stack)
            await self._captures.start(stack)
        else:
            # Neither needs the other, and both take time.
            await run_concurrently([self._prepare_generators(stack), self._captures.start(stack)])

    async def _attest(self) -> None:
        """Attest the UUT again: a guest that was restarted meanwhile is not the one that was measured."""
        if self._prepared.attest is None:
            return
        try:
            self.seen.attested_after = await self._prepared.attest(self._links[self._uut])
        except NodeLost as exc:
            self._note_failure(exc)
        except NodeError as exc:
            self.seen.attested_after = {**self.seen.attestation, "attested": f"no: {exc.message}"}

    def _phase(self, phase: Phase, expected_s: float | None = None) -> None:
        self._emit(PhaseChanged(run_id=self.seen.run_id, phase=phase, expected_s=expected_s))

    def _check_interrupt(self) -> None:
        if self._interrupt.done():
            raise _Interrupted

    def _refuse(self) -> NoReturn:
        """Raise the error of an interruption before the first packet: there is no run, so no record either."""
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
        for flow in self._flows:
            names += [flow.stream.source.node, flow.stream.sink.node]
        return list(dict.fromkeys(names))

    async def _read_counters(self, *, surviving: bool = False) -> dict[str, Snapshot]:
        """Current counters of every node of the trial; with ``surviving``, of those that still answer."""
        snapshots: dict[str, Snapshot] = {}

        async def read(node: str) -> None:
            try:
                snapshots[node] = parse_snapshot(await self._links[node].ask(counters.ReadCounters(), timeout_s=10))
            except NodeError as exc:
                if not surviving:
                    raise
                self._note_failure(exc)

        await run_concurrently(read(node) for node in self._nodes())
        return snapshots

    def _specs(self, node: str) -> list[StreamSpec]:
        cpus, paths = self._inventory.nodes[node].generator_cpus, self._prepared.paths
        options = generator_options(self._request.generator, self._inventory.generators)
        mine = [(flow, flow.stream.source, paths[flow.stream.name].destination_mac) for flow in self._flows]
        return [
            stream_spec(flow, interface=source.interface, destination_mac=mac, cpus=cpus, options=options)
            for flow, source, mac in mine
            if source.node == node
        ]

    async def _prepare_generators(self, stack: AsyncExitStack) -> None:
        prepared: dict[tuple[str, str], generator.PreparedStream] = {}

        async def prepare(node: str) -> None:
            reply = await self._links[node].ask(generator.PrepareGenerator(streams=self._specs(node)))
            # A node reports on its own streams only.
            prepared.update(((node, entry.stream), entry) for entry in reply.streams)

        for node in self._sources.nodes:
            stack.push_async_callback(self._let_go, node, generator.CloseGenerator())
        await run_concurrently(prepare(node) for node in self._sources.nodes)
        for seen, flow in zip(self.seen.flows, self._flows, strict=True):
            seen.prepared = prepared.get((seen.stream.source.node, seen.stream.name))
            sender = seen.prepared.generator if seen.prepared is not None else ""
            second = flow.request is not self._request
            way = counting_points(seen, self._uut)
            self._live.begin(seen.stream, flow.request, sender, way, of_second_guest=second)

    async def _quiet(self, stack: AsyncExitStack) -> None:
        """Let the UUT sample into its own memory during traffic, because watching it can cause loss."""
        await self._links[self._uut].ask(counters.KeepQuiet(on=True))
        stack.push_async_callback(self._let_go, self._uut, counters.KeepQuiet(on=False))

    async def _send(self) -> None:
        if self._load is not None:
            await self._load.begin()
        await self._work.begin()
        self._began = True
        lead_s = await self._sources.start(self._settings.sample_interval_s)
        limit_s = lead_s + longest_s(self._request) + OVERDUE_S
        if not await self._sources.wait(limit_s, self._interrupt):
            self.seen.notes.append({"kind": "generator_overdue", "detail": f"not done {limit_s:.1f} s after the start"})
        await self._work.end()
        if self._load is not None:
            await self._load.end()
        if self._interrupt.done():
            self._operation = "generator.stop"
        self.seen.start_skew_s = await self._sources.collect(lambda node: self._let_go(node, generator.StopGenerator()))
        if self._load is not None:
            await self._end_load()  # now, because counting the second guest's packets is not the guest's work

    async def _drain(self) -> bool:
        """Wait at least drain_s, then until the counters of UUT and sinks are steady. Returns True if they are.

        Sinks count their captures meanwhile, so that closing them is quick.
        """
        begun_s = time.monotonic()
        await run_concurrently([self._captures.drain(), asyncio.sleep(self._settings.drain_s - STILL_S)])
        previous = await self._still_counts()
        while True:
            await asyncio.sleep(STILL_S)
            current = await self._still_counts()
            if current == previous:
                return True
            previous = current
            if time.monotonic() - begun_s > self._settings.drain_s + DRAIN_CAP_S:
                return False

    async def _still_counts(self) -> dict[str, list[int]]:
        """The packet counters that are steady once no packet is on its way any more."""
        snapshots = await self._read_counters(surviving=True)
        points: dict[str, list[tuple[str, str]]] = {}
        for seen in self.seen.flows:
            points.setdefault(seen.stream.sink.node, []).append(("", seen.stream.sink.interface))
            points.setdefault(self._uut, []).extend((p.namespace, p.interface) for p in seen.path.points)
        return {
            node: [snapshots[node][key].values[k] for key in keys for k in (0, 1) if key in snapshots[node]]
            for node, keys in points.items()
            if node in snapshots
        }

    async def _let_go(self, node: str, request: message.Request[Any]) -> None:
        """Request a node to end something. A node that cannot answer ends it by itself when its link ends."""
        try:
            reply = await self._links[node].ask(request, timeout_s=20)
            left = reply.failed if isinstance(reply, session.Undone) else []
        except NodeError as exc:
            left = [] if getattr(exc, "code", None) in ("no_such_capture", "not_prepared") else [exc.message]
        self.seen.notes += [{"node": node, "kind": "cleanup", "detail": f"{request.op}: {what}"} for what in left]


class _Stopwatch:
    """Records how long each part of a trial took, for the record's timeline."""

    def __init__(self, timeline: dict[str, float]) -> None:
        self._timeline, self._last = timeline, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._timeline[name] = now - self._last
        self._last = now
