"""All saved runs: filter, sort, mark, compare, annotate, copy and export, and the chosen one in full.

The store blocks, so threads query it. It filters and sorts, and the list grows as the operator scrolls. On a small
terminal the list and the details take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container

from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError
from labconsole.model.record.summary import Sorting
from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.dialogs import AskText
from labconsole.tui.parts.filter_line import FilterLine
from labconsole.tui.parts.records import reload_runs_action
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.parts.screen import PAUSE, Application
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.runs.details import DetailsPane, DetailsScroll, RunView
from labconsole.tui.screens.runs.list_actions import CopyActionsScreen, RunExport, RunListLayout, build_layout_actions
from labconsole.tui.screens.runs.run_list import MOST_ROWS, ROWS_AT_ONCE, RunList

NOTHING_SAVED = (
    "No runs saved yet. Press {go-bench} for the Bench, where they are measured, or {runs-crews} to see trials of "
    "guests."
)
NOTHING_FOUND = "No runs match this filter. Press esc to clear it."


class RunsScreen(CopyActionsScreen):
    """The list of runs with their verdicts, newest first, and the one under the cursor in full."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "escape",
            "back",
            "Back",
            id="runs-back",
            shown=False,
            sentence="Leave the details; then go back to the screen that led here, with this list as it was before, "
            "or clear the filter and then go to the bench.",
        ),
        Action(
            "slash",
            "filter",
            "Filter",
            id="runs-filter",
            title="Filter runs",
            sentence="Show only runs that match, for example platform=raw size=64 verdict!=valid note~warm.",
        ),
        Action(
            "m",
            "mark",
            "Mark",
            "Mark or unmark the run, for comparing (c), exporting (x) and copying (y).",
            id="runs-mark",
            title="Mark or unmark the run",
        ),
        Action("u", "unmark", "Unmark all", "Remove all marks.", id="runs-unmark", shown=False),
        Action(
            "c,equals_sign",
            "compare",
            "Compare",
            id="runs-compare",
            title="Compare runs",
            sentence="Show two runs side by side: two marked ones, or a marked one and the one under the cursor.",
        ),
        Action("n", "note", "Note", "Write a note on the run.", id="runs-note", changes=True, title="Write a note"),
        Action(
            "x",
            "export",
            "Export",
            "Write the marked runs, or all in the list, to a new JSON Lines or CSV file.",
            id="runs-export",
            title="Export runs",
        ),
        Action(
            "s",
            "sort",
            "Sort",
            "Choose the column to sort by (or click its title).",
            id="runs-sort",
            title="Sort runs by …",
        ),
        Action("S", "reverse", "Reverse", "Reverse the sort order.", id="runs-reverse", shown=False),
        Action(
            "t",
            "part(1)",
            "Page",
            "Show the next page of details: verdict, packets, over time, nodes (also ← →).",
            id="runs-part",
            title="Next page of the details",
        ),
        Action(
            "T",
            "part(-1)",
            "Previous page",
            "Show the previous page of the details.",
            id="runs-part-back",
            title="Previous page of the details",
            shown=False,
        ),
        Action(
            "J",
            "copy_record",
            "Copy record",
            "Copy the run's record to the clipboard as JSON.",
            id="runs-copy-record",
            shown=False,
        ),
        Action(
            "R",
            "copy_rows",
            "Copy rows",
            "Copy the row, or all marked rows, with tabs between the columns.",
            id="runs-copy-rows",
            shown=False,
        ),
        Action(
            "V",
            "views",
            "Views",
            "Go to a named view (filter, sorting and columns), save this one, or remove one.",
            id="runs-views",
            title="Views of the runs",
            shown=False,
        ),
        Action("o", "columns", "Columns", "Choose the columns of the list.", id="runs-columns", shown=False),
        Action(
            "B",
            "pin",
            "Baseline",
            "Make the run under the cursor the baseline: a column tells by how much the "
            "measured rate of every run differs from its. Again: no baseline.",
            id="runs-baseline",
            title="Pin a baseline run",
            shown=False,
        ),
        Action(
            "D",
            "copy_differences",
            "Copy differences",
            "Copy the differences of the two compared runs as text.",
            id="runs-copy-differences",
            title="Copy the differences of two runs",
            shown=False,
        ),
        Action("", "export_differences", "Export the differences of two runs", "Write them to a new file."),
        Action(
            "E",
            "crews",
            "Guests",
            "Show the stored trials of guests, each or a summary.",
            id="runs-crews",
            title="Stored trials of guests",
        ),
        PAUSE,
        reload_runs_action("runs"),
    )
    AUTO_FOCUS = "#runs"

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield self.measuring_line()
        yield FilterLine()
        with Container(id="runs-area"):
            yield SavedRunsTable(id="runs")
            yield DetailsPane(self.session.store, self.console_app.tell)
        yield EventLines(self.state)
        yield KeyBar()

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._listed = RunList(session.store)
        self._come_back_to: str | None = None

    def begin(self) -> None:
        super().begin()
        self.table.empty = "reading the store …"

    # -- the list -----------------------------------------------------------------------------------------------------

    async def refresh_saved(self, *, again: bool) -> None:
        """Check for new runs: the list reads its own rows."""
        if again or await self._listed.has_changed():
            self.request_update()

    async def look(self) -> None:
        """Have the store filter and sort, in a thread."""
        if self.saved.wanted_filter is not None:
            self._set_aside()
            self.query_one(FilterLine).put(self.saved.wanted_filter)
            self.saved.wanted_filter = None
        led_to = self.state.wanted_run or self._come_back_to
        query, sorting, listed = self.query_one(FilterLine).meant, self.table.sorting, self._listed
        resorted, other = sorting != listed.sorting, query != listed.query
        await listed.look(query, sorting, led_to or (None if resorted else self.table.selected_run_id))
        self._show()
        if resorted and led_to is None:
            self.table.move_to_top()  # the rows sorted first are there
        elif other:
            self.table.show_cursor()
        wanted = self.state.wanted_run
        if wanted is not None and self.query_one(FilterLine).text and await self._listed.hidden(wanted):
            self.query_one(FilterLine).clear_text()
        self._tally()

    @work(group="tally", exclusive=True)
    async def _tally(self) -> None:
        """Count after painting: no key waits for it."""
        if await self._listed.tally():
            self._show_match_count()

    def _show(self) -> None:
        listed, table = self._listed, self.table
        if listed.problem and not listed.order:
            table.empty = f"✗ {listed.problem}"
        else:
            table.empty = NOTHING_FOUND if listed.in_store else self.insert_keys(NOTHING_SAVED)
        table.show_saved(listed.by_id, listed.order)
        self.query_one(FilterLine).set_trouble(listed.problem if listed.order else "")
        self._show_match_count()
        if not listed.order:
            self.details.show(RunView(problem=table.empty))
        elif self.details.view.record is None and table.chosen in listed.by_id:
            self.details.load(table.chosen)  # the cursor has not moved, so no message does this
        if self._come_back_to in listed.by_id:
            table.move_to(self._come_back_to)
            self._come_back_to = None
        self._go_to_wanted()

    @on(SavedRunsTable.NearEnd)
    @work(group="more", exclusive=True)
    async def read_more(self, event: SavedRunsTable.NearEnd) -> None:
        """Read rows after the last one, or all rows on the way to the end."""
        if await self._listed.go_on(MOST_ROWS if event.to_end else ROWS_AT_ONCE):
            chosen = self.table.chosen
            self._show()
            self._tally()
            if event.to_end and chosen == event.run_id:
                self.table.move_to(self._listed.order[-1])

    def come_to_front(self) -> None:
        super().come_to_front()
        self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        """Put the cursor on the run that another screen wants shown, once it is known and not hidden."""
        wanted = self.state.wanted_run
        if wanted is None:
            return
        self._set_aside()
        if wanted in self.table.by_id:
            self.state.wanted_run = None
            self.table.move_to(wanted)
            self.set_focus(self.table)

    def _set_aside(self) -> None:
        """Keep the present list for the way back, before showing what another screen requests."""
        self.console_app.navigation.set_aside(
            partial(self._restore, self.query_one(FilterLine).text, self.table.chosen)
        )

    def _restore(self, text: str, run_id: str | None) -> None:
        self._show_details(False)
        self._come_back_to = run_id
        self.query_one(FilterLine).put(text)

    def _show_match_count(self) -> None:
        marked = len(self.table.marked)
        self.query_one(FilterLine).show_match_count(
            self._listed.describe_count() + (f" · {marked} marked" if marked else "")
        )

    @on(FilterLine.Changed)
    def filter_changed(self) -> None:
        self.request_update()

    @on(SavedRunsTable.HeaderClicked)
    def header_clicked(self, event: SavedRunsTable.HeaderClicked) -> None:
        now = self.table.sorting
        self.list_layout.sort(Sorting(event.column, not now.descending if event.column == now.column else True))

    @property
    def list_layout(self) -> RunListLayout:
        """The object that changes sorting, columns and views."""
        line, views = self.query_one(FilterLine), self.console_app.memory.views
        return RunListLayout(self.app, self.table, line, views, self.request_update)

    def action_sort(self) -> None:
        self.list_layout.ask_sort()

    def action_sort_by(self, column: str) -> None:
        self.list_layout.sort(Sorting.by(column))

    def action_reverse(self) -> None:
        now = self.table.sorting
        self.list_layout.sort(Sorting(now.column, not now.descending))

    def action_columns(self) -> None:
        self.list_layout.ask_columns()

    def action_views(self) -> None:
        self.list_layout.ask_view(self.console_app.tell)

    def action_view(self, name: str) -> None:
        view = self.console_app.memory.views.all().get(name)
        if view is None:
            self.console_app.tell(f"The view {name} was removed meanwhile.", "warning")
        else:
            self.list_layout.show(view)

    def offered_actions(self) -> Iterable[Action]:
        """The declared actions, every sorting, and every view by its name."""
        yield from super().offered_actions()
        yield from build_layout_actions(self.console_app.memory.views)

    def action_pin(self) -> None:
        """Show differences from the run under the cursor, or none if it is the baseline already."""
        table = self.table
        base, chosen = table.baseline, table.by_id.get(table.chosen or "")
        table.pin(None if chosen is None or chosen == base else chosen)
        if table.baseline is not None:
            key = self.key_of("runs-baseline")
            self.notify(f"Differences are to {safe(table.baseline.run_id, 80)}; {key} removes it", markup=False)

    def action_filter(self) -> None:
        self._show_details(False)
        super().action_filter()

    def action_crews(self) -> None:
        """Show the list of trials that are no runs."""
        self.show_stored_trials()

    def action_back(self) -> None:
        """Go one step back."""
        if self.focused is not None and self.focused.id == "details-scroll":
            self._show_details(False)
            self.set_focus(self.table)
        elif self.console_app.navigation.back():
            return
        elif self.query_one(FilterLine).text:
            self.query_one(FilterLine).clear_text()
        else:
            self.console_app.action_mode("bench")

    def action_mark(self) -> None:
        self.table.mark()
        self._show_match_count()

    def action_unmark(self) -> None:
        self.table.unmark_all()
        self._show_match_count()

    # -- the details --------------------------------------------------------------------------------------------------

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()

    @on(LineTable.Chosen, "#runs")
    def chosen(self, event: LineTable.Chosen) -> None:
        self.details.choose(event.key)

    def action_part(self, by: int) -> None:
        self.details.turn(by)

    @on(DetailsPane.Compared)
    def action_open(self) -> None:
        """Go to the details. On a small terminal they replace the list."""
        self._show_details(True)
        self.set_focus(self.query_one(DetailsScroll))

    def _show_details(self, yes: bool) -> None:
        self.set_class(yes, "-details")

    # -- what one does with runs --------------------------------------------------------------------------------------

    def action_note(self) -> None:
        """Ask for the note on the run under the cursor."""
        if self.only_watches():
            return
        run_id = self.table.chosen
        if run_id is None:
            self.console_app.tell("Select a run to write a note on.", "warning")
            return
        self.app.push_screen(
            AskText(
                f"Note on {run_id}",
                self.table.note_of(run_id) or "",
                "Leave it empty to remove the note.",
                partial(self._take_note, run_id),
            )
        )

    async def _take_note(self, run_id: str, text: str) -> str:
        try:
            await asyncio.to_thread(self.session.store.set_note, run_id, text, author=self.session.operator)
        except LabError as exc:
            return str(exc)
        self.saved.note_written(run_id, text.strip() or None)
        self.request_update()
        self.details.load(run_id)
        self.console_app.tell(f"{'noted on' if text.strip() else 'note removed from'} {run_id}")
        return ""

    @work(group="export", exclusive=True)
    async def action_export(self) -> None:
        """Ask for a file's name and write the marked runs, or else all matching runs in the list's order."""
        marked, listed = list(self.table.marked), self._listed
        try:
            await listed.tally()
            runs = await listed.some(marked) if marked else listed.build_matching_runs()
        except LabError as exc:
            self.console_app.tell(str(exc), "error")
            return
        if not len(runs):
            self.console_app.tell("There is no run to export.", "warning")
            return
        also = ", shown by the filter or not" if self.query_one(FilterLine).text else ""
        exporting = RunExport(self.app, self.session.store, self.console_app.tell)
        if not marked:
            exporting.ask(runs, "in the list")
            return
        instead = "To export all runs of the list instead: cancel, then {runs-unmark} (unmark all) and {runs-export}."
        exporting.ask(runs, f"marked{also}", self.insert_keys(instead))
