"""The live state of a testbed in ring buffers, and from it the path of each stream's packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.history import CommandHistory
from labconsole.errors import CounterInconsistency
from labconsole.measure.counts import CounterSample, decreases, interval_rate, interval_rates
from labconsole.verdict.hops import RX_DETAILS, TX_DETAILS
from labconsole.verdict.observations import CountingPoint
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.facts import NodeFacts
from labconsole.wire.links import NodeLinkState
from labconsole.wire.processors import ProcessorsSampled

# -- telemetry ---------------------------------------------------------------------------------------------------------
# The live state of a testbed: one store of ring buffers that the sampler writes and screens read.
#
# Readers compare ``revision`` and repaint when it has changed. Samples are never sent as messages: with 100 nodes, 8
# interfaces each and 10 Hz, that alone would take a third of a core; an append here takes well under a microsecond.

HISTORY = 600
"""Samples kept per stream: a minute at 10 Hz. Bounded, so that memory use stays constant over hours."""

INTERFACE_HISTORY = 240
"""Samples kept per interface: there may be a thousand interfaces, and no sparkline is wider."""

_POSITION = {name: index for index, name in enumerate(STAT_NAMES)}
_RX_PACKETS, _TX_PACKETS = _POSITION["rx_packets"], _POSITION["tx_packets"]


@dataclass(slots=True)
class InterfaceLive:
    """One interface: its last two samples, and histories for sparklines. Everything else is computed on demand."""

    node: str
    namespace: str
    name: str
    link: NodeLinkState
    last: CounterSample | None = None
    rx_pps: deque[float] = field(default_factory=lambda: deque(maxlen=INTERFACE_HISTORY))
    tx_pps: deque[float] = field(default_factory=lambda: deque(maxlen=INTERFACE_HISTORY))
    _previous: CounterSample | None = None

    @property
    def label(self) -> str:
        """The interface's name, with its namespace unless that is the node's own."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def before(self) -> CounterSample | None:
        """The sample that ``last`` makes an interval with, or None while there is no such interval."""
        if self._previous is None or self.last is None or decreases(self._previous, self.last):
            return None
        return self._previous

    @property
    def void(self) -> str:
        """The sentence why the last interval has no rates (a counter decreased), or ""."""
        if self._previous is None or self.last is None or not decreases(self._previous, self.last):
            return ""
        try:
            interval_rates(self._previous, self.last)
        except CounterInconsistency as exc:
            return str(exc)
        return ""

    def add(self, sample: CounterSample) -> None:
        """Add a sample, and the packet rates since the previous one unless a packet counter decreased."""
        previous, self.last = self.last, sample
        if previous is None:
            return
        at_ns, new = sample
        before_ns, old = previous
        elapsed_ns = at_ns - before_ns
        if elapsed_ns <= 0:
            self._previous = None
            return
        self._previous = previous
        if min(len(old), len(new)) <= _TX_PACKETS:
            return  # no kernel has so few counters, but a node may claim it
        received, sent = new[_RX_PACKETS] - old[_RX_PACKETS], new[_TX_PACKETS] - old[_TX_PACKETS]
        if received >= 0 and sent >= 0:
            self.rx_pps.append(received * 1e9 / elapsed_ns)
            self.tx_pps.append(sent * 1e9 / elapsed_ns)

    def rate(self, name: str) -> float | None:
        """A statistic's rate in 1/s over the last interval, or None without one."""
        before = self.before
        if before is None or self.last is None:
            return None
        return interval_rate(before, self.last, _POSITION[name])


@dataclass(frozen=True, slots=True)
class FollowedHop:
    """``base``: the sample before any traffic; ``offset_ns``: the node's monotonic clock minus the console's."""

    place: CountingPoint
    offset_ns: int
    base: CounterSample | None


@dataclass(frozen=True, slots=True)
class LiveDelays:
    """Quantiles of the one-way delay of all packets so far, or None if too few packets support the quantile."""

    p50_ns: int
    p99_ns: int | None
    max_ns: int


UNSETTLED_S = 1.0
"""Within this time, an error of a few milliseconds between two clocks is too large relative to what was sent."""


