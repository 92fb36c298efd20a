"""One step of a plan, trial by trial, during and after its run: its guests, its picture, its screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from labconsole.contracts.experiment import StepRecord
from labconsole.contracts.picture import Between, CopyState, PictureGuest, PicturePart, PictureTrial, StepPicture
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, StepState, StepView
from labconsole.model.record.run import Verdict
from labconsole.text.axis import STROKES, Axis, axis_title, draw_intervals, fit_axis
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.console.plan_text import format_bounds, format_forecast
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.charts import OverTimeChart
from labconsole.tui.parts.lines import Lines, Span, field, set_border_titles
from labconsole.tui.parts.overlay import Overlay, close_action
from labconsole.tui.parts.screen import Application, frames_per_second
from labconsole.tui.parts.status import MeasuringLine
from labconsole.tui.parts.table import Column, LineTable

# -- guests table ------------------------------------------------------------------------------------------------------
# A row for each guest of the running step: its activity, its marks, and its working time or result.
#
# For a finished trial without times per guest, the row has each guest's result.

GUEST_LOOKS = {
    CopyState.STARTS: ("… starts", "muted"),
    CopyState.STANDS: ("· idle", "muted"),
    CopyState.WAITS: ("· waits", ""),
    CopyState.WORKS: ("▶ works", "accent"),
    CopyState.DONE: ("✓ done", "good"),
}


NAME, DOES = Column("name", "guest", 6, right=False, grow_to=20), Column("state", "does", 8, right=False)
RESULT_PREFIX, MOST_CELLS = "found ", 40
NUMBERS = f"0123456789<>-+{UNKNOWN}"
"""Characters at the start of a number."""


def build_result_columns(guests: Sequence[PictureGuest]) -> tuple[Column, ...]:
    """A column for each heading with a result of any guest, as wide as its values. The last leave first."""
    texts: dict[str, list[str]] = {}
    for guest in guests:
        for heading, word in guest.found:
            texts.setdefault(heading, []).append(word)
    return tuple(
        Column(
            RESULT_PREFIX + heading,
            heading,
            min(MOST_CELLS, max(map(cell_len, (heading, *said)))),
            rank=rank,
            right=all(word[:1] in NUMBERS for word in said),
        )
        for rank, (heading, said) in enumerate(texts.items())
    )


class GuestsTable(LineTable):
    """Rows are places in the crew's order. A picture is replaced, never changed, so the same one is painted once."""

    EMPTY = "no guest is running"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        NAME,
        DOES,
        Column("begun", "begun +s", 9, rank=2),
        Column("ended", "ended +s", 9, rank=1),
        Column("seconds", "seconds", 10),
    )
    OVER_TIME: ClassVar[tuple[Column, ...]] = (NAME, DOES)
    """Columns if a chart next to the table shows the guests' activity."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._guests: tuple[PictureGuest, ...] = ()
        self._wanted = self.COLUMNS
        self._painted: tuple[object, ...] = ()
        self.border_title = "Guests"

    def show(self, picture: StepPicture | None) -> None:
        """Take a step's picture, or None for no step. Paints if it changed, and once a second while guests work."""
        if not self.is_mounted or not self.size.width or not self.display:
            return  # out of sight, rows and guests stay as last painted
        guests = picture.guests if picture is not None else ()
        over_time = picture is not None and picture.over_time is not None
        working = any(guest.state is CopyState.WORKS for guest in guests)
        seen = guests, int(clock.monotonic_s()) if working else 0, self.size, self.display, over_time
        if guests is self._guests and self._painted[1:] == seen[1:]:
            return
        self._guests, self._painted = guests, seen
        found = build_result_columns(guests)
        wanted = (NAME, *found) if found else self.OVER_TIME if over_time else self.COLUMNS
        if wanted != self._wanted:
            self._wanted = wanted
        timed = "seconds by the clock outside · + from the first mark" if wanted == self.COLUMNS else ""
        set_border_titles(self, format_guest_counts(guests), timed)
        self._cells.clear()
        self.paint()

    def columns(self) -> tuple[Column, ...]:
        return self._wanted

    def keys(self) -> list[int]:
        return list(range(len(self._guests)))

    def cell_of(self, column: Column, key: int, width: int) -> Span:
        if column.name.startswith(RESULT_PREFIX):
            return safe(dict(self._guests[key].found).get(column.title, ""), width), ""
        return super().cell_of(column, key, width)

    def cell_name(self, key: int, width: int) -> Span:
        return safe(self._guests[key].name, width), "strong"

    def cell_state(self, key: int, width: int) -> Span:
        return GUEST_LOOKS[self._guests[key].state]

    def cell_begun(self, key: int, width: int) -> Span:
        return _seconds(self._guests[key].begun_s), "muted"

    def cell_ended(self, key: int, width: int) -> Span:
        return _seconds(self._guests[key].ended_s), "muted"

    def cell_seconds(self, key: int, width: int) -> Span:
        guest = self._guests[key]
        if guest.seconds is not None:
            return _seconds(guest.seconds), "strong"
        if guest.state is CopyState.WORKS and guest.heard_s is not None:
            return f"{clock.monotonic_s() - guest.heard_s:.0f} …", "accent"
        return "", ""


