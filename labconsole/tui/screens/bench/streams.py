"""Every stream: offered and measured rate and loss, live, and over the repetitions of a point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from textual.geometry import Size

from labconsole.engine.live.events import Phase
from labconsole.engine.live.telemetry import StreamLive, Telemetry
from labconsole.measure.packet_times import packet_times
from labconsole.measure.statistics.repetitions import Summary
from labconsole.model.design_point import BACKGROUND_FRAME_BYTES, FrameSize
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.text.cells import (
    UNKNOWN,
    format_decimal,
    format_mbit,
    format_percent,
    format_rounded,
    safe,
    scale_top,
    sparkline,
)
from labconsole.tui.console.state import TOTAL, ConsoleState, Quantities
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable

# -- streams -----------------------------------------------------------------------------------------------------------
# Offered and measured rate and loss of every stream, with sparklines on one scale, and the totals.
#
# During a trial these are live rates and a running difference. Once it is saved, they are the record's own numbers.

TOTAL_ROW = "\0total"
"""The totals' key: no stream can have this name."""

WINDOW = 60

BEFORE_SENDING = (None, Phase.PREPARING, Phase.LEARNING, Phase.ARMING)
"""Phases of a trial in which the known numbers are still those of the one before."""


@dataclass(frozen=True, slots=True)
class StreamNumbers:
    """One row. ``final``: from the saved record. Packets are counted since the trial's start."""

    offered_pps: float | None = None
    measured_pps: float | None = None
    offered_bps: float | None = None
    measured_bps: float | None = None
    loss_packets: int | None = None
    loss_ratio: float | None = None
    generator: str = ""
    final: bool = False
    used: bool = False
    delay_p50_ns: int | None = None
    delay_p99_ns: int | None = None
    """One-way, over all packets, if the sinks' kernels time them."""


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _read_record(part: StreamRecord) -> StreamNumbers:
    times = packet_times(part)
    delay = None if times is None else times.delay_ns
    return StreamNumbers(
        part.offered_pps,
        part.measured_pps,
        part.offered_bps,
        part.measured_bps,
        part.loss_packets,
        part.loss_ratio,
        part.generator,
        final=True,
        used=True,
        delay_p50_ns=None if delay is None else delay.p50,
        delay_p99_ns=None if delay is None else delay.p99,
    )


def _read_live(live: StreamLive, frame: FrameSize) -> StreamNumbers:
    def bps(pps: float | None) -> float | None:
        return None if pps is None else frame.rate_bps(pps)

    offered = live.offered_pps[-1] if live.offered_pps else None
    measured = live.measured_pps[-1] if live.measured_pps else None
    loss = live.loss_packets
    ratio = live.loss_ratio
    delays = live.delays
    return StreamNumbers(
        offered,
        measured,
        bps(offered),
        bps(measured),
        loss,
        ratio,
        live.generator,
        final=live.final,
        used=True,
        delay_p50_ns=None if delays is None else delays.p50_ns,
        delay_p99_ns=None if delays is None else delays.p99_ns,
    )


def collect_stream_numbers(inventory: Inventory, telemetry: Telemetry, state: ConsoleState) -> dict[str, StreamNumbers]:
    """Collect every stream's row, and TOTAL."""
    rows = {stream.name: StreamNumbers() for stream in inventory.streams}
    record: RunRecord | None = None if state.current_request is not None or state.requested else state.last
    if record is not None:
        of_second = record.background.streams if record.background is not None else ()
        rows.update({part.name: _read_record(part) for part in (*record.streams, *of_second) if part.name in rows})
        t = record.total
        rows[TOTAL_ROW] = StreamNumbers(
            t.offered_pps,
            t.measured_pps,
            t.offered_bps,
            t.measured_bps,
            t.loss_packets,
            t.loss_ratio,
            final=True,
            used=True,
        )
        return rows
    request = state.current_request
    used: list[StreamNumbers] = []
    offered_packets: list[float | None] = []
    for live in telemetry.streams.values() if request is not None else ():
        assert request is not None
        if live.name in rows:
            frame = replace(request.frame, bytes=BACKGROUND_FRAME_BYTES) if live.of_second_guest else request.frame
            rows[live.name] = numbers = _read_live(live, frame)
            if not live.of_second_guest:  # the second guest's stream enters no total
                used.append(numbers)
                offered_packets.append(live.offered_packets)
    loss, offered = _sum([n.loss_packets for n in used]), _sum(offered_packets)
    rows[TOTAL_ROW] = StreamNumbers(
        _sum([n.offered_pps for n in used]),
        _sum([n.measured_pps for n in used]),
        _sum([n.offered_bps for n in used]),
        _sum([n.measured_bps for n in used]),
        None if loss is None else int(loss),
        loss / offered if loss is not None and offered else None,
        used=bool(used),
    )
    return rows


