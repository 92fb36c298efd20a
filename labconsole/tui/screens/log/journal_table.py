"""The log as a table, newest at the bottom. It follows new entries until the cursor leaves the last line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from rich.cells import cell_len

from labconsole.text.cells import fit_ends, safe
from labconsole.tui.console.journal import SEVERITIES, Entry, EventLog
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import Column, LineTable

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
