"""Results of a plan on its occasions, over the whole screen: design points, a picture of one, its changes.

The contents are those of `labconsole trend`, read and computed in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll

from labconsole.errors import LabError
from labconsole.text.cells import safe
from labconsole.tui.parts import dialogs
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.charts import FigureChart
from labconsole.tui.parts.lines import Span, WrappedLines, set_border_titles
from labconsole.tui.parts.overlay import Overlay
from labconsole.tui.parts.screen import Application
from labconsole.tui.parts.table import Column, LineTable

if TYPE_CHECKING:
    from labconsole.comparison.trends import PlanTrends
    from labconsole.tui.screens.curves.trend_text import TrendRow

_log = logging.getLogger("labconsole.tui")

READING = "reading the store …"
NO_OCCASIONS = (
    "No plan has been measured on several occasions yet. A trend needs a plan that is measured repeatedly: "
    "labconsole replay PLAN --occasion NAME, on four occasions at least, such as nights or kernels."
)


class TrendsTable(LineTable):
    """A row for each design point."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("point", "design point", 19, right=False, grow_to=60),
        Column("quantity", "quantity", 10, right=False, grow_to=44),
        Column("many", "n", 3),
        Column("last", "last", 9, grow_to=12),
        Column("level", "level", 16, rank=2, grow_to=20),
        Column("found", "would find", 10, rank=1),
        Column("change", "last change", 27, right=False, grow_to=60),
    )

    def __init__(self) -> None:
        super().__init__(id="trends")
        self.nothing = READING
        self._shown: list[TrendRow] = []

    @property
    def empty_text(self) -> str:
        """Explain why the table is empty."""
        return self.nothing

    def show(self, shown: list[TrendRow]) -> None:
        """Show these rows."""
        self._shown = shown
        self._cells.clear()
        self.paint()
        self.refresh()

    @property
    def chosen(self) -> TrendRow | None:
        """The row under the cursor."""
        return self._shown[self.cursor_index] if self._shown else None

    def keys(self) -> list[int]:
        return list(range(len(self._shown)))

    def cell_point(self, key: int, width: int) -> Span:
        return safe(self._shown[key].trend.words, width), ""

    def cell_quantity(self, key: int, width: int) -> Span:
        quantity = self._shown[key].trend.quantity
        return safe(f"{quantity.shown_unit}, {quantity.name}", width), "muted"

    def cell_many(self, key: int, width: int) -> Span:
        return str(len(self._shown[key].trend.results)), ""

    def cell_last(self, key: int, width: int) -> Span:
        return safe(self._shown[key].last, width), ""

    def cell_level(self, key: int, width: int) -> Span:
        return safe(self._shown[key].level, width), "muted"

    def cell_found(self, key: int, width: int) -> Span:
        return safe(self._shown[key].found, width), "muted"

    def cell_change(self, key: int, width: int) -> Span:
        shown = self._shown[key]
        return safe(shown.change, width), "muted" if shown.better is None else "good" if shown.better else "warn"


