"""HdrHistogram's log: delay (also since due), spacing and variation of every packet of each stream, for its tools.

Version 1.3 of the format. Each line is an interval with its tag, start, length, longest time in milliseconds, and
histogram. Values are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from labconsole.measure.packet_times import decode_histogram, packet_times, times_by_word
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.model.record.run import RunRecord
from labconsole.store.exporting import ChosenRuns

BINARY = False

HEAD = (
    "#[Histogram log format version 1.3]\n"
    "#[Times of every packet in ns, by run, stream and what they are; runs whose packets were not timed are not here]\n"
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
)


def parts(runs: ChosenRuns) -> Iterator[str]:
    """Yield a line for each kind of times of each stream, oldest run first."""
    yield HEAD
    only = None if runs.chosen is None else {run.run_id for run in runs.chosen}
    for record in runs.store.iterate(unreadable=runs.unreadable):
        if only is None or record.run_id in only:
            yield from _lines(record)


def _lines(record: RunRecord) -> Iterator[str]:
    began_s = datetime.fromisoformat(record.started_at).timestamp()
    background_streams = record.background.streams if record.background is not None else ()
    for stream in (*record.streams, *background_streams):
        packet_timing = packet_times(stream)
        if packet_timing is None:
            continue
        for name, times in times_by_word(packet_timing).items():
            histogram = decode_histogram(times) if times is not None else None
            if histogram is not None:
                yield _line(f"{record.run_id}/{stream.name}/{name}", began_s, packet_timing.window_s or 0.0, histogram)


def _line(tag: str, began_s: float, window_s: float, histogram: TimeHistogram) -> str:
    safe = "".join(char if char.isalnum() or char in "/-_." else "_" for char in tag)
    longest_ms = histogram.quantile_ns(1.0) / 1e6
    return f"Tag={safe},{began_s:.3f},{window_s:.3f},{longest_ms:.3f},{histogram.encoded()}\n"
