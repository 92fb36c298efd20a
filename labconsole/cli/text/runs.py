"""Runs as plain lines of text for the headless commands. Units in every column; unknown is a dash, never a zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.measure.drop_causes import cause_of, describe_off_path_drops, kernel_counts, kernel_doubt
from labconsole.measure.ledger import ledger_rows
from labconsole.measure.packet_times import (
    describe_sequence,
    describe_xdp,
    format_timed_by,
    packet_times,
    quantiles_of,
    refusal,
    times_by_word,
)
from labconsole.measure.processor_time import HEADINGS, processor_rows, processor_sentences
from labconsole.measure.timing import clock_sentence, stamps_sentence
from labconsole.model.design_point import format_target_per_source
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.run import Background, Delay, RunRecord, StreamRecord, Total
from labconsole.model.record.summary import RunSummary
from labconsole.report.trial_text import reason_lines
from labconsole.units import format_count, format_rate_bps

DASH = "–"
THIN_SPACE = "\u2009"
"""Separates thousands."""

PICTURE_COLUMNS = 110
"""Width of a ledger that can be pasted into a report without breaking lines."""


def count_or_dash(value: int | None) -> str:
    """A count with separated thousands, or a dash."""
    return DASH if value is None else format_count(value)


def rate_or_dash(value: float | None) -> str:
    """A bandwidth on the wire, or a dash."""
    return DASH if value is None else format_rate_bps(value)


def percent_or_dash(ratio: float | None) -> str:
    """A ratio as percent with the significant digits, or a dash."""
    return DASH if ratio is None else f"{100 * ratio:.4g} %"


def _stream_line(stream: StreamRecord) -> str:
    source = f"by {stream.measured_from}" if stream.measured_from else "not measured"
    return (
        f"  {stream.name:<8} offered {count_or_dash(stream.offered_packets):>12} packets "
        f"{rate_or_dash(stream.offered_bps):>14}   measured {count_or_dash(stream.measured_packets):>12} "
        f"{rate_or_dash(stream.measured_bps):>14}   "
        f"loss {count_or_dash(stream.loss_packets):>10} {percent_or_dash(stream.loss_ratio):>10}   "
        f"{source}, {stream.generator}"
    )


def run_lines(record: RunRecord, *, saved: bool, details: bool = False) -> list[str]:
    """One run for people: streams, total, verdict with its reasons; with ``details`` also where packets went."""
    request = record.requested
    lines = [
        f"{record.run_id}  {record.testbed}{' (emulated)' if record.emulated else ''}  {request.platform}, "
        f"{request.format_size()}, {request.sources} x {format_target_per_source(request.target_bps, request.frame)}, "
        f"background {request.background}, {request.duration_s:g} s",
        *(_stream_line(stream) for stream in record.streams),
    ]
    total = record.total
    lines.append(
        f"  {'total':<8} offered {count_or_dash(total.offered_packets):>12} packets "
        f"{rate_or_dash(total.offered_bps):>14}   measured {count_or_dash(total.measured_packets):>12} "
        f"{rate_or_dash(total.measured_bps):>14}   "
        f"loss {count_or_dash(total.loss_packets):>10} {percent_or_dash(total.loss_ratio):>10}"
    )
    lines += format_loss_by_side(total) + kernel_lines(record, with_counts=not details)
    of_second = record.background.streams if record.background is not None else ()
    if record.background is not None:
        lines += background_lines(record.background)
    if not details:  # the details have it for each stream
        lines += untimed_lines((*record.streams, *of_second))
    if record.role != "measured":
        lines.append(f"  {'role':<8} {record.role}: it enters no mean")
    if record.role == "telemetry":
        lines += processor_lines(record, with_rows=details)
    if details:
        for stream in (*record.streams, *of_second):
            lines.append(f"  {stream.name}: packets by hop")
            rows = ledger_rows(stream, PICTURE_COLUMNS)
            lines += ["    " + "".join(text for text, _ in row).rstrip() for row in rows]
            if stream.delay is not None:
                lines.append(f"  {stream.name}: {delay_text(stream.delay)}")
            said = (stamps_sentence(stream), clock_sentence(stream))
            lines += [f"  {stream.name}: {strip_control_characters(each)}" for each in said if each is not None]
            lines += [f"  {stream.name}: {text}" for text in packet_times_texts(stream)]
        if record.influences:
            lines.append("  other activity during the trial")
            lines += [f"    {influence_line(entry)}" for entry in record.influences]
    lines.append(f"  {record.verdict.status}" + ("" if saved else "; NOT SAVED"))
    return lines + reason_lines(record.verdict.reasons)


def processor_lines(record: RunRecord, *, with_rows: bool) -> list[str]:
    """The unit under test's processors during the traffic. ``with_rows``: of each."""
    lines = [f"  {label:<10} {strip_control_characters(sentence)}" for label, sentence in processor_sentences(record)]
    if with_rows and (rows := processor_rows(record)):
        lines += ["    " + "".join(cell.rjust(12) for cell in row) for row in (HEADINGS, *rows)]
    return lines


