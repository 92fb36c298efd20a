"""Log: everything that happened since the console was opened, in its own words and in those of its loggers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from labconsole.text.cells import safe
from labconsole.tui.console.journal import SEVERITIES
from labconsole.tui.parts.key_bar import KeyBar
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.screen import PAUSE, ConsoleScreen
from labconsole.tui.parts.status import PhaseBar
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.log.journal_table import LOOKS, JournalTable, stamp

MAX_COPIED_LINES = 1000
"""A terminal takes so much through OSC 52 and no more: 74 kB of base64 in most."""


class LogFilter(Input):
    """The words that an entry must hold. Up, down, enter and esc leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,up,down,enter", "leave", "Leave the filter", show=False),
    ]

    def action_leave(self) -> None:
        self.screen.set_focus(self.screen.query_one(JournalTable))


class WholeEntry(Lines):
    """The entry under the cursor without being cut."""

    def __init__(self, table: JournalTable) -> None:
        super().__init__(id="whole-entry")
        self._table = table

    def lines(self, width: int) -> list[list[Span]]:
        entry = self._table.chosen
        if entry is None:
            return [[]]
        tone = LOOKS[entry.severity][1]
        head = f" {stamp(entry)} UTC  {entry.severity}  {entry.node or 'console'}  {entry.source}"
        rows = textwrap.wrap(safe(entry.text, 2000), max(20, width - 2)) or [""]
        return [[(safe(head, width), "muted")], *([(" " + row, tone)] for row in rows[: max(1, self.size.height - 1)])]


class LogScreen(ConsoleScreen):
    """A table that follows, a filter above it, the whole entry beneath."""

    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="log-filter", key_display="/", tooltip="Only what holds these words."),
        Binding("s", "severity", "Severity", id="log-severity", tooltip="From debug, information, warning, error on."),
        Binding("f", "follow", "Follow", id="log-follow", tooltip="Go to the newest, follow; moving up holds still."),
        Binding("c", "copy_all", "Copy all", id="log-copy", tooltip="Copy all that is listed (OSC 52); y copies one."),
        Binding("escape", "back", "Bench", show=False, id="log-back", tooltip="Clear the filter; back to the bench."),
        PAUSE,
    ]  # fmt: skip
    AUTO_FOCUS = "#journal"

    def compose(self) -> ComposeResult:
        table = JournalTable(self.state.journal)
        yield self.top_bar()
        yield PhaseBar(self.state)
        with Container(id="log-area"):
            yield LogFilter(placeholder="/ words that an entry must hold", compact=True, id="log-words")
            yield table
            yield WholeEntry(table)
        yield KeyBar()

    def commands(self) -> Iterable[tuple[str, str, Callable[[], object]]]:
        return (
            ("Filter the log", "Only what holds these words (/)", self.action_filter),
            ("Severity", "From debug, information, warning or error on (s)", self.action_severity),
            ("Follow the log", "Go to the newest and follow (f)", self.action_follow),
            ("Copy the log", "All that is listed, by OSC 52 (c)", self.action_copy_all),
        )

    def on_mount(self) -> None:
        super().on_mount()
        self._total = -1

    def paint_clock(self) -> None:
        self.query_one(PhaseBar).paint()
        if self._total != self.state.journal.total:  # loggers move no revision
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
        """One step back: the filter first."""
        words = self.query_one(LogFilter)
        if words.value:
            words.value = ""
        else:
            self.console_app.action_mode("bench")

    def run_id_to_copy(self) -> str | None:
        """The line under the cursor."""
        entry = self.query_one(JournalTable).chosen
        return entry.line(stamp(entry)) if entry is not None else None

    def action_copy_all(self) -> None:
        lines = self.query_one(JournalTable).lines_in_sight()[-MAX_COPIED_LINES:]
        if not lines:
            self.notify("Nothing to copy.", markup=False)
            return
        self.app.copy_to_clipboard("\n".join(lines) + "\n")
        self.notify(f"Copied {len(lines)} lines", markup=False)
