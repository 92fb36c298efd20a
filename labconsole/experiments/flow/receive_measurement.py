"""One attempt of guests that receive: readers in all of them, and their counts before and after the source's frames."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import run_cancellable
from labconsole.engine.crew_stage import NETWORK
from labconsole.engine.trial.sources import START_LEAD_S
from labconsole.errors import MeasurementError, NodeError
from labconsole.experiments.flow.base import FlowMeasurement, FlowObservation
from labconsole.experiments.flow.live_view import INTO, SendingWatch
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.receive import (
    READ_LINE,
    GuestCounts,
    ReceiveWindow,
    ReceivingGuest,
    build_stream,
    parse_processes,
    read_counts,
)
from labconsole.experiments.flow.record import FlowRequested
from labconsole.model.generator import generator_options
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.counters import ReadCounters
from labconsole.wire.generator import CloseGenerator, PrepareGenerator, SentStream, StartGenerator, WaitForGenerator
from labconsole.wire.links import ReadLinks

OVERDUE_S = 15.0
"""Time to wait for the source beyond its sending time."""

MOST_DRAIN_S = 10.0
"""Longest time that a guest may read on after the last packet was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveObservation(FlowObservation):
    """The observations of one attempt. ``generator``: the source's; ``source_mac``: of the source's NIC."""

    guests: tuple[ReceivingGuest, ...]
    window: ReceiveWindow
    source_mac: str
    generator: str