def format_guest_counts(guests: tuple[PictureGuest, ...]) -> str:
    """Format ``Guests: 57 of 100 done, 43 work``. Guests without work are counted separately."""
    states = Counter(guest.state for guest in guests)
    with_work = states[CopyState.WAITS] + states[CopyState.WORKS] + states[CopyState.DONE]
    parts = [f"{format_rounded(states[CopyState.DONE])} of {format_rounded(with_work)} done"] if with_work else []
    for state, verb in (
        (CopyState.WORKS, "at work"),
        (CopyState.WAITS, "waiting"),
        (CopyState.STANDS, "idle"),
        (CopyState.STARTS, "starting, or already up"),
    ):
        parts += [f"{format_rounded(states[state])} {verb}"] if states[state] else []
    return f"Guests: {', '.join(parts)}" if parts else "Guests"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


# -- step picture ------------------------------------------------------------------------------------------------------
# A step of a plan as it runs: a line for each trial, and the interval between the bounds as it narrows.
#
# It draws the contract of experiments (contracts/picture.py), and knows no kind of experiment.

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


# -- step pane ---------------------------------------------------------------------------------------------------------


class StepPane(Vertical):
    """A step with the parts that it has: its trials, or else its guests and their activity over time; a summary."""

    DEFAULT_CSS = """
    StepPane { background: $background; }
    StepPane StepTrials, StepPane GuestsTable, StepPane OverTimeChart {
        height: 1fr; border: round $lc-line; border-title-color: $secondary; border-title-style: bold;
        border-subtitle-color: $text-muted; padding: 0; background: $background; scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0; scrollbar-color: $lc-line; scrollbar-background: $background;
    }
    StepPane StepTrials:focus, StepPane GuestsTable:focus { border: round $accent; border-title-color: $accent; }
    StepPane OverTimeChart { height: 2fr; }
    StepPane StepSummary { height: auto; min-height: 3; background: $background; }
    StepPane OverTimeChart, StepPane GuestsTable, StepPane.-guests StepTrials { display: none; }
    StepPane.-guests GuestsTable, StepPane.-over-time OverTimeChart { display: block; }
    """

    def compose(self) -> ComposeResult:
        yield StepTrials(id="step-trials")
        yield OverTimeChart(id="step-over-time")
        yield GuestsTable(id="step-guests")
        yield StepSummary(id="step-words")

    @property
    def has_guests(self) -> bool:
        """Whether guests are shown, and no trials."""
        return self.has_class("-guests")

    def show(self, seen: StepView | None, title: str, *, halted: bool = False, guests: bool | None = None) -> None:
        """Take the present state of a step. ``guests``: whether it has any, or None to judge by what it shows."""
        picture = seen.picture if seen is not None else StepPicture()
        has_guests = bool(picture.guests or picture.over_time) if guests is None else guests
        self.set_class(has_guests, "-guests")
        self.set_class(picture.over_time is not None, "-over-time")
        self.query_one(StepTrials).show(seen, title)
        self.query_one(GuestsTable).show(picture)
        self.query_one(OverTimeChart).show(picture)
        self.query_one(StepSummary).show(seen, halted=halted, title=title if has_guests and guests is None else "")