@dataclass(slots=True)
class StreamLive:
    """One stream of the running or last trial: packets so far and rates, at one instant for both ends.

    ``seconds`` count from the start of sending; a rate covers the time since the previous sample, and is NaN if
    unknown.
    """

    name: str
    source: str
    sink: str
    intended_pps: float | None = None
    offered_packets: int | None = None
    measured_packets: int | None = None
    offered_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    measured_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    missing_packets: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY + 1))
    """Packets sent but not arrived, at each of these instants and the one before the first; NaN if unknown."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    final: bool = False
    """True once the numbers are those of the saved record rather than a running estimate."""

    generator: str = ""
    of_second_guest: bool = False
    """True for the second guest's stream, which enters no total."""

    hops: tuple[FollowedHop, ...] = ()
    """The counters on its path (telemetry.py)."""

    delays: LiveDelays | None = None
    """Delays of all packets so far, or None if they are not timed, or the clocks are not proved to agree."""

    @property
    def loss_packets(self) -> int | None:
        """Offered minus measured, or None until it is precise enough to be shown."""
        if self.offered_packets is None or self.measured_packets is None:
            return None
        if not self.final and (not self.seconds or self.seconds[-1] < UNSETTLED_S):
            return None
        return self.offered_packets - self.measured_packets

    @property
    def loss_ratio(self) -> float | None:
        """Lost packets relative to offered ones, or None if unknown or nothing was offered."""
        lost = self.loss_packets
        return lost / self.offered_packets if lost is not None and self.offered_packets else None


@dataclass(slots=True)
class NodeLive:
    """One node: state and its explanation, round trip, clock offset with its bound."""

    name: str
    roles: tuple[str, ...]
    state: NodeState = NodeState.IDLE
    message: str = ""
    round_trip_s: float | None = None
    clock_offset_ns: int | None = None
    clock_error_ns: int | None = None
    kernel: str = ""
    missed_samples: int = 0
    quiet: bool = False
    """True while the node samples into its own memory and sends nothing (docs/decisions/0009-quiet-uut.md)."""

    processors: ProcessorsSampled | None = None
    """Recent load of its processors, or None if unknown."""

    facts: NodeFacts | None = None
    """The agent's facts about the node when it was connected."""

    history: CommandHistory = field(default_factory=CommandHistory)
    """The requests to the node."""

    retry_at_s: float | None = None
    """Time of the next attempt by the monotonic clock, or None while it is connected or an attempt is under way."""

    def enter(self, state: NodeState, message: str) -> None:
        """Set the state; unless it is connected, forget all live values."""
        self.state, self.message = state, message
        if state is not NodeState.CONNECTED:
            self.round_trip_s = self.clock_offset_ns = self.clock_error_ns = self.processors = None


class Telemetry:
    """All live state. One writer (the event loop), any number of readers on the same loop."""

    def __init__(self) -> None:
        self.revision = 0
        self.nodes: dict[str, NodeLive] = {}
        self.interfaces: dict[tuple[str, str, str], InterfaceLive] = {}
        self.streams: dict[str, StreamLive] = {}
        self._indexed: dict[str, dict[str, dict[int, InterfaceLive]]] = {}

    def mark_quiet(self, node: str, quiet: bool) -> None:
        """Note whether a node samples into its own memory and sends nothing."""
        self.nodes[node].quiet = quiet
        self.revision += 1

    def set_processors(self, node: str, event: ProcessorsSampled) -> None:
        """Set the load of a node's processors."""
        self.nodes[node].processors = event
        self.revision += 1

    def set_links(self, node: str, links: Iterable[NodeLinkState]) -> None:
        """Set a node's links: new ones are added, missing ones removed."""
        present = set()
        indexed = self._indexed[node] = {}
        for link in links:
            key = (node, link.namespace, link.name)
            present.add(key)
            live = self.interfaces.setdefault(key, InterfaceLive(*key, link))
            live.link = link
            indexed.setdefault(link.namespace, {})[link.index] = live
        for key in [k for k in self.interfaces if k[0] == node and k not in present]:
            del self.interfaces[key]
        self.revision += 1

    def interface_name(self, node: str, namespace: str, index: int) -> str | None:
        """Name of the interface with this index, or None while its link is unknown."""
        live = self._indexed.get(node, {}).get(namespace, {}).get(index)
        return live.name if live is not None else None

    def add_counters(self, node: str, event: CountersSampled) -> None:
        """Add one checked ``counters`` event of a node."""
        at_ns, indexed = event.monotonic_ns, self._indexed.get(node, {})
        for namespace, rows in event.namespaces.items():
            known = indexed.get(namespace, {})
            for index, values in rows:
                live = known.get(index)
                if live is not None:
                    live.add(CounterSample(at_ns, tuple(values)))
        self.revision += 1


