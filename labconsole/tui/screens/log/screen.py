"""Log: everything since the console was opened, from its own notes and its loggers."""

from __future__ import annotations

import textwrap

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from labconsole.text.cells import safe
from labconsole.tui.console.journal import SEVERITIES
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import KeyBar
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.screen import PAUSE, ConsoleScreen
from labconsole.tui.parts.table import LineTable
from labconsole.tui.parts.typed_text import TypedText
from labconsole.tui.screens.log.journal_table import LOOKS, JournalTable, format_time

MAX_COPIED_LINES = 1000
"""Limit of most terminals for a copy through OSC 52: 74 kB of base64."""


class LogFilter(HasActions, TypedText):
    """The words that an entry must hold. Up, down, enter and esc leave it."""

    ACTIONS = (Action("escape,up,down,enter", "leave", "Leave the filter", shown=False),)

    def action_leave(self) -> None:
        self.screen.set_focus(self.screen.query_one(JournalTable))


class WholeEntry(Lines):
    """The entry under the cursor, uncut."""

    def __init__(self, table: JournalTable) -> None:
        super().__init__(id="whole-entry")
        self._table = table

    def lines(self, width: int) -> list[list[Span]]:
        entry = self._table.chosen
        if entry is None:
            return [[]]
        tone = LOOKS[entry.severity][1]
        head = f" {format_time(entry)} UTC  {entry.severity}  {entry.node or 'console'}  {entry.source}"
        rows = textwrap.wrap(safe(entry.text, 2000), max(20, width - 2)) or [""]
        return [[(safe(head, width), "muted")], *([(" " + row, tone)] for row in rows[: max(1, self.size.height - 1)])]


class LogScreen(ConsoleScreen):
    """A table that follows, a filter above it, the whole entry beneath."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "slash",
            "filter",
            "Filter",
            "Show only entries that contain the words you type.",
            id="log-filter",
            title="Filter the log",
        ),
        Action(
            "s",
            "severity",
            "Severity",
            "Choose the lowest severity: debug, information, warning or error.",
            id="log-severity",
        ),
        Action(
            "f",
            "follow",
            "Follow",
            "Go to the newest entry and follow the log; moving up stops following.",
            id="log-follow",
            title="Follow the log",
        ),
        Action(
            "c",
            "copy_all",
            "Copy all",
            "Copy all entries shown to the clipboard; y copies one.",
            id="log-copy",
            title="Copy the log",
        ),
        Action("escape", "back", "Back", "Clear the filter, then go back to the bench.", id="log-back", shown=False),
        PAUSE,
    )
    AUTO_FOCUS = "#journal"

    def compose(self) -> ComposeResult:
        table = JournalTable(self.state.journal)
        yield self.top_bar()
        yield self.measuring_line()
        with Container(id="log-area"):
            yield LogFilter(placeholder="/ show entries that contain these words", compact=True, id="log-words")
            yield table
            yield WholeEntry(table)
        yield KeyBar()

    def begin(self) -> None:
        self._total = -1

    def paint_clock(self) -> None:
        if self._total != self.state.journal.total:  # loggers do not change the revision
            self._total = self.state.journal.total
            self.paint_data()

    def paint_data(self) -> None:
        self.query_one(JournalTable).paint()
        self.query_one(WholeEntry).paint()

    @on(LineTable.Chosen, "#journal")
    def show_whole(self) -> None:
        self.query_one(WholeEntry).paint()

    @on(Input.Changed, "#log-words")
    def filter_changed(self, event: Input.Changed) -> None:
        self.query_one(JournalTable).choose(wanted=event.value)

    def action_filter(self) -> None:
        self.set_focus(self.query_one(LogFilter))

    def action_severity(self) -> None:
        table = self.query_one(JournalTable)
        table.choose(least=SEVERITIES[(SEVERITIES.index(table.least) + 1) % len(SEVERITIES)])

    def action_follow(self) -> None:
        table = self.query_one(JournalTable)
        table.follow = True
        self.set_focus(table)
        table.paint()

    def action_back(self) -> None:
        """Go one step back: the filter first."""
        field = self.query_one(LogFilter)
        if field.value:
            field.value = ""
        else:
            self.console_app.action_mode("bench")

    def lines_to_copy(self) -> list[str]:
        entry = self.query_one(JournalTable).chosen
        return [entry.line(format_time(entry))] if entry is not None else []

    def action_copy_all(self) -> None:
        lines = self.query_one(JournalTable).lines_in_sight()[-MAX_COPIED_LINES:]
        if not lines:
            self.notify("There is nothing to copy.", markup=False)
            return
        self.app.copy_to_clipboard("\n".join(lines) + "\n")
        self.notify(f"Copied {len(lines)} lines", markup=False)
