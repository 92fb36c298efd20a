"""Guests over time, a curve each on one scale, during their work and afterwards. Drawn a few times a second."""

from __future__ import annotations

from textual.strip import Strip

from labconsole.contracts.picture import OverTime, StepPicture
from labconsole.text.cells import safe
from labconsole.text.charts import CurveAxes, CurvePointMark, draw_curves, marker
from labconsole.tui.console import clock
from labconsole.tui.parts.figure_chart import curve_tone
from labconsole.tui.parts.lines import Span, Tones, set_border_titles

MIN_INTERVAL_S = 0.25
LEAST_CELLS, LEAST_ROWS = 24, 7
NAME_CELLS, LABEL_CELLS = 12, 40


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
        if not self.is_mounted or not self.display or width < LEAST_CELLS or height < LEAST_ROWS:
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
    heading = _legend(shown, width)
    curves = [
        [CurvePointMark(second, value) for second, value in zip(curve.seconds, curve.values, strict=True)]
        for curve in shown.curves
    ]
    axes = CurveAxes(
        x_words=lambda second: f"{second:g} s",
        y_words=lambda value: f"{value:g}",
        moments=[(second, safe(what, LABEL_CELLS)) for second, what in shown.moments],
        levels=[value for value, _ in shown.levels],
    )
    rows = draw_curves(curves, axes, width, height - 1)
    return [heading, *([(text, "muted" if n is None else curve_tone(n)) for text, n in row] for row in rows)]


def _legend(shown: OverTime, width: int) -> list[Span]:
    """Each curve's glyph and name, then horizontal lines and moments. Entries without room are counted."""
    spans: list[Span] = []
    entries = [
        (f"{marker(place)} {safe(curve.name, NAME_CELLS)}", curve_tone(place))
        for place, curve in enumerate(shown.curves)
    ]
    entries += [(f"┄ {safe(what, LABEL_CELLS)}", "muted") for _, what in shown.levels]
    entries += [(f"at {second:g} s {safe(what, LABEL_CELLS)}", "muted") for second, what in shown.moments]
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