@dataclass(slots=True)
class _Reading:
    """State of the readers. ``processes``: those started in each guest. ``silent``: guests that did not answer, and
    why.
    """

    processes: dict[str, list[int]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


class ReceiveMeasurement(FlowMeasurement):
    """One attempt with a crew that shares the UUT's NIC towards the source."""

    def __init__(
        self,
        point: FlowPoint,
        factors: FlowFactors,
        requested: FlowRequested,
        generator: str,
        bench: Bench,
        crew: StandingCrew,
    ) -> None:
        super().__init__(point, factors, bench, crew)
        self._requested, self._generator = requested, generator
        self._source = bench.stage.source
        self._reading = _Reading()

    async def take(self) -> ReceiveObservation:
        """Start the readers, run the window, attest the guests afterwards.

        Raises MeasurementError if the platform or the source cannot do this, NodeError, and Aborted when it is stopped.
        """
        crew, source = self._crew, self._source
        guests, source_mac = self._guests(), await self._source_mac()
        nodes = {crew.uut: [crew.stream.uut_in], source: [crew.stream.source.interface]}
        window = await self._run_window(guests, nodes, (), lambda: self._send(guests, source_mac))
        hosts = [(crew.uut.name, each.host_interface) for each in guests if each.host_interface is not None]
        return ReceiveObservation(
            attempt=self._attempt,
            ports=((crew.uut.name, crew.stream.uut_in), (source.name, crew.stream.source.interface), *hosts),
            guests=tuple(guests),
            window=window,
            source_mac=source_mac,
            generator=self._generator,
        )

    def _guests(self) -> list[ReceivingGuest]:
        crew = self._crew.crew
        return [
            ReceivingGuest(
                **self._known(member),
                host_interface=self._standing[member.name].host_interface,
                own_stack=crew.own_stacks,
            )
            for member in self._crew.members
        ]

    async def _source_mac(self) -> str:
        interface = self._crew.stream.source.interface
        links = {link.name: link.mac for link in (await self._source.ask(ReadLinks())).links if not link.namespace}
        if not (mac := links.get(interface)):
            raise NodeError(self._source.name, f"does not say the MAC address of {interface}")
        return mac.lower()

    async def _send(self, guests: Sequence[ReceivingGuest], source_mac: str) -> ReceiveWindow:
        async with self._readers(guests, source_mac), self._armed(guests):
            counted = await self._counted(guests)
            before = await self._counters()
            many = (
                f"{len(guests)} guest{'s are' if len(guests) > 1 else ' is'} sent to for {self._factors.duration_s:g} s"
            )
            with self._show_progress(many, guests, SendingWatch(await self._indices(guests, {}), INTO)):
                sent = await run_cancellable(self._bench.stage, self._sent())
            after, counted_after = await self._read_drained_counters(guests)
        for side, snapshots in ((self._seen.before, before), (self._seen.after, after)):
            side.update(zip((self._crew.uut.name, self._source.name), snapshots, strict=True))
        return ReceiveWindow(
            sent=sent,
            before=before,
            after=after,
            counted={guest.name: (counted.get(guest.name), counted_after.get(guest.name)) for guest in guests},
            silent=tuple(self._reading.silent.items()),
        )

    # In the guests

    async def _ask(self, guest: ReceivingGuest, line: str) -> str | None:
        """The guest's output, or None if it does not answer; the reason is kept. Raises NodeLost."""
        try:
            return await self._standing[guest.name].ask(self._crew.uut, line)
        except NodeError as exc:
            if exc.failure == "node_lost":
                raise
            self._reading.silent.setdefault(guest.name, exc.message)
            return None

    @asynccontextmanager
    async def _readers(self, guests: Sequence[ReceivingGuest], source_mac: str) -> AsyncIterator[None]:
        """Run a reader in each guest during the block."""

        async def begin(guest: ReceivingGuest) -> None:
            said = await self._ask(guest, guest.begin_line(source_mac, self._factors.duration_s))
            self._reading.processes[guest.name] = parse_processes(said or "")

        async def end(guest: ReceivingGuest) -> None:
            if processes := self._reading.processes.get(guest.name):
                await self._standing[guest.name].ask(self._crew.uut, guest.end_line(processes))

        begun = asyncio.gather(*map(begin, guests), return_exceptions=True)
        try:
            for outcome in await asyncio.shield(begun):
                if isinstance(outcome, BaseException):
                    raise outcome
            yield
        finally:
            with suppress(asyncio.CancelledError):
                await begun
            # In a guest that does not answer any more, the reader ends with the guest.
            await asyncio.gather(*map(end, guests), return_exceptions=True)

    async def _counted(self, guests: Sequence[ReceivingGuest]) -> dict[str, GuestCounts]:
        said = await asyncio.gather(*(self._ask(guest, READ_LINE) for guest in guests))
        network = str(NETWORK.network_address)
        return {
            guest.name: read_counts(each, guest.address, network)
            for guest, each in zip(guests, said, strict=True)
            if each is not None
        }

    async def _read_drained_counters(
        self, guests: Sequence[ReceivingGuest]
    ) -> tuple[tuple[Snapshot, Snapshot], Mapping[str, GuestCounts]]:
        """Read all counters once no guest counts any more. Packets on the way, or waiting to be read, are not lost."""
        drain_s = self._bench.inventory.defaults.drain_s
        found = await self._counted(guests)
        for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
            await asyncio.sleep(drain_s)
            former, found = found, await self._counted(guests)
            if _own(found) == _own(former):
                break
        else:
            self._seen.doubts.append(reason("not_drained", f"guests still counted {MOST_DRAIN_S:g} s after the last"))
        return await self._counters(), found

    # At the source

    @asynccontextmanager
    async def _armed(self, guests: Sequence[ReceivingGuest]) -> AsyncIterator[None]:
        """Prepare the source for its streams to the guests."""
        interface = self._crew.stream.source.interface
        inventory = self._bench.inventory
        cpus = inventory.nodes[self._source.name].generator_cpus
        options = generator_options(self._generator, inventory.generators)
        try:
            specs = [
                build_stream(guest, number, self._requested, interface, self._generator, cpus, options)
                for number, guest in enumerate(guests)
            ]
        except ValueError as exc:
            raise MeasurementError(f"{self._source.name} cannot send so little: {exc}") from None
        try:
            prepared = await self._source.ask(PrepareGenerator(streams=specs))
            self._generator = prepared.streams[0].generator if prepared.streams else self._generator
            yield
        finally:
            with suppress(NodeError):
                await self._source.ask(CloseGenerator())

    async def _sent(self) -> dict[str, SentStream]:
        """Start all streams together, and return what the source reports."""
        source = self._source
        at_ns = time.monotonic_ns() + round((START_LEAD_S + source.round_trip_s) * 1e9) + source.monotonic_offset_ns
        await source.ask(StartGenerator(at_monotonic_ns=at_ns))
        said = await source.ask(WaitForGenerator(), timeout_s=self._factors.duration_s * 1.1 + OVERDUE_S)
        return {each.stream: each for each in said.streams}

    async def _counters(self) -> tuple[Snapshot, Snapshot]:
        """Counters of the UUT and of the source."""
        nodes: tuple[AgentLink, ...] = (self._crew.uut, self._source)
        uut, source = map(parse_snapshot, await asyncio.gather(*(node.ask(ReadCounters()) for node in nodes)))
        return uut, source


def _own(counted: Mapping[str, GuestCounts]) -> Mapping[str, GuestCounts]:
    """The counts without those of the guests' other NICs, which may count this very request."""
    return {guest: replace(each, others=None) for guest, each in counted.items()}
