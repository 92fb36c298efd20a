"""Offered and measured rate of streams over time, the loss in a strip below: one panel, or a grid of them. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from labconsole.text.axis import Axis, Undrawable, check_numbers, check_span, fit_axis, fit_upright, format_ticks
from labconsole.text.cells import safe

# -- dots --------------------------------------------------------------------------------------------------------------
# A picture of dots in braille cells, eight dots a cell: four per cell vertically, two horizontally.

_BITS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a cell's left and right column, from the bottom."""

_SPANS = [[[sum(side[low : high + 1]) for high in range(4)] for low in range(4)] for side in _BITS]
"""Bits of all dots between two dots of a column."""

LOWEST_DOTS = 0x40 | 0x80

DOTS_UP, DOTS_ACROSS = 4, 2


class Dots:
    """A canvas of dots, counted from the lower left. Dots outside are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[0] * columns for _ in range(rows)]

    def set(self, x: int, y: int) -> None:
        """Set one dot."""
        self.bar(x, y, y)

    def bar(self, x: int, low: int, high: int) -> None:
        """Set all dots of a column from ``low`` to ``high``. Those above or below the canvas are drawn at its edge."""
        top = self.rows * DOTS_UP - 1
        low, high = min(max(low, 0), top), min(max(high, 0), top)
        if not 0 <= x < self.columns * DOTS_ACROSS:
            return
        column, spans = x // DOTS_ACROSS, _SPANS[x % DOTS_ACROSS]
        for row in range(low // DOTS_UP, high // DOTS_UP + 1):
            first, last = max(low - row * DOTS_UP, 0), min(high - row * DOTS_UP, DOTS_UP - 1)
            self._cells[row][column] |= spans[first][last]

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Draw a line without gaps, from left to right. Larger rises are joined by vertical strokes."""
        before = y0
        for x in range(x0, x1 + 1):
            y = y1 if x1 == x0 else y0 + round((y1 - y0) * (x - x0) / (x1 - x0))
            self.bar(x, min(before, y), max(before, y))
            before = y

    def row(self, place: int) -> list[int]:
        """The cells of a row as bits. The lowest row is 0."""
        return self._cells[place]


def braille(bits: int) -> str:
    """The braille character with these dots, or a blank if there are none."""
    return chr(0x2800 | bits) if bits else " "


# -- one panel ---------------------------------------------------------------------------------------------------------
# Offered and measured rate of a stream over time at one resolution, with its loss in a strip below.
#
# Measured is a line and offered a row of single dots, so they differ without colour. Where both are equal, only the
# line is left. In the strip the lowest dots mean no loss, anything above means loss, and blank means unknown.

OFFERED_EVERY_DOTS = 4
LEGEND = (("⠒⠒⠒ measured", "measured"), ("⠂ ⠂ offered", "offered"), ("⣿ lost", "loss"))
"""Every glyph of a panel with its label and its kind."""

GAP = 2
"""Cells between two panels."""

LEAST_LOSS_PERCENT = 1.0
"""Minimum top of the strip's scale, so that single packets do not look like a catastrophe."""

MOST_SCALED = 12
"""Maximum number of series that determine the scale of a few: a hundred take a tenth of a second."""

SURPLUS_RATIO = 0.005
"""A surplus above this share of what was sent is not caused by the clocks."""

LEAST_ROWS = 5
"""Rows of a panel: two of rates, two of loss, one of seconds."""

