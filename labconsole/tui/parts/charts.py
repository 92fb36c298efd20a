"""Charts of the console: a figure's panel, guests over time, rates and loss over time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.strip import Strip

from labconsole.contracts.picture import OverTime, StepPicture
from labconsole.contracts.report import Figure
from labconsole.engine.live.telemetry import InterfaceLive, StreamLive, Telemetry
from labconsole.report.panels import (
    build_legend_names,
    collect_labels,
    describe_marks,
    draw_panel,
    format_panel_heading,
    glyph,
)
from labconsole.text import rate_panel
from labconsole.text.cells import safe
from labconsole.text.charts import CurveAxes, CurvePointMark, draw_curves, marker
from labconsole.text.rate_panel import draw_grid
from labconsole.tui.console import clock
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Span, Tones, set_border_titles
from labconsole.tui.parts.node_text import processors_line

# -- figure chart ------------------------------------------------------------------------------------------------------
# A panel of a report's figure with its legend: the same picture that `labconsole report` draws in a terminal.

TONES = ("accent", "warn", "good", "second", "bad", "strong")
"""Tones of the first curves, repeated for later ones, which differ by their glyphs."""

LABEL_CELLS = 28
"""Width of a name in a legend that would otherwise be too long."""

LEAST_ROWS = 8
"""Minimum rows of the picture itself. A legend that would leave less is cut, and shows by how much."""


def curve_tone(index: int) -> str:
    """The tone of a curve."""
    return TONES[index % len(TONES)]


class FigureChart(Tones):
    """``show`` takes a figure and the index of a panel, or a sentence why there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: tuple[Figure, int] | None = None
        self._sentence = ""
        self._rows: list[list[Span]] = []

    def show(self, shown: tuple[Figure, int] | None, sentence: str = "") -> None:
        """Draw a panel or a sentence."""
        self._shown, self._sentence = shown, sentence
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or not height:
            return
        if self._shown is None:
            self._rows = [[], [(f"  {safe(self._sentence, width - 2)}", "muted")]]
        else:
            figure, place = self._shown
            panel, labels = figure.panels[place], collect_labels(figure)
            heading = [(safe(f"  {format_panel_heading(figure, panel)}", width), "")]
            drawn = [place for place, label in enumerate(labels) if any(c.label == label for c in panel.curves)]
            rows = [heading, *_legend(figure, labels, drawn, width, max(1, height - 1 - LEAST_ROWS))]
            for row in draw_panel(figure, panel, labels, width, height - len(rows)):
                rows.append([(text, "muted" if number is None else curve_tone(number)) for text, number in row])
            self._rows = rows
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)


def _legend(figure: Figure, labels: list[str], drawn: list[int], width: int, most_rows: int) -> list[list[Span]]:
    """Build the legend: glyph and name of every drawn curve, in as few lines as possible.

    Names are in full if that leaves room for the picture, and otherwise shortened. Curves without room are counted.
    """
    own = [labels[number] for number in drawn]
    for names in (own, build_legend_names(own, LABEL_CELLS)):
        named = [
            (each, f"{glyph(figure, each)} {safe(name, width - 4)}") for each, name in zip(drawn, names, strict=True)
        ]
        rows, left_out = _legend_rows(named, width, most_rows)
        if not left_out:
            break
    others = describe_marks(figure)
    if others and not left_out and sum(len(text) for text, _ in rows[-1]) + len(others) <= width:
        rows[-1].append((others, "muted"))
    return rows


def _legend_rows(named: list[tuple[int, str]], width: int, most_rows: int) -> tuple[list[list[Span]], int]:
    """Return the lines, and how many curves are not named in them."""
    rows: list[list[Span]] = [[("  ", "")]]
    used = 2
    for place, (number, text) in enumerate(named):
        if used + len(text) + 3 > width and used > 2:
            if len(rows) == most_rows:
                rows[-1][-1] = (f" … {len(named) - place} more", "muted")
                return rows, len(named) - place
            rows.append([("  ", "")])
            used = 2
        rows[-1] += [(text, curve_tone(number)), ("   ", "")]
        used += len(text) + 3
    return rows, 0


# -- over time chart ---------------------------------------------------------------------------------------------------
# Guests over time, a curve each on one scale, during their work and afterwards. Drawn a few times a second.

