"""One run as pages of lines: verdict, packets, times, processors, nodes; and two runs side by side. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

from rich.cells import cell_len

from labconsole.measure.comparison import Pair
from labconsole.measure.drop_causes import describe_off_path_drops, kernel_doubt
from labconsole.measure.ledger import ledger_rows
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
from labconsole.measure.processor_time import HEADINGS, processor_rows, processor_sentences
from labconsole.measure.time_histogram import histogram_rows
from labconsole.measure.timing import clock_sentence, stamps_sentence
from labconsole.model.design_point import format_target_per_source
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.extensions import PacketTimes
from labconsole.model.record.run import Delay, Quantiles, RunRecord, StreamRecord, Total
from labconsole.model.record.verdict_codes import WHAT_TO_DO, depths, title_with_code
from labconsole.text.cells import UNKNOWN, format_decimal, format_mbit, format_percent, format_rounded, safe
from labconsole.text.sanitize import format_tsv_line
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE
from labconsole.tui.parts import lines
from labconsole.units import format_rate_bps, format_target

# -- run pages ---------------------------------------------------------------------------------------------------------
# One run as pages of lines: verdict, packets, nodes; and two runs side by side. Pure: records in, spans out.
#
# All text from a node or a person passes ``safe``. Tones are names of the style sheet's.

Row = list[lines.Span]

LABEL_CELLS = 12
MOST_ROWS = 40
"""Maximum lines of one text: a foreign record may contain anything."""

field = partial(lines.field, rows=MOST_ROWS, label_cells=LABEL_CELLS, margin="")


def verdict_page(record: RunRecord, note: RunNote | None, width: int) -> list[Row]:
    """Request, results, verdict, and influences."""
    v, r, t = record.verdict, record.requested, record.total
    rows = field("run", record.run_id, width, "strong")
    rows += field("verdict", f"{VERDICT_GLYPHS[v.status]} {v.status}", width, VERDICT_TONE[v.status])
    for reason, depth in zip(v.reasons, depths(v.reasons), strict=True):
        tone = "muted" if depth else VERDICT_TONE[v.status]
        text = f"{'so ' if depth else ''}{title_with_code(reason.code)}: {reason.detail}"
        rows += field("  " * depth, text, width, tone)
        if not depth and reason.code in WHAT_TO_DO:
            rows += field("", f"→ {WHAT_TO_DO[reason.code]}", width, "accent")
    if record.role != "measured":
        rows += field("role", f"{record.role}: it enters no mean", width, "accent")
    if record.failure is not None:
        where = f"{record.failure.node}: " if record.failure.node else ""
        rows += field("failure", f"{where}{record.failure.message}", width, "bad")
    if note is not None and note.text is not None:
        rows += field("note", note.text, width, "accent")
        rows += field("", f"{note.author}, {note.written_at[:19]}Z", width, "muted")
    rows += field(
        "requested",
        f"{r.platform}, {r.format_size()}, {r.sources} x {format_target_per_source(r.target_bps, r.frame)}, "
        f"background {r.background}, {r.duration_s:g} s, generator {r.generator}, observe {r.observe}",
        width,
    )
    for label, packets, pps, bps in (
        ("offered", t.offered_packets, t.offered_pps, t.offered_bps),
        ("measured", t.measured_packets, t.measured_pps, t.measured_bps),
    ):
        rows.append(_counts(label, packets, pps, bps))
    rows.append(_loss(t.loss_packets, t.loss_ratio))
    rows += _format_loss_by_side(t, width)
    rows += _background(record, width)
    if record.influences:
        for index, influence in enumerate(record.influences[:MOST_ROWS]):
            rows += field("influences" if index == 0 else "", _influence(influence), width)
    else:
        rows += field("influences", "none seen", width, "muted")
    emulated = " (emulated)" if record.emulated else ""
    rows += field("testbed", f"{record.testbed}{emulated}, fingerprint {record.testbed_fingerprint}", width, "muted")
    rows += field("time", f"{record.started_at} to {record.finished_at}", width, "muted")
    rows += field("by", f"{record.operator}, labconsole {record.labconsole_version}", width, "muted")
    if record.plan is not None:
        p = record.plan
        rows += field("plan", f"{p.name}, point {p.point}, repetition {p.repetition}, seed {p.seed}", width, "muted")
    return rows


def _counts(label: str, packets: int | None, pps: float | None, bps: float | None) -> Row:
    tail = f" {format_mbit(bps):>10} Mbit/s" if bps is not None else ""
    return [
        (label.ljust(LABEL_CELLS), "head"),
        (f"{format_rounded(packets):>13} packets {format_rounded(pps):>11} pps{tail}", ""),
    ]


def _loss(packets: int | None, ratio: float | None, label: str = "lost") -> Row:
    tone = "" if not packets else "warn" if packets > 0 else "bad"
    return [
        (label.ljust(LABEL_CELLS), "head"),
        (f"{format_rounded(packets):>13} packets {format_percent(ratio):>11} %", tone),
    ]


def _format_loss_by_side(part: Total | StreamRecord, width: int) -> list[Row]:
    """The losses by side, and the rate of the rest. Empty for a run that does not separate them."""
    if part.generator_packets is None:
        return []
    late = part.late_packets if isinstance(part, Total) else part.arrivals and part.arrivals.late_packets
    ratio = f" ({format_percent(part.uut_loss_ratio)} %)" if isinstance(part, Total) else ""
    lost = f"source {format_rounded(part.source_lost_packets)}, UUT {format_rounded(part.uut_lost_packets)}{ratio}, "
    together = "" if isinstance(part, Total) else _together(part)
    rows = field("  lost at", f"{lost}sink {format_rounded(part.sink_lost_packets)}{together}", width)
    rows += (
        field("generator", f"{format_rounded(part.generator_packets)} packets", width)
        if part.source_lost_packets
        else []
    )
    forwarded = (
        f"{format_rounded(part.forwarding_pps)} pps, {format_mbit(part.forwarding_bps)} Mbit/s while packets arrived"
    )
    rows += field("forwarded", forwarded, width)
    return rows + (field("late", f"{format_rounded(late)} packets after the sending time", width) if late else [])


def _together(stream: StreamRecord) -> str:
    return "".join(f"; {' and '.join(each.sides)} {format_rounded(each.packets)}" for each in stream.lost_together)


def _background(record: RunRecord, width: int) -> list[Row]:
    """The background load, as requested and as reached."""
    load = record.background
    if load is None:
        requested = record.requested.background
        return field(
            "background", "none" if requested == "none" else f"{requested} requested, not recorded", width, "muted"
        )
    rows = field("background", load.kind, width)
    if load.guest is not None:
        where = "not pinned" if load.cpus is None else f"on CPU {load.cpus}"
        rows += field("  guest", f"{load.guest}, {where}", width)
    for word, figures in (("requested", load.requested), ("achieved", load.achieved)):
        if figures:
            rows += field(f"  {word}", format_json(figures), width)
    for stream in load.streams:
        rows += field(f"  {stream.name}", f"{stream.generator}, not in totals", width, "muted")
        rows.append(_counts("    offered", stream.offered_packets, stream.offered_pps, stream.offered_bps))
        rows.append(_counts("    measured", stream.measured_packets, stream.measured_pps, stream.measured_bps))
        rows.append(_loss(stream.loss_packets, stream.loss_ratio, "    lost"))
    return rows + (field("  share of", format_json(load.reference), width, "muted") if load.reference else [])


def _influence(influence: dict[str, Any]) -> str:
    rest = {key: value for key, value in influence.items() if key not in ("kind", "code", "detail", "node")}
    node = f"{influence['node']}: " if influence.get("node") else ""
    kind = influence.get("kind") or influence.get("code") or "influence"
    # The sentence explains it. The numbers behind it are in the record.
    said = influence.get("detail") or format_json(rest)
    return f"{node}{kind}: {said}"


def format_json(value: Any) -> str:
    """Format any JSON value as text: ``cpus 2, kernel 6.1``."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_json(inner)}" for key, inner in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return " ".join(format_json(inner) for inner in value) or "none"
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


