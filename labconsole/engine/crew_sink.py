"""What is counted of guests' packets: live at their interfaces on the UUT, and at the sink, by flow and time bin.

Shared by guests that send and guests that forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError, NodeLost
from labconsole.measure.fairness import whole_bins
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.model.inventory import Inventory
from labconsole.packets.flows import MAX_BINS
from labconsole.verdict.observations import Snapshot, TrialObservations, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.capture import CaptureResult, StartCapture, StopCapture
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled, ReadCounters
from labconsole.wire.flows import CountedFlow, CountedFlows
from labconsole.wire.links import ReadLinks

RX, TX = STAT_NAMES.index("rx_packets"), STAT_NAMES.index("tx_packets")
S = TypeVar("S")

# -- crew watch --------------------------------------------------------------------------------------------------------
# Throughput of guests over time, from the counters of their interfaces on the UUT, for live display. Pure.

LEAST_STEP_S = 0.2
"""Minimum time between two points of a curve; shorter intervals mostly show noise of the reading times."""

MOST_POINTS = 400


class CountingWatch:
    """Takes samples of the UUT's counters. ``guests``: interface index on the UUT to the guest's name.

    A value is the increase of ``statistic`` per second, times ``scale``.
    """

    def __init__(self, guests: Mapping[int, str], statistic: str, scale: float) -> None:
        self._names, self._place, self._scale = dict(guests), STAT_NAMES.index(statistic), scale
        self._begun_ns: int | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._curves: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in guests.values()}

    def see(self, sample: CountersSampled) -> bool:
        """Add a sample; return whether a point was added. Time begins with the first sample."""
        added = False
        for index, values in sample.namespaces.get("", ()):
            if index in self._names and len(values) > self._place:
                added |= self._count(index, sample.monotonic_ns, values[self._place])
        return added

    def _count(self, index: int, at_ns: int, counted: int) -> bool:
        self._begun_ns = at_ns if self._begun_ns is None else self._begun_ns
        former_ns, former = self._last.setdefault(index, (at_ns, counted))
        took_s = (at_ns - former_ns) / 1e9
        if took_s < LEAST_STEP_S:
            return False
        self._last[index] = at_ns, counted
        seconds, values = self._curves[self._names[index]]
        seconds.append((at_ns - self._begun_ns) / 1e9)
        values.append(max(0, counted - former) / took_s * self._scale)
        del seconds[:-MOST_POINTS], values[:-MOST_POINTS]
        return True

    def since_begun_s(self, at_ns: int) -> float | None:
        """A time of the UUT's monotonic clock on the curves' time axis, or None before the first sample."""
        return None if self._begun_ns is None else (at_ns - self._begun_ns) / 1e9

    def over_time(self, title: str, unit: str, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """The curves so far."""
        curves = tuple(
            PictureCurve(name=name, seconds=tuple(seconds), values=tuple(values))
            for name, (seconds, values) in self._curves.items()
        )
        return OverTime(title=title, unit=unit, curves=curves, moments=tuple(moments))


async def find_indices(uut: AgentLink, names: Mapping[str | None, str]) -> dict[int, str]:
    """Index to guest, by the names of interfaces on the UUT. Raises NodeError."""
    links = (await uut.ask(ReadLinks())).links
    return {link.index: names[link.name] for link in links if link.name in names and not link.namespace}


@contextmanager
def show_rates(
    bench: Bench,
    text: str,
    guests: Iterable[str],
    see: Callable[[CountersSampled], bool],
    chart: Callable[[], OverTime | None],
) -> Iterator[Callable[[], None]]:
    """Show the text, the guests and their live curves during the block. Yields a function that redraws them.

    ``see``: takes a sample, and returns whether it added a point to the ``chart``.
    """
    at_work = tuple(PictureGuest(name=guest, state=CopyState.WORKS) for guest in guests)

    def show() -> None:
        bench.show(StepPicture(found=(text,), guests=at_work, over_time=chart()))

    def hear(sample: CountersSampled) -> None:
        if see(sample):
            show()

    show()
    bench.stage.on_counters = hear
    try:
        yield show
    finally:
        bench.stage.on_counters = bench.stage.on_rates = None


# -- crew sink ---------------------------------------------------------------------------------------------------------
# The sink's end of trials that count packets there: its MAC address, and counters before and after, when steady.

MOST_DRAIN_S = 10.0
"""Maximum time that packets may wait in queues after the last was sent."""

Counters = tuple[Snapshot, Snapshot]
"""Those of the UUT, and of the node outside."""


async def find_sink_mac(crew: StandingCrew) -> str:
    """The MAC address of the sink's NIC. Raises NodeError if the node does not report it."""
    links = {link.name: link.mac for link in (await crew.timekeeper.ask(ReadLinks())).links if not link.namespace}
    if not (mac := links.get(crew.stream.sink.interface)):
        raise NodeError(crew.timekeeper.name, f"does not say the MAC address of {crew.stream.sink.interface}")
    return mac.lower()


