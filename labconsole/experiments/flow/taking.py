"""One attempt of guests that send at once: limits, a capture at the sink, the line to all, counters around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from labconsole.contracts.crew import StandingCrew, StandingMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.engine.crew_taking import changed_since, held, program_seen, swapped_pages, unless_stopped
from labconsole.engine.trial.window import Readings
from labconsole.errors import MeasurementError, NodeError, NodeLost
from labconsole.experiments.flow.figures import HEADER_BYTES
from labconsole.experiments.flow.limiters import TOKEN, limit_of, queue_name, read_limiters
from labconsole.experiments.flow.live import moments_of, sending_over_time, sending_watch
from labconsole.experiments.flow.script import PROGRAM, SINK_ADDRESS, Sending
from labconsole.experiments.flow.window import FlowSender, FlowWindow, silent_guests
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.plan.flows import FlowFactors, FlowPoint
from labconsole.model.record.crew_trial import ProgramSeen
from labconsole.model.record.run import SetUp
from labconsole.network.routing import Neighbour
from labconsole.packets.flows import MAX_BINS
from labconsole.platforms.base.inside import DONE, WAITS, at_once
from labconsole.verdict.changes import Port
from labconsole.verdict.observed import Snapshot, TrialObservations, parse_snapshot
from labconsole.wire.capture import StartCapture, StopCapture
from labconsole.wire.changes import AnyChange
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled, ReadCounters
from labconsole.wire.guests import TOGETHER_S, AskGuests, GuestLine
from labconsole.wire.links import ReadLinks

CAPTURE = "flows"
SNAP_BYTES = 64
LONGER_S = 60.0
"""How much later than it should a guest may say that it has sent all."""

MOST_DRAIN_S = 10.0
"""So long packets may wait in queues after the last was sent."""

_RX = STAT_NAMES.index("rx_packets")
CLOSE_S = 300.0
"""How long a sink may take to count what its capture still holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTrialSeen:
    """What one attempt saw. ``guest_problems``: a sentence for each guest that is not as it was set up."""

    observations: TrialObservations
    set_up: SetUp
    ports: tuple[Port, ...]
    senders: tuple[FlowSender, ...]
    sink_mac: str
    window: FlowWindow
    swapped_pages: int | None
    program: ProgramSeen
    guest_problems: tuple[str, ...]


