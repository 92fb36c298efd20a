"""Curves from the store: measured over offered with intervals, the maximum per number of sources, as runs arrive.

labconsole.measure.curves computes them, in a thread. This screen draws the result. A run is read only once: while a
plan runs, each new run costs one summary of its design point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Label

from labconsole.engine.protocol import SessionLike
from labconsole.measure.curves import LINES_BY, X_FACTORS, Curves, CurveSpec, Unit, X, Y
from labconsole.text.cells import format_decimal, format_percent, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.dialogs import Pick
from labconsole.tui.parts.fields import Choice
from labconsole.tui.parts.filter_line import FilterLine
from labconsole.tui.parts.lines import set_border_titles
from labconsole.tui.parts.live_results import LiveResultsScreen
from labconsole.tui.parts.records import reload_runs_action
from labconsole.tui.parts.screen import PAUSE, Application
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.screens.curves import curves_table
from labconsole.tui.screens.curves.curve_chart import CurveChart, CurveViewOptions, picture
from labconsole.tui.screens.curves.curves_table import CurveFeed, CurvesTable, format_filter
from labconsole.tui.screens.curves.trend_view import TrendView
from labconsole.units import counted

Y_OPTIONS: tuple[Y, ...] = ("measured", "loss", "offered", "maximum")
X_OPTIONS: tuple[X, ...] = ("offered", "measured", "sources", "size")
UNITS: tuple[Unit, ...] = ("pps", "bit/s")
NOTHING_SAVED = (
    "No runs saved yet. Press {go-bench} for the Bench, where they are measured, or {curves-crews} for curves of "
    "trials of guests."
)
NOTHING_LEFT = "No matching run can be drawn. Press esc to clear the filter."


def format_short(value: float) -> str:
    """Format a number for an axis: 1.5M, 200k, 0."""
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def format_long(value: float) -> str:
    """Format a number for the table."""
    if 0 < abs(value) < 0.05:
        return "<0.1" if value > 0 else ">-0.1"
    return format_decimal(value, 1) if abs(value) < 1000 else format_rounded(value)


def format_mbits(value: float) -> str:
    """Format a bandwidth for the table, in Mbit/s."""
    if 0 < abs(value) < 500:
        return "<0.001" if value > 0 else ">-0.001"
    return format_decimal(value / 1e6, 3)


def format_percents(value: float) -> str:
    """Format a share for the table."""
    return format_percent(value, 4)


class CurvesScreen(LiveResultsScreen):
    """Choices of the axes, the unit, and what distinguishes the lines."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "escape",
            "back",
            "Back",
            "Leave the choices, then clear the filter, then go back to the bench.",
            id="curves-back",
            shown=False,
        ),
        Action(
            "slash",
            "filter",
            "Filter",
            "Choose the runs to draw, with the filters of the Runs screen.",
            id="curves-filter",
            title="Filter runs",
        ),
        Action(
            "v",
            "choose('y')",
            "Y axis",
            "Choose what to draw: measured, loss, offered or the maximum.",
            id="curves-y",
            title="Quantity to draw",
        ),
        Action(
            "o",
            "choose('x')",
            "X axis",
            "Choose the x axis: offered, measured, number of sources or frame size.",
            id="curves-x",
            title="Quantity on the x axis",
        ),
        Action("u", "choose('unit')", "Unit", "Switch between packets per second and bandwidth.", id="curves-unit"),
        Action(
            "b",
            "choose('lines')",
            "Curves",
            "Choose the factors that get a curve each.",
            id="curves-lines",
            title="Factors of the curves",
        ),
        Action(
            "L",
            "axes",
            "Log axes",
            "Make the x axis logarithmic, then y, then both, then none.",
            id="curves-log",
            title="Logarithmic axes",
            shown=False,
        ),
        Action(
            "s",
            "solo",
            "Solo",
            "Draw only the curve under the cursor; again: all curves.",
            id="curves-solo",
            title="Only the curve under the cursor",
        ),
        Action(
            "z",
            "zoom(True)",
            "Zoom in",
            "Show half of x, around the point under the cursor.",
            id="curves-zoom-in",
            shown=False,
        ),
        Action("Z", "zoom(False)", "Zoom out", "Show more of x, up to all of it.", id="curves-zoom-out", shown=False),
        Action(
            "B",
            "pin",
            "Baseline",
            "Make the point under the cursor the baseline: columns show how much every "
            "point differs from it, with the 95 % interval. Again: no baseline.",
            id="curves-baseline",
            title="Pin a baseline point",
            shown=False,
        ),
        Action(
            "T",
            "trend",
            "Trend",
            "Show a plan's results over its occasions, where they changed, and what else changed then.",
            id="curves-trend",
            title="Results over occasions",
        ),
        Action(
            "x",
            "export",
            "Export",
            "Write what is drawn to a new file: a picture (.svg) or the points (.tsv).",
            id="curves-export",
            title="Export the curves",
        ),
        Action(
            "V",
            "views",
            "Views",
            "Draw the runs of a named view of the Runs screen.",
            id="curves-views",
            title="Draw a view",
            shown=False,
        ),
        Action(
            "J",
            "copy_record",
            "Copy as JSON",
            "Copy the point under the cursor to the clipboard as JSON.",
            id="curves-copy-point",
            title="Copy the point as JSON",
            shown=False,
        ),
        Action(
            "R",
            "copy_rows",
            "Copy points",
            "Copy all points with tabs between the columns.",
            id="curves-copy-rows",
            title="Copy all points",
            shown=False,
        ),
        Action(
            "E",
            "crews",
            "Guests",
            "Draw the stored trials of guests, which are not runs.",
            id="curves-crews",
            title="Curves of trials of guests",
            shown=False,
        ),
        PAUSE,
        reload_runs_action("curves"),
    )
    RECORD = "point"
    AUTO_FOCUS = "#points"

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._feed = CurveFeed()
        self._viewing = CurveViewOptions()
        self._made: Curves | None = None

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield self.measuring_line()
        yield FilterLine()
        with Horizontal(id="curves-choices"):
            for label, name, options in (
                ("", "y", Y_OPTIONS),
                ("over", "x", X_OPTIONS),
                ("in", "unit", UNITS),
                ("curves by", "lines", tuple(LINES_BY)),
            ):
                if label:
                    yield Label(label, markup=False)
                yield Choice(options, options[0], id=f"choice-{name}", shown={"measured": "forwarded"})
        yield CurveChart(id="curves")
        yield CurvesTable(id="points")
        yield EventLines(self.state)
        yield KeyBar()

    def begin(self) -> None:
        super().begin()
        self.query_one(CurveChart).show(None, "reading the store …")

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()

    @property
    def spec(self) -> CurveSpec:
        """The curves that the choices select."""
        value = {name: self.query_one(f"#choice-{name}", Choice).value for name in ("x", "y", "unit", "lines")}
        return CurveSpec(
            x=cast(X, value["x"]),
            y=cast(Y, value["y"]),
            unit=cast(Unit, value["unit"]),
            lines_by=LINES_BY[value["lines"]],
        )

    async def look(self) -> None:
        """Add new runs, in a thread, and draw."""
        saved = self.saved
        query = self.query_one(FilterLine).meant
        made = await asyncio.to_thread(self._feed.curves, saved.runs, query, saved.epoch, self.spec)
        self._show(made)

    def _show(self, made: Curves) -> None:
        self._made = made
        spec, x = made.spec, made.spec.effective_x
        format_y = format_percents if spec.y == "loss" else format_mbits if spec.unit == "bit/s" else format_long
        format_x = format_rounded if x in X_FACTORS else format_mbits if spec.unit == "bit/s" else format_long
        drawing = self.query_one(CurveChart)
        factor, has_ideal = x in X_FACTORS, _has_ideal(spec)
        set_border_titles(
            drawing,
            self._title(spec) + safe(self._viewing.describe(made, format_rounded if factor else format_short), 90),
        )
        ticks_x, ticks_y = (
            (format_rounded if factor else format_short),
            (_percent_tick if spec.y == "loss" else format_short),
        )
        drawing.show(picture(made, self._viewing, ticks_x, ticks_y, ideal=has_ideal), self._describe_empty(made))
        self.query_one(CurvesTable).show(made, _x_title(spec), _y_title(spec), format_x, format_y)
        line = self.query_one(FilterLine)
        line.show_match_count(_format_run_counts(made, self.saved))
        if self.saved.problem and self.saved.runs:
            line.set_trouble(self.saved.problem)
        else:
            line.set_trouble(_pooled(made), "warn")

    def _title(self, spec: CurveSpec) -> str:
        unit = "packets/s" if spec.unit == "pps" else "bandwidth on the wire"
        drawn = {"loss": "loss in %", "maximum": f"maximum forwarded {unit}", "measured": f"forwarded {unit}"}
        along = {"sources": "number of sources", "size": "frame size in bytes", "measured": "forwarded"}
        what, over = drawn.get(spec.y, f"{spec.y} {unit}"), along.get(spec.effective_x, spec.effective_x)
        return f"{what} over {over}" + (" (· = no loss)" if _has_ideal(spec) else "")

    def _describe_empty(self, made: Curves) -> str:
        if self.saved.problem and not self.saved.runs:
            return f"✗ {self.saved.problem}"
        if not self.saved.complete:
            return "reading the store …"
        if made.curves:
            out, axes, solo = (self.key_of(id) for id in ("curves-zoom-out", "curves-log", "curves-solo"))
            return f"Nothing to draw in this part of the axes. {out}: zoom out, {axes}: other axes, {solo}: all curves."
        return NOTHING_LEFT if self.saved.runs else self.insert_keys(NOTHING_SAVED)

    @on(Choice.Changed)
    def choice_changed(self, event: Choice.Changed) -> None:
        """Follow a choice. A maximum is over a factor, so that choice follows too, visibly."""
        over = self.query_one("#choice-x", Choice)
        if event.choice.id == "choice-y":
            if event.value == "maximum" and over.value not in X_FACTORS:
                over.value = "sources"
            elif event.value != "maximum" and over.value in X_FACTORS:
                over.value = "offered"
        elif event.choice is over and event.value not in X_FACTORS:
            what = self.query_one("#choice-y", Choice)
            if what.value == "maximum":
                what.value = "measured"
        if event.choice.id in ("choice-x", "choice-unit"):
            self._viewing = replace(self._viewing, low=None, high=None)  # a part of another axis
        self.request_update()

    @on(FilterLine.Changed)
    def filter_changed(self) -> None:
        self.request_update()

    def action_choose(self, name: str) -> None:
        """Take the next option of a choice, from the last back to the first."""
        choice = self.query_one(f"#choice-{name}", Choice)
        choice.value = choice.options[(choice.options.index(choice.value) + 1) % len(choice.options)]

    def _apply_choice(self, viewing: CurveViewOptions) -> None:
        """Draw the same curves again."""
        self._viewing = viewing
        if self._made is not None:
            self._show(self._made)

    def action_axes(self) -> None:
        self._apply_choice(self._viewing.next_axes())

    def action_solo(self) -> None:
        curve = self.query_one(CurvesTable).chosen_curve
        alone = curve.label if curve is not None and curve.label != self._viewing.solo else None
        self._apply_choice(replace(self._viewing, solo=alone))

    def action_zoom(self, closer: bool) -> None:
        point = self.query_one(CurvesTable).chosen
        if self._made is not None and point is not None:
            self._apply_choice(self._viewing.zoomed(self._made, point.x, closer))

    def action_pin(self) -> None:
        name, key = self.query_one(CurvesTable).pin(), self.key_of("curves-baseline")
        text = f"Differences are to {safe(name, 80)}; {key} removes it" if name else "There is no baseline"
        self.notify(text, markup=False)

    def action_views(self) -> None:
        """Choose one of the views saved on the Runs screen."""
        views = self.console_app.memory.views.all()
        if not views:
            self.console_app.tell("There is no saved view. Save one on the Runs screen.", "warning")
            return

        def take(name: str | None) -> None:
            if name is not None:
                self.query_one(FilterLine).put(views[name].filter)

        choices = {name: view.filter or "all runs" for name, view in views.items()}
        self.app.push_screen(Pick("Draw the runs of a view", choices), take)

    # -- out of the console -------------------------------------------------------------------------------------------

    def _chosen_values(self) -> dict[str, object] | None:
        table = self.query_one(CurvesTable)
        if self._made is None or table.chosen is None or table.chosen_curve is None:
            return None
        return curves_table.values(table.chosen_curve, table.chosen, self._made.spec)

    def lines_to_copy(self) -> list[str]:
        """The point under the cursor: a line of values with tabs between them."""
        table = self.query_one(CurvesTable)
        if self._made is None or table.chosen is None or table.chosen_curve is None:
            return []
        return [curves_table.rows([(table.chosen_curve, table.chosen)], self._made.spec)[1]]

    @property
    def record_list(self) -> CurvesTable:
        return self.query_one(CurvesTable)

    def record_to_copy(self) -> tuple[dict[str, object], str] | None:
        values = self._chosen_values()
        return None if values is None else (values, "the point as JSON")

    def action_copy_rows(self) -> None:
        rows = curves_table.rows(self.query_one(CurvesTable).all_points(), self._made.spec) if self._made else []
        if rows:
            self.copy_text("\n".join(rows), counted(len(rows) - 1, "point"))
        else:
            self.notify("There is no point to copy.", markup=False)

    def action_export(self) -> None:
        """Ask for a file's name and write."""
        chart, made = self.query_one(CurveChart), self._made
        if made is None or not chart.drawn:
            self.console_app.tell("There is nothing drawn to export.", "warning")
            return
        drawn = self._viewing.drawn(made)
        texts: dict[str, Callable[[], str]] = {
            ".svg": partial(chart.svg, str(chart.border_title)),
            ".tsv": lambda: "\n".join(curves_table.rows([(c, p) for c in drawn for p in c.points], made.spec)) + "\n",
        }

        name = f"curves-{datetime.fromtimestamp(clock.wall_s(), UTC):%Y%m%dT%H%M%SZ}.svg"
        explanation = ".svg: the picture as drawn; .tsv: its points with their intervals."
        self.ask_new_file("the curves", name, explanation, texts)

    def action_crews(self) -> None:
        self.show_stored_trials(drawn=True)

    def action_trend(self) -> None:
        """Show the trend of the runs that the filter selects."""
        query, store, read = self.query_one(FilterLine).meant, self.session.store, self.console_app.read_trends
        if read is not None:
            view = TrendView(self.console_app, lambda plan: read(plan, query, store), query.text)
            self.app.push_screen(view)

    def action_back(self) -> None:
        """Go one step back."""
        if isinstance(self.focused, Choice):
            self.set_focus(self.query_one(CurvesTable))
        elif self.query_one(FilterLine).text:
            self.query_one(FilterLine).clear_text()
        else:
            self.console_app.action_mode("bench")

    def action_open(self) -> None:
        """Show the runs of the point under the cursor, in the list of runs."""
        point = self.query_one(CurvesTable).chosen
        if point is not None:
            self.saved.wanted_filter = format_filter(point)
            self.console_app.navigation.push_mode("runs")


