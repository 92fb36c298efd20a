"""A step of a plan as it runs: a line for each trial, and the interval between the bounds as it narrows.

It draws the contract of experiments (contracts/picture.py), and knows no kind of experiment.
"""

from __future__ import annotations

from typing import ClassVar

from textual import events

from labconsole.contracts.experiment import StepRecord
from labconsole.contracts.picture import Between, PicturePart, PictureTrial, StepPicture
from labconsole.engine.execution.step_view import StepState, StepView
from labconsole.model.record.run import Verdict
from labconsole.text.axis import Axis, fit_axis
from labconsole.text.cells import format_percent, format_rounded, safe
from labconsole.text.interval_bar import STROKES, axis_title, draw_intervals
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE
from labconsole.tui.console.step_text import format_bounds, format_forecast
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Lines, Span, field, set_border_titles
from labconsole.tui.parts.table import Column, LineTable

PASSED, FAILED, UNDER_WAY, WAITS = "✓", "✗", "▶", "‖"
LABEL_CELLS = 8
ZOOM_MARGIN = 0.5
"""Margin shown on either side, as a share of the widest interval."""


class StepTrials(LineTable):
    """Rows are trials in the order taken, the last being the one under way. Follows it until the cursor is moved."""

    EMPTY = "no trial yet"
    ACTIONS = (
        Action(
            "z",
            "zoom",
            "Zoom",
            "Draw only what is around the bounds, or the whole axis.",
            id="picture-zoom",
            title="Zoom to the bounds",
        ),
    )
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("number", "", 4),
        Column("test", "test", 12, right=False, rank=2),
        Column("at", "", 10),
        Column("duration", "s", 6, rank=3),
        Column("missing", "missing %", 9),
        Column("passed", "", 4, right=False),
        Column("picture", "", 18, right=False, grow_to=400),
    )
    WITHOUT_TEST: ClassVar[tuple[Column, ...]] = tuple(column for column in COLUMNS if column.name != "test")

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._seen: StepView | None = None
        self._picture = StepPicture()
        self._axes: dict[int, Axis] = {}
        self.zoomed = False
        self.following = True

    def show(self, seen: StepView | None, title: str) -> None:
        """Take the present state of a step."""
        other = seen is not self._seen
        picture = seen.picture if seen is not None else StepPicture()
        if other:
            self.following = True
        if other or picture is not self._picture:
            self._seen, self._picture = seen, picture
            self._cells.clear()
            self.refresh()
        set_border_titles(self, title)
        self.paint()

    @property
    def empty_text(self) -> str:
        """Explain why the table is empty."""
        if self._seen is None:
            return "nothing chosen"
        if self._seen.state in (StepState.DONE, StepState.STORED):
            return "it shows no trials"
        return {StepState.PENDING: "not begun", StepState.FAILED: self._seen.why or "failed"}.get(
            self._seen.state, self.EMPTY
        )

    @property
    def trial(self) -> PictureTrial | None:
        """The trial under the cursor."""
        return self._trial(self.cursor_key) if self.cursor_key in self._keys else None

    def columns(self) -> tuple[Column, ...]:
        return self.COLUMNS if len(self._picture.parts) > 1 else self.WITHOUT_TEST

    def keys(self) -> list[int]:
        picture = self._picture
        return list(range(len(picture.trials) + (self._shows_next and picture.under_way is not None)))

    @property
    def _shows_next(self) -> bool:
        return self._seen is not None and self._seen.state is StepState.RUNNING

    def paint(self) -> None:
        super().paint()
        if self.following and self._keys and self.cursor_key != self._keys[-1]:
            self.move_to(self._keys[-1])

    def prepare(self) -> None:
        """Fit one axis for all trials of a part."""
        width = next((width for column, width in self._layout if column.name == "picture"), 0)
        axes = {number: self._axis(number, part, width) for number, part in enumerate(self._picture.parts)}
        if axes != self._axes:
            self._axes = axes
            self._cells.clear()
            self.refresh()

    def _axis(self, number: int, part: PicturePart, width: int) -> Axis:
        low, high = part.low, part.high
        if self.zoomed:
            low, high = zoomed(part, self._picture.bounds_of(number))
        return fit_axis(low, high, max(2, width), least_cells=8, best_cells=14)

    def header_title(self, column: Column, width: int) -> str:
        trial = self.trial
        part = self._picture.parts[trial.part] if trial is not None else None
        if part is None:
            return column.title
        if column.name == "at":
            return part.unit.split()[0]
        if column.name == "picture" and trial is not None and trial.part in self._axes:
            return axis_title(self._axes[trial.part])
        return column.title

    def _trial(self, key: int) -> PictureTrial:
        trial = self._picture.trials[key] if key < len(self._picture.trials) else self._picture.under_way
        assert trial is not None
        return trial

    def _tone(self, key: int) -> str:
        trial = self._trial(key)
        if key >= len(self._picture.trials):
            return "accent"
        return "good" if all(trial.passed) else "warn" if any(trial.passed) else "bad"

    def _marks(self, key: int) -> str:
        if key >= len(self._picture.trials):
            return UNDER_WAY
        return "".join(PASSED if each else FAILED for each in self._trial(key).passed) or "·"

    def cell_number(self, key: int, width: int) -> Span:
        return str(key + 1), "muted"

    def cell_test(self, key: int, width: int) -> Span:
        return safe(self._picture.parts[self._trial(key).part].name, width), "muted"

    def cell_at(self, key: int, width: int) -> Span:
        return format_rounded(self._trial(key).at), ""

    def cell_duration(self, key: int, width: int) -> Span:
        return f"{self._trial(key).duration_s:.3g}", "muted"

    def cell_missing(self, key: int, width: int) -> Span:
        missing = self._trial(key).missing_ratio
        return ("" if missing is None else format_percent(missing)), ""

    def cell_passed(self, key: int, width: int) -> Span:
        return self._marks(key), self._tone(key)

    def cell_picture(self, key: int, width: int) -> Span:
        trial = self._trial(key)
        axis = self._axes.get(trial.part)
        if axis is None:
            return "", ""
        taken = key < len(self._picture.trials)
        bounds = trial.bounds if taken else self._picture.bounds_of(trial.part)
        marks = self._marks(key)
        mark = marks if len(set(marks)) == 1 else "◐"
        return draw_intervals(axis, [each[:3] for each in bounds], trial.at, mark[0]), self._tone(key)

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self._cells.clear()
        self.paint()
        self.refresh()

    def action_cursor(self, by: int) -> None:
        self.following = False
        super().action_cursor(by)

    def action_cursor_edge(self, side: int) -> None:
        super().action_cursor_edge(side)
        self.following = side > 0

    def on_click(self, event: events.Click) -> None:
        self.following = False
        super().on_click(event)


