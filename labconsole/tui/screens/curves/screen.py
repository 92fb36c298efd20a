"""Curves from the store: measured over offered with intervals, the maximum per number of sources, as runs come in.

What is computed lies in labconsole.measure.curves; here it is asked for in a thread and drawn. Runs that were taken in
once are not read again: while a plan runs, each new run costs one summary of its design point.
"""

from __future__ import annotations

import asyncio
from typing import cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Label

from labconsole.engine.protocol import SessionLike
from labconsole.measure.curves import LINES_BY, X_FACTORS, CurveData, CurvePoint, Curves, CurveSpec, Unit, X, Y
from labconsole.model.query import Query
from labconsole.model.record.summary import RunSummary
from labconsole.text import charts
from labconsole.text.cells import count, decimal, percent
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.fields import Choice
from labconsole.tui.parts.filter_line import FilterInput, FilterLine
from labconsole.tui.parts.following import FollowingScreen
from labconsole.tui.parts.key_bar import KeyBar
from labconsole.tui.parts.screen import PAUSE, Application
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.screens.curves.curve_chart import CurveChart, CurvePicture
from labconsole.tui.screens.curves.curves_table import CurvesTable
from labconsole.units import format_target

Y_OPTIONS: tuple[Y, ...] = ("measured", "loss", "offered", "maximum")
X_OPTIONS: tuple[X, ...] = ("offered", "measured", "sources", "size")
UNITS: tuple[Unit, ...] = ("pps", "bit/s")
NOTHING_SAVED = "No runs saved yet. Press 1 for the bench, then r to run."
NOTHING_LEFT = "No matching run can be drawn. Press esc to clear the filter."


class CurveFeed:
    """What was taken in so far, for one filter. Works in a thread, one call at a time."""

    def __init__(self) -> None:
        self._data = CurveData()
        self._taken: set[str] = set()
        self._of: tuple[str, int] | None = None

    def curves(self, runs: list[RunSummary], query: Query, epoch: int, spec: CurveSpec) -> Curves:
        """The curves of these runs; of the same filter as before only what is new is taken in."""
        if self._of != (query.text, epoch) or len(self._taken) > len(runs):
            self._data, self._taken, self._of = CurveData(), set(), (query.text, epoch)
        fresh = [run for run in runs if run.run_id not in self._taken]
        self._data.add(query.select(fresh))
        self._taken.update(run.run_id for run in fresh)
        return self._data.curves(spec)


def short(value: float) -> str:
    """A number for an axis: 1.5M, 200k, 0."""
    for suffix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def long(value: float) -> str:
    """A number for the table."""
    if 0 < abs(value) < 0.05:
        return "<0.1" if value > 0 else ">-0.1"
    return decimal(value, 1) if abs(value) < 1000 else count(value)


def mbits(value: float) -> str:
    """A bandwidth for the table, in Mbit/s."""
    if 0 < abs(value) < 500:
        return "<0.001" if value > 0 else ">-0.001"
    return decimal(value / 1e6, 3)


def percents(value: float) -> str:
    """A share for the table."""
    return percent(value, 4)


