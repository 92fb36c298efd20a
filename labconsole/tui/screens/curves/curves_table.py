"""The points of the curves: from runs, as they are added, in numbers, and as text for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

from labconsole.measure.curves import X_FACTORS, Curve, CurveData, CurvePoint, Curves, CurveSpec
from labconsole.measure.groups import Alike
from labconsole.measure.statistics.repetitions import difference, ratio
from labconsole.model.design_point import format_target_per_source
from labconsole.model.plan.plan import AT
from labconsole.model.query import Query
from labconsole.model.record.summary import RunSummary
from labconsole.report.panels import build_legend_names
from labconsole.text import charts
from labconsole.text.cells import UNKNOWN, safe
from labconsole.text.sanitize import format_tsv_line, sanitize
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.charts import curve_tone
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import GUTTER, Column, LineTable
from labconsole.tui.screens.curves.curve_chart import MOST_CURVES
from labconsole.units import format_target

# -- from runs ---------------------------------------------------------------------------------------------------------
# Curves from runs, incrementally: a run is added only once while the filter stays.


class CurveFeed:
    """The runs added so far, for one filter. Works in a thread, one call at a time."""

    def __init__(self) -> None:
        self._data = CurveData()
        self._taken: set[str] = set()
        self._occasions: set[str] = set()
        self._of: tuple[str, int] | None = None

    def curves(self, runs: list[RunSummary], query: Query, epoch: int, spec: CurveSpec) -> Curves:
        """Return the curves of these runs. With the same filter as before, only new runs are added."""
        if self._of != (query.text, epoch) or len(self._taken) > len(runs):
            self._data, self._taken, self._occasions, self._of = CurveData(), set(), set(), (query.text, epoch)
        fresh = [run for run in runs if run.run_id not in self._taken]
        chosen = query.select(fresh)
        self._data.add(chosen)
        self._taken.update(run.run_id for run in fresh)
        self._occasions.update(run.plan_name for run in chosen if run.plan_name and AT in run.plan_name)
        made = self._data.curves(spec)
        if len(self._occasions) < 2:
            return made
        return replace(made, pooled={**made.pooled, "occasions": tuple(sorted(self._occasions))})


# -- in numbers --------------------------------------------------------------------------------------------------------
# The points of the curves in numbers: mean, interval of the mean, and number of runs.

Key = tuple[int, int]
MOST_NAME_CELLS = 36


class CurvesTable(LineTable):
    """A row per point, curve after curve. ``show`` takes the computed curves and how to format x and y."""

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
        Column("difference", "Δ baseline", 10),
        Column("change", "Δ 95% CI", 18, rank=3),
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
        self._curves: tuple[Curve, ...] = ()
        self._names: tuple[int, list[str]] = (-1, [])
        """Width of the names' column, and the names of the curves shortened to it."""
        self._format_x: Callable[[float], str] = str
        self._format_y: Callable[[float], str] = str
        self._titles = {"x": "x", "mean": "mean"}
        self._spec = CurveSpec()
        self._baseline: tuple[str, Alike] | None = None
        self._chosen_columns = tuple(column for column in self.COLUMNS if column.name not in ("difference", "change"))
        self.border_title = "Points"

    def show(
        self,
        made: Curves,
        x_title: str,
        y_title: str,
        format_x: Callable[[float], str],
        format_y: Callable[[float], str],
    ) -> None:
        """Take other points."""
        self._points = {
            (i, j): (curve, point) for i, curve in enumerate(made.curves) for j, point in enumerate(curve.points)
        }
        self._format_x, self._format_y, self._spec = format_x, format_y, made.spec
        self._titles = {"x": x_title, "mean": y_title}
        self._curves, self._names = made.curves, (-1, [])
        self._cells.clear()
        self.paint()
        self.refresh()

    @property
    def chosen(self) -> CurvePoint | None:
        """The point under the cursor."""
        found = self._points.get(self.cursor_key)
        return None if found is None else found[1]

    @property
    def chosen_curve(self) -> Curve | None:
        """The curve of the point under the cursor."""
        found = self._points.get(self.cursor_key)
        return None if found is None else found[0]

    def all_points(self) -> list[tuple[Curve, CurvePoint]]:
        """Every point with its curve, as listed."""
        return list(self._points.values())

    def pin(self) -> str:
        """Make the point under the cursor the baseline, or unset it if it is one. Returns the new state as text."""
        found = self._points.get(self.cursor_key)
        chosen = (found[0].label, found[1].design) if found is not None else None
        self._baseline = None if chosen == self._baseline else chosen
        absent = () if self._baseline is not None else ("difference", "change")
        self._chosen_columns = tuple(column for column in self.COLUMNS if column.name not in absent)
        self._cells.clear()
        self.paint()
        self.refresh()
        return "" if self._baseline is None or found is None else f"{found[0].label} at {self._format_x(found[1].x)}"

    def columns(self) -> tuple[Column, ...]:
        """The columns. Names of curves take precedence over the ends of intervals."""
        longest = max((len(curve.label) for curve in self._curves), default=0) + 2
        first, *others = self._chosen_columns
        taken = GUTTER + 2 + sum(column.width + 1 for column in others if not column.rank)
        room = min(longest, MOST_NAME_CELLS, self.size.width - taken)
        return (replace(first, width=max(first.width, room)), *others)

    def _pinned(self) -> CurvePoint | None:
        return next((p for c, p in self._points.values() if (c.label, p.design) == self._baseline), None)

    def _change(self, key: Key) -> tuple[float | None, float | None, float | None]:
        """The change against the baseline in percent (of loss: in percentage points), with its interval if there is
        one.

        Welch's interval of a difference, Fieller's of a ratio. None if one mean is of set-ups and the other of the
        trials of a single one: they vary for different reasons.
        """
        base, point = self._pinned(), self._points[key][1]
        if base is None or not base.replicates or not point.replicates:
            return None, None, None
        changes: tuple[float | None, float | None, float | None]
        if self._spec.y == "loss":
            found = difference(point.replicates, base.replicates)
            changes = found.mean, found.ci_low, found.ci_high
        else:
            share = ratio(point.replicates, base.replicates)
            changes = _less_one(share.value), _less_one(share.ci_low), _less_one(share.ci_high)
        if point.y.scope != base.y.scope:
            return changes[0], None, None
        return changes

    def cell_difference(self, key: Key, width: int) -> Span:
        curve, point = self._points[key]
        if (curve.label, point.design) == self._baseline:
            return "baseline", "accent"
        change, _, _ = self._change(key)
        return (UNKNOWN, "muted") if change is None else (f"{_signed(100 * change)}{self._per}", "")

    @property
    def _per(self) -> str:
        return " pp" if self._spec.y == "loss" else " %"

    def cell_change(self, key: Key, width: int) -> Span:
        curve, point = self._points[key]
        _, low, high = self._change(key)
        if low is None or high is None or (curve.label, point.design) == self._baseline:
            return UNKNOWN, "muted"
        return f"{_signed(100 * low)} to {_signed(100 * high)}", "" if low > 0 or high < 0 else "muted"

    def keys(self) -> list[Key]:
        return list(self._points)

    def header_title(self, column: Column, width: int) -> str:
        return self._titles.get(column.name, column.title)

    def _y(self, value: float | None) -> Span:
        return (UNKNOWN, "muted") if value is None else (self._format_y(value), "")

    def cell_curve(self, key: Key, width: int) -> Span:
        glyph = charts.marker(key[0]) if key[0] < MOST_CURVES else " "
        if self._names[0] != width:
            self._names = (
                width,
                build_legend_names([sanitize(curve.label) for curve in self._curves], max(4, width - 2)),
            )
        return f"{glyph} {safe(self._names[1][key[0]], width - 2)}", curve_tone(key[0])

    def cell_x(self, key: Key, width: int) -> Span:
        return self._format_x(self._points[key][1].x), ""

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
        design = self._points[key][1].design
        return format_target_per_source(design.target_bps, design.frame, cells=width), "muted"

    def cell_sources(self, key: Key, width: int) -> Span:
        return str(self._points[key][1].design.sources), "muted"