async def read_counters(crew: StandingCrew) -> Counters:
    """Counters of the UUT and of the sink. Raises NodeError."""
    replies = await asyncio.gather(crew.uut.ask(ReadCounters()), crew.timekeeper.ask(ReadCounters()))
    uut, sink = map(parse_snapshot, replies)
    return uut, sink


async def read_counters_after_drain(crew: StandingCrew, drain_s: float, seen: TrialObservations) -> Counters:
    """Counters once no packet arrives at the sink any more, so that packets queued on the path are not counted as lost.

    If packets never stop arriving, ``seen`` gets a doubt. Raises NodeError.
    """
    port, found = ("", crew.stream.sink.interface), await read_counters(crew)
    for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
        await asyncio.sleep(drain_s)
        former, found = found, await read_counters(crew)
        if port in found[1] and port in former[1] and found[1][port].values[RX] == former[1][port].values[RX]:
            return found
    detail = f"packets still arrived at the sink {MOST_DRAIN_S:g} s after the last was sent"
    seen.doubts.append(reason("not_drained", detail))
    return found


# -- sink capture ------------------------------------------------------------------------------------------------------
# Captures all packets at the sink's NIC while guests send or forward, by flow and time bin.

SNAP_BYTES = 64
CLOSE_S = 300.0
"""Time that a sink may take to count the rest of its capture."""


@dataclass(slots=True, kw_only=True)
class SinkCapture:
    """One capture. If ``found`` is None after ``close``, ``failure`` says why."""

    crew: StandingCrew
    name: str
    found: CaptureResult | None = None
    failure: str = ""
    closed: bool = False

    async def close(self) -> None:
        """Close the capture and have it counted. Raises NodeLost."""
        self.closed = True
        try:
            self.found = await self.crew.timekeeper.ask(StopCapture(capture=self.name), timeout_s=CLOSE_S)
        except NodeLost:
            raise
        except NodeError as exc:
            self.failure = exc.message


@asynccontextmanager
async def captured_at_sink(
    crew: StandingCrew, inventory: Inventory, name: str, *, expected_packets: int, bin_s: float, bins: int
) -> AsyncIterator[SinkCapture]:
    """Capture without a filter, to see other senders too, until the context ends. Raises NodeError."""
    sink = crew.timekeeper
    capture = SinkCapture(crew=crew, name=name)
    start = StartCapture(
        capture=name,
        interface=crew.stream.sink.interface,
        filter="",
        snap_bytes=SNAP_BYTES,
        buffer_kib=inventory.defaults.capture_buffer_kib,
        directory=inventory.nodes[sink.name].capture_dir,
        expected_packets=expected_packets,
        flow_bin_ns=round(bin_s * 1e9),
        flow_bins=min(MAX_BINS, bins),
    )
    try:
        await sink.ask(start)
        yield capture
    finally:
        if not capture.closed:
            with suppress(NodeError):
                await sink.ask(StopCapture(capture=name), timeout_s=CLOSE_S)


# -- window ------------------------------------------------------------------------------------------------------------
# Observations of one window in which guests send or forward, and what follows from them.


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWindow:
    """Counters of the UUT and of the node outside, ``before`` and ``after`` a window."""

    before: Counters
    after: Counters

    def count(self, node: int, interface: str | None, statistic: int) -> int | None:
        """Increase of a counter of an interface, of the UUT (0) or outside (1), or None if it was not there all the
        time.
        """
        before, after = (side[node].get(("", interface or "")) for side in (self.before, self.after))
        if before is None or after is None or after.values[statistic] < before.values[statistic]:
            return None
        return after.values[statistic] - before.values[statistic]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowArrivals:
    """Packets of one flow that arrived at the sink, by bin from the first packet of any flow to the last non-empty bin.
    ``outside_packets``: those in none of the bins.
    """

    packets: int = 0
    bytes: int = 0
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    bin_packets: tuple[int, ...] = ()
    outside_packets: int = 0

    def build_record(self, kind: Callable[..., S], **own: Any) -> S:
        """The record of the flow. ``own``: further fields of the ``kind``."""
        return kind(
            packets=self.packets,
            bytes=self.bytes,
            first_at_ns=self.first_at_ns,
            last_at_ns=self.last_at_ns,
            bin_packets=self.bin_packets,
            outside_packets=self.outside_packets,
            **own,
        )