class CurvesScreen(FollowingScreen):
    """Choose what is drawn over what, in which unit, and what makes the lines."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action("escape", "back", "Back", "Leave the choices, then clear the filter, then go back to the bench.",
               id="curves-back", shown=False),
        Action("slash", "filter", "Filter", "Choose the runs to draw, with the filters of the Runs screen.",
               id="curves-filter", title="Filter runs"),
        Action("v", "choose('y')", "Y axis", "Choose what to draw: measured, loss, offered or the maximum.",
               id="curves-y", title="Quantity to draw"),
        Action("o", "choose('x')", "X axis", "Choose the x axis: offered, measured, number of sources or frame size.",
               id="curves-x", title="Quantity on the x axis"),
        Action("u", "choose('unit')", "Unit", "Switch between packets per second and bandwidth.",
               id="curves-unit"),
        Action("b", "choose('lines')", "Curves", "Choose the factors that get a curve each.",
               id="curves-lines", title="Factors of the curves"),
        PAUSE,
        Action("l", "reload", "Reload", "Read all runs from the store again.",
               id="curves-reload", title="Reload runs", shown=False),
    )  # fmt: skip
    AUTO_FOCUS = "#points"

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._feed = CurveFeed()

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield self.measuring_line()
        yield FilterLine()
        with Horizontal(id="curves-choices"):
            for words, name, options in (
                ("", "y", Y_OPTIONS),
                ("over", "x", X_OPTIONS),
                ("in", "unit", UNITS),
                ("curves by", "lines", tuple(LINES_BY)),
            ):
                if words:
                    yield Label(words, markup=False)
                yield Choice(options, options[0], id=f"choice-{name}")
        yield CurveChart(id="curves")
        yield CurvesTable(id="points")
        yield EventLines(self.state)
        yield KeyBar()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(CurveChart).show(None, "reading the store …")

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()

    @property
    def spec(self) -> CurveSpec:
        """What the choices say."""
        value = {name: self.query_one(f"#choice-{name}", Choice).value for name in ("x", "y", "unit", "lines")}
        return CurveSpec(
            x=cast(X, value["x"]), y=cast(Y, value["y"]), unit=cast(Unit, value["unit"]),
            lines_by=LINES_BY[value["lines"]],
        )  # fmt: skip

    async def look(self) -> None:
        """Take in what is new, in a thread, and draw."""
        saved = self.saved
        query = self.query_one(FilterLine).meant
        made = await asyncio.to_thread(self._feed.curves, saved.runs, query, saved.epoch, self.spec)
        self._show(made)

    def _show(self, made: Curves) -> None:
        spec, x = made.spec, made.spec.effective_x
        y_words = percents if spec.y == "loss" else mbits if spec.unit == "bit/s" else long
        x_words = count if x in X_FACTORS else mbits if spec.unit == "bit/s" else long
        drawing = self.query_one(CurveChart)
        drawing.border_title = self._title(spec)
        drawing.show(_picture(made), self._why_nothing(made))
        self.query_one(CurvesTable).show(made, _x_title(spec), _y_title(spec), x_words, y_words)
        line = self.query_one(FilterLine)
        line.set_found(_found(made, self.saved.words()))
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

    def _why_nothing(self, made: Curves) -> str:
        if self.saved.problem and not self.saved.runs:
            return f"✗ {self.saved.problem}"
        if not self.saved.complete:
            return "reading the store …"
        return NOTHING_LEFT if self.saved.runs else NOTHING_SAVED

    @on(Choice.Changed)
    def chosen_otherwise(self, event: Choice.Changed) -> None:
        """Follow a choice. A maximum is over a factor, so that choice follows too and is seen to."""
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
        self.look_again()

    @on(FilterLine.Changed)
    def filter_changed(self) -> None:
        self.look_again()

    @on(FilterInput.Left)
    def leave_filter(self) -> None:
        self.set_focus(self.query_one(CurvesTable))

    def action_choose(self, name: str) -> None:
        """The next of a choice, from the last back to the first."""
        choice = self.query_one(f"#choice-{name}", Choice)
        choice.value = choice.options[(choice.options.index(choice.value) + 1) % len(choice.options)]

    def action_filter(self) -> None:
        self.set_focus(self.query_one(FilterInput))

    def action_reload(self) -> None:
        self.follow(again=True)

    def action_back(self) -> None:
        """One step back."""
        if isinstance(self.focused, Choice):
            self.set_focus(self.query_one(CurvesTable))
        elif self.query_one(FilterLine).text:
            self.query_one(FilterLine).clear_text()
        else:
            self.console_app.action_mode("bench")

    def action_open(self) -> None:
        """The runs of the point under the cursor, in the list of runs."""
        point = self.query_one(CurvesTable).chosen
        if point is not None:
            self.saved.wanted_filter = _filter_of(point)
            self.console_app.action_mode("runs")


def _filter_of(point: CurvePoint) -> str:
    """The words that mean the runs of a point."""
    d = point.design
    quoted = f'"{d.background}"' if " " in d.background else d.background
    return (
        f"verdict=valid,suspect platform={d.platform} size={d.frame.bytes} sources={d.sources} "
        f"target={format_target(d.target_bps)} background={quoted} generator={d.conditions.generator} "
        f"testbed={d.conditions.testbed}"
    )


def _has_ideal(spec: CurveSpec) -> bool:
    return spec.y == "measured" and spec.effective_x == "offered"


def _x_title(spec: CurveSpec) -> str:
    x = spec.effective_x
    return {"sources": "sources", "size": "B"}.get(x, f"{x} {'pps' if spec.unit == 'pps' else 'Mb/s'}")


def _y_title(spec: CurveSpec) -> str:
    if spec.y == "loss":
        return "mean loss %"
    return "mean pps" if spec.unit == "pps" else "mean Mbit/s"


def _found(made: Curves, all_words: str) -> str:
    """How many runs are in the picture, and how many are not and why."""
    words = f"{made.runs} of {all_words} drawn"
    out = [f"{n} {verdict}" for verdict, n in sorted(made.left_out.items())]
    if made.unknown:
        out.append(f"{made.unknown} not measured")
    return words + (f", left out: {', '.join(out)}" if out else "")


def _pooled(made: Curves) -> str:
    """What varies within the lines, which is not seen in the picture."""
    if not made.pooled:
        return ""
    words = "; ".join(
        f"{name} {', '.join(values[:3])}{' …' if len(values) > 3 else ''}" for name, values in made.pooled.items()
    )
    return f"curves mix runs with different {words}"


def _picture(made: Curves) -> CurvePicture | None:
    """The curves as the chart takes them."""
    if not made.curves:
        return None
    spec, x = made.spec, made.spec.effective_x
    curves = tuple(
        tuple(charts.CurvePointMark(p.x, p.y.mean, p.y.ci_low, p.y.ci_high) for p in curve.points)
        for curve in made.curves
    )
    factor = x in X_FACTORS
    axes = charts.CurveAxes(
        x_ticks=tuple(p.x for curve in curves for p in curve) if factor else (),
        x_words=count if factor else short,
        y_words=(lambda value: f"{100 * value:.4g}") if spec.y == "loss" else short,
        ideal=_has_ideal(spec),
    )
    return CurvePicture(tuple(curve.label for curve in made.curves), curves, axes)
