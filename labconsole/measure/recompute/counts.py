"""Checks whether a record's raw counts can all be true: sequence, ledger, counters, capture, arrivals, delays. Pure.

All of them observe the same packets, so that a changed one contradicts another. Only impossible values are reported;
merely unusual ones are judged by the verdict. Disagreements of witnesses that the verdict already has are not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against, ordered
from labconsole.measure.recompute.extensions import (
    contradicting_clocks,
    contradicting_times,
    least_bound_ns,
    stamps_bound_ns,
)
from labconsole.model.record.extensions import CLOCKS
from labconsole.model.record.run import Arrivals, CaptureCounts, Delay, LedgerHop, Quantiles, RunRecord, StreamRecord

COUNTED_AT = {
    "source_nic": "source_tx_packets",
    "uut_in": "uut_in_rx_packets",
    "uut_out": "uut_out_tx_packets",
    "sink_nic": "sink_rx_packets",
}
"""The counter that a hop of a ledger repeats."""

ONE_WAY_FACTOR = 10
"""One-way delay is reported only if its median is this many times the possible error of the two time stamps."""

STAMP_NS = 1000
"""The sender's stamp is truncated to whole microseconds; format 1 did not count that."""

SAME_TIME_S = 2e-9
"""Two times in seconds from whole nanoseconds may differ by this and be equal."""

QUEUED_S = 0.01
"""A packet this much later than the sending time after the first one was queued; a search counts it as lost."""

SHA256 = re.compile(r"[0-9a-f]{64}")


def flows(record: RunRecord) -> Iterator[tuple[str, StreamRecord]]:
    """(path, stream) of every stream, the second guest's own ones last."""
    for place, stream in enumerate(record.streams):
        yield f"streams[{place}]", stream
    if record.background is not None:
        for place, stream in enumerate(record.background.streams):
            yield f"background.streams[{place}]", stream


def contradicting_counts(record: RunRecord) -> Iterator[Discrepancy]:
    """Every raw count of the streams that contradicts another one."""
    for where, stream in flows(record):
        yield from _negative(where, stream)
        yield from _check_foreign(where, stream, record)
        yield from _ledger(where, stream, record.format)
        if stream.capture is not None:
            yield from _capture(f"{where}.capture", stream.capture)
        if record.verdict.status != "invalid":
            yield from _sequence(where, stream)
        if stream.delay is not None:
            yield from _delay(f"{where}.delay", stream.delay, stream, record)
        least = least_bound_ns(stream, record)
        yield from contradicting_clocks(f"{where}.extensions.{CLOCKS}", stream, record)
        yield from contradicting_times(where, stream, None if least is None else least + STAMP_NS)
        yield from _arrivals(where, stream, record)


def _negative(where: str, stream: StreamRecord) -> Iterator[Discrepancy]:
    """Counts and times below zero. A loss may be negative: packets that joined on the way were not sent here."""
    values: dict[str, Any] = {
        name: getattr(stream, name)
        for name in (
            "delay_ns",
            "burst_packets",
            "intended_packets",
            "offered_packets",
            "offered_duration_s",
            "measured_packets",
            "generator_packets",
            "source_lost_packets",
        )
    }
    values |= {f"counters.{name}": packets for name, packets in stream.counters.items()}
    if stream.sequence is not None:
        values |= {f"sequence.lost_runs.{length}": times for length, times in stream.sequence.lost_runs.items()}
        values["sequence.reordered_packets"] = stream.sequence.reordered_packets
        values["sequence.duplicate_packets"] = stream.sequence.duplicate_packets
    for place, hop in enumerate(stream.ledger):
        values[f"ledger[{place}].packets"] = hop.packets
        values |= {f"ledger[{place}].drops.{name}": packets for name, packets in hop.drops.items()}
    for name, value in values.items():
        if value is not None and value < 0:
            yield against(f"{where}.{name}", f"is {value}, and a count cannot be below 0", value)


def _capture(where: str, capture: CaptureCounts) -> Iterator[Discrepancy]:
    if capture.captured_packets < 0 or (capture.dropped_packets or 0) < 0:
        yield against(where, "counts fewer than 0 packets")
    if capture.complete and capture.dropped_packets != 0:
        dropped = "does not say how many" if capture.dropped_packets is None else f"says {capture.dropped_packets}"
        yield against(f"{where}.complete", f"is true, while tcpdump {dropped} were dropped")
    if capture.sha256 is not None and not SHA256.fullmatch(capture.sha256):
        yield against(f"{where}.sha256", "is not a SHA-256 digest: 64 digits 0-9a-f", capture.sha256[:80])


