"""Adds to a stream's record what its time stamps tell: here it is known which frames are whose, and whose clocks."""

from __future__ import annotations

from labconsole.measure.timing import build_delay, build_spacing, clock_bound_ns
from labconsole.model.record.run import Environment, StreamRecord
from labconsole.verdict.observed import StreamObservations


def with_timing(record: StreamRecord, raw: StreamObservations, environment: Environment) -> StreamRecord:
    """The record with ``delay`` and ``spacing``; both stay None where the capture does not hold just this stream."""
    counted = raw.capture.analysis.streams if raw.capture is not None else []
    if len(counted) != 1:
        return record
    nodes = environment.get("nodes", {})
    source, sink = nodes.get(raw.stream.source.node), nodes.get(raw.stream.sink.node)
    clocks_ns = clock_bound_ns(source, sink) if source is not None and sink is not None else None
    # pktgen builds and stamps a frame, then waits for its turn; ours fills a burst when all of it is due.
    stamp_lead_ns = record.delay_ns if record.generator == "pktgen" else 0
    return record.model_copy(
        update={
            "delay": build_delay(counted[0].delay, clocks_ns=clocks_ns, stamp_lead_ns=stamp_lead_ns),
            "spacing": build_spacing(counted[0].spacing, counted[0].pps),
        }
    )
