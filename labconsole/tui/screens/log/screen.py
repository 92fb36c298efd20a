"""Log: everything since the console was opened, from its own notes and its loggers."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from labconsole.text.cells import fit_ends, safe
from labconsole.tui.console.state import SEVERITIES, Entry, EventLog
from labconsole.tui.parts.action import Action, HasActions, KeyBar
from labconsole.tui.parts.fields import TypedText
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.screen import PAUSE, ConsoleScreen
from labconsole.tui.parts.table import Column, LineTable

# -- journal table -----------------------------------------------------------------------------------------------------
# The log as a table, newest at the bottom. It follows new entries until the cursor leaves the last line.

LOOKS = {"debug": (" ", "muted"), "information": ("·", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


def format_time(entry: Entry) -> str:
    """Format the time of day, UTC. A bounded log rarely has entries older than a day."""
    return f"{datetime.fromtimestamp(entry.at_wall_s, UTC):%H:%M:%S.%f}"[:-3]


SUBTITLE_MARGIN = 6
"""Corners and blanks around the text in a border."""


class JournalTable(LineTable):
    """Entries at or above level ``least`` that contain every term of ``wanted``."""

    EMPTY = "No entries: nothing has happened yet, or none matches the filter."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("time", "time UTC", 12, right=False),
        Column("severity", "", 1, right=False),
        Column("origin", "from", 8, right=False, grow_to=12, rank=1),
        Column("text", "message", 20, right=False, grow_to=400),
    )

    def __init__(self, journal: EventLog) -> None:
        super().__init__(id="journal")
        self._journal = journal
        self._seen = 0
        self._shown: dict[int, Entry] = {}
        self.least = "information"
        self.wanted = ""
        self.follow = True
        self.border_title = "Log"

    def choose(self, *, least: str | None = None, wanted: str | None = None) -> None:
        """Change the level or the terms."""
        self.least = self.least if least is None else least
        self.wanted = self.wanted if wanted is None else wanted
        self._seen = 0
        self._shown.clear()
        self._keys = []
        self.paint()

    def _passes_filter(self, entry: Entry) -> bool:
        if SEVERITIES.index(entry.severity) < SEVERITIES.index(self.least):
            return False
        if not self.wanted:
            return True
        text = f"{entry.node} {entry.source} {entry.severity} {entry.text}".casefold()
        return all(word in text for word in self.wanted.casefold().split())

    def _take_new(self) -> None:
        """Read only the entries since the last look, and drop those that the journal has dropped."""
        journal = self._journal
        if journal.total == self._seen:
            return
        new = min(journal.total - self._seen, len(journal.entries))
        self._seen = journal.total
        for entry in list(journal.entries)[len(journal.entries) - new :]:
            if self._passes_filter(entry):
                self._shown[entry.number] = entry
        oldest = journal.entries[0].number
        while self._shown and next(iter(self._shown)) < oldest:
            gone = next(iter(self._shown))
            del self._shown[gone]
            self._cells.pop(gone, None)

    def keys(self) -> list[int]:
        self._take_new()
        return list(self._shown)

    def prepare(self) -> None:
        """Keep the cursor at the end while following."""
        if self.follow and self._keys and self.cursor_key != self._keys[-1]:
            self._steered = True
            self._put_cursor(self._keys[-1])
        here, least = f"{len(self._keys)} of {len(self._journal.entries)}", f"{self.least} or higher"
        dropped = self._journal.total - len(self._journal.entries)
        lost = f"{dropped} older entries were dropped" if dropped else ""
        long = "following" if self.follow else "not following; press end or f to follow"
        short = "following" if self.follow else "not following"
        wordings = [
            ", ".join(part for part in parts if part)
            for parts in ((here, least, lost, long), (here, least, lost, short), (here, lost, short), (here, short))
        ]
        room = self.size.width - SUBTITLE_MARGIN
        self.border_subtitle = next((wording for wording in wordings if cell_len(wording) <= room), wordings[-1])

    def move_to(self, key: int) -> None:
        """Move the cursor by hand. On the last line the table follows, anywhere else it does not scroll."""
        super().move_to(key)
        self.follow = bool(self._keys) and key == self._keys[-1]
        self.prepare()

    @property
    def chosen(self) -> Entry | None:
        """The entry under the cursor."""
        return self._shown.get(self.cursor_key)

    def lines_in_sight(self) -> list[str]:
        """All entries that pass the filter, as text."""
        return [entry.line(format_time(entry)) for entry in self._shown.values()]

    def cell_time(self, key: int, width: int) -> Span:
        return format_time(self._shown[key]), "muted"

    def cell_severity(self, key: int, width: int) -> Span:
        return LOOKS[self._shown[key].severity]

    def cell_origin(self, key: int, width: int) -> Span:
        """The node of the entry, or its logger's name, of which as many last parts are shown as fit."""
        entry = self._shown[key]
        if entry.node:
            return safe(entry.node, width), "second"
        origin = entry.source
        while cell_len(origin) > width and "." in origin:
            origin = origin.partition(".")[2]
        return safe(origin, width), "muted"

    def cell_text(self, key: int, width: int) -> Span:
        entry = self._shown[key]
        return fit_ends((entry.text, entry.brief or entry.text), width), LOOKS[entry.severity][1]


# -- the screen --------------------------------------------------------------------------------------------------------

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