def format_loss_by_side(total: Total) -> list[str]:
    """The loss of each side and the rate of the rest; empty for a run that does not separate them."""
    if total.generator_packets is None:
        return []
    late = (
        ""
        if not total.late_packets
        else f"; {count_or_dash(total.late_packets)} packets arrived after sending had ended"
    )
    lost = (
        f"lost at the source {count_or_dash(total.source_lost_packets)}, "
        f"the UUT {count_or_dash(total.uut_lost_packets)} ({percent_or_dash(total.uut_loss_ratio)}), "
        f"the sink {count_or_dash(total.sink_lost_packets)}"
    )
    forwarded = f"forwarding rate {rate_or_dash(total.forwarding_bps)}"
    return [f"  {'sides':<8} generator {count_or_dash(total.generator_packets)}, {lost}; {forwarded}{late}"]


def kernel_lines(record: RunRecord, *, with_counts: bool) -> list[str]:
    """The kernel's words for packets that the unit under test dropped, with their meaning, or why there are none.
    ``with_counts``: also those in ledgers.
    """
    doubt = kernel_doubt(record)
    lines = [] if doubt is None else [f"  {'kernel':<8} {doubt}"]
    if with_counts:
        lines += _kernel_counts(record)
    return lines + [f"  {'kernel':<8} {line}" for line in describe_off_path_drops(record)]


def _kernel_counts(record: RunRecord) -> list[str]:
    lines = []
    for (of_hop, name), packets in kernel_counts(record).most_common():
        cause = cause_of(name)
        meant = f": {cause.happened} ({cause.look})" if cause else ""
        lines.append(f"  {'kernel':<8} {of_hop} {name} {count_or_dash(packets)}{meant}")
    return lines


def untimed_lines(streams: Sequence[StreamRecord]) -> list[str]:
    """Why packets were not timed as requested; a reason that several streams share is given once."""
    said: dict[str, list[str]] = {}
    for stream in streams:
        if (refused := refusal(stream)) is not None:
            said.setdefault(refused, []).append(stream.name)
    return [f"  {'times':<8} {', '.join(names)}: {_untimed(refused)}" for refused, names in said.items()]


def _untimed(refused: str) -> str:
    return f"packets were not timed in the sink's kernel: {strip_control_characters(refused)}"


def background_lines(load: Background) -> list[str]:
    """The second guest: its planned and actual work, other observations, and its own streams."""
    where = "" if load.guest is None else f" in {load.guest}, " + (f"CPU {load.cpus}" if load.cpus else "not pinned")
    lines = [f"  background {load.kind}{where}"]
    for name, requested in load.requested.items():
        lines.append(
            f"    {name}: requested {format_figure(requested)}, achieved {format_figure(load.achieved.get(name))}"
        )
    rest = {name: value for name, value in load.achieved.items() if name not in load.requested}
    if rest:
        lines.append("    " + ", ".join(f"{name} {format_figure(value)}" for name, value in rest.items()))
    if load.reference is not None:
        lines.append("    a share of: " + ", ".join(f"{key} {value}" for key, value in load.reference.items()))
    return lines + [f"  {_stream_line(stream)}" for stream in load.streams]


def format_figure(value: float | None) -> str:
    """A number of any unit with the significant digits, or a dash."""
    if value is None:
        return DASH
    return format_count(round(value)) if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"


