"""The delay of every packet of a trial, as far as its record has it, and the kernel probes used in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.measure.time_histogram import TimeHistogram
from labconsole.model.record.packet_times import EXTENSION, PacketTimes
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP


@dataclass(frozen=True, slots=True)
class PacketDelays:
    """``histograms``: of each stream, as in its record. ``longest_ns``: the longest of all."""

    histograms: tuple[str, ...]
    longest_ns: int


def read_packet_delays(streams: Sequence[Mapping[str, Any]], *, since_due: bool = False) -> PacketDelays | None:
    """Packet delays, or None unless every stream has a readable histogram of the delays of all packets that arrived.
    Measured from the sender's time stamps, or from the due times.
    """
    histograms, longest_ns = [], 0
    for stream in streams:
        try:
            times = PacketTimes.model_validate((stream.get("extensions") or {}).get(EXTENSION))
            delay = times.due_ns if since_due else times.delay_ns
            if delay is None:
                return None
            if TimeHistogram.decoded(delay.histogram).total != delay.packets:
                return None
        except ValueError:  # missing, from another version, or broken: verify reports it
            return None
        histograms.append(delay.histogram)
        longest_ns = max(longest_ns, delay.max)
    return PacketDelays(tuple(histograms), longest_ns) if histograms else None


def list_kernel_probes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Extra work of the nodes' kernels during a trial, besides forwarding: it takes a part of a processor."""
    drops = (record.get("extensions") or {}).get("kernel_drops")
    timed = [(stream.get("extensions") or {}).get(EXTENSION) for stream in record["streams"]]
    found = ("reasons for drops",) if isinstance(drops, Mapping) and "refused" not in drops else ()
    timing = [each for each in timed if isinstance(each, Mapping) and "refused" not in each]
    places = {by if (by := each.get("by")) in (GENERIC_XDP, NATIVE_XDP) else None for each in timing}
    how = sorted("times of packets" if by is None else f"times of packets by {by}" for by in places)
    return (*found, *how)