def _percent_tick(value: float) -> str:
    return f"{100 * value:.4g}"


def _has_ideal(spec: CurveSpec) -> bool:
    return spec.y == "measured" and spec.effective_x == "offered"


def _x_title(spec: CurveSpec) -> str:
    x = spec.effective_x
    return {"sources": "sources", "size": "B"}.get(x, f"{x} {'pps' if spec.unit == 'pps' else 'Mb/s'}")


def _y_title(spec: CurveSpec) -> str:
    if spec.y == "loss":
        return "mean loss %"
    return "mean pps" if spec.unit == "pps" else "mean Mbit/s"


def _format_run_counts(made: Curves, saved: SavedRuns) -> str:
    """Format how many runs are in the picture, and how many are not and why."""
    text = f"{format_rounded(made.runs)} of {counted(saved.in_store, 'run')} drawn"
    if not saved.complete:
        text += f", {format_rounded(len(saved.runs))} read so far"
    out = [f"{n} {verdict}" for verdict, n in sorted(made.left_out.items())]
    if made.unknown:
        out.append(f"{made.unknown} not measured")
    text += f", {format_rounded(made.suspect)} suspect" if made.suspect else ""
    return text + (f"; left out: {', '.join(out)}" if out else "")


def _pooled(made: Curves) -> str:
    """Describe what varies within the lines but is not shown in the picture."""
    if not made.pooled:
        return ""
    factors = "; ".join(
        f"{name} {', '.join(values[:3])}{' …' if len(values) > 3 else ''}" for name, values in made.pooled.items()
    )
    return f"curves mix runs with different {factors}"
