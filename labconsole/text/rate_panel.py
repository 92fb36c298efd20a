"""Rates over time in dots, drawn by plotext: of streams, with the loss in a strip below, and of one interface."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import set_cell_size

from labconsole.text.axis import Axis, Undrawable, check_numbers, check_span, fit_axis, fit_upright, format_ticks
from labconsole.text.cells import LEVELS, safe
from labconsole.text.charts import build_rows, clear_figure, numbered_marker

# -- strokes -----------------------------------------------------------------------------------------------------------
# What plotext draws, in dots of braille cells: four per cell vertically, two horizontally.

DOTS_UP, DOTS_ACROSS = 4, 2


class Strokes:
    """Dots counted from the lower left, some joined by a line to the one before.

    plotext spends 8 µs on each point, whatever is drawn, so a level line is two points, however long it is.
    """

    def __init__(self) -> None:
        self._xs: list[int] = []
        self._ys: list[int] = []
        self._joined: list[bool] = []

    def add(self, x: int, y: int, *, joined: bool = False) -> None:
        """Add a dot, or move the end of a level line to it."""
        if joined and self._joined[-1] and self._ys[-2:] == [y, y]:
            self._xs[-1] = x
            return
        self._xs.append(x)
        self._ys.append(y)
        self._joined.append(joined)

    @property
    def begun(self) -> bool:
        """Whether there is a dot."""
        return bool(self._xs)

    def draw(self, figure: Any, number: int) -> None:
        """Draw on a figure whose axes count dots."""
        if not self._xs:
            return
        xs, ys = [x + 0.5 for x in self._xs], [y + 0.5 for y in self._ys]
        signal = figure.signal(xs, ys, marker=numbered_marker("braille", number))
        for place, joined in enumerate(self._joined):
            if joined:
                signal.line(place)
        figure.draw(signal.density("full"))


# -- one panel ---------------------------------------------------------------------------------------------------------
# Offered and measured rate of a stream over time at one resolution, with its loss in a strip below.
#
# Measured is a line and offered a row of single dots, so they differ without colour. Where both are equal, only the
# line is left. In the strip the lowest bar means no loss, anything above means loss, and blank means unknown.

OFFERED_EVERY = 2
"""Distance of the dots of offered rates, in cells."""

BARS, BARS_UP = " " + LEVELS, len(LEVELS)
LEGEND = (("⠒⠒⠒ measured", "measured"), ("⠂ ⠂ offered", "offered"), ("▆ lost", "loss"))
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

KINDS = ("axis", "offered", "measured", "loss", "sent", "received")
"""What is drawn, in the order in which it is: where two share a cell of dots, the later one has its colour."""

Cells = list[tuple[str, str]]
"""A line in parts, each with its kind: one of KINDS, title, or "" for blanks."""


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
"""(cell, offered, measured, loss in percent): means of the samples in it, NaN where one is not known."""

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
    def upright(self) -> int:
        """Rows of the vertical axis."""
        return self.rate_rows + self.loss_rows

    @property
    def rows(self) -> int:
        """All rows, with those of the seconds."""
        return self.upright + 1 + self.axis_line


def draw_panels(
    all_series: Sequence[RateSeries],
    shown: range,
    width: int,
    height: int,
    *,
    across: int = 1,
    span_s: float | None = None,
    titles: Sequence[str] = (),
) -> list[list[Cells]]:
    """Draw the ``shown`` series as panels, ``across`` of them in a row of ``height`` lines. Returns these rows.

    They have one scale: that of all series, or, if there are many, of those shown. The first panel of every row has the
    labels. ``span_s`` fixes the time axis to a trial's length. ``titles``: of the panels shown, in a line above. If a
    series has a value that no axis can show, every row becomes a sentence that names it.
    """
    begins = range(0, len(shown), across)
    try:
        check_series(all_series)
    except Undrawable as exc:
        sentence = safe(f"not drawn: {exc}", max(1, width - GAP))
        return [[[(sentence, "axis")], *([("", "")] for _ in range(height - 1))] for _ in begins]
    if len(all_series) > MOST_SCALED:
        all_series, shown = [all_series[i] for i in shown], range(len(shown))
    all_series = [join_short_intervals(series) for series in all_series]
    axis_line = height - bool(titles) >= 9
    rows = height - bool(titles) - 1 - axis_line
    loss_rows = max(2, min(5, (height - bool(titles)) // 5))
    top = _largest(value for s in all_series for values in (s.offered_pps, s.measured_pps) for value in values)
    rates = fit_upright(0.0, top or 1.0, rows - loss_rows)
    label_cells = max(6, *map(len, format_ticks(rates)))  # 6: "0.50 %"
    cells = (width - label_cells - 1 - GAP * (across - 1)) // across
    first = min((s.seconds[0] for s in all_series if s.seconds), default=0.0)
    last = max((s.seconds[-1] for s in all_series if s.seconds), default=1.0)
    left = 0.0 if span_s is not None or first < last / 10 else first
    time = fit_axis(left, max(last, left + 1.0, span_s or 0.0), cells, least_cells=7, best_cells=12)
    columns = [_columns(series, time, cells) for series in all_series]
    worst = _largest(column[3] for each in columns for column in each)
    loss = fit_upright(0.0, max(LEAST_LOSS_PERCENT, worst), loss_rows)
    scale = PanelScale(rates, loss, time, rows - loss_rows, loss_rows, axis_line, cells, label_cells)
    drawn = [_draw_row([columns[i] for i in shown[begin : begin + across]], scale) for begin in begins]
    if titles:
        drawn = [
            [_title_row(titles[begin : begin + across], scale), *lines]
            for begin, lines in zip(begins, drawn, strict=True)
        ]
    return drawn


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
        found.setdefault(time.dot(second, 1), []).append(sample)
    columns = []
    for x, rows in sorted(found.items()):
        if 0 <= x < cells:
            offered, measured, _ = (sum(values) / len(rows) for values in zip(*rows, strict=True))
            columns.append((x, offered, measured, rows[-1][2]))
    return columns


def _draw_row(panels: Sequence[list[Column]], scale: PanelScale) -> list[Cells]:
    """Draw panels side by side in exactly ``scale.rows`` lines: one figure, whose axes count dots."""
    step = scale.across + GAP
    cells = step * len(panels) - GAP
    figure = clear_figure(scale.label_cells + 1 + cells, scale.rows)
    offered, measured = Strokes(), Strokes()
    for place, columns in enumerate(panels):
        _add_rates(offered, measured, columns, scale, place * step)
        _draw_losses(figure, columns, scale, place * step)
    offered.draw(figure, KINDS.index("offered"))
    measured.draw(figure, KINDS.index("measured"))
    figure.axes(scale.axis_line, axis=0, side=0)
    _label_upright(
        figure, [(scale.loss, 0, " %"), (scale.rates, scale.loss_rows, "")], scale.label_cells, scale.upright
    )
    _label_times(figure, scale, [place * step for place in range(len(panels))], cells)
    return _build(figure)


def _add_rates(offered: Strokes, measured: Strokes, columns: list[Column], scale: PanelScale, left: int) -> None:
    """Add the line of the measured rates, and offered rates as single dots at and between the samples."""

    def up(rate: float) -> int | None:
        dot = scale.rates.dot(rate, DOTS_UP) if math.isfinite(rate) else -1
        return scale.loss_rows * DOTS_UP + dot if 0 <= dot < scale.rate_rows * DOTS_UP else None

    known = False
    for (before, offered0, *_), (cell, offered1, measured1, _) in itertools.pairwise([*columns[:1], *columns]):
        height = up(measured1)
        if height is not None:
            measured.add((left + cell) * DOTS_ACROSS, height, joined=known)
        known = height is not None
        begin = min(before + 1, cell)
        for each in range(begin + begin % OFFERED_EVERY, cell + 1, OFFERED_EVERY):
            share = (each - before) / max(1, cell - before)
            height = up(offered1 if each == cell else offered0 + (offered1 - offered0) * share)
            if height is not None:
                offered.add((left + each) * DOTS_ACROSS, height)


def _draw_losses(figure: Any, columns: list[Column], scale: PanelScale, left: int) -> None:
    """Draw bars of the loss of each interval from its begin to its end. Any loss is higher than none."""
    heights = [0] * scale.across
    for (before, *_), (cell, _, _, loss) in itertools.pairwise([*columns[:1], *columns]):
        if math.isfinite(loss):
            height = max(2, 1 + scale.loss.dot(loss, BARS_UP)) if loss > 0 else 1
            heights[min(before + 1, cell) : cell + 1] = [height] * (cell + 1 - min(before + 1, cell))
    for row in range(scale.loss_rows):
        bars = [BARS[min(max(height - row * BARS_UP, 0), BARS_UP)] for height in heights]
        kinds = [
            "" if bar == " " else "axis" if height == 1 else "loss" for bar, height in zip(bars, heights, strict=True)
        ]
        for kind, group in itertools.groupby(range(scale.across), key=kinds.__getitem__):
            if kind:
                cells = list(group)
                word = numbered_marker("".join(bars[cells[0] : cells[-1] + 1]), KINDS.index(kind))
                figure.draw(figure.signal([(left + cells[0]) * DOTS_ACROSS + 1], [row * DOTS_UP + 2], marker=word))


def _label_upright(figure: Any, parts: Sequence[tuple[Axis, int, str]], label_cells: int, rows: int) -> None:
    """Label the vertical axis: each part with its first row, counted from below, and its unit."""
    places = [(begin + cell) * DOTS_UP + 2 for axis, begin, _ in parts for cell, _ in axis.ticks()]
    words = [word.rjust(label_cells) for axis, _, unit in parts for word in format_ticks(axis, unit)]
    figure.ruler("y").lim(0, rows * DOTS_UP).alignment(lim="edge")
    figure.ruler("y").ticks(places, words)


def _label_times(figure: Any, scale: PanelScale, begins: Sequence[int], cells: int) -> None:
    """Label the seconds of each panel."""
    words = format_ticks(scale.time)
    words[-1] += " s"
    places = [(begin + cell) * DOTS_ACROSS + 1 for begin in begins for cell, _ in scale.time.ticks()]
    figure.ruler("x").lim(0, cells * DOTS_ACROSS).alignment(lim="edge")
    figure.ruler("x").ticks(places, words * len(begins))


def _build(figure: Any) -> list[Cells]:
    """Return a figure's lines, without a frame above and on the right."""
    figure.axes(False, axis=0, side=1)
    figure.axes(False, axis=1, side=1)
    return [[(text, "axis" if number is None else KINDS[number]) for text, number in row] for row in build_rows(figure)]


