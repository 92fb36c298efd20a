"""One attempt of routers that forward at once: their routes, a capture at the sink, a stream to each, counters around.

Settings for the whole trial are changes by the agent. Bridges get the port of every address: routers never send from
their inbound NICs, and frames to an unknown address go to all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew, StandingMember
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, OverTime, PictureGuest, StepPicture
from labconsole.engine.crew_measurement import CrewAttempt, apply_changes, run_cancellable
from labconsole.engine.crew_sink import (
    CountingWatch,
    SinkCapture,
    captured_at_sink,
    find_indices,
    find_sink_mac,
    read_counters,
    read_counters_after_drain,
    show_rates,
)
from labconsole.engine.trial.setup import MAX_COUNT
from labconsole.engine.trial.traffic import START_LEAD_S
from labconsole.errors import GuestLacks, NodeError
from labconsole.experiments.route.loading import (
    FIRST_SOURCE_PORT,
    NO_IPROUTE2,
    SINK_PORT,
    SOURCE,
    LoadResult,
    RouteLoad,
    count_routes,
    first_destination,
    inbound_mac,
    load_routes,
    nic_line,
)
from labconsole.experiments.route.plan import BIN_S, RouteFactors, RoutePoint
from labconsole.experiments.route.window import Router, RouteWindow
from labconsole.model.design_point import FCS_BYTES, PREAMBLE_AND_GAP_BYTES
from labconsole.model.generator import generator_options
from labconsole.network.links import BridgeStation
from labconsole.verdict.changes import Port
from labconsole.wire.changes import AnyChange
from labconsole.wire.execution import Execute
from labconsole.wire.generator import (
    CloseGenerator,
    PrepareGenerator,
    SentStream,
    StartGenerator,
    WaitForGenerator,
)
from labconsole.wire.stream_spec import StreamSpec

CAPTURE, TOKEN = "routes", "route"
LONGER_S = 60.0
"""Grace period for the source's report that it has sent all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteObservation:
    """The observations of one attempt."""

    attempt: CrewAttempt
    ports: tuple[Port, ...]
    routers: tuple[Router, ...]
    sink_mac: str
    window: RouteWindow