MIN_INTERVAL_S = 0.25
LEAST_GUEST_CELLS, LEAST_GUEST_ROWS = 24, 7
NAME_CELLS, GUEST_LABEL_CELLS = 12, 40


class OverTimeChart(Tones):
    """``show`` takes a step's picture. Nothing is drawn if it has no time series."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: OverTime | None = None
        self._drawn: tuple[object, ...] = ()
        self._drawn_at_s = 0.0
        self._rows: list[list[Span]] = []

    def show(self, picture: StepPicture | None) -> None:
        """Draw again if something is new and the last drawing is old enough."""
        self._shown = picture.over_time if picture is not None else None
        self.paint()

    def paint(self) -> None:
        """Draw the current picture."""
        width, height = self.size
        if not self.is_mounted or not self.display or width < LEAST_GUEST_CELLS or height < LEAST_GUEST_ROWS:
            return
        wanted = (self._shown, width, height)
        now_s = clock.monotonic_s()
        resized = self._drawn[1:] != wanted[1:]
        if self._drawn and self._drawn[0] is self._shown and not resized:
            return
        if not resized and now_s - self._drawn_at_s < MIN_INTERVAL_S:
            return
        self._drawn, self._drawn_at_s = wanted, now_s
        shown = self._shown
        if shown is None or not any(curve.seconds for curve in shown.curves):
            set_border_titles(self, shown.title if shown is not None else "Over time")
            self._rows = [[], [("  nothing measured yet", "muted")]]
        else:
            set_border_titles(
                self, f"{shown.title}: {shown.unit}, over s"
            )  # a small terminal has no lower border for it
            self._rows = _rows(shown, width, height)
        self.refresh()

    def on_resize(self) -> None:
        self.paint()

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)


def _rows(shown: OverTime, width: int, height: int) -> list[list[Span]]:
    heading = _guests_legend(shown, width)
    curves = [
        [CurvePointMark(second, value) for second, value in zip(curve.seconds, curve.values, strict=True)]
        for curve in shown.curves
    ]
    axes = CurveAxes(
        x_words=lambda second: f"{second:g} s",
        y_words=lambda value: f"{value:g}",
        moments=[(second, safe(what, GUEST_LABEL_CELLS)) for second, what in shown.moments],
        levels=[value for value, _ in shown.levels],
    )
    rows = draw_curves(curves, axes, width, height - 1)
    return [heading, *([(text, "muted" if n is None else curve_tone(n)) for text, n in row] for row in rows)]


def _guests_legend(shown: OverTime, width: int) -> list[Span]:
    """Each curve's glyph and name, then horizontal lines and moments. Entries without room are counted."""
    spans: list[Span] = []
    entries = [
        (f"{marker(place)} {safe(curve.name, NAME_CELLS)}", curve_tone(place))
        for place, curve in enumerate(shown.curves)
    ]
    entries += [(f"┄ {safe(what, GUEST_LABEL_CELLS)}", "muted") for _, what in shown.levels]
    entries += [(f"at {second:g} s {safe(what, GUEST_LABEL_CELLS)}", "muted") for second, what in shown.moments]
    room = width - 2
    for place, (text, tone) in enumerate(entries):
        left = len(entries) - place
        more = f"  + {left} more"
        if len(text) + 2 > room - (len(more) if left > 1 else 0):
            spans.append((more[: max(0, room)], "muted"))
            break
        spans += [("  ", ""), (text, tone)]
        room -= len(text) + 2
    return spans


# -- rate chart --------------------------------------------------------------------------------------------------------
# Offered and measured rate and the loss over time, live: of the chosen stream, of all of them on one scale, or the
# newest rates of the chosen interface.
#
# Drawn at most four times a second: axes are unreadable at a faster pace.

LEAST_CELLS = 24

RATE_TONES = {
    "offered": "warn",
    "measured": "accent",
    "loss": "bad",
    "sent": "second",
    "received": "accent",
    "axis": "muted",
    "title": "strong",
    "": "",
}


def tinted(line: rate_panel.Cells) -> list[Span]:
    """Turn the kinds in a line of a panel into tones."""
    return [(text, RATE_TONES[kind]) for text, kind in line]


def legend(entries: Iterable[tuple[str, str]] = rate_panel.LEGEND) -> str:
    """Every glyph of a chart with its label."""
    return "  ".join(label for label, _ in entries)