Cells = list[tuple[str, str]]
"""A line in parts, each with its kind: offered, measured, loss, axis or "" for blanks."""


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Two rates over the same seconds, NaN where one is not known.

    ``missing_packets``: packets sent but not yet arrived, before the first interval and after each. If it is empty,
    nothing was counted, and the rates are summed instead. ``lost_packets``: packets that never arrived, once that is
    known.
    """

    seconds: Sequence[float]
    offered_pps: Sequence[float]
    measured_pps: Sequence[float]
    missing_packets: Sequence[float] = ()
    lost_packets: float | None = None


JOINED_BELOW = 0.9
"""An interval shorter than this share of the usual one is joined to the one before it."""

Column = tuple[int, float, float, float]
"""(column of dots, offered, measured, loss in percent): means of the samples in it, NaN where one is not known."""

LOSS_OVER_S = 1.0
"""Window before an instant over which its loss is computed."""


@dataclass(frozen=True, slots=True)
class PanelScale:
    """Common properties of the panels of one picture. ``across``: cells of each, without the labels on the left."""

    rates: Axis
    loss: Axis
    time: Axis
    rate_rows: int
    loss_rows: int
    axis_line: bool
    across: int
    label_cells: int

    @property
    def rows(self) -> int:
        return self.rate_rows + self.loss_rows + 1 + self.axis_line


def draw_panels(
    all_series: Sequence[RateSeries], shown: range, width: int, height: int, *, across: int, span_s: float | None
) -> list[list[Cells]]:
    """Draw the ``shown`` series as panels of ``height`` lines, ``across`` of them in a row.

    They have one scale: that of all series, or, if there are many, of those shown. The first panel of every row has the
    labels. ``span_s`` fixes the time axis to a trial's length. If a series has a value that no axis can show, every
    panel becomes a sentence that names it.
    """
    try:
        check_series(all_series)
    except Undrawable as exc:
        sentence = safe(f"not drawn: {exc}", max(1, width // across - GAP))
        return [[[(sentence, "axis")], *([("", "")] for _ in range(height - 1))] for _ in shown]
    if len(all_series) > MOST_SCALED:
        all_series, shown = [all_series[i] for i in shown], range(len(shown))
    all_series = [join_short_intervals(series) for series in all_series]
    axis_line = height >= 9
    loss_rows = max(2, min(5, height // 5))
    rate_rows = height - loss_rows - 1 - axis_line
    top = _largest(value for s in all_series for values in (s.offered_pps, s.measured_pps) for value in values)
    rates = fit_upright(0.0, top or 1.0, rate_rows)
    label_cells = max(6, *map(len, format_ticks(rates)))  # 6: "0.50 %"
    cells = (width - label_cells - 1 - GAP * (across - 1)) // across
    first = min((s.seconds[0] for s in all_series if s.seconds), default=0.0)
    last = max((s.seconds[-1] for s in all_series if s.seconds), default=1.0)
    left = 0.0 if span_s is not None or first < last / 10 else first
    time = fit_axis(left, max(last, left + 1.0, span_s or 0.0), cells, least_cells=7, best_cells=12)
    columns = [_columns(series, time, cells) for series in all_series]
    worst = _largest(column[3] for each in columns for column in each)
    loss = fit_upright(0.0, max(LEAST_LOSS_PERCENT, worst), loss_rows)
    scale = PanelScale(rates, loss, time, rate_rows, loss_rows, axis_line, cells, label_cells)
    return [_panel(columns[i], scale, labels=place % across == 0) for place, i in enumerate(shown)]


def check_series(all_series: Sequence[RateSeries]) -> None:
    """Raises Undrawable naming the first value that no chart can show. NaN means a rate or count is not known."""
    for number, series in enumerate(all_series, 1):
        if len({len(series.seconds), len(series.offered_pps), len(series.measured_pps)}) > 1:
            raise Undrawable(f"series {number} has other numbers of seconds and rates; allowed: as many of each")
        check_numbers(series.seconds, f"series {number}: second")
        for what, values in (
            ("offered rate", series.offered_pps),
            ("measured rate", series.measured_pps),
            ("missing packets", series.missing_packets),
        ):
            known = [value for value in values if value == value]  # NaN is no value
            check_numbers(known, f"series {number}: {what}")
            check_span(known, what)


def _largest(values: Iterable[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=0.0)


def join_short_intervals(series: RateSeries) -> RateSeries:
    """Join every interval that is much too short to the one before it.

    If a node could not run between reading a counter and reading its clock, one interval is too long and the next too
    short by the same amount. Packets and seconds of both together are right.
    """
    seconds = series.seconds
    if len(seconds) < 4:
        return series
    parts_s = [now - before for before, now in itertools.pairwise(seconds)]
    short_s = statistics.median(parts_s) * JOINED_BELOW
    missing = series.missing_packets[1:] or [math.nan] * len(seconds)
    samples = zip(seconds, series.offered_pps, series.measured_pps, missing, [parts_s[0], *parts_s], strict=True)
    rows = [next(samples)]
    for sample in samples:
        second, offered, measured, gone, part_s = sample
        if part_s >= short_s or not (part_s or rows[-1][4]):  # several at one instant: nothing to join
            rows.append(sample)
            continue
        _, offered0, measured0, _, before_s = rows.pop()
        both_s = before_s + part_s
        rows.append(
            (
                second,
                (offered0 * before_s + offered * part_s) / both_s,
                (measured0 * before_s + measured * part_s) / both_s,
                gone,
                both_s,
            )
        )
    at, offered_pps, measured_pps, missing_packets, _ = zip(*rows, strict=True)
    return RateSeries(
        at,
        offered_pps,
        measured_pps,
        (series.missing_packets[0], *missing_packets) if series.missing_packets else (),
        series.lost_packets,
    )


def _losses(series: RateSeries) -> list[float]:
    """Return the loss of each sample, in percent of what was offered in the ``LOSS_OVER_S`` up to it.

    A packet that arrives later was not lost: what is missing at an instant counts only to the extent that it is also
    missing at every later one. So packets on their way, in a queue, or read a few milliseconds late are no loss, and a
    series ends with its total loss. If more arrived than was sent, other packets are among them, and the loss is
    unknown. Where sending begins or ends, the instants of the readings alone would decide: NaN.
    """
    sending = max(_largest(series.offered_pps) / 2, 1e-9)
    before = 2 * series.seconds[0] - series.seconds[1] if len(series.seconds) > 1 else -1.0
    parts, added = [], [0.0]
    for second, o, m in zip(series.seconds, series.offered_pps, series.measured_pps, strict=False):
        part_s, before = second - before, second
        known = math.isfinite(o) and math.isfinite(m)
        parts.append((part_s, o * part_s if known else math.nan, o >= sending))
        added.append(added[-1] + ((o - m) * part_s if known else 0.0))
    counted = [gone if math.isfinite(gone) else math.inf for gone in series.missing_packets]
    missing = counted or added
    at_last = next((gone for gone in reversed(missing) if math.isfinite(gone)), None)
    if at_last is None or at_last < -SURPLUS_RATIO * sum(sent for _, sent, _ in parts if math.isfinite(sent)):
        return [math.nan] * len(parts)
    if series.lost_packets is not None:
        missing[-1] = min(missing[-1], series.lost_packets)
    # If the source was read a little late, its count is behind the sink's: nothing was lost by then, not less.
    lost = [max(0.0, gone) for gone in itertools.accumulate(reversed(missing), min)][::-1]
    window: deque[tuple[float, float, float]] = deque()
    took = offered = gone = 0.0
    losses = []
    for (part_s, sent, sends), lost_before, lost_now in zip(parts, lost, lost[1:], strict=False):
        if not (sends and math.isfinite(sent)):
            losses.append(math.nan)
            continue
        window.append((part_s, sent, lost_now - lost_before))
        took, offered, gone = took + part_s, offered + sent, gone + lost_now - lost_before
        while took - window[0][0] >= LOSS_OVER_S * 0.999:
            left = window.popleft()
            took, offered, gone = took - left[0], offered - left[1], gone - left[2]
        losses.append(gone / offered * 100 if took >= LOSS_OVER_S / 2 else math.nan)
    return losses


def _columns(series: RateSeries, time: Axis, cells: int) -> list[Column]:
    found: dict[int, list[tuple[float, float, float]]] = {}
    samples = zip(series.offered_pps, series.measured_pps, _losses(series), strict=False)
    for second, sample in zip(series.seconds, samples, strict=False):
        found.setdefault(time.dot(second, DOTS_ACROSS), []).append(sample)
    columns = []
    for x, rows in sorted(found.items()):
        if 0 <= x < cells * DOTS_ACROSS:
            offered, measured, _ = (sum(values) / len(rows) for values in zip(*rows, strict=True))
            columns.append((x, offered, measured, rows[-1][2]))
    return columns


def _panel(columns: list[Column], scale: PanelScale, *, labels: bool) -> list[Cells]:
    """Return exactly ``scale.rows`` lines. Those without labels are narrower by the labels."""
    measured, offered = Dots(scale.across, scale.rate_rows), Dots(scale.across, scale.rate_rows)
    lost = Dots(scale.across, scale.loss_rows)

    def up(rate: float) -> int:
        return scale.rates.dot(rate, DOTS_UP)

    for before, now in itertools.pairwise([*columns[:1], *columns]):
        (x0, offered0, measured0, _), (x, offered1, measured1, loss) = before, now
        if math.isfinite(measured0) and math.isfinite(measured1):
            measured.line(x0, up(measured0), x, up(measured1))
        if math.isfinite(offered0) and math.isfinite(offered1):
            for each in range(x0, x + 1):
                if each % OFFERED_EVERY_DOTS == 0:
                    share = (each - x0) / (x - x0) if x > x0 else 1.0
                    offered.set(each, up(offered0 + (offered1 - offered0) * share))
        if math.isfinite(loss):
            high = max(1, scale.loss.dot(loss, DOTS_UP)) if loss > 0 else 0
            for each in range(min(x0 + 1, x), x + 1):
                lost.bar(each, 0, high)
    rows = [_rates_row(measured.row(i), offered.row(i)) for i in reversed(range(scale.rate_rows))]
    rows += [_loss_row(lost.row(i), lowest=i == 0) for i in reversed(range(scale.loss_rows))]
    if labels:
        texts = _labels(scale.rates, scale.rate_rows, "") + _labels(scale.loss, scale.loss_rows, " %")
        rows = [
            [(word.rjust(scale.label_cells) + ("┤" if word else "│"), "axis"), *row]
            for word, row in zip(texts, rows, strict=True)
        ]
    return rows + _time_rows(scale, labels=labels)


def _labels(axis: Axis, rows: int, unit: str) -> list[str]:
    """Return the label of each row from the top, "" for rows without one."""
    by_row = dict(zip((cell for cell, _ in axis.ticks()), format_ticks(axis, unit), strict=True))
    return [by_row.get(row, "") for row in reversed(range(rows))]


def _rates_row(measured: list[int], offered: list[int]) -> Cells:
    if not any(measured) and not any(offered):  # most rows
        return [(" " * len(measured), "")]
    cells = [
        (braille(line | dots), "measured" if line else "offered" if dots else "")
        for line, dots in zip(measured, offered, strict=True)
    ]
    return [("".join(c for c, _ in group), kind) for kind, group in itertools.groupby(cells, key=lambda cell: cell[1])]


def _loss_row(bits: list[int], *, lowest: bool) -> Cells:
    cells = [(braille(each), "axis" if lowest and not each & ~LOWEST_DOTS else "loss") for each in bits]
    return [("".join(c for c, _ in group), kind) for kind, group in itertools.groupby(cells, key=lambda cell: cell[1])]


def _time_rows(scale: PanelScale, *, labels: bool) -> list[Cells]:
    """Return a line with ticks if there is room for it, and the seconds below."""
    places = [cell for cell, _ in scale.time.ticks()]
    texts = format_ticks(scale.time)
    texts[-1] += " s"
    across = scale.across
    line, under = ["─"] * across, [" "] * across
    taken = -1
    for place, word in zip(places, texts, strict=True):
        line[place] = "┬"
        at = min(max(place - len(word) // 2, 0), across - len(word))
        if at > taken or place == places[-1]:
            under[at : at + len(word)] = word
            taken = at + len(word)
    margin = " " * scale.label_cells
    rows: list[Cells] = []
    if scale.axis_line:
        rows.append([((margin + "└" if labels else "") + "".join(line), "axis")])
    rows.append([((margin + " " if labels else "") + "".join(under), "axis")])
    return rows


# -- panels in a grid --------------------------------------------------------------------------------------------------
# Panels of several streams on one scale, in a grid of as many as fit.

LEAST_ACROSS = 15
"""Minimum width of a readable panel, in cells."""

LABEL_CELLS = 8

GOOD_ROWS = 7
"""A title, three rows of rates, two of loss, one of seconds. Panels are lower only if no panel would fit otherwise."""

NamedSeries = tuple[str, RateSeries]


def fit_grid(width: int, height: int, count: int) -> tuple[int, int]:
    """Return (panels in a row, rows of panels) for as many of ``count`` as fit, each with a title above it."""
    most_across = max(1, (width - LABEL_CELLS + GAP) // (LEAST_ACROSS + GAP))
    most_rows = max(1, height // GOOD_ROWS)
    rows = min(most_rows, max(1, -(-count // most_across)))
    return min(most_across, -(-count // rows)), rows


def draw_grid(
    streams: Sequence[NamedSeries], chosen: int, width: int, height: int, *, span_s: float | None
) -> tuple[list[Cells], int]:
    """Draw at most ``height`` lines. Returns also how many streams did not fit.

    Shows the page that contains the ``chosen`` stream, which is marked ▸.
    """
    across, rows = fit_grid(width, height, len(streams))
    page = across * rows
    begin = chosen // page * page
    shown = range(begin, min(begin + page, len(streams)))
    each = height // rows
    panels = draw_panels([series for _, series in streams], shown, width, each - 1, across=across, span_s=span_s)
    lines: list[Cells] = []
    for first in range(0, len(shown), across):
        row_panels = panels[first : first + across]
        titles = [("▸ " if number == chosen else "  ") + streams[number][0] for number in shown[first : first + across]]
        lines.append(_titles(titles, [sum(cell_len(text) for text, _ in panel[0]) for panel in row_panels]))
        lines += [_join_columns(parts) for parts in zip(*row_panels, strict=True)]
    return lines, len(streams) - len(shown)


def _titles(titles: Sequence[str], widths: Sequence[int]) -> Cells:
    """Return a title above the plot of each panel. The first panel has the labels on its left."""
    labels = widths[0] - widths[-1]
    rooms = [widths[0] - labels, *widths[1:]]
    texts = [safe(title, room) for title, room in zip(titles, rooms, strict=True)]
    padded = [word + " " * (room - cell_len(word)) for word, room in zip(texts, rooms, strict=True)]
    return [(" " * labels + (" " * GAP).join(padded), "title")]


def _join_columns(parts: Sequence[Cells]) -> Cells:
    line: Cells = []
    for place, part in enumerate(parts):
        if place:
            line.append((" " * GAP, ""))
        line += part
    return line
