"""The chosen stream's offered and measured rate over time, with axes.

Drawn at most four times a second: a drawing costs about 10 ms, and nobody reads axes faster.
"""

from __future__ import annotations

import itertools
from typing import Any

from textual.strip import Strip

from labconsole.engine.live.telemetry import Telemetry
from labconsole.text import charts
from labconsole.text.cells import safe
from labconsole.tui.console import clock
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Span, Tones

MIN_INTERVAL_S = 0.25


def tinted(line: str) -> list[Span]:
    """A colourless line with its cells coloured by glyph."""

    def tone(char: str) -> str:
        return "warn" if charts.is_offered_mark(char) else "accent" if charts.is_measured_mark(char) else "muted"

    return [("".join(group), name) for name, group in itertools.groupby(line, key=tone)]


class RateChart(Tones):
    """Follows ``stream``; ``paint`` draws again when there is something new."""

    def __init__(self, telemetry: Telemetry, state: ConsoleState) -> None:
        super().__init__(id="chart")
        self._telemetry, self._state = telemetry, state
        self.stream = ""
        self._rows: list[list[Span]] = []
        self._drawn: tuple[Any, ...] = ()
        self._drawn_at_s = 0.0

    def paint(self) -> None:
        """Draw again if the stream, the size or the data changed and the last drawing is old enough."""
        width, height = self.size
        if not self.display or width < 24 or height < 5:
            return
        live = self._telemetry.streams.get(self.stream)
        samples = (len(live.seconds), live.seconds[-1]) if live and live.seconds else ()
        wanted = (self.stream, width, height, samples)
        now_s = clock.monotonic_s()
        same_picture = self._drawn[:3] == wanted[:3]
        if wanted == self._drawn or (same_picture and now_s - self._drawn_at_s < MIN_INTERVAL_S):
            return
        self._drawn, self._drawn_at_s = wanted, now_s
        name = safe(self.stream, 20)
        if live is None or not live.seconds:
            self.border_title = f"Stream {name} over time"
            self.border_subtitle = ""
            self._rows = [[("", "")], [("  nothing sent in this stream yet", "muted")]]
        else:
            request = self._state.request_seen
            series = charts.RateSeries(tuple(live.seconds), tuple(live.offered_pps), tuple(live.measured_pps))
            span_s = request.duration_s if request is not None and live.seconds[-1] <= request.duration_s else None
            self._rows = [tinted(line) for line in charts.draw_rates(series, width, height, span_s=span_s)]
            self.border_title = f"Stream {name} over time: {charts.OFFERED_MARK} offered  ⠒ measured"
            self.border_subtitle = "packets/s over s"
        self.refresh()

    def on_resize(self) -> None:
        self.paint()

    def render_line(self, y: int) -> Strip:
        return self.strip_of(self._rows[y] if y < len(self._rows) else [], self.size.width)
