"""One attempt of guests that send at once: limits, a capture at the sink, the command for each, counters around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import run_cancellable
from labconsole.engine.crew_sink import (
    MOST_DRAIN_S,
    SinkCapture,
    captured_at_sink,
    find_sink_mac,
    read_counters,
    read_counters_after_drain,
)
from labconsole.errors import GuestLacks, MeasurementError, NodeError, NodeLost
from labconsole.experiments.flow.base import FlowGuest, FlowMeasurement, FlowObservation
from labconsole.experiments.flow.disk import DiskWorker
from labconsole.experiments.flow.limiters import credit_queue_s
from labconsole.experiments.flow.live_view import OUT, SendingWatch, SharingWatch, build_moments
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import HEADER_BYTES
from labconsole.experiments.flow.record import LimiterRecord
from labconsole.experiments.flow.script import SINK_ADDRESS, FlowSender, FlowWindow, Sending
from labconsole.experiments.flow.weights import (
    QUEUE,
    QUEUE_S,
    build_class_limiters,
    build_queue,
    describe_applied_weights,
)
from labconsole.model.flow_scenarios import DiskBeside, WeightSteps
from labconsole.model.jobs import JOBS
from labconsole.network.routing import Neighbour
from labconsole.platforms.base.crew_disks import find_disk, prepare_disks
from labconsole.platforms.base.guest_shell import DONE, WAITS, build_simultaneous_line
from labconsole.verdict.changes import Port
from labconsole.wire.changes import AnyChange
from labconsole.wire.guests import TOGETHER_S, AskedGuests, AskGuests, GuestLine
from labconsole.wire.queues import ChangeRates, RatesTaken, ReadQueue, TakenChanges

# -- queue monitor -----------------------------------------------------------------------------------------------------
# Monitor of the queue that guests share while they send, for the live view. Never reads shortly before a change.

MONITOR_EVERY_S = 0.3
KEPT_FREE_S = 0.15
"""Time before a change in which the agent that makes it gets no request."""


class SharedQueueMonitor:
    """Reads the shared queue at intervals. ``show`` is called when there is something new."""

    def __init__(
        self, uut: AgentLink, changing: ChangeRates, weights: WeightSteps, watch: SharingWatch, show: Callable[[], None]
    ) -> None:
        self._uut, self._changing, self._weights = uut, changing, weights
        self._watch, self._show = watch, show
        self._place = -1
        """Index of the set that took effect last."""
        self._next_ns: int | None = None
        """When the next change is due by the UUT's monotonic clock, or None if there is none or it is not known yet."""

    def hear(self, taken: RatesTaken) -> None:
        """Called when weights took effect. Sets out of order or reported twice are ignored."""
        if not self._place < taken.place < len(self._changing.rates_bps):
            return
        self._place = taken.place
        last = taken.place + 1 >= len(self._changing.rates_bps)
        self._next_ns = None if last else taken.taken_ns + round(self._changing.every_s * 1e9)
        self._watch.mark(taken.taken_ns, describe_applied_weights(taken, self._weights, self._changing))
        self._show()

    async def look(self) -> None:
        """Read the queue until cancelled, or until it cannot be read."""
        request = ReadQueue(queue=self._changing.queue, classes=len(self._changing.most_bps))
        while True:
            if not self._is_near(now_ns := self._now_ns()):
                try:
                    state = await self._uut.ask(request)
                except NodeError:  # the measurement notices and reports this
                    return
                if self._watch.see_classes((now_ns + self._now_ns()) // 2, state):
                    self._show()
            await asyncio.sleep(MONITOR_EVERY_S)

    def _is_near(self, now_ns: int) -> bool:
        """Whether a change is due soon. An overdue change may happen at any time, for as long as a step lasts."""
        if self._next_ns is None:
            return False
        return -self._changing.every_s < (self._next_ns - now_ns) / 1e9 < KEPT_FREE_S

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._uut.monotonic_offset_ns


# -- the attempt -------------------------------------------------------------------------------------------------------

CAPTURE = "flows"
LONGER_S = 60.0
"""Grace period for a guest's report that it has sent all."""

READY_S = 300.0
"""Time limit for a guest to make the files for its work on the disk."""

TAKEN_S = 2.0
"""Grace period for the UUT's report on the weights, after all guests have sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendObservation(FlowObservation):
    """The observations of one attempt. ``worker``: the guest that works on its disk instead of sending."""

    senders: tuple[FlowSender, ...]
    worker: DiskWorker | None
    sink_mac: str
    window: FlowWindow


class SendMeasurement(FlowMeasurement):
    """One attempt with a running crew. ``offered_bps``: payload rate of each flow."""

    def __init__(
        self, point: FlowPoint, factors: FlowFactors, offered_bps: int, bench: Bench, crew: StandingCrew
    ) -> None:
        super().__init__(point, factors, bench, crew)
        self._offered_bps = offered_bps
        self._worker: DiskWorker | None = None
        self._changing: ChangeRates | None = None
        self._kept_bps: tuple[int | None, ...] = ()

    async def take(self) -> SendObservation:
        """Apply limits, run the window, attest the guests afterwards.

        Raises MeasurementError if the platform cannot do this, NodeError, and Aborted when it is stopped.
        """
        crew = self._crew
        sink_mac = await find_sink_mac(self._crew)
        senders = self._senders(sink_mac)
        if self._point.disk is not None:
            self._worker = await run_cancellable(self._bench.stage, self._ready(self._point.disk, sink_mac))
        nodes = {crew.uut: [crew.stream.uut_out], crew.timekeeper: [crew.stream.sink.interface]}
        window = await self._run_window(senders, nodes, self._neighbour(sink_mac), lambda: self._send(senders))
        return SendObservation(
            attempt=self._attempt,
            ports=self._ports(senders),
            senders=tuple(senders),
            worker=self._worker,
            sink_mac=sink_mac,
            window=window,
        )

    def _ports(self, senders: Sequence[FlowSender]) -> tuple[Port, ...]:
        """The interfaces that the numbers rest on."""
        uut, stream = self._crew.uut.name, self._crew.stream
        guests = [(uut, sender.host_interface) for sender in senders if sender.host_interface is not None]
        return ((uut, stream.uut_out), (self._crew.timekeeper.name, stream.sink.interface), *guests)

    def _senders(self, sink_mac: str) -> list[FlowSender]:
        point, bare = self._point, not self._crew.crew.own_stacks
        found = []
        for number, member in enumerate(self._crew.members[: point.guests - (point.disk is not None)]):
            known = self._known(member)
            after_s = point.second_after_s if number else 0.0
            sending = Sending(
                guest=number,
                address=known["address"],
                flows=point.flows_of(number),
                offered_bps=self._offered_bps,
                payload_bytes=point.payload_bytes,
                duration_s=self._factors.duration_s - after_s,
                after_s=after_s,
                neighbour=None if bare else sink_mac,
            )
            host_interface = self._standing[member.name].host_interface
            found.append(FlowSender(**known, host_interface=host_interface, sending=sending))
        return found

    async def _ready(self, background: DiskBeside, sink_mac: str) -> DiskWorker:
        """Prepare the last guest's disk for its work, and return the guest."""
        member, work = self._crew.members[-1], JOBS[background.job].disk
        if work is not None:
            await prepare_disks(self._crew, {member.name: 1}, work, background.size, READY_S)
        if (disk := find_disk(self._crew, member.name)) is None:
            raise MeasurementError(f"guest {member.name} of platform {self._point.platform} has no disk")
        neighbour = sink_mac if self._crew.crew.own_stacks else None
        return DiskWorker(**self._known(member), number=self._point.guests - 1, disk=disk, neighbour=neighbour)

    def _limits(self, guests: Sequence[FlowGuest]) -> list[AnyChange]:
        """The guests' limits. If guests share by weights, one queue does both."""
        weights, senders = self._point.weights, [each for each in guests if isinstance(each, FlowSender)]
        if weights is None:
            return super()._limits(guests)
        for sender in senders:
            if sender.host_interface is None:
                raise GuestLacks(
                    f"guest {sender.name} of platform {self._point.platform} has no interface of its own on the UUT "
                    "that identifies it"
                )
        begin_s = TOGETHER_S + LONGER_S
        speed_bps = self._crew.stream.link_speed_bps
        queue, self._changing = build_queue(self._point, weights, senders, speed_bps, begin_s)
        return [queue]

    async def _limiters(self, guests: Sequence[FlowGuest]) -> dict[str, LimiterRecord]:
        if self._changing is None:
            return await super()._limiters(guests)
        try:
            state = await self._crew.uut.ask(ReadQueue(queue=QUEUE, classes=len(guests)))
        except NodeLost:
            raise
        except NodeError:  # the queue was removed, so there is nothing to read
            return {}
        self._kept_bps = tuple(each.rate_bps for each in state.classes)
        return dict(zip([guest.name for guest in guests], build_class_limiters(state), strict=False))

    def _neighbour(self, sink_mac: str) -> list[AnyChange]:
        """The UUT's neighbour entry for the sink, if the guests have the UUT's own network stack."""
        if self._crew.crew.own_stacks:
            return []
        return [Neighbour(address=SINK_ADDRESS, mac=sink_mac, interface=self._crew.stream.uut_out)]

    async def _send(self, senders: Sequence[FlowSender]) -> FlowWindow:
        crew = self._crew
        changing = self._watching_for_use()
        try:
            async with self._capture(senders) as capture:
                before = await read_counters(self._crew)
                self._seen.before = dict(zip((crew.uut.name, crew.timekeeper.name), before, strict=True))
                timeout_s = self._factors.duration_s + LONGER_S
                lines = [
                    GuestLine(guest=sender.name, line=build_simultaneous_line([sender.sending.line()]))
                    for sender in senders
                ]
                if self._worker is not None and self._point.disk is not None:
                    line = self._worker.line(self._point.disk)
                    lines.append(GuestLine(guest=self._worker.name, line=build_simultaneous_line([line])))
                async with self._watched(senders):
                    request = AskGuests(asked=lines, until=DONE, timeout_s=timeout_s, waits=WAITS)
                    answered, taken = await run_cancellable(self._bench.stage, self._all_sent(request, changing))
                after = await read_counters_after_drain(self._crew, self._bench.inventory.defaults.drain_s, self._seen)
                self._seen.after = dict(zip((crew.uut.name, crew.timekeeper.name), after, strict=True))
                limiters = await self._limiters(senders)
                await capture.close()
            return FlowWindow(
                answered=answered,
                before=before,
                after=after,
                limiters=limiters,
                taken=taken,
                kept_bps=self._kept_bps,
                capture=capture.found,
                capture_failure=capture.failure,
            )
        finally:
            if changing is not None:
                changing.cancel()

    def _watching_for_use(self) -> asyncio.Future[TakenChanges] | None:
        """Have the UUT wait for guests to begin and change weights from then on; None if weights do not change.

        The UUT needs some ten milliseconds before it waits, in which guests should not begin. So the request precedes
        the capture at the sink.
        """
        if self._changing is None:
            return None
        longest_s = self._changing.begin_s + self._factors.duration_s + LONGER_S
        return asyncio.ensure_future(self._crew.uut.ask(self._changing, timeout_s=longest_s))

    async def _all_sent(
        self, request: AskGuests, changing: asyncio.Future[TakenChanges] | None
    ) -> tuple[AskedGuests, TakenChanges | None]:
        """Have all guests send while weights change. The second result is None if they do not, or if the UUT does not
        report.
        """
        answered = await self._crew.uut.ask(request, timeout_s=request.timeout_s + TOGETHER_S + 30)
        if changing is None:
            return answered, None
        await asyncio.wait((changing,), timeout=TAKEN_S)
        if not changing.done() or (
            isinstance(failed := changing.exception(), NodeError) and not isinstance(failed, NodeLost)
        ):
            return answered, None
        return answered, changing.result()

    def _credit_s(self, senders: Sequence[FlowSender]) -> float:
        """Longest time for which guests that wait for credit still send."""
        if not self._crew.crew.nic_credit:
            return 0.0
        limits = [(self._point.limit_of(number), each.sending.flows) for number, each in enumerate(senders)]
        return max((credit_queue_s(bps, flows) for bps, flows in limits if bps is not None), default=0.0)

    def _capture(self, senders: Sequence[FlowSender]) -> AbstractAsyncContextManager[SinkCapture]:
        crew, factors, payload_bytes = self._crew, self._factors, self._point.payload_bytes
        waits_s = self._credit_s(senders) if self._changing is None else QUEUE_S * len(senders)
        wanted_bps = sum(each.sending.flows * each.sending.offered_bps for each in senders)
        frames_bps = min(wanted_bps * (payload_bytes + HEADER_BYTES) / payload_bytes, float(crew.stream.link_speed_bps))
        return captured_at_sink(
            crew,
            self._bench.inventory,
            CAPTURE,
            expected_packets=round(frames_bps * factors.duration_s / (8 * (payload_bytes + HEADER_BYTES))),
            bin_s=factors.bin_s,
            bins=round((factors.duration_s + waits_s + MOST_DRAIN_S) / factors.bin_s) + 2,
        )

    @asynccontextmanager
    async def _watched(self, senders: Sequence[FlowSender]) -> AsyncIterator[None]:
        """Show each guest's rate live. For limited guests, show what their limiters pass, their limits, and weights as
        they take effect.
        """
        text = f"{len(senders)} guest{'s send' if len(senders) > 1 else ' sends'} for {self._factors.duration_s:g} s"
        point, changing = self._point, self._changing
        if point.weights is None or changing is None:
            limiters = await self._limiters(senders)
            moments = build_moments(point.second_after_s, point.disk)
            indices = await self._indices(senders, limiters)
            with self._show_progress(
                text, senders, SendingWatch(indices, OUT, moments, limiters, passed=bool(limiters))
            ):
                yield
            return
        watch = SharingWatch([each.name for each in senders], point.payload_bytes + HEADER_BYTES)
        with self._show_progress(text, senders, watch) as show:
            looking = SharedQueueMonitor(self._crew.uut, changing, point.weights, watch, show)
            self._bench.stage.on_rates = looking.hear
            looks = asyncio.ensure_future(looking.look())
            try:
                yield
            finally:
                looks.cancel()
