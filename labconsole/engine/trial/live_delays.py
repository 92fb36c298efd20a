"""How long a stream's packets took so far, for whoever looks on while a trial runs. Pure."""

from __future__ import annotations

from labconsole.engine.live.telemetry import LiveDelays
from labconsole.engine.trial.setup import Flow
from labconsole.measure.packet_times import build_packet_times
from labconsole.measure.timing import clock_bound_ns
from labconsole.model.record.run import Environment
from labconsole.verdict.observed import StreamObservations, TimedStream


def live_delays(seen: StreamObservations, flow: Flow, timed: TimedStream, nodes: Environment) -> LiveDelays | None:
    """As the record will tell them; None where the clocks are not shown to agree well enough. ``nodes``: what each says
    of itself and how its clocks stand to ours.
    """
    source, sink = nodes.get(flow.stream.source.node), nodes.get(flow.stream.sink.node)
    told = build_packet_times(
        timed.counted,
        clock_moved_ns=timed.clock_moved_ns,
        source_moved_ns=0,
        clocks_ns=clock_bound_ns(source, sink) if source is not None and sink is not None else None,
        stamp_lead_ns=flow.request.delay_ns if seen.prepared is not None and seen.prepared.generator == "pktgen" else 0,
    )
    delay = told.delay_ns
    return None if delay is None else LiveDelays(delay.p50, delay.p99, delay.max)