def _series(live: StreamLive) -> rate_panel.RateSeries:
    rates = tuple(live.seconds), tuple(live.offered_pps), tuple(live.measured_pps)
    return rate_panel.RateSeries(*rates, tuple(live.missing_packets), live.loss_packets if live.final else None)


class RateChart(Tones):
    """Follows ``stream``, or with ``every`` all streams, or ``interface`` if that is set.

    ``paint`` redraws when there is something new.
    """

    def __init__(self, telemetry: Telemetry, state: ConsoleState, uut: str) -> None:
        super().__init__(id="chart")
        self._telemetry, self._state, self._uut = telemetry, state, uut
        self.stream = ""
        self.every = False
        self.interface: InterfaceLive | None = None
        self._rows: list[list[Span]] = []
        self._drawn: tuple[Any, ...] = ()
        self._drawn_at_s = 0.0

    def paint(self) -> None:
        """Redraw if what is followed, the size or the data changed and the last drawing is old enough."""
        width, height = self.size
        if not self.display or width < LEAST_CELLS or height < rate_panel.LEAST_ROWS + self.every:
            return
        if self.interface is not None:
            self._paint_interface(self.interface, width, height)
        else:
            self._paint_streams(width, height)

    def _is_due(self, wanted: tuple[Any, ...]) -> bool:
        """Whether to draw this now: the first four of ``wanted`` are the picture, the others its data."""
        now_s = clock.monotonic_s()
        same_picture = self._drawn[:4] == wanted[:4]
        if wanted == self._drawn or (same_picture and now_s - self._drawn_at_s < MIN_INTERVAL_S):
            return False
        self._drawn, self._drawn_at_s = wanted, now_s
        return True

    def _paint_interface(self, live: InterfaceLive, width: int, height: int) -> None:
        name = f"{live.node}/{live.label}"
        if not self._is_due((name, "interface", width, height, live.last)):
            return
        lines = rate_panel.draw_history(tuple(live.rx_pps), tuple(live.tx_pps), width, height)
        self._rows = [tinted(line) for line in lines]
        title = f"Interface {safe(name, 40)}: {legend(rate_panel.HISTORY_LEGEND)}"
        set_border_titles(self, title, "packets/s, a sample in each column, the newest on the right")
        self.refresh()

    def _paint_streams(self, width: int, height: int) -> None:
        shown = [s for s in self._telemetry.streams.values() if self.every or s.name == self.stream]
        samples = tuple((len(live.seconds), live.seconds[-1]) for live in shown if live.seconds)
        nodes = self._find_end_nodes(shown)
        wanted = (self.stream, self.every, width, height, samples, processors_line(self._telemetry, nodes, width))
        if not self._is_due(wanted):
            return
        name = "All streams" if self.every else f"Stream {safe(self.stream, 20)} over time"
        if samples:
            has_labels = height > rate_panel.LEAST_ROWS + self.every + 2
            more = self._draw(shown, width, height - has_labels, max(last for _, last in samples))
            self._rows += [wanted[-1]] if has_labels else []
            title = f"{name}{f', + {more} more' if more else ''}: {legend()}"
            set_border_titles(self, title, "packets/s, % of the last second, over s")
        else:
            sentence = "nothing sent in any stream yet" if self.every else "nothing sent in this stream yet"
            self._rows = [[("", "")], [(f"  {sentence}", "muted")]]
            set_border_titles(self, name, "")
        self.refresh()

    def _find_end_nodes(self, shown: list[StreamLive]) -> list[str]:
        """The unit under test, and the sources of these streams."""
        return [self._uut, *(live.source.partition("/")[0] for live in shown)]

    def _draw(self, shown: list[StreamLive], width: int, height: int, last_s: float) -> int:
        """Draw the lines. Returns how many streams did not fit."""
        request = self._state.current_request
        span_s = request.duration_s if request is not None and last_s <= request.duration_s else None
        if self.every:
            chosen = next((place for place, live in enumerate(shown) if live.name == self.stream), 0)
            named = [(live.name, _series(live)) for live in shown]
            lines, more = draw_grid(named, chosen, width, height, span_s=span_s)
        else:
            series = [_series(live) for live in shown]
            (lines,), more = rate_panel.draw_panels(series, range(1), width, height, span_s=span_s), 0
        self._rows = [tinted(line) for line in lines]
        return more

    def on_resize(self) -> None:
        self.paint()

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)
