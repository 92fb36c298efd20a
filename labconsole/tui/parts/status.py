"""One-line instruments: who and where (top), the present measurement, recent events (bottom)."""

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
from labconsole.model.record.verdict_codes import title
from labconsole.text.cells import fit_ends, fit_wording, format_duration, format_percent, safe, wrap_text
from labconsole.tui.console import clock
from labconsole.tui.console.current_measurement import CurrentMeasurement, Wordings, build_current_measurement
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE, ConsoleState
from labconsole.tui.parts.lines import Lines, Span, justify, measure_cells

# -- status ------------------------------------------------------------------------------------------------------------

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


# -- measuring line ----------------------------------------------------------------------------------------------------
# The line of every screen with the present measurement: what, where in its plan, how long, and by whom.
#
# On a tall terminal a second line shows the step. Parts that do not fit get a shorter wording, then leave by rank, the
# time left last. If nothing is measured, the line shows how the last plan ended, until that was read, and the last run.

SEPARATOR = " · "
BAR_CELLS = 40
WHO, WHAT, PLAN, PLACE, STEP, LEFT = range(6)
SHORTEN = (WHAT, STEP, PLACE, PLAN, WHAT, STEP, PLACE, WHAT, STEP, PLAN, LEFT, PLACE, WHAT, PLAN, STEP, LEFT)
"""The part to shorten by one wording, in turn, if the line is too narrow."""


def fitting(parts: Sequence[Wordings], room: int, order: Sequence[int] = SHORTEN) -> list[str]:
    """One wording of each part, the longest that fit in ``room`` cells together, empty ones included."""
    at = [0] * len(parts)

    def chosen() -> list[str]:
        return [wordings[place] for wordings, place in zip(parts, at, strict=True)]

    for index in order:
        texts = [word for word in chosen() if word]
        if sum(map(cell_len, texts)) + len(SEPARATOR) * (len(texts) - 1) <= room:
            break
        if index < len(parts):
            at[index] = min(at[index] + 1, len(parts[index]) - 1)
    return chosen()


class MeasuringLine(Lines):
    """The present measurement, or the last one."""

    def __init__(self, state: ConsoleState, start_hint: str = "") -> None:
        super().__init__(classes="measuring-line")
        self._state, self._start_hint = state, start_hint

    def lines(self, width: int) -> list[list[Span]]:
        now_s = clock.monotonic_s()
        now = build_current_measurement(self._state, now_s, clock.wall_s())
        if now is not None:
            return _two_lines(now, width) if self.size.height > 1 else [_one_line(now, width)]
        return self._idle(width)

    def _idle(self, width: int) -> list[list[Span]]:
        last, over = self._state.last, self._state.plan_over
        if over is not None:
            glyph, tone = over.look
            at = f"{datetime.fromtimestamp(over.at_wall_s, UTC):%H:%M} "
            first: list[Span] = [(f" {glyph} ", tone), (at, "muted"), (safe(over.text, width - 10), tone)]
            return [first, self._last_run(width)] if self.size.height > 1 and last is not None else [first]
        if self._state.read_only:
            announcer = self._state.announcer
            blind = announcer and announcer not in self._state.connected
            text = f"{announcer} is not connected, so no trial can be seen" if blind else "no trial is announced"
            text = safe(f"   {text}; this console only watches: --read-only", width - 12)
            return [[(" ◇ ", "accent"), ("watching", "strong"), (text, "muted")]]
        if last is not None:
            return [self._last_run(width)]
        if self._state.connecting:
            text = f"   to {', '.join(sorted(self._state.connecting))}"
            return [[(" ◌ ", "warn"), ("connecting", "strong"), (safe(text, width - 14), "muted")]]
        return [[(" ■ ", "muted"), ("ready", "strong"), (safe(f"   {self._start_hint}", width - 10), "muted")]]

    def _last_run(self, width: int) -> list[Span]:
        last = self._state.last
        assert last is not None
        status = last.verdict.status
        spans: list[Span] = [
            (" ■ ", "muted"),
            ("ready", "strong"),
            ("   last run ", "muted"),
            (f"{VERDICT_GLYPHS[status]} {status}", VERDICT_TONE[status]),
            (f"  loss {format_percent(last.total.loss_ratio)} %", ""),
        ]
        rest = width - measure_cells(spans) - 3
        first = next(iter(last.verdict.reasons), None)
        wordings = (last.run_id, "") if first is None else (first.detail, title(first.code), "")
        return [*spans, ("  " + fit_wording(wordings, rest), "muted")]


def _format_operator(now: CurrentMeasurement) -> Wordings:
    return (f"{now.by} measures", now.by) if now.by else ("",)


def _format_time_left(now: CurrentMeasurement) -> Wordings:
    if now.left_s is None:
        return ("",)
    about = format_duration(now.left_s)
    return (f"halted, {about} left", f"{about} left", "") if now.halted else (f"about {about} left", about, "")


def _mark(now: CurrentMeasurement) -> Span:
    return (" ◇ ", "second") if now.by else (" ◌ ", "warn") if now.halted else (" ▶ ", "accent")


def _joined(parts: Sequence[str]) -> str:
    return SEPARATOR.join(word for word in parts if word)


def _one_line(now: CurrentMeasurement, width: int) -> list[Span]:
    chosen = fitting(
        (_format_operator(now), now.what, now.plan, now.place, now.step, _format_time_left(now)), width - 5
    )
    left: list[Span] = [_mark(now), (safe(_joined(chosen[WHO : WHAT + 1] + chosen[STEP:LEFT]), width - 6), "strong")]
    right = _joined([chosen[PLAN], chosen[PLACE], chosen[LEFT]])
    room = width - measure_cells(left) - cell_len(right) - 2
    left += _bar(now, room)
    return justify(left, [(safe(right, max(0, width - measure_cells(left) - 2)) + " ", "")] if right else [], width)


def _two_lines(now: CurrentMeasurement, width: int) -> list[list[Span]]:
    chosen = fitting(
        (_format_operator(now), now.what, now.plan, now.place), width - 5, (WHAT, PLACE, PLAN, WHAT, PLACE, WHAT, PLAN)
    )
    left: list[Span] = [_mark(now), (safe(_joined(chosen[: WHAT + 1]), width - 6), "strong")]
    right = _joined([chosen[PLAN], chosen[PLACE]])
    first = justify(left, [(safe(right, max(0, width - measure_cells(left) - 2)) + " ", "")] if right else [], width)
    step, remains = fitting((now.step, _format_time_left(now)), width - 6, (0, 1, 0, 0, 1))
    second: list[Span] = [("   ", ""), (safe(step, width - 6), "")]
    second += _bar(now, width - measure_cells(second) - cell_len(remains) - 2)
    return [first, justify(second, [(remains + " ", "muted")] if remains else [], width)]


def _bar(now: CurrentMeasurement, room: int) -> list[Span]:
    cells = min(room - 2, BAR_CELLS)
    if now.progress is None or cells < 8:
        return []
    filled = round(cells * max(0.0, min(1.0, now.progress[0] / now.progress[1])))
    return [("  ", ""), ("━" * filled, "accent"), ("─" * (cells - filled), "muted")]