def delay_text(delay: Delay) -> str:
    """Delay and its variation in microseconds, or why there is no one-way delay."""
    varies = f"variation over the shortest p50 {delay.pdv_ns.p50 / 1e3:.1f}, p99 {delay.pdv_ns.p99 / 1e3:.1f} µs"
    if delay.ipdv_ns is not None:
        varies += f", between neighbours p50 {delay.ipdv_ns.p50 / 1e3:.1f}, p99 {delay.ipdv_ns.p99 / 1e3:.1f} µs"
    one = delay.one_way_ns
    if one is None:
        return f"no one-way delay: {delay.reason}; {varies}"
    times = f"min {one.min / 1e3:.1f}, p50 {one.p50 / 1e3:.1f}, p99 {one.p99 / 1e3:.1f}, max {one.max / 1e3:.1f} µs"
    return f"one-way delay {times} of {format_count(delay.packets)} packets; {varies}"


def packet_times_texts(stream: StreamRecord) -> list[str]:
    """Delays of every packet of a stream from the sink's kernel, in microseconds; empty if it was not requested."""
    refused, timed = refusal(stream), packet_times(stream)
    if refused is not None:
        return [_untimed(refused)]
    if timed is None:
        return []
    lines = [
        f"all {count_or_dash(timed.packets)} packets timed in the sink's kernel{format_timed_by(timed)}: "
        f"{describe_sequence(timed)}"
    ]
    if (changed := describe_xdp(timed)) is not None:
        lines.append(f"  {strip_control_characters(changed)}")
    for name, times in times_by_word(timed).items():
        if times is not None:
            figures = ", ".join(f"{label} {micros(ns)}" for label, ns in quantiles_of(times).items())
            lines.append(f"  {name:<9} {figures} µs")
        elif name == "delay":
            lines.append(f"  no one-way delay: {strip_control_characters(timed.reason or '')}")
    return lines


def micros(value_ns: int | None) -> str:
    """A time in microseconds, or a dash."""
    return DASH if value_ns is None else f"{value_ns / 1e3:.1f}"


def note_lines(note: RunNote | None) -> list[str]:
    """The note on a run, if there is one."""
    if note is None or note.text is None:
        return []
    return [
        f"  note by {strip_control_characters(note.author)}, {note.written_at}",
        *(f"    {strip_control_characters(t)}" for t in note.text.splitlines()),
    ]


def strip_control_characters(text: str) -> str:
    """Typed or imported text without characters that a terminal would interpret."""
    return "".join(char if char.isprintable() or char == THIN_SPACE else "·" for char in text)


def influence_line(entry: dict[str, Any]) -> str:
    """One influence: place, kind and sentence."""
    return f"{entry.get('node') or 'console':<8} {entry.get('kind', '')}: {entry.get('detail', '')}"


def run_row(record: RunRecord) -> str:
    """One run as one line."""
    request, total = record.requested, record.total
    return (
        f"{record.run_id}  {request.platform:<12} {request.frame_size_bytes or 'mix':>5} B  {request.sources} x "
        f"{format_target_per_source(request.target_bps, request.frame):>9}  "
        f"offered {rate_or_dash(total.offered_bps):>14}  measured {rate_or_dash(total.measured_bps):>14}  loss "
        f"{percent_or_dash(total.loss_ratio):>9}  {record.verdict.status}"
    )


def runs_table(summaries: Sequence[RunSummary]) -> list[str]:
    """Saved runs, newest first."""
    if not summaries:
        return ["no runs saved yet"]
    lines = [
        f"{'run':<24} {'testbed':<12} {'platform':<12} {'size B':>6} {'n':>2} {'target':>9} {'offered pps':>12} "
        f"{'measured pps':>12} {'loss':>9}  {'verdict':<8} note"
    ]
    for s in summaries:
        lines.append(
            f"{s.run_id:<24} {s.testbed:<12} {s.platform:<12} {s.frame_size_bytes or 'mix':>6} {s.sources:>2} "
            f"{format_target_per_source(s.target_bps, s.frame, cells=9):>9} "
            f"{DASH if s.offered_pps is None else f'{s.offered_pps:.0f}':>12} "
            f"{DASH if s.measured_pps is None else f'{s.measured_pps:.0f}':>12} {percent_or_dash(s.loss_ratio):>9}  "
            f"{s.verdict:<8} {_shorten_note(s.note)}".rstrip()
        )
    return lines


def _shorten_note(note: str | None) -> str:
    """The part of a note that fits in a line of the list."""
    text = strip_control_characters(" ".join((note or "").split()))
    return text if len(text) <= 40 else text[:39].rstrip() + "…"