def _add_delay_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Insert the columns of delay after the loss."""
    place = [column.name for column in columns].index("loss") + 1
    delays = (Column("delay_p50", "p50 µs", 8, rank=1), Column("delay_p99", "p99 µs", 8, rank=1))
    return (*columns[:place], *delays, *columns[place:])


def _drop_spark_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(column for column in columns if not column.name.endswith("_spark"))


def _micros(value_ns: int | None) -> str:
    return format_decimal(None if value_ns is None else value_ns / 1e3, 1)


class StreamsTable(LineTable):
    """The streams. The cursor chooses the one that the chart shows."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "stream", 6, right=False, grow_to=12),
        Column("path", "path", 38, right=False, rank=4, grow_to=46),
        Column("offered", "offered pps", 11),
        Column("offered_spark", "", 4, right=False, rank=1, grow_to=WINDOW),
        Column("measured", "measured pps", 12),
        Column("measured_spark", "", 4, right=False, rank=1, grow_to=WINDOW),
        Column("loss_packets", "lost", 9, rank=2, grow_to=11),
        Column("loss", "loss %", 8, grow_to=10),
        Column("offered_bps", "offered Mbit/s", 14, rank=3),
        Column("measured_bps", "measured Mbit/s", 15, rank=3),
        Column("generator", "generator", 9, right=False, rank=5),
    )

    NARROW: ClassVar[tuple[Column, ...]] = tuple(column for column in COLUMNS if column.rank < 3)
    """Columns that fit next to the set-up. The others need a wide terminal, however wide the table is."""

    TIMED: ClassVar[tuple[Column, ...]] = _add_delay_columns(COLUMNS)
    NARROW_TIMED: ClassVar[tuple[Column, ...]] = _add_delay_columns(_drop_spark_columns(NARROW))
    """Columns if every packet is timed and the clocks agree. The chart below replaces the sparklines."""

    def __init__(self, inventory: Inventory, telemetry: Telemetry, state: ConsoleState) -> None:
        super().__init__(id="streams")
        self._inventory, self._telemetry, self._state = inventory, telemetry, state
        self._numbers: dict[str, StreamNumbers] = {}
        self._streams: dict[str, Stream] = {s.name: s for s in inventory.streams}
        self._top = 1.0
        self._timed = False

    @property
    def chosen(self) -> str:
        """The stream under the cursor, or the first one if the cursor is on the totals."""
        return self.cursor_key if self.cursor_key in self._streams else next(iter(self._streams))

    def choose_next(self, by: int) -> None:
        """Put the cursor on a neighbouring stream, wrapping at the ends."""
        names = list(self._streams)
        self.move_to(names[(names.index(self.chosen) + by) % len(names)])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of header, streams and totals."""
        return len(self._streams) + 2

    def columns(self) -> tuple[Column, ...]:
        wide = self.screen.has_class("-wide")
        if self._timed:
            return self.TIMED if wide else self.NARROW_TIMED
        return self.COLUMNS if wide else self.NARROW

    def keys(self) -> list[str]:
        return [*self._streams, TOTAL_ROW]

    def prepare(self) -> None:
        self._numbers = collect_stream_numbers(self._inventory, self._telemetry, self._state)
        timed = any(numbers.delay_p50_ns is not None for numbers in self._numbers.values())
        if timed != self._timed:
            self._timed = timed
            self._choose_columns()
            self._cells.clear()
            self.refresh()
        live = self._telemetry.streams.values()
        self._top = scale_top(
            v for s in live for series in (s.offered_pps, s.measured_pps) for v in list(series)[-WINDOW:]
        )
        trial, watched = self._state.trial, self._state.observed
        final = any(n.final for n in self._numbers.values())
        scale = f" · sparklines 0 to {format_rounded(self._top)} pps" if self.size.width >= 70 and any(live) else ""
        if trial is not None:
            suffix = " · of the trial before" if final and trial.phase in BEFORE_SENDING else " · live"
        elif watched is not None and watched.guest_words is None:
            suffix = f" · live, of {safe(watched.operator, 32)}"
        else:
            suffix = " · as saved" if final else ""
        suffix += " · p50, p99 of the one-way delay" if self._timed else ""
        set_border_titles(self, "Streams" + suffix, scale.strip(" ·"))

    def _of(self, key: str) -> StreamNumbers:
        return self._numbers.get(key) or StreamNumbers()

    def cell_name(self, key: str, width: int) -> Span:
        if key == TOTAL_ROW:
            return "total", "strong"
        return safe(key, width), "" if self._of(key).used else "muted"

    def cell_path(self, key: str, width: int) -> Span:
        if key == TOTAL_ROW:
            return "", ""
        s = self._streams[key]
        return safe(f"{s.source} → {s.uut_in} {self._inventory.uut} {s.uut_out} → {s.sink}", width), "muted"

    def _number(self, key: str, text: str) -> Span:
        return text, "muted" if text == UNKNOWN else "strong" if key == TOTAL_ROW else ""

    def cell_offered(self, key: str, width: int) -> Span:
        return self._number(key, format_rounded(self._of(key).offered_pps))

    def cell_measured(self, key: str, width: int) -> Span:
        return self._number(key, format_rounded(self._of(key).measured_pps))

    def cell_offered_bps(self, key: str, width: int) -> Span:
        return self._number(key, format_mbit(self._of(key).offered_bps))

    def cell_measured_bps(self, key: str, width: int) -> Span:
        return self._number(key, format_mbit(self._of(key).measured_bps))

    def cell_loss_packets(self, key: str, width: int) -> Span:
        return self._number(key, format_rounded(self._of(key).loss_packets))

    def cell_loss(self, key: str, width: int) -> Span:
        numbers = self._of(key)
        text, tone = self._number(key, format_percent(numbers.loss_ratio))
        if numbers.loss_ratio is None:
            return text, tone
        if not numbers.final:
            return "≈ " + format_percent(numbers.loss_ratio, 2), "muted"
        return (text, tone) if numbers.loss_ratio == 0 else ("! " + text, "warn" if numbers.loss_ratio > 0 else "bad")

    def cell_delay_p50(self, key: str, width: int) -> Span:
        return self._number(key, _micros(self._of(key).delay_p50_ns))

    def cell_delay_p99(self, key: str, width: int) -> Span:
        return self._number(key, _micros(self._of(key).delay_p99_ns))

    def _spark(self, live: StreamLive, series: Iterable[float], width: int) -> str:
        """The newest samples, one a cell. Once the trial is saved, all of it, each cell being the mean of its part."""
        values = list(series)
        if live.final and len(values) > width:
            edges = [len(values) * i // width for i in range(width + 1)]
            values = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
        return sparkline(values[-width:], self._top).rjust(width)

    def cell_offered_spark(self, key: str, width: int) -> Span:
        live = self._telemetry.streams.get(key)
        return (self._spark(live, live.offered_pps, width), "second") if live else ("", "")

    def cell_measured_spark(self, key: str, width: int) -> Span:
        live = self._telemetry.streams.get(key)
        return (self._spark(live, live.measured_pps, width), "accent") if live else ("", "")

    def cell_generator(self, key: str, width: int) -> Span:
        return safe(self._of(key).generator, width), "muted"


# -- repetitions -------------------------------------------------------------------------------------------------------
# The repetitions of the point under way: per stream and in total, mean and 95 % interval, one mark per run.


class RepetitionsTable(LineTable):
    """The repetitions so far, with a new run at a time."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "stream", 7, right=False, grow_to=12),
        Column("n", "n", 4),
        Column("offered", "offered pps", 11, rank=2),
        Column("offered_ci", "±", 8, rank=3),
        Column("measured", "measured pps", 12),
        Column("measured_ci", "±", 8),
        Column("loss", "loss %", 8),
        Column("loss_ci", "±", 7, rank=1),
        Column("p50", "delay p50", 9, rank=5),
        Column("p99", "p99 µs", 9, rank=5),
        Column("runs", "per run", 8, right=False, rank=4, grow_to=40),
    )

    def __init__(self, inventory: Inventory, state: ConsoleState) -> None:
        super().__init__(id="repeated")
        self._inventory, self._state = inventory, state
        self._top = 1.0
        self.border_title = "Repetitions"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the header, the streams that take part, and the totals."""
        return len(self.keys()) + 1

    def keys(self) -> list[str]:
        request = self._state.repetitions.request
        used = self._inventory.streams[: request.sources] if request is not None else ()
        return [*(stream.name for stream in used), TOTAL]

    def prepare(self) -> None:
        reps = self._state.repetitions
        self._top = scale_top(
            v for name, q in reps.quantities.items() if name != TOTAL for v in (*q.offered_pps, *q.measured_pps)
        )
        left_out = f" · {reps.invalid} invalid excluded" if reps.invalid else ""
        set_border_titles(self, f"Repetitions {reps.done} of {reps.planned}{left_out}")
        few = ", needs 3 runs" if reps.done - reps.invalid < 3 else ""
        self.border_subtitle = f"mean ± 95 % interval (Student's t{few})"

    def header_title(self, column: Column, width: int) -> str:
        """Return a column's title. If the clocks are not shown to agree, the delays are their variation (PDV)."""
        one_way = self._state.repetitions.one_way
        return "PDV p50" if column.name == "p50" and not one_way else super().header_title(column, width)

    def _of(self, key: str) -> Quantities:
        return self._state.repetitions.quantities.get(key) or Quantities()

    def cell_name(self, key: str, width: int) -> Span:
        return ("total", "strong") if key == TOTAL else (safe(key, width), "")

    def cell_n(self, key: str, width: int) -> Span:
        summary = self._of(key).measured
        return str(summary.n if summary is not None else 0), "muted"

    def _mean(self, summary: Summary | None) -> Span:
        return (UNKNOWN, "muted") if summary is None else (format_rounded(summary.mean), "strong")

    def _half(self, summary: Summary | None) -> Span:
        half = summary.half_width if summary is not None else None
        # Half a packet per second matters if the mean is a few, so small intervals keep a digit.
        return (UNKNOWN, "muted") if half is None else (f"{half:.1f}" if 0 < half < 10 else format_rounded(half), "")

    def cell_offered(self, key: str, width: int) -> Span:
        return self._mean(self._of(key).offered)

    def cell_offered_ci(self, key: str, width: int) -> Span:
        return self._half(self._of(key).offered)

    def cell_measured(self, key: str, width: int) -> Span:
        return self._mean(self._of(key).measured)

    def cell_measured_ci(self, key: str, width: int) -> Span:
        return self._half(self._of(key).measured)

    def cell_loss(self, key: str, width: int) -> Span:
        summary = self._of(key).loss
        if summary is None:
            return UNKNOWN, "muted"
        return format_percent(summary.mean), "warn" if summary.mean else ""

    def cell_loss_ci(self, key: str, width: int) -> Span:
        summary = self._of(key).loss
        half = summary.half_width if summary is not None else None
        return (UNKNOWN, "muted") if half is None else (format_percent(half), "")

    def _delay(self, key: str, which: int) -> Span:
        delay_ns = self._of(key).delay_ns(one_way=self._state.repetitions.one_way)
        return (UNKNOWN, "muted") if delay_ns is None else (format_decimal(delay_ns[which] / 1e3, 1), "")

    def cell_p50(self, key: str, width: int) -> Span:
        return self._delay(key, 0)

    def cell_p99(self, key: str, width: int) -> Span:
        return self._delay(key, 1)

    def cell_runs(self, key: str, width: int) -> Span:
        if key == TOTAL:
            return "", ""
        return sparkline(self._of(key).measured_pps[-width:], self._top), "accent"
