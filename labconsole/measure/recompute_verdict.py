"""The verdict judged again, from the tolerances and the evidence that the record holds. Pure.

A reason whose evidence is in the record has to be there, or not to be there, accordingly; of the others only the
figures that came with them can be held against their tolerance. The rules are stated a second time on purpose. Of
format 1, which does not say by which tolerances it was judged, only what no tolerance can excuse is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from labconsole.measure.discrepancy import Discrepancy, against
from labconsole.measure.recompute_counts import flows
from labconsole.model.record import Reason, RunRecord, StreamRecord

FAILURES = {"node_lost": "link_lost", "lease_taken": "lease_taken"}
"""Codes for the failures that have one of their own; the others are ``failed``."""

STOPPED = ("aborted", "link_lost", "lease_taken", "failed")

WORST = ("valid", "suspect", "invalid")

LATE_RATIO, LATE_S = 0.01, 0.01
"""More than this share of late packets over more than this time is a buffer that was measured with the rest."""

Due = tuple[str, bool, str]
"""(code, whether it has to be there, what the record shows)."""

Weights = Mapping[str, str]
"""By code, what it makes of a run; one that makes nothing of it is a note."""


def rejudge(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """What is wrong with a verdict. ``weights``: of every code that this version knows."""
    yield from _status(record, weights)
    if record.format == 1:
        return
    there = {reason.code for reason in record.verdict.reasons}
    for code, due, shown in _due(record):
        if due and code not in there:
            yield against("verdict.reasons", f"{code} is missing: {shown}")
        elif not due and code in there:
            yield against("verdict.reasons", f"{code} is there, and {shown}")
    by_name = {stream.name: stream for _, stream in flows(record)}
    for place, reason in enumerate(record.verdict.reasons):
        where = f"verdict.reasons[{place}]"
        if reason.follows is not None and (reason.follows == reason.code or reason.follows not in there):
            yield against(f"{where}.follows", "names no other reason of this verdict", reason.follows[:80])
        for says in _evidence(record, reason, by_name):
            yield against(f"{where}.evidence", f"{reason.code}: {says}")


def unjudged(record: RunRecord) -> Iterator[str]:
    """What of a verdict could not be judged again, in words."""
    if record.format == 1:
        yield "the verdict by its tolerances, which format 1 does not record"
    elif record.in_force is None:
        yield "the verdict by its tolerances, which are not recorded"


def _status(record: RunRecord, weights: Weights) -> Iterator[Discrepancy]:
    """The worst that its reasons make of it."""
    codes = [reason.code for reason in record.verdict.reasons]
    unknown = False
    for place, code in enumerate(codes):
        if code not in weights:
            unknown = True
            yield against(f"verdict.reasons[{place}].code", "is not a code that this version knows", code[:80])
    found = [weights[code] for code in codes if weights.get(code) in WORST]
    worst = max(found, key=WORST.index, default="valid")
    stored = record.verdict.status
    if not unknown and stored != worst:
        why = f"its reasons make it {worst}" if codes else "there is no reason why it should not be valid"
        yield against("verdict.status", f"is {stored}, and {why}", stored)
    if record.failure is not None and stored != "invalid":
        says = f"is {stored}, and the trial was stopped: {record.failure.failure[:80]}"
        yield against("verdict.status", says, stored)


def _due(record: RunRecord) -> Iterator[Due]:
    yield from _stopped(record)
    aborted = any(reason.code == "aborted" for reason in record.verdict.reasons)
    streams = [stream for _, stream in flows(record)]
    yield from _generators(record, streams, aborted=aborted)
    yield from _witnesses(streams)
    yield from _buffered(streams)
    yield from _surroundings(record)
    yield from _background(record)


def _any(code: str, shown: list[str], otherwise: str) -> Due:
    return code, bool(shown), "; ".join(shown) or otherwise


def _limit(record: RunRecord, name: str) -> float | None:
    return None if record.in_force is None else record.in_force.tolerances.get(name)


def _stopped(record: RunRecord) -> Iterator[Due]:
    """The operator, or a failure with a code of its own."""
    aborted = any(reason.code == "aborted" for reason in record.verdict.reasons)
    failure = record.failure.failure if record.failure is not None else None
    code = None if failure is None or aborted else FAILURES.get(failure, "failed")
    for each in STOPPED[1:]:
        shown = f"the trial failed: {failure[:80]}" if failure is not None else "no failure is recorded"
        yield each, each == code, shown


def _generators(record: RunRecord, streams: list[StreamRecord], *, aborted: bool) -> Iterator[Due]:
    """What was sent beside what was asked for. A trial that the operator stopped is not held to it."""
    silent = [s.name for s in streams if not aborted and (s.generator_packets is None or s.offered_packets is None)]
    silent += [s.name for s in streams if s.measured_packets is None]
    yield _any("not_measured", [f"{name} has no count" for name in silent], "every stream has both counts")
    heard = [s for s in streams if s.name not in silent and s.offered_packets is not None and not aborted]
    none = [f"{s.name} sent nothing" for s in heard if s.offered_packets == 0]
    yield _any("no_packets", none, "every stream sent something")
    sent = [s for s in streams if not aborted and s.generator_packets is not None and s.offered_packets]
    limit = _limit(record, "offered_ratio")
    if limit is not None:
        short = [(s, _short(s)) for s in sent]
        for code, sign in (("offered_short", 1), ("offered_over", -1)):
            found = [
                f"{s.name} offered {s.offered_packets} of {s.intended_packets} packets intended"
                for s, ratio in short
                if ratio is not None and sign * ratio > limit
            ]
            yield _any(code, found, f"offered is within {limit:g} of intended")
    limit = _limit(record, "duration_ratio")
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


def _witnesses(streams: list[StreamRecord]) -> Iterator[Due]:
    counted = [s for s in streams if s.measured_packets is not None]
    gained = [f"{s.name} measured more than it offered" for s in counted if (s.loss_packets or 0) < 0]
    yield _any("negative_loss", gained, "no stream measured more than it offered")
    missing = [f"{s.name} has no capture" for s in counted if s.capture is None]
    yield _any("capture_missing", missing, "every stream has its capture")
    part = [f"the capture of {s.name} is not complete" for s in counted if s.capture and not s.capture.complete]
    yield _any("capture_incomplete", part, "every capture is complete")
    apart = [says for s in counted for says in _disagreement(s)]
    yield _any("witnesses_disagree", apart, "no two counts of the same packets contradict each other")
    twice = [f"{s.name} has duplicates" for s in counted if s.sequence and s.sequence.duplicate_packets > 0]
    yield _any("duplicates", twice, "no stream has duplicates")
    for hop, code in (("source_nic", "lost_at_source"), ("sink_nic", "lost_at_sink")):
        lost = [f"{s.name} lost packets before {hop}, and a counter there says so" for s in counted if _dropped(s, hop)]
        yield _any(code, lost, f"no counter at {hop} says that a stream lost packets there")


def _disagreement(stream: StreamRecord) -> Iterator[str]:
    received, capture = stream.counters.get("sink_rx_packets"), stream.capture
    if capture is not None and capture.complete and received is not None and capture.captured_packets > received:
        yield f"{stream.name}: {capture.captured_packets} captured, {received} received by the sink's NIC"
    sent, said = stream.counters.get("source_tx_packets"), stream.generator_packets
    dropped = sum(sum(hop.drops.values()) for hop in stream.ledger if hop.hop == "source_nic")
    if sent is not None and said is not None and sent + dropped < said:
        yield f"{stream.name}: {said} packets by the generator, {sent} sent and {dropped} dropped by the source's NIC"


def _dropped(stream: StreamRecord, hop: str) -> bool:
    return any(each.hop == hop and each.drops and (each.lost_packets or 0) > 0 for each in stream.ledger)


def _buffered(streams: list[StreamRecord]) -> Iterator[Due]:
    """A doubt only where the window is from samples: a capture tells it to the packet, and the rates rest on it."""
    found = []
    for stream in streams:
        seen, sending_s = stream.arrivals, stream.offered_duration_s
        if seen is None or sending_s is None or seen.window_from == "capture" or not seen.late_packets:
            continue
        if seen.late_packets > LATE_RATIO * seen.packets and seen.window_s - sending_s > LATE_S:
            found.append(f"{seen.late_packets} packets of {stream.name} came late")
    if found:
        yield _any("buffered", found, "")


def _surroundings(record: RunRecord) -> Iterator[Due]:
    told = [each for each in record.influences if each.get("kind") == "not_observed"]
    yield _any("not_observed", [str(each.get("detail"))[:200] for each in told], "no node is said not to have answered")
    limit = _limit(record, "steal_ratio")
    if limit is not None:
        cpus = [each for each in record.influences if each.get("kind") == "cpu"]
        stolen = [each for each in cpus if _number(each.get("steal_ratio")) > limit]
        shown = [f"{each.get('node')} lost {each['steal_ratio']:.1%} of its time" for each in stolen]
        if record.emulated:
            yield "cpu_stolen", False, "on an emulated testbed it is not judged"
        elif shown:
            yield _any("cpu_stolen", shown, "")
    limit = _limit(record, "other_cpu_ratio")
    if limit is not None:
        busy = [each for each in record.influences if each.get("kind") == "process" and each.get("whose") != "ours"]
        shown = [
            f"{each.get('name')} used {each['cpu_ratio']:.0%} of a processor on {each.get('node')}"
            for each in busy
            if _number(each.get("cpu_ratio")) > limit
        ]
        if shown:
            yield _any("other_cpu", shown, "")
    if record.environment.get("calibration") is None:
        yield "instrument_limited", False, "the run was not held against any calibration"


def _background(record: RunRecord) -> Iterator[Due]:
    limit, load = _limit(record, "background_ratio"), record.background
    if limit is None:
        return
    missed = []
    for key, asked in load.requested.items() if load is not None else ():
        achieved = load.achieved.get(key) if load is not None else None
        if achieved is None or abs(achieved - asked) > limit * abs(asked):
            missed.append(f"{key} reached {achieved} of {asked}")
    yield _any("background_missed", missed, "the background load is what was asked for")


def _number(value: Any) -> float:
    """A figure of what nodes send; what is none decides nothing."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