class TrendView(Overlay):
    """``read``: takes a plan's name, or None for the one measured last. ``filter``: the filter of its runs, as text."""

    title_in_help = "results over time"
    CSS_PATH = "trend_view.tcss"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012 - as Textual has it
    ACTIONS: ClassVar = (
        Action(
            "left,h",
            "plan(-1)",
            "Plan back",
            "Show the previous plan with occasions.",
            id="trend-previous",
            shown=False,
            common=True,
        ),
        Action("right,l", "plan(1)", "Next plan", "Show the next plan with occasions.", id="trend-next", common=True),
        Action("J", "copy_json", "Copy as JSON", "Copy the design point as JSON.", id="trend-json", common=True),
        Action("x", "export", "Export", "Write every result to a new file.", id="trend-export", common=True),
        Action("r", "reload", "Reload", "Read the store again.", id="trend-reload", common=True),
        Action("escape,q", "dismiss", "Close", "Go back to the curves.", id="trend-close", common=True),
    )

    def __init__(self, app: Application, read: Callable[[str | None], PlanTrends], filter: str) -> None:
        super().__init__()
        self.console_app, self._read, self._filter = app, read, filter
        self._found: PlanTrends | None = None
        self._plan: str | None = None

    def compose(self) -> ComposeResult:
        with Container(id="trend-box"):
            yield TrendsTable()
            yield FigureChart(id="trend-chart")
            with VerticalScroll(id="trend-scroll", can_focus=True):
                yield WrappedLines(id="trend-text")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(TrendsTable).focus()
        self.call_after_refresh(self.action_reload)

    @work(exclusive=True, group="trend")
    async def action_reload(self) -> None:
        table, plan = self.query_one(TrendsTable), self._plan

        def made() -> tuple[PlanTrends, list[TrendRow]]:
            from labconsole.tui.screens.curves.trend_text import (
                build_trend_rows,  # imports the reports here, in the thread
            )

            found = self._read(plan)
            return found, build_trend_rows(found)

        problem, found = "", None
        rows: list[TrendRow] = []
        set_border_titles(table, f"Trend: {READING}")
        try:
            found, rows = await asyncio.to_thread(made)
        except LabError as exc:
            problem = str(exc)
        except Exception as exc:  # a plan may run on this console: a fault in stored data must not end it
            _log.exception("the trend of plan %s", plan)
            problem = f"The trend of this plan cannot be shown: {exc!r}"
        if found is None and self._found is not None:  # data on the plan before does not apply to this one
            self._found = replace(self._found, plan=plan, trends=(), told=())
        if found is not None:
            self._found, self._plan = found, found.plan
            problem = "" if rows else "No occasion is complete." if found.plan else NO_OCCASIONS
        table.nothing = "nothing to show"
        table.show(rows)
        set_border_titles(table, self._title(self._found))
        self._tell(problem)

    def _title(self, found: PlanTrends | None) -> str:
        if found is None or found.plan is None:
            return "Trend"
        names, matching = list(found.plans), f", runs matching {self._filter}" if self._filter else ""
        which = f" (plan {names.index(found.plan) + 1} of {len(names)})" if len(names) > 1 else ""
        return safe(f"Trend of {found.plan}{which}: {found.plans[found.plan]} occasions{matching}", 150)

    @on(LineTable.Chosen, "#trends")
    def _chosen_otherwise(self) -> None:
        self._tell()

    def _tell(self, problem: str = "") -> None:
        """Draw the point under the cursor, and describe its changes, or show the problem."""
        chosen, chart = self.query_one(TrendsTable).chosen, self.query_one(FigureChart)
        box, lines = self.query_one("#trend-scroll"), self.query_one(WrappedLines)
        if problem or chosen is None:
            chart.show(None, "")
            chart.display = False
            set_border_titles(box, "")
            lines.say([problem, *(self._found.told if self._found is not None and not self._filter else ())])
            return
        chart.display = True
        chart.show(None if chosen.figure is None else (chosen.figure, 0), "There are no two results to draw.")
        set_border_titles(chart, "Change from the first level (│ 95 % interval over set-ups)")
        set_border_titles(box, "Changes")
        assert self._found is not None
        lines.say([*chosen.lines, *self._found.told])

    def action_plan(self, by: int) -> None:
        names = list(self._found.plans) if self._found is not None else []
        if len(names) > 1 and self._plan in names:
            self._plan = names[(names.index(self._plan) + by) % len(names)]
            self.action_reload()

    def action_copy_json(self) -> None:
        chosen = self.query_one(TrendsTable).chosen
        if chosen is None:
            self.console_app.tell("There is no design point to copy.", "warning")
            return
        self.app.copy_to_clipboard(json.dumps(chosen.json()))
        self.notify("Copied the design point as JSON", markup=False)

    def action_export(self) -> None:
        """Ask for a file's name and write."""
        found = self._found
        if found is None or not found.trends:
            self.console_app.tell("There is nothing to export.", "warning")
            return

        def text() -> str:
            from labconsole.tui.screens.curves.trend_text import format_results

            return format_results(found)

        name = f"trend-{safe(found.plan or '', 60)}.tsv"
        explanation = ".tsv: every result with its interval and level, and where it changed."
        self.app.push_screen(
            dialogs.ask_new_file("the trend", name, explanation, {".tsv": text}, self.console_app.tell)
        )