def count_arrivals(counted: CountedFlow | None) -> FlowArrivals:
    """The arrivals of a flow, which the capture lacks if none of its packets came."""
    if counted is None:
        return FlowArrivals()
    bins = [0] * (counted.bins[-1] + 1 if counted.bins else 0)
    for place, packets in zip(counted.bins, counted.bin_packets, strict=True):
        bins[place] = packets
    return FlowArrivals(
        packets=counted.packets,
        bytes=counted.bytes,
        first_at_ns=counted.first_at_ns,
        last_at_ns=counted.last_at_ns,
        bin_packets=tuple(bins),
        outside_packets=counted.outside_packets,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWindow(CountedWindow):
    """``capture``: None if it failed; ``capture_failure`` says why."""

    capture: CaptureResult | None = None
    capture_failure: str = ""

    @property
    def flows(self) -> CountedFlows | None:
        """What was captured, by flow, or None without a capture."""
        return None if self.capture is None else self.capture.flows

    @property
    def origin_ns(self) -> int | None:
        """When the first packet of a flow arrived at the sink, or None without a capture."""
        return None if self.flows is None else self.flows.origin_ns

    @property
    def counted(self) -> dict[tuple[str, int, int], CountedFlow] | None:
        """The captured flows by source MAC address, source port and sink port; None if nothing was captured."""
        if self.flows is None:
            return None
        return {(each.mac.lower(), each.udp_source_port, each.udp_sink_port): each for each in self.flows.flows}

    def build_sink(
        self, kind: Callable[..., S], node: str, interface: str, mac: str, own_packets: int, **own: Any
    ) -> S | None:
        """The record of all that the sink counted, or None if it did not capture. ``own_packets``: those of the crew;
        ``own``: further fields of the ``kind``.
        """
        capture, flows = self.capture, self.flows
        if capture is None or flows is None:
            return None
        return kind(
            node=node,
            interface=interface,
            mac=mac,
            captured_packets=flows.packets,
            dropped_packets=capture.dropped_kernel_packets,
            nic_packets=self.count(1, interface, RX),
            other_packets=flows.other_packets,
            control_packets=flows.control_packets,
            foreign_packets=sum(each.packets for each in flows.flows) + flows.unlisted_packets - own_packets,
            **own,
        )


# -- shared time -------------------------------------------------------------------------------------------------------
# The time in which all guests send or forward, and their rates in it. Pure.


class BinnedFlow(Protocol):
    """A flow whose packets at the sink are counted in bins."""

    @property
    def first_at_ns(self) -> int | None: ...
    @property
    def last_at_ns(self) -> int | None: ...
    @property
    def bin_packets(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTime:
    """The bins in which all flows arrive, from ``first`` to before ``stop``, and the guests' rates in them; all None
    without such bins.
    """

    first: int | None = None
    stop: int | None = None
    each: Mapping[str, float] | None = None
    total: float | None = None
    jain: float | None = None


def find_shared_span(flows: Iterable[BinnedFlow]) -> tuple[int, int] | None:
    """When the last flow began and the first one ended, by the sink's clock; None if one did not begin."""
    times = [(flow.first_at_ns, flow.last_at_ns) for flow in flows]
    known = [(first, last) for first, last in times if first is not None and last is not None]
    if not known or len(known) < len(times):
        return None
    return max(first for first, _ in known), min(last for _, last in known)


def derive_shared_time(
    flows: Mapping[str, Sequence[BinnedFlow]],
    origin_ns: int | None,
    bin_s: float,
    rate: Callable[[str, int, int], float],
) -> SharedTime:
    """Derive all guests' rates over the time in which all their ``flows`` arrive. ``rate``: of a guest, from a bin to
    before another.
    """
    every = [flow for own in flows.values() for flow in own]
    span = find_shared_span(every)
    if origin_ns is None or span is None or not all(flows.values()):
        return SharedTime()
    first, stop = whole_bins(*span, origin_ns, round(bin_s * 1e9))
    stop = min(stop, max(len(flow.bin_packets) for flow in every))  # the bins do not count what lies beyond
    if stop <= first:
        return SharedTime()
    each = {guest: rate(guest, first, stop) for guest in flows}
    return SharedTime(first=first, stop=stop, each=each, total=sum(each.values()), jain=jain_index(each.values()))


def start_skew_s(firsts: Iterable[int | None]) -> float | None:
    """Time between the guests' first packets, or None if there are not two."""
    known = [each for each in firsts if each is not None]
    return (max(known) - min(known)) / 1e9 if len(known) > 1 else None
