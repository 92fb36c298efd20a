"""Offered and measured rate and the loss over time, live: of the chosen stream, or of all of them on one scale.

Drawn at most four times a second: axes are unreadable at a faster pace.
"""

from __future__ import annotations

from typing import Any

from textual.strip import Strip

from labconsole.engine.live.telemetry import StreamLive, Telemetry
from labconsole.text import rate_panel
from labconsole.text.cells import safe
from labconsole.text.rate_grid import draw_grid
from labconsole.tui.console import clock
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Span, Tones, set_border_titles
from labconsole.tui.parts.processors import processors_line

MIN_INTERVAL_S = 0.25
LEAST_CELLS = 24

TONES = {"offered": "warn", "measured": "accent", "loss": "bad", "axis": "muted", "title": "strong", "": ""}


def tinted(line: rate_panel.Cells) -> list[Span]:
    """Turn the kinds in a line of a panel into tones."""
    return [(text, TONES[kind]) for text, kind in line]


def legend() -> str:
    """Every glyph of the chart with its label."""
    return "  ".join(label for label, _ in rate_panel.LEGEND)


def _series(live: StreamLive) -> rate_panel.RateSeries:
    rates = tuple(live.seconds), tuple(live.offered_pps), tuple(live.measured_pps)
    return rate_panel.RateSeries(*rates, tuple(live.missing_packets), live.loss_packets if live.final else None)


class RateChart(Tones):
    """Follows ``stream``, or with ``every`` all streams. ``paint`` redraws when there is something new."""

    def __init__(self, telemetry: Telemetry, state: ConsoleState, uut: str) -> None:
        super().__init__(id="chart")
        self._telemetry, self._state, self._uut = telemetry, state, uut
        self.stream = ""
        self.every = False
        self._rows: list[list[Span]] = []
        self._drawn: tuple[Any, ...] = ()
        self._drawn_at_s = 0.0

    def paint(self) -> None:
        """Redraw if the stream, the size or the data changed and the last drawing is old enough."""
        width, height = self.size
        if not self.display or width < LEAST_CELLS or height < rate_panel.LEAST_ROWS + self.every:
            return
        shown = [s for s in self._telemetry.streams.values() if self.every or s.name == self.stream]
        samples = tuple((len(live.seconds), live.seconds[-1]) for live in shown if live.seconds)
        nodes = self._find_end_nodes(shown)
        wanted = (self.stream, self.every, width, height, samples, processors_line(self._telemetry, nodes, width))
        now_s = clock.monotonic_s()
        same_picture = self._drawn[:4] == wanted[:4]
        if wanted == self._drawn or (same_picture and now_s - self._drawn_at_s < MIN_INTERVAL_S):
            return
        self._drawn, self._drawn_at_s = wanted, now_s
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
            (lines,), more = rate_panel.draw_panels(series, range(1), width, height, across=1, span_s=span_s), 0
        self._rows = [tinted(line) for line in lines]
        return more

    def on_resize(self) -> None:
        self.paint()

    def render_line(self, y: int) -> Strip:
        return self.build_strip(self._rows[y] if y < len(self._rows) else [], self.size.width)