def stat(values: tuple[int, ...], name: str) -> int | None:
    """One statistic of a sample, or None if the node's kernel is too old to count it."""
    index = _POSITION[name]
    return values[index] if index < len(values) else None


# -- hops --------------------------------------------------------------------------------------------------------------
# A stream's path through the testbed during a trial: the packets counted so far at each counter, at one instant.
#
# The counters are those of the ledger in the run's record (verdict/hops.py), read from regular samples, so that no node
# gets an additional request. Nodes sample at different instants by their own clocks, so each count is extrapolated
# back, at its current rate, to the oldest of these instants. The number missing between two hops is therefore an
# estimate until the record has the final one. A quiet node reports nothing until its window is over.

_DROPS = {"rx": ("rx_dropped", "rx_errors", *RX_DETAILS), "tx": ("tx_dropped", "tx_errors", *TX_DETAILS)}


@dataclass(frozen=True, slots=True)
class HopNow:
    """``packets`` since the trial began; ``lost_packets`` between the previous hop and this one, an estimate.

    ``drops``: counters of this interface that have increased since. ``quiet``: its node reports nothing now.
    """

    place: CountingPoint
    packets: float | None = None
    pps: float | None = None
    lost_packets: float | None = None
    drops: Mapping[str, int] = field(default_factory=dict)
    quiet: bool = False


def follow(
    places: Sequence[CountingPoint], telemetry: Telemetry, offsets_ns: Mapping[str, int]
) -> tuple[FollowedHop, ...]:
    """Note the current value of every counter on the path."""
    found = []
    for place in places:
        live = telemetry.interfaces.get((place.node, place.namespace, place.interface))
        found.append(FollowedHop(place, offsets_ns.get(place.node, 0), live.last if live is not None else None))
    return tuple(found)


def hops_now(hops: Sequence[FollowedHop], telemetry: Telemetry) -> list[HopNow]:
    """The packets counted at each hop so far."""
    samples = [_latest(hop, telemetry) for hop in hops]
    instants = [
        sample.monotonic_ns - hop.offset_ns for hop, sample in zip(hops, samples, strict=True) if sample is not None
    ]
    at_ns = min(instants, default=0)
    found: list[HopNow] = []
    before: float | None = None
    for hop, sample in zip(hops, samples, strict=True):
        if sample is None:
            found.append(HopNow(hop.place, quiet=telemetry.nodes[hop.place.node].quiet))
            continue
        now = _grown(hop, sample, telemetry, at_ns, before)
        before = now.packets if now.packets is not None else before
        found.append(now)
    return found


def _latest(hop: FollowedHop, telemetry: Telemetry) -> CounterSample | None:
    place = hop.place
    live = telemetry.interfaces.get((place.node, place.namespace, place.interface))
    if live is None or hop.base is None or telemetry.nodes[place.node].quiet:
        return None
    return live.last


def _grown(hop: FollowedHop, sample: CounterSample, telemetry: Telemetry, at_ns: int, before: float | None) -> HopNow:
    place, base = hop.place, hop.base
    live = telemetry.interfaces[(place.node, place.namespace, place.interface)]
    grown = _growth(base, sample, place.statistic)
    pps = live.rate(place.statistic)
    packets = None if grown is None else float(grown)
    if packets is not None and pps is not None:
        packets -= pps * (sample.monotonic_ns - hop.offset_ns - at_ns) / 1e9
    drops = {name: moved for name in _DROPS[place.statistic[:2]] if (moved := _growth(base, sample, name))}
    lost = None if before is None or packets is None else before - packets
    return HopNow(place, packets, pps, lost, drops)


def _growth(base: CounterSample | None, sample: CounterSample, statistic: str) -> int | None:
    index = STAT_NAMES.index(statistic)
    if base is None or index >= min(len(base.values), len(sample.values)):
        return None
    grown = sample.values[index] - base.values[index]
    return grown if grown >= 0 else None