class RouteMeasurement:
    """One attempt with a running crew."""

    def __init__(self, point: RoutePoint, factors: RouteFactors, bench: Bench, crew: StandingCrew) -> None:
        self._point, self._factors, self._bench, self._crew = point, factors, bench, crew
        self._source = bench.stage.source
        self._standing: dict[str, StandingMember] = {member.name: member for member in crew.crew.members}
        self._attempt = CrewAttempt(bench.stage, crew)
        self._seen = self._attempt.observations

    async def take(self) -> RouteObservation:
        """Load the routes, run the window, attest the routers afterwards.

        Raises GuestLacks if the platform cannot do this, NodeError, and Aborted when it is stopped.
        """
        crew, stream = self._crew, self._crew.stream
        routers = self._routers()
        sink_mac = await find_sink_mac(self._crew)
        nodes = {
            crew.uut: [stream.uut_in, stream.uut_out],
            crew.timekeeper: [stream.sink.interface],
            self._source: [stream.source.interface],
        }
        async with apply_changes(crew.uut, self._stations(routers, sink_mac), TOKEN):
            loaded = await run_cancellable(self._bench.stage, self._load(routers, sink_mac))
            async with self._attempt.watched(nodes):
                window = await self._forward(routers, loaded)
        await self._attempt.attest()
        return RouteObservation(
            attempt=self._attempt,
            ports=self._ports(routers),
            routers=tuple(routers),
            sink_mac=sink_mac,
            window=window,
        )

    def _routers(self) -> list[Router]:
        return [
            Router(
                name=member.name,
                inbound_mac=(self._standing[member.name].inbound_mac or inbound_mac(number)).lower(),
                mac=(self._standing[member.name].mac or member.mac).lower(),
                inbound_interface=self._standing[member.name].inbound_interface,
                host_interface=self._standing[member.name].host_interface,
                udp_source_port=FIRST_SOURCE_PORT + number,
            )
            for number, member in enumerate(self._crew.members)
        ]

    def _ports(self, routers: Sequence[Router]) -> tuple[Port, ...]:
        """The interfaces that the numbers rest on."""
        uut, stream = self._crew.uut.name, self._crew.stream
        own = [each for router in routers for each in (router.inbound_interface, router.host_interface) if each]
        return (
            (self._source.name, stream.source.interface),
            *((uut, each) for each in (stream.uut_in, stream.uut_out, *own)),
            (self._crew.timekeeper.name, stream.sink.interface),
        )

    def _stations(self, routers: Sequence[Router], sink_mac: str) -> list[AnyChange]:
        known: list[AnyChange] = [BridgeStation(port=self._crew.stream.uut_out, mac=sink_mac)]
        for router in routers:
            if router.inbound_interface is None:
                raise GuestLacks(
                    f"router {router.name} of platform {self._point.platform} has no interface on the UUT at which "
                    "what goes into it could be counted"
                )
            known.append(BridgeStation(port=router.inbound_interface, mac=router.inbound_mac))
        return known

    async def _load(self, routers: Sequence[Router], sink_mac: str) -> dict[str, LoadResult]:
        """Load the routes unless the routers have them from the trial before. Returns what they have."""
        crew, point = self._crew, self._point
        members = [self._standing[router.name] for router in routers]
        await asyncio.gather(
            *(
                self._standing[router.name].ask(crew.uut, nic_line(router.inbound_mac, router.mac, sink_mac))
                for router in routers
            )
        )
        load = RouteLoad(point.routes, point.destinations, point.filters)
        if crew.loaded == load.word:
            found = await count_routes(crew.uut, members)
            return {name: LoadResult(each.prefixes, each.filters, None, each.said) for name, each in found.items()}
        text = f"{load.prefixes} route{'s' if load.prefixes > 1 else ''} to each of {len(routers)} "
        text += f"router{'s' if len(routers) > 1 else ''}"
        guests = tuple(PictureGuest(name=router.name, state=CopyState.STARTS) for router in routers)
        self._bench.show(StepPicture(found=(f"gives {text}",), guests=guests))
        crew.loaded = ""  # until the routes are counted
        pairs = [(self._standing[router.name], router.mac) for router in routers]
        found = await load_routes(crew.uut, pairs, load)
        for member in members:
            if not member.in_namespace and found[member.name].said == NO_IPROUTE2:
                raise GuestLacks(
                    f"router {member.name} of platform {point.platform} {NO_IPROUTE2}: install it in these guests (in "
                    "those of the local lab `labconsole lab up --jobs` does)"
                )
        if all(each.prefixes == load.prefixes for each in found.values()):
            crew.loaded = load.word
        return found

    @property
    def _line_pps(self) -> float:
        return self._crew.stream.link_speed_bps / (8 * (self._point.frame_bytes + PREAMBLE_AND_GAP_BYTES))

    def _streams(self, routers: Sequence[Router]) -> list[StreamSpec]:
        point = self._point
        each_pps = None if point.target == "max" else point.target / len(routers)
        inventory = self._bench.inventory
        cpus, generator = inventory.nodes[self._source.name].generator_cpus, inventory.defaults.generator
        return [
            StreamSpec(
                stream=router.name,
                interface=self._crew.stream.source.interface,
                generator=generator,
                destination_mac=router.inbound_mac,
                source_ip=SOURCE,
                sink_ip=first_destination(),
                udp_source_port=router.udp_source_port,
                udp_sink_port=SINK_PORT,
                pkt_size_bytes=point.frame_bytes - FCS_BYTES,
                delay_ns=0 if each_pps is None else round(1e9 / each_pps),
                duration_s=self._factors.duration_s,
                max_count=min(2 * round(self._line_pps * self._factors.duration_s), MAX_COUNT),
                cpus=list(cpus) if cpus else None,
                options=generator_options(generator, inventory.generators),
                destinations=None if point.destinations == 1 else point.destinations,
            )
            for router in routers
        ]

    async def _forward(self, routers: Sequence[Router], loaded: Mapping[str, LoadResult]) -> RouteWindow:
        crew = self._crew
        async with self._capture() as capture:
            before = await read_counters(self._crew)
            self._seen.before = dict(zip((crew.uut.name, crew.timekeeper.name), before, strict=True))
            with self._watched(routers, await self._indices(routers)):
                stat, sent = await self._send(self._streams(routers))
            after = await read_counters_after_drain(self._crew, self._bench.inventory.defaults.drain_s, self._seen)
            self._seen.after = dict(zip((crew.uut.name, crew.timekeeper.name), after, strict=True))
            had = await count_routes(crew.uut, [self._standing[router.name] for router in routers])
            await capture.close()
        return RouteWindow(
            sent=sent,
            before=before,
            after=after,
            stat=stat,
            loaded=loaded,
            loaded_after=had,
            capture=capture.found,
            capture_failure=capture.failure,
        )

    async def _send(self, streams: list[StreamSpec]) -> tuple[tuple[str, str], Sequence[SentStream]]:
        source, limit_s = self._source, self._factors.duration_s + LONGER_S
        try:
            await source.ask(PrepareGenerator(streams=streams))
            began = await self._stat()
            at_ns = time.monotonic_ns() + round((START_LEAD_S + source.round_trip_s) * 1e9)
            await source.ask(StartGenerator(at_monotonic_ns=at_ns + source.monotonic_offset_ns))
            waiting = source.ask(WaitForGenerator(), timeout_s=limit_s)
            sent = await run_cancellable(self._bench.stage, waiting)
            return (began, await self._stat()), sent.streams
        finally:
            with suppress(NodeError):  # an agent that is gone has ended what it sent
                await source.ask(CloseGenerator())

    async def _stat(self) -> str:
        return (await self._crew.uut.ask(Execute(argv=["cat", "/proc/stat"], timeout_s=5))).stdout

    def _capture(self) -> AbstractAsyncContextManager[SinkCapture]:
        crew, factors, point = self._crew, self._factors, self._point
        wanted_pps = self._line_pps if point.target == "max" else min(self._line_pps, point.target)
        return captured_at_sink(
            crew,
            self._bench.inventory,
            CAPTURE,
            expected_packets=round(wanted_pps * factors.duration_s),
            bin_s=BIN_S,
            bins=round(factors.duration_s / BIN_S) + 20,
        )

    async def _indices(self, routers: Sequence[Router]) -> dict[int, str]:
        """Index to router, for the UUT's interfaces at which routers hand over what they forwarded."""
        names = {router.host_interface: router.name for router in routers}
        return await find_indices(self._crew.uut, names)

    def _watched(
        self, routers: Sequence[Router], indices: Mapping[int, str]
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show each router's rate live."""
        text = f"{len(routers)} router{'s forward' if len(routers) > 1 else ' forwards'}"
        watch = CountingWatch(indices, "rx_packets", 1e-3)

        def chart() -> OverTime | None:
            return watch.over_time("What routers forward", "kpackets/s out of each router") if indices else None

        names = [router.name for router in routers]
        return show_rates(self._bench, f"{text} for {self._factors.duration_s:g} s", names, watch.see, chart)
