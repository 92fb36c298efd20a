"""Actions on the list of runs: its arrangement, comparisons, copies as text, and export to files."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from textual.app import App

from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.model.record.annotations import exported
from labconsole.model.record.summary import SORTS, RunSummary, Sorting
from labconsole.text.cells import safe
from labconsole.text.sanitize import sanitize_cell
from labconsole.tui.console import clock
from labconsole.tui.console.memory import NAME_CHARACTERS, SavedViews, View, is_name
from labconsole.tui.parts import dialogs
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.dialogs import AskText, Pick
from labconsole.tui.parts.filter_line import FilterLine
from labconsole.tui.parts.live_results import LiveResultsScreen
from labconsole.tui.parts.runs_table import SavedRunsTable, describe_column
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.screens.runs.details import DetailsPane

# -- arrangement -------------------------------------------------------------------------------------------------------
# Arrangement of the list of runs: sorting, columns, and named views of both with the filter.

SAVE = "save …"
REMOVE = "remove …"


def build_layout_actions(views: SavedViews) -> Iterator[Action]:
    """Yield the screen's actions for every sorting and every view, for the palette."""
    for name in SORTS:
        yield Action("", f"sort_by({name!r})", f"Sort by {describe_column(name)}", "Sort the runs by this column.")
    for name, view in views.all().items():
        yield Action("", f"view({name!r})", f"View: {safe(name, 40)}", safe(view.filter, 80) or "All runs.")


class RunListLayout:
    """Asks, and changes table and filter. ``changed`` is called when the list must be read again."""

    def __init__(
        self, app: App[Any], table: SavedRunsTable, line: FilterLine, views: SavedViews, changed: Callable[[], object]
    ) -> None:
        self._app, self._table, self._line, self._views, self._changed = app, table, line, views, changed

    def sort(self, sorting: Sorting) -> None:
        """Sort the list."""
        self._table.sorting = sorting
        self._changed()

    def ask_sort(self) -> None:
        """Ask for the column to sort by."""
        now, reverses = self._table.sorting, insert_keys(self._table, "sorted so now; {runs-reverse} reverses")

        def take(name: str | None) -> None:
            if name is not None:
                self.sort(Sorting.by(names[name]))

        names = {describe_column(name): name for name in SORTS}
        choices = {label: reverses if name == now.column else "" for label, name in names.items()}
        self._app.push_screen(Pick("Sort by", choices), take)

    def ask_columns(self) -> None:
        """Ask for the columns to show, again after each, until esc."""
        table = self._table
        names = {describe_column(column.name): column.name for column in table.COLUMNS if column.title}

        def take(label: str | None) -> None:
            if label is not None:
                table.hide(table.hidden ^ {names[label]})
                self.ask_columns()

        choices = {label: "– hidden" if name in table.hidden else "✓ shown" for label, name in names.items()}
        self._app.push_screen(Pick("Columns: enter shows or hides one, esc is done", choices), take)

    @property
    def view(self) -> View:
        """The present view."""
        table = self._table
        return View(self._line.text, table.sorting.column, table.sorting.descending, tuple(sorted(table.hidden)))

    def show(self, view: View) -> None:
        """Show a view."""
        self._table.hide(frozenset(view.hidden))
        self._table.sorting = Sorting(view.sort if view.sort in SORTS else "started", view.descending)
        self._line.put(view.filter)
        self._changed()

    def ask_view(self, tell: Callable[[str, str], None]) -> None:
        """Ask for a view to show, keep or remove."""
        views = self._views.all()

        def take(name: str | None) -> None:
            if name == SAVE:
                self._ask_name(tell)
            elif name == REMOVE:
                self._app.push_screen(Pick("Remove a view", _describe_views(views)), remove)
            elif name is not None:
                self.show(views[name])

        def remove(name: str | None) -> None:
            problem = self._views.remove(name) if name is not None else ""
            if name is not None:
                tell(problem or f"removed the view {name}", "error" if problem else "information")

        more = {SAVE: "name what is shown now"}
        more |= {REMOVE: "forget one of these"} if views else {}
        self._app.push_screen(Pick("Views", {**_describe_views(views), **more}), take)

    def _ask_name(self, tell: Callable[[str, str], None]) -> None:
        view = self.view

        async def take(text: str) -> str:
            name = text.strip()
            if not is_name(name) or name in (SAVE, REMOVE):
                return f"enter a name of at most {NAME_CHARACTERS} characters"
            problem = self._views.keep(name, view)
            if not problem:
                tell(f"saved the view {name}", "information")
            return problem

        explanation = (
            f"It shows {view.filter or 'all runs'}, sorted by {describe_column(view.sort)}. V and the palette offer it."
        )
        self._app.push_screen(AskText("Save this view. Its name:", "", explanation, take))


def _describe_views(views: dict[str, View]) -> dict[str, str]:
    return {name: view.filter or "all runs" for name, view in views.items()}


# -- comparisons and copies --------------------------------------------------------------------------------------------
# Actions on the list of runs: compare two, and copy ids, records, rows and differences as text.


