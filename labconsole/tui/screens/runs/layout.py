"""Arrangement of the list of runs: sorting, columns, and named views of both with the filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from textual.app import App

from labconsole.model.sorting import SORTS, Sorting
from labconsole.text.cells import safe
from labconsole.tui.console.views import NAME_CHARACTERS, SavedViews, View, is_name
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.ask_text import AskText
from labconsole.tui.parts.filter_line import FilterLine
from labconsole.tui.parts.pick import Pick
from labconsole.tui.parts.runs_table import SavedRunsTable, describe_column
from labconsole.tui.parts.screen import insert_keys

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