class FlowTaking:
    """One attempt, on a crew that stands. ``offered_bps``: payload of each flow."""

    def __init__(
        self, point: FlowPoint, factors: FlowFactors, offered_bps: int, bench: Bench, crew: StandingCrew
    ) -> None:
        self._point, self._factors, self._offered_bps = point, factors, offered_bps
        self._bench, self._crew = bench, crew
        self._standing: dict[str, StandingMember] = {member.name: member for member in crew.crew.members}
        self._seen = TrialObservations(run_id=new_run_id(datetime.now(UTC)), started_at=utc_now())

    async def take(self) -> FlowTrialSeen:
        """From the limits to the guests' attestation.

        Raises MeasurementError where the platform cannot be asked this, NodeError, and Aborted when it is stopped.
        """
        crew = self._crew
        set_up = crew.begin_trial()
        sink_mac = await self._sink_mac()
        senders = self._senders(sink_mac)
        readings = Readings(
            self._seen,
            {crew.uut.name: crew.uut, crew.timekeeper.name: crew.timekeeper},
            {crew.uut.name: [crew.stream.uut_out], crew.timekeeper.name: [crew.stream.sink.interface]},
            self._bench.stage.guest_processes,
            {crew.uut.name: [member.pid for member in self._standing.values() if member.pid is not None]},
        )
        program = await program_seen(crew, PROGRAM, [sender.name for sender in senders])
        before = await swapped_pages(crew.uut)
        async with held(crew.uut, [*self._limits(senders), *self._neighbour(sink_mac)], TOKEN):
            await readings.open()
            window = await self._send(senders)
            await readings.close()
        after = await swapped_pages(crew.uut)
        problems = [f"{guest}: {why}" for guest, why in silent_guests(window.answered)]
        if not problems:
            problems += await changed_since(crew)
        return FlowTrialSeen(
            observations=self._seen,
            set_up=set_up,
            ports=self._ports(senders),
            senders=tuple(senders),
            sink_mac=sink_mac,
            window=window,
            swapped_pages=None if before is None or after is None else after - before,
            program=program,
            guest_problems=tuple(problems),
        )

    def _ports(self, senders: Sequence[FlowSender]) -> tuple[Port, ...]:
        """The interfaces that the numbers rest on."""
        uut, stream = self._crew.uut.name, self._crew.stream
        guests = [(uut, sender.host_interface) for sender in senders if sender.host_interface is not None]
        return ((uut, stream.uut_out), (self._crew.timekeeper.name, stream.sink.interface), *guests)

    async def _sink_mac(self) -> str:
        crew = self._crew
        links = {link.name: link.mac for link in (await crew.timekeeper.ask(ReadLinks())).links if not link.namespace}
        if not (mac := links.get(crew.stream.sink.interface)):
            raise NodeError(crew.timekeeper.name, f"does not say the MAC address of {crew.stream.sink.interface}")
        return mac.lower()

    def _senders(self, sink_mac: str) -> list[FlowSender]:
        point, bare = self._point, not self._crew.crew.own_stacks
        found = []
        for number, member in enumerate(self._crew.members):
            standing = self._standing[member.name]
            address = (standing.address or member.address).partition("/")[0]
            after_s = point.second_after_s if number else 0.0
            sending = Sending(
                guest=number,
                address=address,
                flows=point.flows_of(number),
                offered_bps=self._offered_bps,
                payload_bytes=point.payload_bytes,
                duration_s=self._factors.duration_s - after_s,
                after_s=after_s,
                neighbour=None if bare else sink_mac,
            )
            found.append(
                FlowSender(
                    name=member.name,
                    address=address,
                    mac=(standing.mac or member.mac).lower(),
                    host_interface=standing.host_interface,
                    sending=sending,
                )
            )
        return found

    def _limits(self, senders: Sequence[FlowSender]) -> list[AnyChange]:
        found: list[AnyChange] = []
        for number, sender in enumerate(senders):
            if (rate_bps := self._point.limit_of(number)) is None:
                continue
            if sender.host_interface is None:
                raise MeasurementError(
                    f"guest {sender.name} of platform {self._point.platform} has no interface of its own on the UUT "
                    "that could be limited"
                )
            found.append(limit_of(sender.host_interface, number + 1, rate_bps))
        return found

    def _neighbour(self, sink_mac: str) -> list[AnyChange]:
        """Where guests have the UUT's own network stack, it is the one to be told whose address it is."""
        if self._crew.crew.own_stacks:
            return []
        return [Neighbour(address=SINK_ADDRESS, mac=sink_mac, interface=self._crew.stream.uut_out)]

    async def _send(self, senders: Sequence[FlowSender]) -> FlowWindow:
        crew = self._crew
        await crew.timekeeper.ask(self._capture(senders))
        over = False
        try:
            before = await self._counters()
            self._seen.before = dict(zip((crew.uut.name, crew.timekeeper.name), before, strict=True))
            timeout_s = self._factors.duration_s + LONGER_S
            lines = [GuestLine(guest=sender.name, line=at_once([sender.sending.line()])) for sender in senders]
            with self._watched(senders, await self._indices(senders)):
                answered = await unless_stopped(
                    self._bench.stage,
                    crew.uut.ask(
                        AskGuests(asked=lines, until=DONE, timeout_s=timeout_s, waits=WAITS),
                        timeout_s=timeout_s + TOGETHER_S + 30,
                    ),
                )
            after = await self._counters_at_rest()
            self._seen.after = dict(zip((crew.uut.name, crew.timekeeper.name), after, strict=True))
            queues = {
                sender.name: queue_name(number)
                for number, sender in enumerate(senders, 1)
                if self._point.limit_of(number - 1) is not None
            }
            limiters = await read_limiters(crew.uut, queues)
            over = True
            try:
                capture = await crew.timekeeper.ask(StopCapture(capture=CAPTURE), timeout_s=CLOSE_S)
            except NodeLost:
                raise
            except NodeError as exc:
                return FlowWindow(
                    answered=answered, before=before, after=after, limiters=limiters, capture_failure=exc.message
                )
            return FlowWindow(answered=answered, before=before, after=after, limiters=limiters, capture=capture)
        finally:
            if not over:
                with suppress(NodeError):
                    await crew.timekeeper.ask(StopCapture(capture=CAPTURE), timeout_s=CLOSE_S)

    def _capture(self, senders: Sequence[FlowSender]) -> StartCapture:
        """Of every packet that comes to the sink: who else sends there is to be seen."""
        crew, factors, payload_bytes = self._crew, self._factors, self._point.payload_bytes
        inventory = self._bench.inventory
        wanted_bps = sum(each.sending.flows * each.sending.offered_bps for each in senders)
        frames_bps = min(wanted_bps * (payload_bytes + HEADER_BYTES) / payload_bytes, float(crew.stream.link_speed_bps))
        return StartCapture(
            capture=CAPTURE,
            interface=crew.stream.sink.interface,
            filter="",
            snap_bytes=SNAP_BYTES,
            buffer_kib=inventory.defaults.capture_buffer_kib,
            directory=inventory.nodes[crew.timekeeper.name].capture_dir,
            expected_packets=round(frames_bps * factors.duration_s / (8 * (payload_bytes + HEADER_BYTES))),
            flow_bin_ns=round(factors.bin_s * 1e9),
            flow_bins=min(MAX_BINS, round(factors.duration_s / factors.bin_s) + 2),
        )

    async def _counters(self) -> tuple[Snapshot, Snapshot]:
        """Of the UUT and of the sink."""
        replies = await asyncio.gather(self._crew.uut.ask(ReadCounters()), self._crew.timekeeper.ask(ReadCounters()))
        uut, sink = map(parse_snapshot, replies)
        return uut, sink

    async def _counters_at_rest(self) -> tuple[Snapshot, Snapshot]:
        """Once nothing comes to the sink any more: what waits in queues on the way is not lost."""
        drain_s, port = self._bench.inventory.defaults.drain_s, ("", self._crew.stream.sink.interface)
        found = await self._counters()
        for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
            await asyncio.sleep(drain_s)
            former, found = found, await self._counters()
            if port in found[1] and port in former[1] and found[1][port].values[_RX] == former[1][port].values[_RX]:
                break
        return found

    async def _indices(self, senders: Sequence[FlowSender]) -> dict[int, str]:
        """Of the guests' interfaces on the UUT."""
        names = {sender.host_interface: sender.name for sender in senders if sender.host_interface is not None}
        links = (await self._crew.uut.ask(ReadLinks())).links
        return {link.index: names[link.name] for link in links if link.name in names and not link.namespace}

    @contextmanager
    def _watched(self, senders: Sequence[FlowSender], indices: Mapping[int, str]) -> Iterator[None]:
        """Meanwhile whoever watches sees what each guest sends."""
        words = f"{len(senders)} guest{'s send' if len(senders) > 1 else ' sends'} for {self._factors.duration_s:g} s"
        guests = tuple(PictureGuest(name=sender.name, state=CopyState.WORKS) for sender in senders)
        watch, moments = sending_watch(indices), moments_of(self._point.second_after_s)

        def show() -> None:
            over_time = sending_over_time(watch, moments) if indices else None
            self._bench.show(StepPicture(found=(words,), guests=guests, over_time=over_time))

        def hear(sample: CountersSampled) -> None:
            if watch.see(sample):
                show()

        show()
        self._bench.stage.on_counters = hear
        try:
            yield
        finally:
            self._bench.stage.on_counters = None