# -- packets ----------------------------------------------------------------------------------------------------------


def packets_page(record: RunRecord, width: int) -> list[Row]:
    """Stream by stream: packets sent and received, and where packets were lost."""
    rows: list[Row] = []
    doubt = kernel_doubt(record)
    if doubt is not None:
        rows += [*field("kernel", doubt, width, "warn"), []]
    for place, text in enumerate(describe_off_path_drops(record)[:MOST_ROWS]):
        rows += field("kernel" if not place and doubt is None else "", text, width)
    if rows and rows[-1]:
        rows.append([])
    for stream in record.streams:
        rows += _stream(stream, width)
        rows.append([])
    for stream in record.background.streams if record.background is not None else ():
        rows += _stream(stream, width, " of the second guest, not in totals")
        rows.append([])
    return rows or [[("this run has no streams", "muted")]]


def _stream(part: StreamRecord, width: int, whose: str = "") -> list[Row]:
    rows: list[Row] = [
        [
            (f"Stream {safe(part.name, 20)}{whose}", "strong"),
            (f"   {safe(part.generator, 16)}", "muted"),
            (f", delay {format_rounded(part.delay_ns)} ns", "muted"),
        ]
    ]
    rows.append(_counts("intended", part.intended_packets, part.intended_pps, None))
    rows.append(_counts("offered", part.offered_packets, part.offered_pps, part.offered_bps))
    rows.append(_counts("measured", part.measured_packets, part.measured_pps, part.measured_bps))
    rows.append(_loss(part.loss_packets, part.loss_ratio))
    rows += _format_loss_by_side(part, width)
    if part.sequence is not None:
        s = part.sequence
        gaps = sum(s.lost_runs.values())
        rows += field(
            "sequence",
            f"{format_rounded(gaps)} gaps, {format_rounded(s.reordered_packets)} reordered, "
            f"{format_rounded(s.duplicate_packets)} twice",
            width,
        )
    if part.delay is not None:
        rows += _delay(part.delay, width)
    for label, said in (("stamps", stamps_sentence(part)), ("clocks", clock_sentence(part))):
        if said is not None:
            rows += field(label, said, width, "muted")
    if part.capture is not None and not part.capture.complete:
        rows += field("capture", f"not complete, {format_rounded(part.capture.dropped_packets)} dropped", width, "warn")
    if not part.ledger:
        return rows + field("path", "no counters were recorded along the path", width, "muted")
    return rows + [[(safe(text, width), tone) for text, tone in row] for row in ledger_rows(part, width)]


