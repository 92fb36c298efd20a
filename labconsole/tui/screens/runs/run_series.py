"""The kept time series of a run as rates that a chart can draw. Pure.

A row per sample of a stream's sink holds two running counts; a rate is the difference between two samples over the time
between them. A sample with an unknown count makes no rate, rather than a drop to zero and a peak after it.
"""

from __future__ import annotations

import itertools

from labconsole.contracts.ports import Series
from labconsole.text.charts import RateSeries


def stream_rates(series: Series, stream: int) -> RateSeries | None:
    """Offered and measured rate of one stream, by its place in the record; None when too little was kept."""
    table = series.tables.get("streams", {})
    columns = [table.get(name, []) for name in ("stream", "seconds", "offered_packets", "measured_packets")]
    rows = [row[1:] for row in zip(*columns, strict=False) if row[0] == stream and None not in row]
    seconds: list[float] = []
    offered: list[float] = []
    measured: list[float] = []
    for before, now in itertools.pairwise(rows):
        took = now[0] - before[0]
        if took <= 0:
            continue
        seconds.append(float(now[0]))
        offered.append((now[1] - before[1]) / took)
        measured.append((now[2] - before[2]) / took)
    return RateSeries(seconds, offered, measured) if len(seconds) > 1 else None