def zoomed(part: PicturePart, bounds: tuple[Between, ...]) -> tuple[float, float]:
    """The range around the bounds, if there are any."""
    lows = [part.low if low is None else low for low, high, *_ in bounds if (low, high) != (None, None)]
    highs = [part.high if high is None else high for low, high, *_ in bounds if (low, high) != (None, None)]
    if not lows:
        return part.low, part.high
    margin = ZOOM_MARGIN * max(max(highs) - min(lows), 0.001 * part.high)
    return max(part.low, min(lows) - margin), min(part.high, max(highs) + margin)


def format_step_end(record: StepRecord, trials: int) -> tuple[str, str]:
    """Format how a step ended, with its tone. For a step that is one trial: its verdict, with the first doubt."""
    if record.failure:
        return f"{FAILED} {record.failure}", "bad"
    verdict: Verdict | None = getattr(record, "verdict", None)
    if verdict is None:
        return (f"{PASSED} {format_rounded(trials)} trials" if trials else PASSED), "good"
    text = f"{VERDICT_GLYPHS[verdict.status]} {verdict.status}"
    return f"{text}: {verdict.reasons[0].detail}" if verdict.reasons else text, VERDICT_TONE[verdict.status]


class StepSummary(Lines):
    """The bounds of each criterion, the trial under way, the next one, and how many more it takes."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._seen: StepView | None = None
        self._halted, self._title = False, ""

    def show(self, seen: StepView | None, *, halted: bool = False, title: str = "") -> None:
        """Take the present state of a step. ``halted``: paused, or waiting for a node. ``title``: for use without a
        table.
        """
        self._seen, self._halted, self._title = seen, halted, title
        self.paint()

    def lines(self, width: int) -> list[list[Span]]:
        if self._seen is None:
            return []
        seen, picture = self._seen, self._seen.picture
        rows: list[list[Span]] = []
        if self._title:
            rows += field("trial", self._title, width, "strong", rows=2, label_cells=LABEL_CELLS)
        for number, part in enumerate(picture.parts):
            pairs = zip(part.criteria, picture.bounds_of(number), strict=True)
            for order, (criterion, bounds) in enumerate(pairs):
                if bounds.known:
                    text = format_bounds(part, bounds)
                    rows += field(
                        "bounds",
                        f"{STROKES[order % len(STROKES)]} {criterion}: {text}",
                        width,
                        "strong",
                        rows=2,
                        label_cells=LABEL_CELLS,
                    )
        if picture.found and (seen.record is not None or not picture.parts):
            rows += field("found", "; ".join(picture.found), width, rows=3, label_cells=LABEL_CELLS)
        now = picture.under_way
        if seen.state is StepState.RUNNING and now is not None:
            part = picture.parts[now.part]
            glyph, label = (WAITS, "waits") if self._halted else (UNDER_WAY, "now")
            text = f"{glyph} trial {len(picture.trials) + 1}: {part.name} at {format_rounded(now.at)} {part.unit}"
            rows += field(label, f"{text}, {now.duration_s:.3g} s", width, "accent", rows=2, label_cells=LABEL_CELLS)
            rows += field("then", format_forecast(picture), width, rows=2, label_cells=LABEL_CELLS)
        elif seen.record is not None:
            text, tone = format_step_end(seen.record, len(picture.trials))
            rows += field("ended", text, width, tone, rows=2, label_cells=LABEL_CELLS)
        elif seen.why:
            rows += field("but", seen.why, width, "warn", label_cells=LABEL_CELLS)
        if any(trial.missing_ratio for trial in picture.trials):
            text = "of what was to be sent: lost on the way, or never sent by the generator"
            rows += field("missing", text, width, "muted", rows=1, label_cells=LABEL_CELLS)
        return rows
