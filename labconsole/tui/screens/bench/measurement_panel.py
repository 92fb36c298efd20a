"""The present measurement in place of the set-up: during a plan it differs from the fields."""

from __future__ import annotations

from labconsole.text.cells import format_duration, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Lines, Span, field, set_border_titles
from labconsole.units import format_target

LABELS = 13


class MeasurementPanel(Lines):
    """The design point of the trial under way, its place, and its time."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(id="measured")
        self._state = state
        self.border_title = "Measured now"

    def lines(self, width: int) -> list[list[Span]]:
        now = build_current_measurement(self._state, clock.monotonic_s(), clock.wall_s())
        if now is None:
            return []
        rows: list[tuple[str, str]] = []
        trial, point = self._state.trial, self._state.current_request
        if point is not None:
            rate = f", {format_rounded(point.intended_pps)} pps each" if point.intended_pps is not None else ""
            rows = [
                ("Platform", point.platform),
                ("Frame size", point.frame.words()),
                ("Sources", str(point.sources)),
                ("Target", f"{format_target(point.wish)}{rate}"),
                ("Background", point.background),
                ("Duration", f"{point.duration_s:g} s"),
            ]
        set_border_titles(self, f"Measured now by {safe(now.by, 40)}" if now.by else "Measured now")
        rows += [
            ("Place", ", ".join(word for word in (now.place[0], now.plan[0]) if word)),
            ("Step", now.step[0]),
            ("Left", "" if now.left_s is None else f"about {format_duration(now.left_s)}"),
            ("Run", trial.run_id if trial is not None else ""),
        ]
        shown = [field(label, safe(text, 400), width, rows=1, label_cells=LABELS) for label, text in rows if text]
        return [line for lines in shown for line in lines]
