"""How long a stream's packets took so far, for whoever looks on while a trial runs. Pure."""

from __future__ import annotations

from labconsole.engine.live.telemetry import LiveDelays
from labconsole.engine.trial.setup import Flow
from labconsole.measure.packet_times import CLOCK_SET_NS
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import clock_bound_ns, one_way_doubt
from labconsole.model.record.run import Environment
from labconsole.verdict.observed import StreamObservations
from labconsole.wire.packet_times import DelaysSoFar


def live_delays(
    seen: StreamObservations, flow: Flow, told: DelaysSoFar, clock_moved_ns: int, nodes: Environment
) -> LiveDelays | None:
    """None without packets, and where the clocks are not shown to agree well enough. ``nodes``: what each says of
    itself and how its clocks stand to ours.
    """
    if not told.delay or told.negative_packets or abs(clock_moved_ns) > CLOCK_SET_NS:
        return None
    source, sink = nodes.get(flow.stream.source.node), nodes.get(flow.stream.sink.node)
    clocks_ns = clock_bound_ns(source, sink) if source is not None and sink is not None else None
    paced = seen.prepared is not None and seen.prepared.generator == "pktgen"
    delays = TimeHistogram.of(told.delay)
    median_ns = delays.quantile_ns(0.5)
    _, doubt = one_way_doubt(clocks_ns, flow.request.delay_ns if paced else 0, median_ns)
    return None if doubt is not None else LiveDelays(median_ns, delays.told_ns(0.99), delays.quantile_ns(1))