def _delay(delay: Delay, width: int) -> list[Row]:
    """Percentiles of delay and of its variation over a sample of the frames, and why there is no one-way delay."""

    def quantiles(label: str, found: Quantiles) -> Row:
        figures = "".join(f"{format_decimal(ns / 1e3, 1):>10}" for ns in (found.p50, found.p99, found.p999, found.max))
        return [(label.ljust(LABEL_CELLS), "head"), (figures, "")]

    names = "".join(f"{name:>10}" for name in ("p50", "p99", "p99.9", "max"))
    rows: list[Row] = [[("delay µs".ljust(LABEL_CELLS), "head"), (names, "muted")]]
    if delay.one_way_ns is not None:
        rows.append(quantiles("  one way", delay.one_way_ns))
    else:
        rows += field("  one way", f"{UNKNOWN} {delay.reason or ''}", width, "muted")
    rows.append(quantiles("  PDV", delay.pdv_ns))
    if delay.ipdv_ns is not None:
        rows.append(quantiles("  IPDV", delay.ipdv_ns))
    return rows + field("", f"of a sample of {format_rounded(delay.packets)} packets", width, "muted")


# -- nodes ------------------------------------------------------------------------------------------------------------


SETTING_CELLS = 38
"""Width of the name of a setting, shown as typed."""


