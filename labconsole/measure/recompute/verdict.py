"""Judges a run's verdict again, from the record's tolerances and the evidence of its reasons. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from labconsole.measure.packet_times import packet_times, third_count
from labconsole.measure.recompute.counts import flows
from labconsole.measure.recompute.derived import find_rate_uncertainty
from labconsole.measure.recompute.discrepancy import RELATIVE_ERROR, Discrepancy, against
from labconsole.measure.recompute.extensions import doubts_due
from labconsole.model.record.run import LedgerHop, Reason, RunRecord, StreamRecord

# -- evidence ----------------------------------------------------------------------------------------------------------
# Compares the figures of a verdict's reasons with the record and the tolerances.

CALIBRATED = 1.01
"""A rate up to this many times a calibrated bound is not beyond it."""


def limit_of(record: RunRecord, name: str) -> float | None:
    """A tolerance that was in force, or None if it is not recorded."""
    return None if record.in_force is None else record.in_force.tolerances.get(name)


def number(value: Any) -> float:
    """A number from a node's data; 0 for anything else, which then decides nothing."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def hop_of(stream: StreamRecord, name: str) -> LedgerHop | None:
    """A point of a stream's path."""
    return next((hop for hop in stream.ledger if hop.hop == name), None)


def lost_at_sink(stream: StreamRecord) -> int:
    """The loss between the two NICs, so that foreign packets on the same cable are on both sides of the difference."""
    hop = hop_of(stream, "sink_nic")
    return hop.lost_packets or 0 if hop is not None and stream.sink_lost_packets is not None else 0


def wrong_figures(record: RunRecord, reason: Reason, by_name: Mapping[str, StreamRecord]) -> Iterator[str]:
    """Sentences on figures of a reason that differ from the record, or that are within their tolerance."""
    evidence = reason.evidence or {}
    places = evidence.get("places")
    for place in places if isinstance(places, list) else [evidence]:
        if not isinstance(place, dict):
            yield "one of its places is not a set of figures"
            continue
        stream = by_name.get(str(place.get("stream")))
        if "stream" in place and stream is None:
            yield f"there is no stream {str(place['stream'])[:80]!r}"
        if stream is not None:
            for name, recorded in _repeated_figures(reason.code, stream).items():
                if name in place and not _same(place[name], recorded):
                    yield f"says {name} {str(place[name])[:80]}, and the record holds {recorded}"
        yield from _within(record, reason.code, place)


def _same(said: Any, recorded: Any) -> bool:
    if isinstance(said, float) and isinstance(recorded, float):
        return math.isclose(said, recorded, rel_tol=RELATIVE_ERROR)
    return bool(said == recorded)


def _repeated_figures(code: str, stream: StreamRecord) -> dict[str, Any]:
    """The record's values for figures of a reason, by figure."""
    capture, arrivals = stream.capture, stream.arrivals
    found: dict[str, Any] = {
        name: getattr(stream, name)
        for name in ("generator_packets", "offered_packets", "intended_packets", "offered_duration_s")
    }
    found |= {name: stream.counters.get(name) for name in ("source_tx_packets", "sink_rx_packets")}
    found["captured_packets"] = None if capture is None else capture.captured_packets
    counted = third_count(stream)
    found["timed_packets"] = counted
    if code == "negative_loss":
        found["packets"] = None if stream.loss_packets is None else -stream.loss_packets
    elif code == "duplicates":
        found["packets"] = stream.sequence.duplicate_packets if stream.sequence is not None else None
    elif code == "untimed_packets" and counted is not None:
        found["packets"] = (stream.measured_packets or 0) - counted
    elif code == "capture_incomplete":
        found["dropped_packets"] = None if capture is None else capture.dropped_packets
    elif code == "lost_at_source":
        found["lost_packets"] = stream.source_lost_packets
    elif code == "lost_at_sink":
        found["lost_packets"] = lost_at_sink(stream)
    elif code == "buffered" and arrivals is not None:
        found |= {"late_packets": arrivals.late_packets, "packets": arrivals.packets}
    elif code == "rate_uncertain" and arrivals is not None:
        found |= {"resolution_s": arrivals.resolution_s, "rate_error_ratio": find_rate_uncertainty(stream)}
    elif code == "instrument_limited" and stream.intended_pps is not None:
        found["rate_pps"] = stream.intended_pps  # at target max it is the calibration's, which records do not contain
    return found


