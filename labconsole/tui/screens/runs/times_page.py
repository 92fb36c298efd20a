"""Timing of every packet of a run, stream by stream, as counted by the sinks' kernels. Pure."""

from __future__ import annotations

from labconsole.measure.histogram_picture import histogram_rows
from labconsole.measure.packet_times import (
    QUANTILES,
    decode_histogram,
    describe_sequence,
    describe_xdp,
    format_timed_by,
    packet_times,
    quantiles_of,
    refusal,
    times_by_word,
)
from labconsole.model.record.packet_times import PacketTimes
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.text.cells import UNKNOWN, format_decimal, format_rounded, safe
from labconsole.tui.screens.runs.run_pages import LABEL_CELLS, Row, field

NOT_TIMED = (
    "the packets of this run were not timed; with packet_times: on in hosts.yaml, or --packet-times on, the sinks' "
    "kernels time every one of them"
)
QUANTILE_CELLS = 10
LONG_NS = 10**8
BY_USE = ("p50", "p99", "max", "p99.9", "p99.99", "p90")
"""Quantiles by importance. On a narrow screen the last leave first."""


def times_page(record: RunRecord, width: int) -> list[Row]:
    """Quantiles and a histogram of each stream's delays, or of the gaps between its packets if no delay is known."""
    second = record.background.streams if record.background is not None else ()
    rows: list[Row] = []
    for stream, whose in [
        *((each, "") for each in record.streams),
        *((each, " of the second guest") for each in second),
    ]:
        stream_rows = _stream(stream, width)
        if stream_rows:
            rows += [[(f"Stream {safe(stream.name, 20)}{whose}", "strong")], *stream_rows, []]
    return rows or field("times", NOT_TIMED, width, "muted")


def _stream(stream: StreamRecord, width: int) -> list[Row]:
    refused, times = refusal(stream), packet_times(stream)
    if refused is not None:
        return field("times", f"not timed: {refused}", width, "warn")
    if times is None:
        return []
    rows = _counts(times, width)
    if (changed := describe_xdp(times)) is not None:
        rows += field("port", changed, width)
    quantiles = fitting(width)
    names = "".join(f"{name:>{QUANTILE_CELLS}}" for name in quantiles)
    rows.append([("µs".ljust(LABEL_CELLS), "head"), (names, "muted")])
    for label, part in times_by_word(times).items():
        if part is None:
            rows += field(label, f"{UNKNOWN} {times.reason or ''}" if label == "delay" else UNKNOWN, width, "muted")
            continue
        figures = "".join(f"{_cell(ns):>{QUANTILE_CELLS}}" for ns in map(quantiles_of(part).get, quantiles))
        rows.append([(label.ljust(LABEL_CELLS), "head"), (figures, "")])
    drawn, what = (times.delay_ns, "delay") if times.delay_ns is not None else (times.spacing_ns, "spacing")
    if drawn is None:
        return rows
    histogram = decode_histogram(drawn)
    if histogram is None:
        return rows + field(what, "its histogram cannot be read", width, "warn")
    return [*rows, [], [(f"{what}: packets by how long", "head")], *histogram_rows(histogram, width)]


def _cell(value_ns: int | None) -> str:
    """Format in microseconds, or with a larger unit if that is too long."""
    if value_ns is None or value_ns < LONG_NS:
        return format_decimal(None if value_ns is None else value_ns / 1e3, 1)
    return f"{value_ns / 1e9:.2f} s" if value_ns >= 10**9 else f"{value_ns / 1e6:.1f} ms"


def fitting(width: int) -> list[str]:
    """The quantiles that fit, in order."""
    room = max(1, (width - LABEL_CELLS) // QUANTILE_CELLS)
    kept = BY_USE[:room]
    return [name for name in (*QUANTILES, "max") if name in kept]


def _counts(times: PacketTimes, width: int) -> list[Row]:
    return field(
        "packets",
        f"all {format_rounded(times.packets)}, in the sink's kernel{format_timed_by(times)}; "
        f"{describe_sequence(times)}",
        width,
    )
