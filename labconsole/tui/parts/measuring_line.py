"""The line of every screen with the present measurement: what, where in its plan, how long, and by whom.

On a tall terminal a second line shows the step. Parts that do not fit get a shorter wording, then leave by rank, the
time left last. If nothing is measured, the line shows how the last plan ended, until that was read, and the last run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.cells import cell_len

from labconsole.model.record.verdict_codes import title
from labconsole.text.cells import fit_wording, format_duration, format_percent, safe
from labconsole.tui.console import clock
from labconsole.tui.console.current_measurement import CurrentMeasurement, Wordings, build_current_measurement
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE, ConsoleState
from labconsole.tui.parts.lines import Lines, Span, justify, measure_cells

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