MEASURED_BY = {
    "sources_apart": ("start_skew_s", "start_skew_s", 1.0),
    "clock_stepped": ("moved_ns", "clock_step_s", 1e-9),
    "other_cpu": ("cpu_ratio", "other_cpu_ratio", 1.0),
    "cpu_stolen": ("steal_ratio", "steal_ratio", 1.0),
}
"""By code: the figure, the tolerance that it must exceed, and the figure's unit in the tolerance's."""


def _within(record: RunRecord, code: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    if code in MEASURED_BY:
        figure, tolerance, unit = MEASURED_BY[code]
        value, limit = evidence.get(figure), limit_of(record, tolerance)
        if value is not None and limit is not None and abs(number(value)) * unit <= limit:
            yield f"{figure} {value} is within the tolerance, {limit:g}"
    if code == "instrument_limited":
        rate_pps, bound_pps = (evidence.get(name) for name in ("rate_pps", "calibrated_pps"))
        if bound_pps is not None and number(rate_pps) <= number(bound_pps) * CALIBRATED:
            yield f"rate_pps {rate_pps} is not more than 1 % beyond calibrated_pps {bound_pps}"
    if code == "samples_missed":
        missed, due = (number(evidence.get(name)) for name in ("missed_samples", "due_samples"))
        limit = limit_of(record, "missed_samples_ratio")
        if limit is not None and due and missed / due <= limit:
            yield f"{missed:g} of {due:g} samples are within the tolerance, {limit:g}"
        if missed > due:
            yield f"{missed:g} of {due:g} samples are reported missing"


# -- verdict -----------------------------------------------------------------------------------------------------------
# A reason whose evidence is in the record must be there, or must not be there, accordingly. For the others only their
# own figures can be compared with the tolerance. The rules are stated a second time on purpose. Format 1 does not
# record its tolerances, so only values that no tolerance can excuse are reported for it.

FAILURES = {"node_lost": "link_lost", "lease_taken": "lease_taken"}
"""Codes for the failures that have one of their own; the others are ``failed``."""

STOPPED = ("aborted", "link_lost", "lease_taken", "failed")

WORST = ("valid", "suspect", "invalid")

LATE_RATIO, LATE_S = 0.01, 0.01
"""More than this share of late packets over more than this time is a buffer included in the measurement."""

COARSE_RATIO = 0.01
"""The share of the forwarding rate above which its uncertainty from counter samples is a doubt."""

OTHERS = ("other", "labconsole", "guest")
"""Owners of processes that are not ours."""

ROUNDED = 1.05
"""The total of all processes of a node is rounded to thousandths of a second."""

CONTROL = ("arp", "nd", "mld", "lldp", "stp")
CONTROL_PACKETS, CONTROL_RATIO = 20, 1e-4
"""Control traffic per port and direction that causes no doubt, in packets or as a share of the stream's."""

Due = tuple[str, bool, str]
"""(code, whether it must be there, what the record shows)."""

Weights = Mapping[str, str]
"""The effect of a code on the run's status; a code without one is a note."""


def rejudge(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """Contradictions in a verdict. ``weights``: of every code that this version knows."""
    yield from _status(record, weights)
    if record.format == 1:
        return
    there = {reason.code for reason in record.verdict.reasons}
    for code, due, shown in _due(record):
        if due and code not in there:
            yield against("verdict.reasons", f"{code} is missing: {shown}")
        elif not due and code in there:
            yield against("verdict.reasons", f"{code} is present, but {shown}")
    by_name = {stream.name: stream for _, stream in flows(record)}
    for code in sorted({code for code in there if _times(record, code) > 1}):
        yield against("verdict.reasons", f"{code} appears more than once: one reason lists all its places")
    for place, reason in enumerate(record.verdict.reasons):
        where = f"verdict.reasons[{place}]"
        if reason.follows is not None and (reason.follows == reason.code or reason.follows not in there):
            yield against(f"{where}.follows", "does not name another reason of this verdict", reason.follows[:80])
        for says in wrong_figures(record, reason, by_name):
            yield against(f"{where}.evidence", f"{reason.code}: {says}")


def _times(record: RunRecord, code: str) -> int:
    return sum(reason.code == code for reason in record.verdict.reasons)


def unjudged(record: RunRecord) -> Iterator[str]:
    """Descriptions of the parts of a verdict that could not be judged again."""
    if record.format == 1:
        yield "the verdict by its tolerances, which format 1 does not record"
    elif record.in_force is None:
        yield "the verdict by its tolerances, which are not recorded"


def _status(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """The status must be the worst that the reasons cause."""
    codes = [reason.code for reason in record.verdict.reasons]
    unknown = False
    for place, code in enumerate(codes):
        if code not in weights:
            unknown = True
            yield against(f"verdict.reasons[{place}].code", "is not a code known to this version", code[:80])
    found = [weights[code] for code in codes if weights.get(code) in WORST]
    worst = max(found, key=WORST.index, default="valid")
    stored = record.verdict.status
    if not unknown and stored != worst:
        why = f"its reasons make it {worst}" if codes else "it has no reason not to be valid"
        yield against("verdict.status", f"is {stored}, but {why}", stored)
    if record.failure is not None and stored != "invalid":
        says = f"is {stored}, and the trial was stopped: {record.failure.failure[:80]}"
        yield against("verdict.status", says, stored)


def _due(record: RunRecord) -> Iterator[Due]:
    yield from _stopped(record)
    aborted = any(reason.code == "aborted" for reason in record.verdict.reasons)
    streams = [stream for _, stream in flows(record)]
    yield from _generators(record, streams, aborted=aborted)
    yield from _witnesses(record, streams)
    yield from _buffered(streams)
    yield from _host_activity(record)
    yield from _foreign(record)
    yield from _background(record)
    yield from doubts_due(record)


def _any(code: str, shown: list[str], otherwise: str) -> Due:
    return code, bool(shown), "; ".join(shown) or otherwise


def _stopped(record: RunRecord) -> Iterator[Due]:
    """The operator's stop, or a failure with a code of its own."""
    aborted = any(reason.code == "aborted" for reason in record.verdict.reasons)
    failure = record.failure.failure if record.failure is not None else None
    code = None if failure is None or aborted else FAILURES.get(failure, "failed")
    for each in STOPPED[1:]:
        shown = f"the trial failed: {failure[:80]}" if failure is not None else "no failure is recorded"
        yield each, each == code, shown


def _generators(record: RunRecord, streams: list[StreamRecord], *, aborted: bool) -> Iterator[Due]:
    """Sent compared with requested packets. A trial that the operator stopped need not reach the request."""
    silent = [s.name for s in streams if not aborted and (s.generator_packets is None or s.offered_packets is None)]
    silent += [s.name for s in streams if s.measured_packets is None]
    yield _any("not_measured", [f"{name} has no count" for name in silent], "every stream has both counts")
    none = [f"{s.name} sent nothing" for s in streams if s.generator_packets == 0 and not aborted]
    yield _any("no_packets", none, "every stream sent something")
    sent = [s for s in streams if s.generator_packets and s.offered_packets is not None and not aborted]
    limit = limit_of(record, "offered_ratio")
    if limit is not None:
        short = [(s, _short(s)) for s in sent]
        for code, sign in (("offered_short", 1), ("offered_over", -1)):
            found = [
                f"{s.name} offered {s.offered_packets} of {s.intended_packets} packets intended"
                for s, ratio in short
                if ratio is not None and sign * ratio > limit
            ]
            yield _any(code, found, f"offered is within {limit:g} of intended")
    limit = limit_of(record, "duration_ratio")
    if limit is not None:
        for code, sign in (("duration_stretched", 1), ("duration_cut", -1)):
            found = [
                f"{s.name} sent for {s.offered_duration_s} s of {record.requested.duration_s:g} s"
                for s in sent
                if s.offered_duration_s is not None
                and sign * (s.offered_duration_s / record.requested.duration_s - 1) > limit
            ]
            yield _any(code, found, f"every stream sent within {limit:g} of the duration")


def _short(stream: StreamRecord) -> float | None:
    if not stream.intended_packets or stream.offered_packets is None:
        return None
    return (stream.intended_packets - stream.offered_packets) / stream.intended_packets


def _witnesses(record: RunRecord, streams: list[StreamRecord]) -> Iterator[Due]:
    counted = [s for s in streams if s.measured_packets is not None]
    gained = [f"{s.name} measured more than it offered" for s in counted if (s.loss_packets or 0) < 0]
    yield _any("negative_loss", gained, "no stream measured more than it offered")
    missing = [f"{s.name} has no capture" for s in counted if s.capture is None]
    yield _any("capture_missing", missing, "every stream has its capture")
    part = [f"the capture of {s.name} is not complete" for s in counted if _misses(s)]
    # If several processors timed all of it, an earlier version doubted it, and this one only notes it.
    if part or not any(_noted(s) for s in counted):
        yield _any("capture_incomplete", part, "every capture is complete")
    if any(reason.code == "untimed_packets" for reason in record.verdict.reasons):  # earlier versions did not report it
        more = [f"{s.name} has packets that were not timed" for s in counted if _untimed(s)]
        yield _any("untimed_packets", more, "every packet that was measured by a counter was timed")
    apart = [says for s in counted for says in _disagreement(s)]
    yield _any("witnesses_disagree", apart, "no two counts of the same packets contradict each other")
    twice = [f"{s.name} has duplicates" for s in counted if s.sequence and s.sequence.duplicate_packets > 0]
    yield _any("duplicates", twice, "no stream has duplicates")
    limit = limit_of(record, "outside_loss_ratio")
    if limit is not None:
        for code, of in (("lost_at_source", _lost_at_source), ("lost_at_sink", lost_at_sink)):
            lost = [
                f"{s.name} lost {of(s)} of {s.generator_packets} packets there"
                for s in counted
                if s.generator_packets and of(s) > limit * s.generator_packets
            ]
            yield _any(code, lost, f"no stream lost more than {limit:g} of its packets there")


def _disagreement(stream: StreamRecord) -> Iterator[str]:
    received, capture = stream.counters.get("sink_rx_packets"), stream.capture
    if capture is not None and capture.complete and received is not None and capture.captured_packets > received:
        yield f"{stream.name}: {capture.captured_packets} captured, {received} received by the sink's NIC"
    packets = third_count(stream)
    if packets is not None:
        captured = 0 if capture is None else capture.captured_packets
        if packets < captured or (received is not None and packets > received):
            yield f"{stream.name}: {captured} captured, {packets} timed, {received} received by the sink's NIC"
    sent, said = stream.counters.get("source_tx_packets"), stream.generator_packets
    dropped = sum(sum(hop.drops.values()) for hop in stream.ledger if hop.hop == "source_nic")
    if sent is not None and said is not None and sent + dropped < said:
        yield f"{stream.name}: {said} packets by the generator, {sent} sent and {dropped} dropped by the source's NIC"


def _misses(stream: StreamRecord) -> bool:
    """Whether a capture is incomplete and no other witness saw every packet that the NIC counted."""
    if stream.capture is None or stream.capture.complete:
        return False
    timed, packets = packet_times(stream), third_count(stream)
    if packets is None or stream.measured_from != "counters":
        return True
    if timed is not None and timed.processors == 1 and timed.late_packets:
        return True
    return {packets, stream.counters.get("sink_rx_packets")} != {stream.measured_packets}


def _noted(stream: StreamRecord) -> bool:
    timed = packet_times(stream)
    incomplete = stream.capture is not None and not stream.capture.complete
    return incomplete and (timed is None or timed.processors > 1) and not _misses(stream)


def _untimed(stream: StreamRecord) -> bool:
    packets, measured = third_count(stream), stream.measured_packets or 0
    return stream.measured_from == "counters" and packets is not None and measured > packets


def _lost_at_source(stream: StreamRecord) -> int:
    """The loss if a counter there shows drops; without one these are two counts that disagree."""
    hop = hop_of(stream, "source_nic")
    return stream.source_lost_packets or 0 if hop is not None and hop.drops else 0


def _buffered(streams: list[StreamRecord]) -> Iterator[Due]:
    """A doubt only if the window is from samples: a capture is exact to the packet, and the rates use it."""
    found = []
    for stream in streams:
        seen, sending_s = stream.arrivals, stream.offered_duration_s
        if seen is None or sending_s is None or seen.window_from == "capture" or seen.late_packets is None:
            continue
        if seen.late_packets > LATE_RATIO * seen.packets and seen.window_s - sending_s > LATE_S:
            found.append(
                f"{seen.late_packets} of {seen.packets} packets of {stream.name} were late, according to samples"
            )
    yield _any("buffered", found, "no stream's counter samples show that a buffer was measured with the rest")
    left_open = [(stream.name, find_rate_uncertainty(stream)) for stream in streams]
    coarse = [
        f"samples leave {ratio:.2%} of the forwarding rate of {name} open"
        for name, ratio in left_open
        if ratio is not None and ratio > COARSE_RATIO
    ]
    yield _any("rate_uncertain", coarse, f"no stream's samples leave more than {COARSE_RATIO:.0%} of its rate open")


def _host_activity(record: RunRecord) -> Iterator[Due]:
    unobserved = [each for each in record.influences if each.get("kind") == "not_observed"]
    yield _any(
        "not_observed", [str(each.get("detail"))[:200] for each in unobserved], "no node is reported as unanswering"
    )
    limit = limit_of(record, "steal_ratio")
    if limit is not None:
        cpus = [each for each in record.influences if each.get("kind") == "cpu"]
        stolen = [each for each in cpus if number(each.get("steal_ratio")) > limit]
        shown = [f"{each.get('node')} lost {each['steal_ratio']:.1%} of its time" for each in stolen]
        if record.emulated:
            yield "cpu_stolen", False, "on an emulated testbed it is not judged"
        elif shown:
            yield _any("cpu_stolen", shown, "")
    limit = limit_of(record, "other_cpu_ratio")
    if limit is not None:
        busy = [each for each in record.influences if each.get("kind") == "process" and each.get("whose") in OTHERS]
        shown = [
            f"{each.get('name')} used {each['cpu_ratio']:.0%} of a processor on {each.get('node')}"
            for each in busy
            if number(each.get("cpu_ratio")) > limit * ROUNDED
        ]
        if shown:
            yield _any("other_cpu", shown, "")
    if record.environment.get("calibration") is None:
        for code in ("instrument_limited", "not_calibrated"):
            yield code, False, "the run was not compared with any calibration"


def _foreign(record: RunRecord) -> Iterator[Due]:
    """Foreign packets port by port, according to the influences."""
    limit = limit_of(record, "foreign_packets")
    if limit is None:
        return
    found, unknown = [], False
    for each in record.influences:
        if each.get("kind") != "foreign_packets":
            continue
        offered = _offered_packets(record, each.get("node"), each.get("interface"))
        unknown = unknown or offered is None
        if offered is not None and _beyond_usual(each, offered) > limit:
            found.append(str(each.get("detail"))[:200])
    if found or not unknown:
        yield _any("foreign_frames", found, "no port saw more packets of others than its tolerance and control traffic")


def _offered_packets(record: RunRecord, node: Any, interface: Any) -> int | None:
    """Offered packets of the stream that passes this port, or None if that is not exactly one stream."""
    ends = ("source_nic", "uut_in", "uut_out", "sink_nic")
    found = [
        stream.offered_packets or 0
        for _, stream in flows(record)
        if any(hop.hop in ends and (hop.node, hop.interface) == (node, interface) for hop in stream.ledger)
    ]
    return found[0] if len(found) == 1 else None


def _beyond_usual(entry: Mapping[str, Any], offered: int) -> float:
    protocols = entry.get("protocols")
    packets = number(entry.get("packets"))
    control = sum(number(protocols.get(name)) for name in CONTROL) if isinstance(protocols, dict) else 0.0
    return packets - control + max(0, control - int(max(CONTROL_PACKETS, CONTROL_RATIO * offered)))


def _background(record: RunRecord) -> Iterator[Due]:
    limit, load = limit_of(record, "background_ratio"), record.background
    if limit is None:
        return
    missed = []
    for key, requested in load.requested.items() if load is not None else ():
        achieved = load.achieved.get(key) if load is not None else None
        if achieved is None or abs(achieved - requested) > limit * abs(requested):
            missed.append(f"{key} reached {achieved} of {requested}")
    yield _any("background_missed", missed, "the background load is what was requested")
