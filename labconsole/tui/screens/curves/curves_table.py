"""The points of the curves in numbers: mean and the interval of the mean, and of how many runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from labconsole.measure.curves import Curve, CurvePoint, Curves
from labconsole.text import charts
from labconsole.text.cells import UNKNOWN, safe
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import Column, LineTable
from labconsole.tui.screens.curves.curve_chart import MOST_CURVES, curve_tone
from labconsole.units import format_target

Key = tuple[int, int]


class CurvesTable(LineTable):
    """A row per point, curve after curve. ``show`` takes what was computed and how to write x and y."""

    EMPTY = ""
    ACTIONS = (
        Action(
            "enter", "screen.open", "Runs of the point", "List the runs of the point on the Runs screen.", shown=False
        ),
    )
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("curve", "curve", 17, right=False, grow_to=40),
        Column("x", "x", 11, grow_to=13),
        Column("n", "n", 5),
        Column("mean", "mean", 11, grow_to=13),
        Column("margin", "±95% CI", 9, grow_to=12),
        Column("relative", "± %", 7, rank=1),
        Column("low", "CI from", 11, rank=5, grow_to=13),
        Column("high", "CI to", 11, rank=4, grow_to=13),
        Column("smallest", "smallest", 11, rank=7, grow_to=13),
        Column("largest", "largest", 11, rank=6, grow_to=13),
        Column("target", "target", 9, rank=2),
        Column("sources", "src", 3, rank=3),
    )

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._points: dict[Key, tuple[Curve, CurvePoint]] = {}
        self._x_words: Callable[[float], str] = str
        self._y_words: Callable[[float], str] = str
        self._titles = {"x": "x", "mean": "mean"}
        self.border_title = "Points"

    def show(
        self, made: Curves, x_title: str, y_title: str, x_words: Callable[[float], str], y_words: Callable[[float], str]
    ) -> None:
        """Take other points."""
        self._points = {
            (i, j): (curve, point) for i, curve in enumerate(made.curves) for j, point in enumerate(curve.points)
        }
        self._x_words, self._y_words = x_words, y_words
        self._titles = {"x": x_title, "mean": y_title}
        self._cells.clear()
        self.paint()
        self.refresh()

    @property
    def chosen(self) -> CurvePoint | None:
        """The point under the cursor."""
        found = self._points.get(self.cursor_key)
        return None if found is None else found[1]

    def keys(self) -> list[Key]:
        return list(self._points)

    def header_title(self, column: Column, width: int) -> str:
        return self._titles.get(column.name, column.title)

    def _y(self, value: float | None) -> Span:
        return (UNKNOWN, "muted") if value is None else (self._y_words(value), "")

    def cell_curve(self, key: Key, width: int) -> Span:
        glyph = charts.marker(key[0]) if key[0] < MOST_CURVES else " "
        return f"{glyph} {safe(self._points[key][0].label, width - 2)}", curve_tone(key[0])

    def cell_x(self, key: Key, width: int) -> Span:
        return self._x_words(self._points[key][1].x), ""

    def cell_n(self, key: Key, width: int) -> Span:
        n = self._points[key][1].y.trials
        return str(n), "" if n > 2 else "warn"

    def cell_mean(self, key: Key, width: int) -> Span:
        return self._y(self._points[key][1].y.mean)

    def cell_margin(self, key: Key, width: int) -> Span:
        summary = self._points[key][1].y
        return ("n < 3", "muted") if summary.half_width is None else self._y(summary.half_width)

    def cell_relative(self, key: Key, width: int) -> Span:
        summary = self._points[key][1].y
        if summary.half_width is None or not summary.mean:
            return UNKNOWN, "muted"
        return f"{100 * summary.half_width / abs(summary.mean):.2f}", ""

    def cell_low(self, key: Key, width: int) -> Span:
        return self._y(self._points[key][1].y.ci_low)

    def cell_high(self, key: Key, width: int) -> Span:
        return self._y(self._points[key][1].y.ci_high)

    def cell_smallest(self, key: Key, width: int) -> Span:
        return self._y(self._points[key][1].y.minimum)

    def cell_largest(self, key: Key, width: int) -> Span:
        return self._y(self._points[key][1].y.maximum)

    def cell_target(self, key: Key, width: int) -> Span:
        return format_target(self._points[key][1].design.target_bps), "muted"

    def cell_sources(self, key: Key, width: int) -> Span:
        return str(self._points[key][1].design.sources), "muted"