def nodes_page(record: RunRecord, width: int) -> list[Row]:
    """The nodes at the time of the run: first what all have in common, then their differences."""
    environment = dict(record.environment)
    found = environment.pop("nodes", None)
    facts_by_node = found if isinstance(found, dict) else {}
    settings = {
        name: said["settings"] for name, said in facts_by_node.items() if isinstance(said, dict) and "settings" in said
    }
    others = {
        name: {key: value for key, value in said.items() if key != "settings"} if name in settings else said
        for name, said in facts_by_node.items()
    }
    nodes = {name: dict(_facts(said)) for name, said in others.items()}
    rows: list[Row] = []
    if nodes:
        names = list(dict.fromkeys(name for facts in nodes.values() for name in facts))
        common = [n for n in names if len({facts.get(n) for facts in nodes.values()}) == 1]
        rows.append([(f"On all nodes: {safe(', '.join(nodes), width - 14)}", "strong")])
        first = next(iter(nodes.values()))
        rows += _pairs(((name, first[name]) for name in common), width)
        for node, facts in nodes.items():
            rows += [[], [(safe(node, width), "strong")]]
            rows += _pairs(((name, facts[name]) for name in names if name in facts and name not in common), width)
    for name, value in environment.items():
        if name == "series_interfaces":  # needed only by the file of series
            continue
        rows += [[], [(safe(name.replace("_", " "), width), "strong")]]
        rows += _pairs(_facts(value), width)
    if record.timeline:
        rows += [[], [("timeline", "strong")], *_pairs(_facts(record.timeline), width)]
    for node, values in settings.items():
        if isinstance(values, dict):
            rows += [[], [(safe(f"Settings of {node} as the trial began", width), "strong")]]
            rows += _pairs(((name, format_json(value)) for name, value in values.items()), width, SETTING_CELLS)
    return rows or [[("nothing was recorded of the nodes", "muted")]]


def _facts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            under = str(key) if key == "facts" and not path else f"{path} {key}".strip()
            yield from _facts(inner, "" if under == "facts" else under)
    else:
        yield path, format_json(value)


def _pairs(facts: Iterator[tuple[str, str]], width: int, cells: int = 22) -> list[Row]:
    rows: list[Row] = []
    for name, text in facts:
        label = safe(name if cells > 22 else name.replace("_", " "), cells).ljust(cells)
        wrapped = textwrap.wrap(safe(text, 2000), max(10, width - cells - 3)) or [""]
        for index, line in enumerate(wrapped[:6]):
            rows.append([("  " + (label if index == 0 else " " * cells) + " ", "head"), (line, "")])
    return rows


# -- two runs ---------------------------------------------------------------------------------------------------------


