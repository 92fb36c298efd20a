"""Commands sent to a node, newest at the top: time, command, duration, result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from labconsole.engine.live.history import CommandHistory, LoggedRequest
from labconsole.text.cells import format_decimal, safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import Column, LineTable


class CommandTable(LineTable):
    """One row per command. The cursor stays on its command when others arrive."""

    EMPTY = "No commands sent to this node yet."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("time", "time UTC", 10, right=False),
        Column("op", "request", 14, right=False, grow_to=17),
        Column("took", "ms", 7),
        Column("outcome", "outcome", 10, right=False, grow_to=20),
        Column("text", "with", 12, right=False, grow_to=400),
    )

    def __init__(self) -> None:
        super().__init__(id="commands")
        self._history: CommandHistory | None = None
        self._by_number: dict[int, LoggedRequest] = {}
        self._seen: tuple[object, int] = (None, -1)
        self.border_title = "Commands"

    def show(self, history: CommandHistory) -> None:
        """Take another node's history, or refresh the same one."""
        if self._history is not history:
            self._steered = False
            self._cells.clear()
        self._history = history
        if self._seen != (history, history.revision):
            self._seen = (history, history.revision)
            self._by_number = {command.number: command for command in reversed(history.commands)}
            for number in [number for number in self._cells if number not in self._by_number]:
                del self._cells[number]
            older = history.total - len(history.commands)
            self.border_subtitle = f"{history.total} so far" + (f", {older} oldest dropped" if older else "")
        self.paint()

    @property
    def chosen(self) -> LoggedRequest | None:
        """The command under the cursor."""
        return self._by_number.get(self.cursor_key)

    def keys(self) -> list[int]:
        return list(self._by_number)

    def cell_time(self, key: int, width: int) -> Span:
        return f"{datetime.fromtimestamp(self._by_number[key].at_wall_s, UTC):%H:%M:%S.%f}"[:-5], "muted"

    def cell_op(self, key: int, width: int) -> Span:
        return safe(self._by_number[key].op, width), "second"

    def cell_took(self, key: int, width: int) -> Span:
        took_s = self._by_number[key].took_s
        return ("…", "accent") if took_s is None else (format_decimal(took_s * 1e3, 1), "muted")

    def cell_outcome(self, key: int, width: int) -> Span:
        command = self._by_number[key]
        if not command.outcome:
            return "▶ running", "accent"
        return ("✓ ok", "good") if not command.failed else (safe(f"✗ {command.outcome}", width), "bad")

    def cell_text(self, key: int, width: int) -> Span:
        command = self._by_number[key]
        return safe(("$ " if command.argv else "") + command.words, width), "" if command.argv else "muted"