class CopyActionsScreen(LiveResultsScreen):
    """The part of the Runs screen that compares and copies."""

    @property
    def table(self) -> SavedRunsTable:
        return self.query_one(SavedRunsTable)

    @property
    def details(self) -> DetailsPane:
        return self.query_one(DetailsPane)

    @property
    def record_list(self) -> SavedRunsTable:
        return self.table

    def action_compare(self) -> None:
        chosen = [*self.table.marked]
        if len(chosen) == 1 and self.table.chosen not in (None, chosen[0]):
            chosen.append(str(self.table.chosen))
        if len(chosen) != 2:
            many = f"{len(chosen)} are marked; {{runs-unmark}} unmarks all" if chosen[1:] else "{runs-mark} marks one"
            self.console_app.tell(self.insert_keys(f"Comparing needs two runs: {many}."), "warning")
            return
        self.details.compare(*chosen)

    def lines_to_copy(self) -> list[str]:
        return list(self.table.marked) or ([self.table.chosen] if self.table.chosen else [])

    def record_to_copy(self) -> tuple[dict[str, Any], str] | None:
        """The record, as ``runs show --json`` prints it."""
        view = self.details.view
        if view.record is None:
            return None
        return exported(view.record, view.note), f"the record of {view.record.run_id}"

    def action_copy_rows(self) -> None:
        table = self.table
        keys = [key for key in table.marked if key in table.by_id] or ([table.chosen] if table.chosen else [])
        if not keys:
            self.console_app.tell("There is no row to copy.", "warning")
            return
        self.copy_text(table.rows_text(keys), f"{len(keys)} rows" if len(keys) > 1 else "the row")

    def _differences(self) -> str | None:
        """The compare page as text. If nothing is compared yet, compare first."""
        text = self.details.differences
        if text is None:
            self.action_compare()
        return text

    def action_copy_differences(self) -> None:
        if (text := self._differences()) is not None:
            self.copy_text(text, "the differences of the two runs")

    def action_export_differences(self) -> None:
        if (text := self._differences()) is not None:
            explanation, texts = "A line per difference, with tabs between the columns.", {".tsv": lambda: text}
            self.ask_new_file("the differences", "differences.tsv", explanation, texts)


# -- files -------------------------------------------------------------------------------------------------------------
# Files of marked runs: JSON lines as ``runs export`` writes them, or CSV for a spreadsheet. Blocking.


class RunsToWrite(Protocol):
    """Runs of a known number."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[RunSummary]: ...


SUFFIXES = (".jsonl", ".csv")


def create_run_file(name: str) -> tuple[Path, IO[str]]:
    """Create a file for runs. Raises ValueError with a sentence."""
    return dialogs.create_file(name, SUFFIXES)


def write_run_files(path: Path, stream: IO[str], runs: RunsToWrite, store: RunsStore) -> tuple[int, list[str]]:
    """Write the runs and close the file. Returns how many, and why others could not be written.

    A full disk leaves no partial file.
    """
    problems: list[str] = []
    try:
        with stream:
            if path.suffix == ".csv":
                written = _write_csv(stream, runs)
            else:
                written = sum(_write_record(stream, run.run_id, store, problems) for run in runs)
    except OSError as exc:
        path.unlink(missing_ok=True)
        return 0, [f"{path} cannot be written: {exc.strerror or exc}"]
    except LabError as exc:  # the list itself cannot be read to its end
        path.unlink(missing_ok=True)
        return 0, [str(exc)]
    return written, problems


def _write_record(stream: IO[str], run_id: str, store: RunsStore, problems: list[str]) -> bool:
    try:
        record = store.get(run_id)
        if record is None:
            raise LabError(f"{run_id} is no longer in the store")
        stream.write(json.dumps(exported(record, store.note(run_id))) + "\n")
    except LabError as exc:
        problems.append(str(exc))
        return False
    return True


def _write_csv(stream: IO[str], runs: RunsToWrite) -> int:
    """Write a column per factor and result, named as in the store. Unknown values are empty. Returns the number of
    rows.
    """
    written = 0
    names = [field.name for field in fields(RunSummary)]
    writer = csv.writer(stream)
    writer.writerow(names)
    for run in runs:
        row = [getattr(run, name) for name in names]
        writer.writerow([sanitize_cell(";".join(value) if isinstance(value, tuple) else value) for value in row])
        written += 1
    return written


# -- export ------------------------------------------------------------------------------------------------------------
# Export of runs to a new file: the question for its name, and the writing in a thread.


class RunExport:
    """``ask`` for a file and write runs to it. ``tell`` reports the file, or why it was not written."""

    def __init__(self, app: App[Any], store: RunsStore, tell: Callable[[str, str], None]) -> None:
        self._app, self._store, self._tell = app, store, tell

    def ask(self, runs: RunsToWrite, which: str, instead: str = "") -> None:
        """Ask for the file's name. ``which``: the runs, such as "marked". ``instead``: how to export others."""
        name = f"runs-{datetime.fromtimestamp(clock.wall_s(), UTC):%Y%m%dT%H%M%SZ}.jsonl"
        noun = "run" if len(runs) == 1 else "runs"
        explanation = ".jsonl: records for `labconsole runs import`; .csv: one row per run. Existing files are kept."
        explanation = f"{explanation} {instead}" if instead else explanation
        self._app.push_screen(
            AskText(f"Export {len(runs)} {noun} {which}", name, explanation, partial(self._take, runs))
        )

    async def _take(self, runs: RunsToWrite, name: str) -> str:
        try:
            path, stream = await asyncio.to_thread(create_run_file, name)
        except ValueError as exc:
            return str(exc)
        write = partial(write_run_files, path, stream, runs, self._store)
        self._app.run_worker(self._write(write, str(path)), group="export")
        return ""

    async def _write(self, write: Callable[[], tuple[int, list[str]]], path: str) -> None:
        written, problems = await asyncio.to_thread(write)
        if problems:
            rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self._tell(f"not exported to {path}: {problems[0]}{rest}", "warning" if written else "error")
        if written:
            self._tell(f"exported {written} {'run' if written == 1 else 'runs'} to {path}", "information")