def _signed(value: float) -> str:
    """Format a change in at most seven cells."""
    return f"{value:+.{2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0}f}"


def _less_one(share: float | None) -> float | None:
    return None if share is None else share - 1


# -- as text -----------------------------------------------------------------------------------------------------------
# Points of curves as text for other programs: names with units, values in base units, the filter of their runs.


def format_filter(point: CurvePoint) -> str:
    """Format the filter that selects the runs of a point."""
    d = point.design
    quoted = f'"{d.background}"' if " " in d.background else d.background
    return (
        f"verdict=valid,suspect platform={d.platform} size={d.frame.bytes} sources={d.sources} "
        f"target={format_target(d.target_bps)} background={quoted} generator={d.conditions.generator} "
        f"testbed={d.conditions.testbed}"
    )


def values(curve: Curve, point: CurvePoint, spec: CurveSpec) -> dict[str, Any]:
    """One point by field, with the unit in each name. Unknown values are None."""
    unit = "pps" if spec.unit == "pps" else "bps"
    x = {"sources": "sources", "size": "frame_size_bytes"}.get(spec.effective_x, f"{spec.effective_x}_{unit}")
    y = "loss_ratio" if spec.y == "loss" else f"{spec.y}_{unit}"
    d, summary = point.design, point.y
    return {
        "curve": curve.label,
        f"x_{x}" if spec.effective_x in X_FACTORS else x: point.x,
        "trials": summary.trials,
        "set_ups": summary.set_ups,
        f"mean_{y}": summary.mean,
        f"ci95_low_{y}": summary.ci_low,
        f"ci95_high_{y}": summary.ci_high,
        "interval_of": summary.scope,
        f"minimum_{y}": summary.minimum,
        f"maximum_{y}": summary.maximum,
        "platform": d.platform,
        "size_bytes": d.frame.bytes,
        "sources": d.sources,
        "target": format_target_per_source(d.target_bps, d.frame),
        "background": d.background,
        "runs_filter": format_filter(point),
    }


def rows(points: Iterable[tuple[Curve, CurvePoint]], spec: CurveSpec) -> list[str]:
    """A line of names, then one per point, with tabs between."""
    records = [values(curve, point, spec) for curve, point in points]
    return [format_tsv_line(records[0]), *(format_tsv_line(each.values()) for each in records)] if records else []
