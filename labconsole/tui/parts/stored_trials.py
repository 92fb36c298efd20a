"""The stored trials of guests, over the whole screen: one kind at a time, in the wording of the command line."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.widget import Widget

from labconsole.contracts.report import Figure
from labconsole.errors import LabError
from labconsole.model.plan.guest_kind import GuestKind, guest_kinds
from labconsole.model.record.summary import RunFilter
from labconsole.report.tables import labelled
from labconsole.report.trial_text import trial_id, trial_lines
from labconsole.text.cells import fit_parts, format_rounded, safe
from labconsole.text.sanitize import single_line
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.charts import FigureChart
from labconsole.tui.parts.filter_line import QuickFilter
from labconsole.tui.parts.lines import Span, WrappedLines, set_border_titles
from labconsole.tui.parts.overlay import Overlay, close_action
from labconsole.tui.parts.records import RecordsView, reload_store_action
from labconsole.tui.parts.screen import Application
from labconsole.tui.parts.table import MOST_CELLS, Column, FactorTable, LineTable, factor_columns

_log = logging.getLogger("labconsole.tui")

VERDICTS = {"valid": ("✓", "good"), "suspect": ("?", "warn"), "invalid": ("✗", "bad")}


class _StoredTable(FactorTable):
    BEFORE: ClassVar[tuple[Column, ...]] = (
        Column("verdict", "", 1, right=False),
        Column("started", "started UTC", 16, right=False, rank=2),
    )
    AFTER: ClassVar[tuple[Column, ...]] = (Column("found", "result", 20, right=False, grow_to=60),)

    def __init__(self) -> None:
        super().__init__(id="stored-trials")
        self.nothing = "reading the store …"
        self.records: Mapping[str, Any] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        self._found: list[str] = []
        self._wanted: tuple[str, ...] = ()
        self.take_columns((*self.BEFORE, *self.AFTER))

    @property
    def empty_text(self) -> str:
        """Explain why the table is empty."""
        return self.nothing

    def show(
        self, records: Mapping[str, Any], texts: dict[str, tuple[str, str]], factors: Mapping[str, dict[str, str]]
    ) -> None:
        self.records, self._texts, self.factors = records, texts, factors
        self._cells.clear()
        self._find()

    def narrow(self, text: str) -> None:
        self._wanted = tuple(text.casefold().split())
        self._find()

    def _find(self) -> None:
        """The listed trials, found once. Another list is another object."""
        wanted = self._wanted
        self._found = [key for key in self.records if not wanted or all(word in self._text(key) for word in wanted)]
        factors = factor_columns([self.factors[key] for key in self._found])
        plan = min(MOST_CELLS, max((len(self.records[key].plan.name or "") for key in self._found), default=0))
        named = [Column("plan", "plan", max(4, plan), right=False, rank=2)] if plan else []
        self.take_columns((*self.BEFORE, *factors, *self.AFTER, *named))
        self.paint()

    def keys(self) -> list[str]:
        return self._found

    def _text(self, key: str) -> str:
        record = self.records[key]
        judged = [record.verdict.status, *(each.code for each in record.verdict.reasons)]
        return " ".join([*self._texts[key], *judged, record.plan.name or "", key]).casefold()

    def cell_verdict(self, key: str, width: int) -> Span:
        return VERDICTS[self.records[key].verdict.status]

    def cell_started(self, key: str, width: int) -> Span:
        return safe(self.records[key].started_at[:16].replace("T", " "), width), "muted"

    def cell_found(self, key: str, width: int) -> Span:
        return fit_parts(self._texts[key][1], width), ""

    def cell_plan(self, key: str, width: int) -> Span:
        return safe(self.records[key].plan.name or "", width), "muted"


class StoredTrials(RecordsView, Overlay):
    """The list, and below it the trial under the cursor or the summary of all listed trials."""

    title_in_help = "stored trials of guests"
    FILTER = QuickFilter
    CSS_PATH = "stored_trials.tcss"
    ACTIONS: ClassVar = (
        Action(
            "left,h",
            "kind(-1)",
            "Kind back",
            "Show the previous kind of trials.",
            id="stored-previous",
            shown=False,
            common=True,
        ),
        Action("right,l", "kind(1)", "Next kind", "Show the next kind of trials.", id="stored-next", common=True),
        Action(
            "v",
            "summary",
            "Summary",
            "Show a summary of the trials in the list, or the one under the cursor.",
            id="stored-summary",
            common=True,
        ),
        Action(
            "c",
            "curves",
            "Curves",
            "Draw the next figure of the trials in the list, as in a report.",
            id="stored-curves",
            common=True,
        ),
        Action(
            "slash", "filter", "Filter", "Show only trials that contain what you type.", id="stored-filter", common=True
        ),
        Action("y", "copy", "Copy", "Copy the trial's id, or the summary.", id="stored-copy", common=True),
        Action("J", "copy_record", "Record", "Copy the record as JSON.", id="stored-record", common=True),
        Action(
            "x",
            "export",
            "Export",
            "Write the trials in the list to a new file, one JSON record per line.",
            id="stored-export",
            common=True,
        ),
        reload_store_action("stored", shown=False),
        close_action("stored", "Go back to the runs or curves."),
    )

    def __init__(
        self,
        app: Application,
        store: Any,
        saved: Callable[[], int],
        *,
        drawn: bool = False,
    ) -> None:
        super().__init__()
        self.console_app, self._store, self._saved = app, store, saved
        self._kinds = tuple(guest_kinds().values())
        self._index: int | None = None
        """Index of the kind, or None if not chosen yet."""
        self._sums, self._seen = False, -1
        self._figure: int | None = 0 if drawn else None
        self._of: tuple[str, list[str]] = "", []
        self._summed: list[str] | None = None
        self._panels: list[tuple[Figure, int]] | None = None
        self._requested: set[bool] = set()
        """Whether sums (False) and figures (True) of the present list are being computed."""

    def compose(self) -> ComposeResult:
        with Container(id="stored-box"):
            yield _StoredTable()
            with VerticalScroll(id="stored-scroll", can_focus=True):
                yield WrappedLines(id="stored-text")
            yield FigureChart(id="stored-chart")
            yield QuickFilter()
            yield KeyBar()

    def on_mount(self) -> None:
        self.record_list.focus()
        self.set_interval(1, self._follow)
        self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        """Read again when this console saved a trial."""
        if self._seen != (saved := self._saved()):
            self._seen = saved
            self.reload_records()

    @property
    def record_list(self) -> _StoredTable:
        return self.query_one(_StoredTable)

    @property
    def _kind(self) -> GuestKind:
        return self._kinds[self._index or 0]

    def _newest(self) -> int:
        """The index of the kind measured last, or 0 if there is none or the store is unreadable."""
        try:
            begun = self._store.newest_experiments()
        except LabError:
            return 0  # the reader of the trials themselves reports why
        each = [begun.get(kind.name, "") for kind in self._kinds]
        return each.index(max(each))

    @property
    def _taken_apart(self) -> bool:
        """Whether the console was left while the store was read."""
        parts: tuple[type[Widget], ...] = (_StoredTable, WrappedLines, FigureChart)
        return not all(self.query(part) for part in parts)

    @work(exclusive=True, group="stored")
    async def reload_records(self) -> None:
        if self._index is None:
            self._index = await asyncio.to_thread(self._newest)
            if self._taken_apart:
                return
        kind, table = self._kind, self.record_list

        def read() -> tuple[dict[str, Any], dict[str, tuple[str, str]], dict[str, dict[str, str]]]:
            text = kind.text
            records = {trial_id(kind, each): each for each in self._store.experiments(kind.record, RunFilter())}
            texts = {key: (text.request(each), text.result(each)) for key, each in records.items()}
            return records, texts, {key: text.columns(each) for key, each in records.items()}

        try:
            records, texts, factors = await asyncio.to_thread(read)
        except LabError as exc:
            table.nothing = str(exc)
            records, texts, factors = {}, {}, {}
        else:
            table.nothing = f"No {kind.plural} are stored yet: run a plan that asks for them (Plans)."
        if self._taken_apart:
            return
        table.show(records, texts, factors)
        self._tell()

    @on(LineTable.Chosen, "#stored-trials")
    def _tell(self) -> None:
        kind, table, box = self._kind, self.record_list, self.query_one("#stored-scroll")
        listed = table.keys()
        if self._of[0] != kind.name or self._of[1] is not listed:  # another list, with other sums and figures
            self._of, self._summed, self._panels, self._requested = (kind.name, listed), None, None, set()
        many = f"{format_rounded(len(listed))} of {format_rounded(len(table.records))}"
        set_border_titles(table, f"Stored {kind.plural}: {many}")
        chart = self.query_one(FigureChart)
        chart.display, box.display = self._figure is not None, self._figure is None
        table.set_class(chart.display, "-small")
        if self._figure is not None:
            self._show_figure(chart)
        elif self._sums:
            set_border_titles(box, f"Summary of the {kind.plural} listed")
            self._ask_for(drawn=False)
            self._say(self._summed or ["…"])
        else:
            set_border_titles(box, f"The {kind.name}")
            self._say([] if self._chosen is None else trial_lines(kind, self._chosen))

    def _say(self, lines: list[str]) -> None:
        self.query_one(WrappedLines).say(lines)

    def _show_figure(self, chart: FigureChart) -> None:
        kind, panels = self._kind, self._panels
        self._ask_for(drawn=True)
        if panels is None:
            set_border_titles(chart, "Curves")
            chart.show(None, "…")
        elif not panels:
            set_border_titles(chart, "Curves")
            chart.show(None, f"No {kind.plural} in the list can be drawn: only valid ones are.")
        else:
            assert self._figure is not None
            self._figure %= len(panels)
            set_border_titles(chart, f"{self._figure + 1} of {len(panels)}: {labelled(panels[self._figure][0])}")
            chart.show(panels[self._figure])

    def _ask_for(self, *, drawn: bool) -> None:
        """Compute once for each list: a running thread cannot be stopped."""
        if drawn not in self._requested:
            self._requested.add(drawn)
            self._compute(drawn)

    @work(group="stored-computed")
    async def _compute(self, drawn: bool) -> None:
        """Compute the summary of the list, as text or figures, in a thread."""
        kind, of = self._kind, self._of
        records = self.record_list.records
        chosen = [records[key] for key in of[1]]

        def figures() -> list[tuple[Figure, int]]:
            from labconsole.experiments.units import build_kind_figures  # all units of reports

            found = build_kind_figures(kind.name, chosen)
            return [(figure, place) for figure in found for place in range(len(figure.panels))]

        def sums() -> list[str]:
            return kind.text.summary_lines(kind.text.summarize(chosen)) if chosen else []

        try:
            if drawn:
                panels = await asyncio.to_thread(figures)
                self._panels = panels if self._of is of else self._panels
            else:
                summed = await asyncio.to_thread(sums)
                self._summed = summed if self._of is of else self._summed
        except Exception as exc:  # a plan may run on this console: a fault in stored data must not end it
            _log.exception("summarizing the stored %s", kind.plural)
            problem = f"These {kind.plural} cannot be summarized: {exc!r}"
            self.console_app.tell(problem, "error")
            if self._of is of and not drawn:
                self._summed = [problem]
        if self._of is of and not self._taken_apart:
            self._tell()

    def action_curves(self) -> None:
        self._figure, self._sums = 0 if self._figure is None else self._figure + 1, False
        self._tell()

    def action_kind(self, by: int) -> None:
        self._index = ((self._index or 0) + by) % len(self._kinds)
        self._figure = None if self._figure is None else 0
        self.reload_records()

    def action_summary(self) -> None:
        self._sums, self._figure = self._figure is None and not self._sums, None
        self._tell()

    @on(QuickFilter.Changed)
    def _narrow(self, event: QuickFilter.Changed) -> None:
        self.record_list.narrow(event.text)
        self._tell()

    @property
    def _chosen(self) -> Any:
        return self.record_list.records.get(self.record_list.cursor_key)

    def action_copy(self) -> None:
        if self._sums:
            self.copy_text("\n".join(map(single_line, self.query_one(WrappedLines).text_lines)), "the summary")
        elif self._chosen is not None:
            self.copy_text(single_line(trial_id(self._kind, self._chosen)), "the id")

    def record_to_copy(self) -> tuple[dict[str, Any], str] | None:
        return None if self._chosen is None else (self._chosen.to_json(), "the record")

    def action_export(self) -> None:
        table, kind = self.record_list, self._kind
        listed = table.keys()
        records = [table.records[key] for key in listed]

        def text() -> str:
            return "".join(json.dumps({kind.name: each.to_json()}) + "\n" for each in records)

        explanation = f"{format_rounded(len(records))} {kind.plural}, a record a line."
        self.ask_new_file(f"the {kind.plural}", f"{kind.plural}.jsonl", explanation, {".jsonl": text})
