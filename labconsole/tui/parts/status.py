"""One-line instruments: who and where (top), what just happened (events)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import safe, span
from labconsole.tui.console import clock
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Lines, Span, cells_of, justified

SEVERITY_MARK = {"information": ("·", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


FITTINGS = (
    (True, True, True, True),
    (False, True, True, True),
    (False, True, True, False),
    (False, False, True, True),
    (False, False, True, False),
    (False, False, False, False),
)
"""What stands in the top line, the most that fits: the program's name, the screens' titles, "emulated", the time."""


class Tab(Protocol):
    """A screen as the top line names it."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...


class TopBar(Lines):
    """The screens, the testbed, whether it is emulated, how many nodes answer, whether painting is paused, the time."""

    def __init__(
        self, here: Tab, tabs: Sequence[Tab], inventory: Inventory, telemetry: Telemetry, state: ConsoleState
    ) -> None:
        super().__init__(classes="top-bar")
        self._here, self._tabs = here, tabs
        self._inventory, self._telemetry, self._state = inventory, telemetry, state
        self.paused_since_s: float | None = None
        self.read_only = False

    def lines(self, width: int) -> list[list[Span]]:
        nodes = self._telemetry.nodes
        up = sum(node.state is NodeState.CONNECTED for node in nodes.values())
        total = len(self._inventory.nodes)
        broken = sum(node.state in (NodeState.LOST, NodeState.FAILED) for node in nodes.values())
        right: list[Span] = []
        if self.read_only:
            right.append((" READ-ONLY ", "warn"))
        if self.paused_since_s is not None:
            right.append((f" PAUSED {span(clock.monotonic_s() - self.paused_since_s)} ", "warn"))
        tone = "good" if up == total else "bad" if broken else "warn"
        right.append((f" {'●' if up == total else '✗' if broken else '◌'} {up} of {total} nodes ", tone))
        clock_words: Span = (f" {datetime.fromtimestamp(clock.wall_s(), UTC):%H:%M:%S} UTC ", "muted")
        line: list[Span] = []
        for brand, titles, emulated, time in FITTINGS:
            left = self._left(brand=brand, titles=titles, emulated=emulated)
            both = [*right, clock_words] if time else right
            line = justified(left, both, width)
            if cells_of(line) <= width:
                break
        return [line]

    def _left(self, *, brand: bool, titles: bool, emulated: bool) -> list[Span]:
        left: list[Span] = [(" labconsole ", "accent")] if brand else []
        for tab in self._tabs:
            if tab is self._here:
                left.append((f" {tab.key} {tab.title} ", "tab"))
            else:
                left.append((f" {tab.key} {tab.title}" if titles else f" {tab.key}", "muted"))
        left.append((f"  {safe(self._inventory.testbed, 24)}", ""))
        if self._inventory.emulated and emulated:
            left.append((" · emulated", "muted"))
        return left


class EventLines(Lines):
    """The newest notes, as many as there are rows, newest last."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(classes="event-lines")
        self._state = state

    def lines(self, width: int) -> list[list[Span]]:
        notes = list(self._state.notes)[-max(1, self.size.height) :]
        rows: list[list[Span]] = []
        for note in notes:
            mark, tone = SEVERITY_MARK.get(note.severity, SEVERITY_MARK["information"])
            clock = f"{datetime.fromtimestamp(note.at_wall_s, UTC):%H:%M:%S}"
            rows.append([(f" {clock} ", "muted"), (f"{mark} ", tone), (safe(note.text, max(1, width - 13)), tone)])
        return rows
