"""Lines of words as they are, those too long for the room going on beneath."""

from __future__ import annotations

import textwrap

from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Lines, Span


class WrappedLines(Lines):
    """``say`` shows other words."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.told: list[str] = []

    def say(self, told: list[str]) -> None:
        """These from now on."""
        self.told = told
        self.paint()
        self.refresh(layout=True)

    def lines(self, width: int) -> list[list[Span]]:
        room = max(8, width - 1)
        return [
            [(safe(row, room), "")]
            for line in self.told
            for row in textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
        ]
