"""One-line instruments: who and where (top), recent events (bottom)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from rich.cells import cell_len
from textual import events
from textual.message import Message

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import fit_ends, format_duration, safe, wrap_text
from labconsole.tui.console import clock
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Lines, Span, justify, measure_cells

SEVERITY_MARK = {"information": ("·", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


BRAND = " labconsole "
LEAVING = ("brand", "time", "emulated", "words", "nodes", "testbed", "titles")
"""The order in which parts leave the top line until it fits.

They are the program's name, the time, "emulated", the text around the nodes' numbers, their name and that of the
testbed, the titles of inactive screens.
"""


class Tab(Protocol):
    """A screen as the top line names it."""

    @property
    def mode(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...


class TopBar(Lines):
    """The screens, the testbed, whether it is emulated, how many nodes answer, whether painting is paused, the time."""

    @dataclass
    class Wanted(Message):
        """A screen's name was clicked."""

        tab: Tab

    def __init__(
        self, here: Tab, tabs: Sequence[Tab], inventory: Inventory, telemetry: Telemetry, state: ConsoleState
    ) -> None:
        super().__init__(classes="top-bar")
        self._here, self._tabs = here, tabs
        self._inventory, self._telemetry, self._state = inventory, telemetry, state
        self.paused_since_s: float | None = None
        self.read_only = False

    def lines(self, width: int) -> list[list[Span]]:
        return [self._fitting(width)[1]]

    def _fitting(self, width: int) -> tuple[frozenset[str], list[Span]]:
        """Return the parts that stay in the line, and the line."""
        kept, line = frozenset(LEAVING), list[Span]()
        for leaving in range(len(LEAVING) + 1):
            kept = frozenset(LEAVING[leaving:])
            line = justify(self._left(kept), self._right(kept), width)
            if measure_cells(line) <= width:
                break
        return kept, line

    def _right(self, kept: frozenset[str]) -> list[Span]:
        nodes = self._telemetry.nodes
        up = sum(node.state is NodeState.CONNECTED for node in nodes.values())
        total = len(self._inventory.nodes)
        broken = sum(node.state in (NodeState.LOST, NodeState.FAILED) for node in nodes.values())
        right: list[Span] = []
        if self.read_only:
            right.append((" READ-ONLY ", "warn"))
        if self.paused_since_s is not None:
            right.append((f" FROZEN {format_duration(clock.monotonic_s() - self.paused_since_s)} ", "warn"))
        tone = "good" if up == total else "bad" if broken else "warn"
        glyph = "●" if up == total else "✗" if broken else "◌"
        number = f"{up} of {total}" if "words" in kept else f"{up}/{total}"
        right.append((f" {glyph} {number}{' nodes' if 'nodes' in kept else ''}", tone))
        if "time" in kept:
            right.append((f"  {datetime.fromtimestamp(clock.wall_s(), UTC):%H:%M:%S} UTC ", "muted"))
        return right

    def _left(self, kept: frozenset[str]) -> list[Span]:
        left: list[Span] = [(BRAND, "accent")] if "brand" in kept else []
        left += [(text, "tab" if tab is self._here else "muted") for tab, text in self._format_tabs(kept)]
        if "testbed" in kept:
            left.append((f"  {safe(self._inventory.testbed, 24)}", ""))
        if self._inventory.emulated and "emulated" in kept:
            left.append((" · emulated", "muted"))
        return left

    def _format_tabs(self, kept: frozenset[str]) -> Iterator[tuple[Tab, str]]:
        for tab in self._tabs:
            if tab is self._here:
                yield tab, f" [{tab.key} {tab.title}]"
            else:
                yield tab, f" {tab.key} {tab.title}" if "titles" in kept else f" {tab.key}"

    def on_click(self, event: events.Click) -> None:
        """Go to the screen whose name is under the mouse."""
        kept, _ = self._fitting(self.size.width)
        at = cell_len(BRAND) if "brand" in kept else 0
        for tab, text in self._format_tabs(kept):
            if at <= event.x < at + cell_len(text):
                self.post_message(self.Wanted(tab))
            at += cell_len(text)


WRAPPED, WRAPPED_CHARACTERS = ("warning", "error"), 600
"""Notes that take further lines rather than lose their reason."""


class EventLines(Lines):
    """The newest notes, as many as there are rows, newest last."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(classes="event-lines")
        self._state = state

    def on_resize(self) -> None:
        """Make the lines: their number follows the height, which is unknown at first."""
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        most, room = max(1, self.size.height), max(1, width - 13)
        rows: list[list[Span]] = []
        for note in reversed(self._state.notes):
            mark, tone = SEVERITY_MARK.get(note.severity, SEVERITY_MARK["information"])
            clock = f"{datetime.fromtimestamp(note.at_wall_s, UTC):%H:%M:%S}"
            wraps = note.severity in WRAPPED and not note.brief
            wrapped = wrap_text(safe(note.text, WRAPPED_CHARACTERS), room) if wraps else []
            if not 0 < len(wrapped) <= most - len(rows):
                wrapped = [fit_ends((note.text, note.brief or note.text), room)]
            first, *more = wrapped
            rows[:0] = [
                [(f" {clock} ", "muted"), (f"{mark} ", tone), (first, tone)],
                *([(" " * (len(clock) + 4), ""), (line, tone)] for line in more),
            ]
            if len(rows) >= most:
                break
        return rows
