"""The kept time series of a run as rates for a chart. Pure.

A rate is the difference between two samples over the time between them, by the clock of the node that took them. If a
run's streams were stored with the console's times of arrival, the counters of both NICs are drawn instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from labconsole.contracts.ports import Series
from labconsole.measure.alignment import interpolate_count
from labconsole.model.record.run import RunRecord
from labconsole.text.rate_panel import RateSeries

Sample = tuple[float, float | None, float]
"""(seconds, sent, received), both cumulative. sent is None if unknown."""


def stream_rates(series: Series, record: RunRecord, stream: int) -> tuple[RateSeries | None, str]:
    """Offered and measured rate of one stream, by its index in the record, and the name of their source.

    None if too little was kept.
    """
    table, lost = series.tables.get("streams", {}), record.streams[stream].loss_packets
    if "sink_monotonic_ns" in table:
        return _rates(_select_samples(table, stream), lost), ""
    return _rates(_read_nic_samples(series, record, stream), lost), "by the counters of source's and sink's NIC"


def _rates(samples: Iterable[Sample], lost_packets: int | None) -> RateSeries | None:
    seconds: list[float] = []
    offered: list[float] = []
    measured: list[float] = []
    missing: list[float] = []
    first: tuple[float, float] | None = None
    for (then, sent0, received0), (now, sent1, received1) in itertools.pairwise(samples):
        if now <= then or received1 < received0:
            continue
        seconds.append(now)
        offered.append(math.nan if sent0 is None or sent1 is None else (sent1 - sent0) / (now - then))
        measured.append((received1 - received0) / (now - then))
        if first is None and sent0 is not None:
            first = sent0, received0
        if not missing:
            missing.append(math.nan if first is None else 0.0)
        missing.append(sent1 - first[0] - (received1 - first[1]) if sent1 is not None and first else math.nan)
    return RateSeries(seconds, offered, measured, missing, lost_packets) if len(seconds) > 1 else None


def _select_samples(table: dict[str, list[Any]], stream: int) -> list[Sample]:
    """Select the rows that contain both counts at one instant."""
    columns = [table.get(name, []) for name in ("stream", "seconds", "offered_packets", "measured_packets")]
    return [
        (float(seconds), sent, received)
        for number, seconds, sent, received in zip(*columns, strict=False)
        if number == stream and seconds is not None and received is not None
    ]


def _read_nic_samples(series: Series, record: RunRecord, stream: int) -> list[Sample]:
    """Packets sent by the source's NIC, at the instants of the sink's readings."""
    ledger = {hop.hop: hop for hop in record.streams[stream].ledger}
    if "source_nic" not in ledger or "sink_nic" not in ledger:
        return []
    ends = [
        _counter(series, record, ledger[hop].node, ledger[hop].interface, statistic)
        for hop, statistic in (("source_nic", "tx_packets"), ("sink_nic", "rx_packets"))
    ]
    sent, received = ends
    if not sent or not received:
        return []
    begin_ns = received[0][0]
    return [((at_ns - begin_ns) / 1e9, interpolate_count(sent, at_ns), packets) for at_ns, packets in received]


def _counter(series: Series, record: RunRecord, node: str, interface: str, statistic: str) -> Sequence[tuple[int, int]]:
    """(ns, count) of a NIC, in order: spaced by the node's monotonic clock, shifted as a whole to the console's."""
    names = record.environment.get("series_interfaces")
    table, name = series.tables.get("interfaces", {}), f"{node}/{interface}"
    if not isinstance(names, list) or name not in names:
        return []
    columns = [table.get(each, []) for each in ("interface", "monotonic_ns", "wall_ns", statistic)]
    rows = [row[1:] for row in zip(*columns, strict=False) if row[0] == names.index(name) and None not in row]
    if not rows:
        return []
    ahead_ns = rows[0][0] - (rows[0][1] - _clock_offset_ns(record, node))
    points = [(int(monotonic_ns - ahead_ns), int(value)) for monotonic_ns, _, value in rows]
    return [points[0], *(now for before, now in itertools.pairwise(points) if now[0] > before[0])]


def _clock_offset_ns(record: RunRecord, node: str) -> int:
    """Offset of a node's wall clock, or 0 if the record, which may be foreign, has none."""
    nodes = record.environment.get("nodes")
    said = nodes.get(node) if isinstance(nodes, dict) else None
    offset_ns = said.get("clock_offset_ns") if isinstance(said, dict) else None
    return offset_ns if isinstance(offset_ns, int) else 0
