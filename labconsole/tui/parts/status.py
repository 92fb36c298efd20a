"""One-line instruments: who and where (top), what happens now (phase), what just happened (events)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from rich.cells import cell_len
from textual import events
from textual.message import Message

from labconsole.engine.execution.set_up_course import block_words
from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import percent, safe, span
from labconsole.tui.console import clock
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE, ConsoleState
from labconsole.tui.parts.lines import Lines, Span

SEVERITY_MARK = {"information": ("·", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


def _cells(spans: list[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _justified(left: list[Span], right: list[Span], width: int) -> list[Span]:
    return [*left, (" " * max(1, width - _cells(left) - _cells(right)), ""), *right]


BRAND = " labconsole "
LEAVING = ("brand", "time", "emulated", "words", "nodes", "testbed", "titles")
"""What leaves the top line one after the other until it fits: the program's name, the time, "emulated", the words
around the nodes' numbers, their name and that of the testbed, the titles of the screens that are not in front."""


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
        """What stays in the line, and the line."""
        kept, line = frozenset(LEAVING), list[Span]()
        for leaving in range(len(LEAVING) + 1):
            kept = frozenset(LEAVING[leaving:])
            line = _justified(self._left(kept), self._right(kept), width)
            if _cells(line) <= width:
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
            right.append((f" FROZEN {span(clock.monotonic_s() - self.paused_since_s)} ", "warn"))
        tone = "good" if up == total else "bad" if broken else "warn"
        glyph = "●" if up == total else "✗" if broken else "◌"
        number = f"{up} of {total}" if "words" in kept else f"{up}/{total}"
        right.append((f" {glyph} {number}{' nodes' if 'nodes' in kept else ''}", tone))
        if "time" in kept:
            right.append((f"  {datetime.fromtimestamp(clock.wall_s(), UTC):%H:%M:%S} UTC ", "muted"))
        return right

    def _left(self, kept: frozenset[str]) -> list[Span]:
        left: list[Span] = [(BRAND, "accent")] if "brand" in kept else []
        left += [(words, "tab" if tab is self._here else "muted") for tab, words in self._tab_words(kept)]
        if "testbed" in kept:
            left.append((f"  {safe(self._inventory.testbed, 24)}", ""))
        if self._inventory.emulated and "emulated" in kept:
            left.append((" · emulated", "muted"))
        return left

    def _tab_words(self, kept: frozenset[str]) -> Iterator[tuple[Tab, str]]:
        for tab in self._tabs:
            if tab is self._here:
                yield tab, f" [{tab.key} {tab.title}]"
            else:
                yield tab, f" {tab.key} {tab.title}" if "titles" in kept else f" {tab.key}"

    def on_click(self, event: events.Click) -> None:
        """Go to the screen whose name is under the mouse."""
        kept, _ = self._fitting(self.size.width)
        at = cell_len(BRAND) if "brand" in kept else 0
        for tab, words in self._tab_words(kept):
            if at <= event.x < at + cell_len(words):
                self.post_message(self.Wanted(tab))
            at += cell_len(words)


class PhaseBar(Lines):
    """The state of the trial in words, a bar for the phase, the time left in all; else the last run's verdict."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(classes="phase-bar")
        self._state = state

    def lines(self, width: int) -> list[list[Span]]:
        now_s, state = clock.monotonic_s(), self._state
        trial = state.trial
        if trial is None and not state.asked:
            return [self._idle(width)]
        words = state.phase_words(now_s)
        left: list[Span] = [(" ▶ ", "accent"), (safe(words, max(20, width - 36)), "strong")]
        right = self._of_a_plan(width) or self._of_a_point(now_s, width)
        progress = state.phase_progress(now_s)
        room = width - _cells(left) - _cells(right) - 4
        if progress is not None and room >= 8:
            cells = min(room, 40)
            filled = round(cells * min(1.0, progress[0] / progress[1]))
            left += [("  ", ""), ("━" * filled, "accent"), ("─" * (cells - filled), "muted")]
        return [_justified(left, right, width)]

    def _of_a_plan(self, width: int) -> list[Span]:
        execution = self._state.execution
        if execution is None or not execution.running:
            return []
        done, steps = execution.outcome.taken + execution.outcome.skipped, execution.steps
        far = f"{done} of {execution.plan.trials}"
        if steps.current is not None:
            far = f"search {steps.number_of(steps.current)} of {steps.asked}"
        right: list[Span] = [(f"plan {safe(execution.plan.name, 20)}, {far} ", "")]
        if execution.current is not None and execution.plan.set_ups is not None and width >= 100:
            block, _ = execution.plan.place_of(execution.current)
            right.append((f"· {block_words(block or 0, execution.plan.set_ups)} ", "muted"))
        if execution.left_s is not None and width >= 100:
            right.append((f"· about {span(execution.left_s)} left ", "muted"))
        return right

    def _of_a_point(self, now_s: float, width: int) -> list[Span]:
        state = self._state
        trial, left_s = state.trial, state.all_left_s(now_s)
        if trial is None or trial.repetitions == 1:
            return []
        right: list[Span] = [(f"trial {trial.repetition} of {trial.repetitions} ", "")]
        if left_s is not None and width >= 100:
            right.append((f"· about {span(left_s)} in all ", "muted"))
        return right

    def _idle(self, width: int) -> list[Span]:
        last = self._state.last
        if last is None:
            return [
                (" ■ ", "muted"),
                ("ready", "strong"),
                (safe("   press r to start a trial", width - 10), "muted"),
            ]
        status = last.verdict.status
        spans: list[Span] = [
            (" ■ ", "muted"),
            ("ready", "strong"),
            ("   last run ", "muted"),
            (f"{VERDICT_GLYPHS[status]} {status}", VERDICT_TONE[status]),
            (f"  loss {percent(last.total.loss_ratio)} %", ""),
        ]
        rest = width - _cells(spans) - 3
        if last.verdict.reasons:
            spans.append(("  " + safe(last.verdict.reasons[0].detail, rest), "muted"))
        elif rest > 12:
            spans.append(("  " + safe(last.run_id, rest), "muted"))
        return spans


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