# -- interface ---------------------------------------------------------------------------------------------------------
# The newest packet rates of one interface: its sparklines, on an axis of their own and as wide as there is room.

HISTORY_LEGEND = (("⠒⠒⠒ received", "received"), ("⠂⠂⠂ sent", "sent"))


def draw_history(received_pps: Sequence[float], sent_pps: Sequence[float], width: int, height: int) -> list[Cells]:
    """Draw the newest samples in exactly ``height`` lines, one sample a cell, the newest at the right end."""
    try:
        for what, values in (("received rate", received_pps), ("sent rate", sent_pps)):
            check_numbers(values, what)
            check_span(values, what)
    except Undrawable as exc:
        return [[(safe(f"not drawn: {exc}", width), "axis")], *([("", "")] for _ in range(height - 1))]
    rows = height - 1
    rates = fit_upright(0.0, max([*received_pps, *sent_pps], default=0.0) or 1.0, rows)
    label_cells = max(map(len, format_ticks(rates)))
    cells = width - label_cells - 1
    figure = clear_figure(width, height)
    for kind, joined, values in (("sent", False, sent_pps), ("received", True, received_pps)):
        strokes, newest = Strokes(), values[-cells:]
        for place, rate in enumerate(newest, cells - len(newest)):
            strokes.add(place * DOTS_ACROSS, rates.dot(rate, DOTS_UP), joined=joined and strokes.begun)
        strokes.draw(figure, KINDS.index(kind))
    _label_upright(figure, [(rates, 0, "")], label_cells, rows)
    figure.ruler("x").lim(0, cells * DOTS_ACROSS).alignment(lim="edge")
    figure.ruler("x").frequency(0)
    return _build(figure)


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
    titles = [("▸ " if number == chosen else "  ") + streams[number][0] for number in shown]
    series = [each for _, each in streams]
    pictures = draw_panels(series, shown, width, height // rows, across=across, span_s=span_s, titles=titles)
    return [line for picture in pictures for line in picture], len(streams) - len(shown)


def _title_row(titles: Sequence[str], scale: PanelScale) -> Cells:
    """Return a title above the plot of each panel. The first panel has the labels on its left."""
    padded = [set_cell_size(safe(title, scale.across), scale.across) for title in titles]
    return [(" " * (scale.label_cells + 1) + (" " * GAP).join(padded), "title")]