# The figures that came with a reason


def _evidence(record: RunRecord, reason: Reason, by_name: Mapping[str, StreamRecord]) -> Iterator[str]:
    """What of a reason's figures is not what the record holds, or is within its tolerance."""
    evidence = reason.evidence or {}
    stream = by_name.get(str(evidence.get("stream")))
    if "stream" in evidence and stream is None:
        yield f"there is no stream {str(evidence['stream'])[:80]!r}"
    if stream is not None:
        for name, held in _held(reason.code, stream).items():
            if name in evidence and evidence[name] != held:
                yield f"says {name} {evidence[name]}, and the record holds {held}"
    yield from _within(record, reason.code, evidence)


def _held(code: str, stream: StreamRecord) -> dict[str, Any]:
    """What figures of a reason repeat, by their name there."""
    capture = stream.capture
    found: dict[str, Any] = {
        "offered_packets": stream.offered_packets,
        "intended_packets": stream.intended_packets,
        "offered_duration_s": stream.offered_duration_s,
        "source_tx_packets": stream.counters.get("source_tx_packets"),
        "sink_rx_packets": stream.counters.get("sink_rx_packets"),
        "captured_packets": None if capture is None else capture.captured_packets,
    }
    if code == "negative_loss":
        found["packets"] = None if stream.loss_packets is None else -stream.loss_packets
    if code == "duplicates" and stream.sequence is not None:
        found["packets"] = stream.sequence.duplicate_packets
    if code == "capture_incomplete" and capture is not None:
        found["dropped_packets"] = capture.dropped_packets
    if code == "witnesses_disagree":
        found["offered_packets"] = stream.generator_packets
        found.pop("dropped_packets", None)
    return found


MEASURED_BY = {
    "sources_apart": ("start_skew_s", "start_skew_s", 1.0),
    "clock_stepped": ("moved_ns", "clock_step_s", 1e-9),
    "other_cpu": ("cpu_ratio", "other_cpu_ratio", 1.0),
    "cpu_stolen": ("steal_ratio", "steal_ratio", 1.0),
}
"""By code: the figure that has to be beyond which tolerance, and what a unit of it is in the tolerance's."""


def _within(record: RunRecord, code: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    if code in MEASURED_BY:
        figure, tolerance, unit = MEASURED_BY[code]
        value, limit = evidence.get(figure), _limit(record, tolerance)
        if value is not None and limit is not None and abs(_number(value)) * unit <= limit:
            yield f"{figure} {value} is within the tolerance, {limit:g}"
    if code == "samples_missed":
        missed, due = (_number(evidence.get(name)) for name in ("missed_samples", "due_samples"))
        limit = _limit(record, "missed_samples_ratio")
        if limit is not None and due and missed / due <= limit:
            yield f"{missed:g} of {due:g} samples are within the tolerance, {limit:g}"
        if missed > due:
            yield f"{missed:g} samples of {due:g} are said to be missing"