def _ledger(where: str, stream: StreamRecord, version: int) -> Iterator[Discrepancy]:
    """Hops that differ from the counts they repeat: the generator's, the counters', the capture's."""
    said = stream.generator_packets if version > 1 else stream.offered_packets
    names = [hop.hop for hop in stream.ledger]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield against(f"{where}.ledger", f"passes {name} more than once")
    for place, hop in enumerate(stream.ledger):
        known, other = _repeated(hop, stream, said)
        if known and hop.packets != other:
            path = f"{where}.ledger[{place}].packets"
            yield against(path, f"{hop.hop} counts {hop.packets}, elsewhere in the record it is {other}", hop.packets)
        if hop.hop == "generator" and place:
            yield against(f"{where}.ledger[{place}]", "the generator is not the first hop")


def _repeated(hop: LedgerHop, stream: StreamRecord, said: int | None) -> tuple[bool, int | None]:
    """(whether the hop repeats another count, that count)."""
    if hop.hop == "generator":
        return True, said
    if hop.hop == "capture":
        capture = stream.capture
        return True, capture.captured_packets if capture is not None and capture.complete else None
    counter = COUNTED_AT.get(hop.hop, "")
    return counter in stream.counters, stream.counters.get(counter)


def _check_foreign(where: str, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    """Packets at a port beyond what the stream can have brought there must be among the influences."""
    if record.format == 1:
        return
    captured = stream.capture.captured_packets if stream.capture is not None and stream.capture.complete else None
    offered, counters = stream.offered_packets, stream.counters
    sent, received = counters.get("source_tx_packets"), counters.get("uut_in_rx_packets")
    passes = any(hop.hop not in ("generator", "source_nic", "sink_nic", "capture") for hop in stream.ledger)
    before_sink = counters.get("uut_out_tx_packets") if passes else sent
    most = {
        ("source_nic", "out"): offered,
        ("uut_in", "in"): offered if sent is None else sent,
        ("uut_out", "out"): offered if received is None else received,
        ("sink_nic", "in"): before_sink if captured is None else captured,
    }
    for hop in stream.ledger:
        for (name, way), packets in most.items():
            if hop.hop != name or hop.packets is None or packets is None or hop.packets <= packets:
                continue
            beyond = hop.packets - packets
            if _foreign_packets(record, hop, way) < beyond:
                says = f"{hop.node}/{hop.interface} counted {beyond} more than the stream and influences explain"
                yield against(f"{where}.ledger", says)


def _foreign_packets(record: RunRecord, hop: LedgerHop, way: str) -> float:
    found = [
        each.get("packets")
        for each in record.influences
        if each.get("kind") == "foreign_packets"
        and (each.get("node"), each.get("interface"), each.get("direction")) == (hop.node, hop.interface, way)
    ]
    return max((packets for packets in found if isinstance(packets, int)), default=0)


def _sequence(where: str, stream: StreamRecord) -> Iterator[Discrepancy]:
    """Numbers missing between the first and the last that arrived were sent and did not arrive."""
    found = stream.sequence
    if found is None:
        return
    if stream.capture is None:
        yield against(f"{where}.sequence", "there are sequence numbers, but no capture that could provide them")
        return
    for length, times in found.lost_runs.items():
        if not length.isascii() or not length.isdigit() or int(length) < 1 or times < 1:
            yield against(f"{where}.sequence.lost_runs", f"{length[:40]!r}: {times} is not a length with its count")
            return
    captured = stream.capture.captured_packets
    for name in ("reordered_packets", "duplicate_packets"):
        if getattr(found, name) > captured:
            yield against(f"{where}.sequence.{name}", f"is more than the {captured} packets captured")
    said = stream.offered_packets if stream.generator_packets is None else stream.generator_packets
    if said is None:
        return
    missing = sum(int(length) * times for length, times in found.lost_runs.items())
    most = said - captured + found.duplicate_packets
    if missing > most:
        says = f"{missing} sequence numbers are missing; of {said} sent and {captured} captured at most {most} can be"
        yield against(f"{where}.sequence.lost_runs", says, missing)


def _delay(where: str, delay: Delay, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    one_way, pdv, ipdv = delay.one_way_ns, delay.pdv_ns, delay.ipdv_ns
    captured = stream.capture.captured_packets if stream.capture is not None else 0
    if not 1 <= delay.packets <= captured:
        yield against(f"{where}.packets", f"a sample of {delay.packets} of {captured} packets captured", delay.packets)
    least = 1 if delay.sampling == "random" else 2
    if delay.pair_every_packets < least:
        yield against(f"{where}.pair_every_packets", f"is below {least}, every pair", delay.pair_every_packets)
    if delay.one_way != (one_way is not None) or delay.one_way != (delay.reason is None):
        yield against(f"{where}.one_way", "does not agree with the delay and the reason")
    yield from _quantiles(f"{where}.pdv_ns", pdv, 0)
    if ipdv is not None:
        yield from _quantiles(f"{where}.ipdv_ns", ipdv, 0)
        if not 0 <= ipdv.mean <= ipdv.max:
            yield against(f"{where}.ipdv_ns.mean", f"is not between 0 and the longest, {ipdv.max}", ipdv.mean)
        if ipdv.max > pdv.max:
            says = f"two neighbours differ by {ipdv.max} ns, but no two of the sample by more than {pdv.max} ns"
            yield against(f"{where}.ipdv_ns.max", says, ipdv.max)
    yield from _clock_bound(where, delay, stream, record)
    if one_way is None:
        return
    yield from _quantiles(f"{where}.one_way_ns", one_way, one_way.min)
    if not one_way.min <= one_way.mean <= one_way.max:
        yield against(f"{where}.one_way_ns.mean", "is not between the shortest and the longest", one_way.mean)
    for name in ("p50", "p99", "p999", "max"):
        varied, beyond = getattr(pdv, name), getattr(one_way, name) - one_way.min
        if varied != beyond:
            says = f"is {varied}, and the one-way delay less the shortest is {beyond}"
            yield against(f"{where}.pdv_ns.{name}", says, varied)


def _quantiles(where: str, found: Quantiles, least: int) -> Iterator[Discrepancy]:
    if not ordered((least, found.p50, found.p99, found.p999, found.max)):
        says = f"{least}, p50 {found.p50}, p99 {found.p99}, p999 {found.p999}, max {found.max}: not in ascending order"
        yield against(where, says)


def _clock_bound(where: str, delay: Delay, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    """One-way delay requires clocks that agree; the record's environment shows how well they do."""
    bound, one_way = delay.clock_bound_ns, delay.one_way_ns
    if bound is not None and bound < 0:
        yield against(f"{where}.clock_bound_ns", "is below 0", bound)
    if one_way is not None and (bound is None or bound * ONE_WAY_FACTOR > one_way.p50):
        off = "by an unknown amount" if bound is None else f"by {bound} ns"
        says = f"a median of {one_way.p50} ns is given, but the two clocks may be off {off}"
        yield against(f"{where}.clock_bound_ns", says, bound)
    least, stamps = least_bound_ns(stream, record), stamps_bound_ns(stream)
    if stamps is None and bound is not None:
        yield against(f"{where}.clock_bound_ns", "is given, but the error of the NIC's clock is not", bound)
    if least is not None and record.format > 1:
        least += STAMP_NS + (stamps or 0)
    if bound is not None and least is not None and bound < least:
        says = f"is {bound} ns; by the clocks in the environment they may be {least} ns off"
        yield against(f"{where}.clock_bound_ns", says, bound)


def _arrivals(where: str, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    found, sending_s = stream.arrivals, stream.offered_duration_s
    if found is None:
        return
    here = f"{where}.arrivals"
    if found.packets < 0 or found.window_s < 0 or found.resolution_s < 0:
        yield against(here, "a count or a time is below 0")
        return
    if found.packets < 2 and found.window_s > 0:
        yield against(f"{here}.window_s", f"{found.packets} packets arrived in a window of {found.window_s} s")
    total_s = record.timeline.get("total_s")
    if isinstance(total_s, int | float) and found.window_s > total_s:
        yield against(f"{here}.window_s", f"is longer than the trial, {total_s} s", found.window_s)
    if found.packets != stream.measured_packets or found.window_from != stream.measured_from:
        witness = f"{stream.measured_packets} by {stream.measured_from}"
        yield against(f"{here}.packets", f"are {found.packets} by {found.window_from}, measured are {witness}")
    late, queued = found.late_packets, found.queued_packets
    if found.window_from == "capture" and (late is None) != (queued is None):
        yield against(here, "gives the number of late packets or of queued packets, but not both")
    if late is None or queued is None:
        return
    if not 0 <= queued <= late < max(found.packets, 1):
        says = f"{late} late and {queued} of them queued, of {found.packets} packets: the first is never late"
        yield against(f"{here}.late_packets", says, late)
    elif sending_s is not None:
        yield from _late(f"{here}.late_packets", found, late, sending_s)
        yield from _late(f"{here}.queued_packets", found, queued, sending_s + QUEUED_S)


def _late(where: str, found: Arrivals, packets: int, limit_s: float) -> Iterator[Discrepancy]:
    """Packets arrived after this time exactly if the last one did. Samples count only those that certainly did."""
    beyond_s = found.window_s - limit_s
    none_but_last = packets == 0 and beyond_s > SAME_TIME_S and found.window_from == "capture"
    if none_but_last or (packets > 0 and beyond_s < -SAME_TIME_S):
        says = f"{packets} packets arrived more than {limit_s} s after the first, and the last after {found.window_s} s"
        yield against(where, says, packets)
