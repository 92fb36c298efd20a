"""Lines of text as they are, wrapped if too long for the room."""

from __future__ import annotations

import textwrap

from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Lines, Span


class WrappedLines(Lines):
    """``say`` replaces the text."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.text_lines: list[str] = []

    def say(self, text_lines: list[str]) -> None:
        """Show these lines."""
        self.text_lines = text_lines
        self.paint()
        self.refresh(layout=True)

    def lines(self, width: int) -> list[list[Span]]:
        room = max(8, width - 1)
        return [
            [(safe(row, room), "")]
            for line in self.text_lines
            for row in textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
        ]