def compare_page(left: RunRecord, right: RunRecord, pairs: list[Pair], width: int) -> list[Row]:
    """Show both side by side. ≠ marks differences that two runs of one set-up would not have."""
    label = 18 if width < 84 else 28
    cell = max(12, (width - label - 12) // 2)
    differing = sum(pair.differs and not pair.expected for pair in pairs)
    rows: list[Row] = [
        [
            ("".ljust(label + 2), ""),
            (safe(left.run_id, cell).ljust(cell + 1), "strong"),
            (safe(right.run_id, cell).ljust(cell), "strong"),
        ],
        [(f"  {differing} differences (≠); rates and counts show the change in %", "muted")],
    ]
    section = ""
    for pair in pairs:
        if pair.section != section:
            section = pair.section
            rows += [[], [(safe(section, width), "head")]]
        marked = pair.differs and not pair.expected
        tone = "warn" if marked else "muted" if not pair.differs else ""
        change = "" if pair.change is None or not pair.differs else _change(pair.change)
        texts = [safe(_format_pair_value(value, pair), cell) for value in (pair.left, pair.right)]
        rows.append(
            [
                ("≠ " if marked else "  ", "warn"),
                (safe(pair.label.replace("_", " "), label - 1).ljust(label), "second"),
                (texts[0] + " " * (cell + 1 - cell_len(texts[0])), tone),
                (texts[1] + " " * (cell - cell_len(texts[1])), tone),
                (f"{change:>9}", "muted"),
            ]
        )
    return rows


def comparison_lines(left: RunRecord, right: RunRecord, pairs: list[Pair]) -> list[str]:
    """The differences, as lines with tabs between the fields: section, field, both values, the change."""
    rows = [["section", "field", left.run_id, right.run_id, "change"]]
    for pair in pairs:
        if pair.differs:
            change = "" if pair.change is None else _change(pair.change)
            shown = [
                safe(_format_pair_value(value, pair), 400).replace("\u2009", "") for value in (pair.left, pair.right)
            ]
            rows.append([pair.section, pair.label, *shown, change])
    return [*map(format_tsv_line, rows)]


def _change(share: float) -> str:
    """Format a change with three significant digits. A non-zero change never reads as zero."""
    text = f"{share * 100:+.3g} %"
    return text if len(text) <= 9 else f"{share * 100:+.0f} %"


def _format_pair_value(value: Any, pair: Pair) -> str:
    if value is None:
        return UNKNOWN
    if pair.kind in ("packets", "count"):
        return format_rounded(value) + (" packets" if pair.kind == "packets" else "")
    if pair.kind == "pps":
        return f"{format_decimal(value, 1)} pps"
    if pair.kind == "bps":
        return format_rate_bps(value)
    if pair.kind == "ratio":
        return f"{format_percent(value, 4)} %"
    units = {"seconds": " s", "bytes": " B"}
    text = format_target(value) if pair.label == "target" and isinstance(value, int) else format_json(value)
    return text + units.get(pair.kind, "")


# -- times page --------------------------------------------------------------------------------------------------------
# Timing of every packet of a run, stream by stream, as counted by the sinks' kernels.

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
        stream_rows = _stream_times(stream, width)
        if stream_rows:
            rows += [[(f"Stream {safe(stream.name, 20)}{whose}", "strong")], *stream_rows, []]
    return rows or field("times", NOT_TIMED, width, "muted")


def _stream_times(stream: StreamRecord, width: int) -> list[Row]:
    refused, times = refusal(stream), packet_times(stream)
    if refused is not None:
        return field("times", f"not timed: {refused}", width, "warn")
    if times is None:
        return []
    rows = _times_counts(times, width)
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


def _times_counts(times: PacketTimes, width: int) -> list[Row]:
    return field(
        "packets",
        f"all {format_rounded(times.packets)}, in the sink's kernel{format_timed_by(times)}; "
        f"{describe_sequence(times)}",
        width,
    )


# -- processors page ---------------------------------------------------------------------------------------------------
# Activity of the unit under test's processors during traffic, for a run with telemetry.

CELLS = (10, 7, 9, 8, 7, 11, 13, 10)
"""Widths of HEADINGS. On a narrow screen the last leave first."""


def processors_part(record: RunRecord, width: int) -> list[Row]:
    """Build the part. Empty for a run without telemetry."""
    rows: list[Row] = []
    for label, sentence in processor_sentences(record):
        rows += field(label, sentence, width)
    if not rows:
        return []
    figures = processor_rows(record)
    if figures:
        rows += [[], [(_line(HEADINGS, width), "head")], *([(_line(row, width), "")] for row in figures)]
    return [[("Processors of the unit under test, while traffic ran", "strong")], *rows, []]


def _line(cells: tuple[str, ...], width: int) -> str:
    line = ""
    for cell, room in zip(cells, CELLS, strict=True):
        if len(line) + room > width:
            break
        line += safe(cell, room).rjust(room)
    return line
