"""A stream's path through the testbed during a trial: the packets counted so far at each counter, at one instant.

The counters are those of the ledger in the run's record (verdict/hops.py), read from regular samples, so that no node
gets an additional request. Nodes sample at different instants by their own clocks, so each count is extrapolated back,
at its current rate, to the oldest of these instants. The number missing between two hops is therefore an estimate until
the record has the final one. A quiet node reports nothing until its window is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.engine.live.telemetry import FollowedHop, Telemetry
from labconsole.measure.counts import CounterSample
from labconsole.verdict.hops import RX_DETAILS, TX_DETAILS
from labconsole.verdict.stream_path import CountingPoint
from labconsole.wire.codec import STAT_NAMES

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
