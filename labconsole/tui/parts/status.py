"""One-line instruments: who and where (top), what happens now (phase), what just happened (events)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from rich.cells import cell_len

from labconsole.engine.execution.set_up_course import block_words
from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import percent, safe, span
from labconsole.tui.console import clock
from labconsole.tui.console.observed import observed_line
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE, ConsoleState
from labconsole.tui.parts.lines import Lines, Span

SEVERITY_MARK = {"information": ("·", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


def _cells(spans: list[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _justified(left: list[Span], right: list[Span], width: int) -> list[Span]:
    return [*left, (" " * max(1, width - _cells(left) - _cells(right)), ""), *right]


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
            line = _justified(left, both, width)
            if _cells(line) <= width:
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


class PhaseBar(Lines):
    """The state of the trial in words, a bar for the phase, the time left in all; else the last run's verdict."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(classes="phase-bar")
        self._state = state

    def lines(self, width: int) -> list[list[Span]]:
        now_s, state = clock.monotonic_s(), self._state
        trial = state.trial
        if trial is None and not state.asked:
            if state.observed is not None:
                return [observed_line(state.observed, width, clock.wall_s())]
            return [self._watching(width) if state.read_only else self._idle(width)]
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

    def _watching(self, width: int) -> list[Span]:
        words = safe("   nobody tells of a trial; this console only watches: --read-only", width - 12)
        return [(" ◇ ", "accent"), ("watching", "strong"), (words, "muted")]

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
