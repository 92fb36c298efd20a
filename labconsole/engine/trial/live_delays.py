"""Delays of a stream's packets so far, for display while a trial runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.engine.live.telemetry import LiveDelays
from labconsole.engine.trial.setup import Flow
from labconsole.measure.clocks import agreement
from labconsole.measure.packet_times import CLOCK_SET_NS
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.measure.timing import one_way_doubt
from labconsole.verdict.observations import StreamObservations
from labconsole.wire.packet_times import DelaysSoFar


def live_delays(
    seen: StreamObservations, flow: Flow, so_far: DelaysSoFar, clock_moved_ns: int, nodes: Mapping[str, Any]
) -> LiveDelays | None:
    """The delays, or None without packets or if the clocks are not proved to agree well enough.

    ``nodes``: each node's facts, and its clocks' relation to ours.
    """
    if not so_far.delay or so_far.negative_packets or abs(clock_moved_ns) > CLOCK_SET_NS:
        return None
    ends = flow.stream.source.node, flow.stream.sink.node
    clocks_ns = agreement(ends, nodes.get(ends[0]), nodes.get(ends[1])).bound_ns
    paced = seen.prepared is not None and seen.prepared.generator == "pktgen"
    delays = TimeHistogram.of(so_far.delay)
    median_ns = delays.quantile_ns(0.5)
    _, doubt = one_way_doubt(clocks_ns, flow.request.delay_ns if paced else 0, median_ns)
    return (
        None if doubt is not None else LiveDelays(median_ns, delays.supported_quantile_ns(0.99), delays.quantile_ns(1))
    )