# -- step screen -------------------------------------------------------------------------------------------------------
# One step of a plan over the whole screen, trial by trial, during and after its run.

HALTED_STATUSES = (ExecutionStatus.PAUSED, ExecutionStatus.WAITING)


class StepSelection(NamedTuple):
    """Steps to look at, under the noun ``name``. ``current`` is under way, or paused if ``halted``."""

    name: str
    steps: Sequence[StepView] = ()
    current: StepView | None = None
    halted: bool = False

    @classmethod
    def of(cls, execution: PlanExecution | None) -> StepSelection:
        """Return the steps of a plan that runs or ran."""
        if execution is None:
            return cls("")
        steps = execution.steps
        return cls(execution.plan.name, steps.seen, steps.current, execution.status in HALTED_STATUSES)


class StepScreen(Overlay):
    """``index``: the step shown, or None for the one under way, else the last that ended."""

    title_in_help = "a search or trial"
    CSS_PATH = "step_screen.tcss"
    ACTIONS: ClassVar = (
        Action("enter", "open", "Open run", "Open the trial under the cursor in Runs.", id="step-open", common=True),
        Action("a", "abort", "Abort", "Abort the running measurement, after asking.", id="step-abort", common=True),
        Action("left,h", "step(-1)", "Previous", "Show the previous search or trial.", id="step-previous", common=True),
        Action("right,l", "step(1)", "Next", "Show the next search or trial.", id="step-next", common=True),
        close_action("step", "Close it; what runs goes on."),
    )

    def __init__(self, app: Application, look: Callable[[], StepSelection], index: int | None = None) -> None:
        super().__init__()
        self.console_app, self._look, self._index = app, look, index

    def compose(self) -> ComposeResult:
        with Vertical(id="step-box"):
            yield MeasuringLine(self.console_app.state, "")
            yield StepPane(id="step-pane")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(StepTrials).focus()
        self.set_interval(1 / frames_per_second(self.console_app.settings), self.paint)
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """Update."""
        self.query_one(MeasuringLine).paint()
        there = self._look()
        seen = self._seen(there)
        title = "not begun"
        if seen is not None:
            number, total = there.steps.index(seen) + 1, len(there.steps)
            place = f"{number} of {total}, " if total > 1 else ""
            when = f", {seen.record.started_at[:16].replace('T', ' ')} UTC" if seen.record is not None else ""
            title = f"{there.name}: {place}{seen.step.describe()}{when}"
        pane = self.query_one(StepPane)
        had_guests = pane.has_guests
        pane.show(seen, title, halted=there.halted)
        if pane.has_guests is not had_guests:
            self.set_focus(self.query_one(GuestsTable if pane.has_guests else StepTrials))
            self.refresh_bindings()

    def _seen(self, there: StepSelection) -> StepView | None:
        steps = there.steps
        if not steps:
            return None
        if self._index is not None:
            return steps[min(self._index, len(steps) - 1)]
        return there.current or next((each for each in reversed(steps) if each.record is not None), steps[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable opening for a trial of guests, which is no run."""
        return action != "open" or not self.query_one(StepPane).has_guests

    def action_step(self, by: int) -> None:
        there = self._look()
        seen = self._seen(there)
        if seen is not None:
            self._index = max(0, min(len(there.steps) - 1, there.steps.index(seen) + by))
            self.paint()

    def action_abort(self) -> None:
        self.console_app.ask_abort()

    def action_open(self) -> None:
        trial = self.query_one(StepTrials).trial
        if trial is not None and trial.run_id:
            self.dismiss()
            self.console_app.state.wanted_run = trial.run_id
            self.console_app.navigation.push_mode("runs")
