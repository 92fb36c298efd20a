"""A plan's points down, its repetitions across (in blocks: the pilot, then every block's), one cell per trial.

A cell is a glyph between two places: brackets at the cursor, a prime after a repeated trial. So neither the state nor
the cursor depends on colour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events
from textual.message import Message

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Cell, TrialState
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.order import PILOT
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Lines, Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable
from labconsole.units import format_target_within

CELL = 3
NUMBER_CELLS = 5
"""Room for a repetition's number above every fifth column."""

LOOKS = {
    TrialState.PENDING: ("·", "muted"),
    TrialState.RUNNING: ("▶", "accent"),
    TrialState.VALID: ("✓", "good"),
    TrialState.SUSPECT: ("?", "warn"),
    TrialState.INVALID: ("✗", "bad"),
    TrialState.STORED: ("■", "good"),
    TrialState.LEFT_OUT: ("–", "muted"),
}
STORED_SUSPECT = ("□", "warn")
STORED_INVALID = ("⊠", "bad")
"""Look of a trial whose last attempt stayed invalid, in a set-up that is over."""


def choose_look(cell: Cell) -> tuple[str, str]:
    """Glyph and tone of a trial."""
    if cell.state is TrialState.STORED and cell.verdict in ("suspect", "invalid"):
        return STORED_SUSPECT if cell.verdict == "suspect" else STORED_INVALID
    return LOOKS[cell.state]


class GridTable(LineTable):
    """One row per point. ``repetition``, the number of a trial of its point, and the row's key are the cell under the
    cursor.

    While the plan runs, the cursor follows the trial under way, until the operator moves it.
    """

    EMPTY = "No grid to show."
    ACTIONS = (
        Action("left", "repetition(-1)", "Previous repetition", shown=False),
        Action("right", "repetition(1)", "Next repetition", shown=False),
        Action("enter", "open", "Open", "Show the run under the cursor on the Runs screen.", title="Open the run"),
        Action(
            "",
            "follow",
            "Follow the plan",
            "Go to the trial that is measured and follow it (end); moving the cursor stops that.",
        ),
    )
    POINT: ClassVar[tuple[Column, ...]] = (
        Column("index", "#", 4, rank=3),
        Column("platform", "platform", 9, right=False),
        Column("size", "B", 5),
        Column("sources", "src", 3),
        Column("target", "target", 9),
    )
    BACKGROUND = Column("background", "backgr.", 13, right=False, rank=2)
    DURATION = Column("duration", "s", 6, rank=2)

    @dataclass
    class Opened(Message):
        """Enter on a trial that has a run."""

        run_id: str

    def __init__(self) -> None:
        super().__init__(id="grid")
        self._execution: PlanExecution | None = None
        self._chosen_columns: tuple[Column, ...] = ()
        self.repetition = 1
        self._first = 1
        self.following = True
        self.border_title = "Points and repetitions"

    def show(self, execution: PlanExecution | None) -> None:
        """Take a plan's execution, begun or not. For another plan the cursor returns to the start."""
        before = self._execution
        self._execution = execution
        if before is None or execution is None or before.plan != execution.plan:
            self.repetition = self._first = self._lowest(execution)
            self._steered, self.following = False, True
            self._chosen_columns = self._build_columns(execution)
            self._keys = []
        self._cells.clear()
        self.paint()
        self._follow_plan()

    @property
    def _measured(self) -> tuple[int, int] | None:
        """The trial that is measured now."""
        execution = self._execution
        return execution.current if execution is not None and execution.running and execution.plan.grid else None

    def _follow_plan(self) -> None:
        measured = self._measured
        if self.following and measured is not None and measured != self.trial:
            self.move_to_trial(measured)
        self.prepare()  # its title says whether it follows

    def _build_columns(self, execution: PlanExecution | None) -> tuple[Column, ...]:
        if execution is None:
            return ()
        plan = execution.plan
        columns = list(self.POINT)
        longest = max(len(name) for name in plan.platforms)
        columns[1] = replace(columns[1], width=min(14, max(8, longest)))
        if plan.backgrounds != ("none",):
            columns.append(self.BACKGROUND)
        if len({point.request.duration_s for point in plan.points[:1000]}) > 1:
            columns.append(self.DURATION)
        width = CELL * (self._most(plan) + 1 - self._lowest(execution))
        return (*columns, Column("trials", "repetitions", min(width, CELL * 4), right=False, grow_to=width))

    @staticmethod
    def _lowest(execution: PlanExecution | None) -> int:
        """The number of the first column: the pilot's, if there is one."""
        return PILOT if execution is not None and execution.plan.pilot else 1

    @staticmethod
    def _most(plan: Plan) -> int:
        """The number of the last column."""
        return plan.repetitions * (plan.set_ups or 1)

    @staticmethod
    def _numbers(plan: Plan, point: int) -> tuple[int, int]:
        """The lowest and the highest number of a point's trials."""
        lowest = PILOT if point in plan.pilot else 1
        return lowest, max(lowest, plan.numbers_of(point))

    def columns(self) -> tuple[Column, ...]:
        return self._chosen_columns

    def keys(self) -> list[int]:
        if self._execution is None or not self._execution.plan.grid:  # a plan that only searches measures no point
            return []
        return list(range(len(self._execution.plan.every_point)))

    @property
    def trial(self) -> tuple[int, int] | None:
        """The trial under the cursor."""
        if self._execution is None or not self._execution.plan.grid:
            return None
        if self.cursor_key not in range(len(self._execution.plan.every_point)):
            return None
        lowest, most = self._numbers(self._execution.plan, self.cursor_key)
        return self.cursor_key, max(lowest, min(self.repetition, most))

    @property
    def cell(self) -> Cell | None:
        """The state of the trial under the cursor."""
        return self._execution.grid[self.trial] if self._execution is not None and self.trial is not None else None

    def header_title(self, column: Column, width: int) -> str:
        if column.name != "trials" or self._execution is None:
            return column.title
        plan = self._execution.plan
        text = ""
        for number in self._visible(width):
            shown = str(number)
            if number == PILOT:
                is_labelled, shown = True, "P"
            elif plan.set_ups is None or plan.repetitions == 1:
                is_labelled = number % NUMBER_CELLS == 0 or number in (1, self._first)
            else:
                block, first = divmod(number - 1, plan.repetitions)
                is_labelled, shown = first == 0, str(block + 1)
            if is_labelled:
                text = text.ljust((number - self._first) * CELL) + f" {shown}"
        return text[:width]

    def prepare(self) -> None:
        """Show which repetitions, or blocks, are visible if not all are, and whether the cursor follows the plan."""
        title = "Points and repetitions"
        if self._execution is not None:
            plan = self._execution.plan
            kind, each = ("repetitions", 1) if plan.set_ups is None else ("blocks", plan.repetitions)
            title = "Points, once each for telemetry" if plan.role == "telemetry" else f"Points and {kind}"
            if self._layout:
                seen, most = self._visible(self._layout[-1][1]), self._most(plan)
                if len(seen) < most + 1 - self._lowest(self._execution):
                    first, last = ((max(1, number) - 1) // each + 1 for number in (seen.start, seen.stop - 1))
                    title = f"Points and {kind} {first} to {last} of {most // each}, ← →"
            if self._execution.running:
                title += " · following" if self.following else " · end: follow"
        set_border_titles(self, title)

    def _visible(self, width: int) -> range:
        assert self._execution is not None
        most = self._most(self._execution.plan)
        return range(self._first, min(most, self._first + max(1, width // CELL) - 1) + 1)

    def _find_trial_number(self, column: int, key: int) -> int | None:
        """The number of a point's trial in this column. Blocks are aligned, whatever their length."""
        assert self._execution is not None
        plan = self._execution.plan
        own = plan.repetitions_of(key)
        if plan.set_ups is None or column == PILOT or own == plan.repetitions:
            return column
        block, place = divmod(column - 1, plan.repetitions)
        return block * own + place + 1 if place < own else None

    def _column_of(self, number: int) -> int:
        """The column of this number's trial, for the point under the cursor."""
        if self._execution is None or self.trial is None:
            return number
        plan = self._execution.plan
        own = plan.repetitions_of(self.trial[0])
        if plan.set_ups is None or number == PILOT or not own:
            return number
        block, place = divmod(number - 1, own)
        return block * plan.repetitions + place + 1

    def _row(self, key: int) -> list[Span]:
        row = super()._row(key)
        column, width = self._layout[-1]
        if column.name == "trials":
            row[-1:] = self._trials(key, width)
        return row

    def _trials(self, key: int, width: int) -> list[Span]:
        assert self._execution is not None
        grid, here, plan = self._execution.grid, self.trial, self._execution.plan
        lowest, most = self._numbers(plan, key)
        # Points with fewer repetitions have their blocks aligned with the others' nevertheless.
        spans: list[Span] = []
        for column in self._visible(width):
            repetition = self._find_trial_number(column, key)
            if repetition is None or not lowest <= repetition <= most:
                spans.append((" " * CELL, ""))
                continue
            cell = grid[key, repetition]
            glyph, tone = choose_look(cell)
            if here == (key, repetition):
                spans += [("[", "accent"), (glyph, tone), ("]", "accent")]
            else:
                spans.append((f" {glyph}{'′' if cell.redone else ' '}", tone))
        return spans

    def cell_index(self, key: int, width: int) -> Span:
        return str(key), "muted"

    def cell_platform(self, key: int, width: int) -> Span:
        return safe(self._request(key).platform, width), ""

    def cell_size(self, key: int, width: int) -> Span:
        return str(self._request(key).frame.bytes), ""

    def cell_sources(self, key: int, width: int) -> Span:
        return str(self._request(key).sources), ""

    def cell_target(self, key: int, width: int) -> Span:
        return format_target_within(self._request(key).wish, width), ""

    def cell_background(self, key: int, width: int) -> Span:
        return safe(self._request(key).background, width), "muted"

    def cell_duration(self, key: int, width: int) -> Span:
        return f"{self._request(key).duration_s:g}", "muted"

    def cell_trials(self, key: int, width: int) -> Span:
        return "", ""

    def _request(self, key: int) -> DesignPoint:
        assert self._execution is not None
        return self._execution.plan.every_point[key].request

    def move_to_trial(self, trial: tuple[int, int]) -> None:
        """Put the cursor on a trial and bring it into view."""
        self.repetition = trial[1]
        self.move_to(trial[0])
        self._reveal()

    def action_follow(self) -> None:
        self.following = True
        self._follow_plan()

    def action_cursor_edge(self, side: int) -> None:
        """Go to an edge. While a trial is measured, that trial is the end of the grid."""
        if side > 0 and self._measured is not None:
            self.action_follow()
        else:
            super().action_cursor_edge(side)

    def action_cursor(self, by: int) -> None:
        self._stop_following_plan()
        super().action_cursor(by)

    def on_click(self, event: events.Click) -> None:
        self._stop_following_plan()

    def _stop_following_plan(self) -> None:
        """Stop following: the operator looks at another trial."""
        self.following = False
        self._follow_plan()

    def action_repetition(self, by: int) -> None:
        self._stop_following_plan()
        if self._execution is None or self.trial is None:
            return
        lowest, most = self._numbers(self._execution.plan, self.trial[0])
        self.repetition = min(most, max(lowest, self.trial[1] + by))
        self._reveal()

    def _reveal(self) -> None:
        if self._layout:
            room = max(1, self._layout[-1][1] // CELL)
            column = self._column_of(self.repetition)
            if not self._first <= column < self._first + room:
                lowest = self._lowest(self._execution)
                self._first = max(lowest, column if column < self._first else column - room + 1)
        self._cells.clear()
        self.refresh()
        self.post_message(self.Chosen(self, self.cursor_key))

    def _put_cursor(self, key: int) -> None:
        super()._put_cursor(key)
        self._cells.clear()  # the brackets move with it

    def action_open(self) -> None:
        cell = self.cell
        if cell is not None and cell.run_id is not None:
            self.post_message(self.Opened(cell.run_id))


class GridLegend(Lines):
    """The meaning of all glyphs, in as many lines as that takes."""

    def lines(self, width: int) -> list[list[Span]]:
        entries = [
            (LOOKS[TrialState.PENDING], "to do"),
            (LOOKS[TrialState.RUNNING], "running"),
            (LOOKS[TrialState.VALID], "valid"),
            (LOOKS[TrialState.SUSPECT], "suspect"),
            (LOOKS[TrialState.INVALID], "invalid"),
            (LOOKS[TrialState.STORED], "stored"),
            (STORED_SUSPECT, "stored, suspect"),
            (STORED_INVALID, "stored, invalid"),
            (("′", "muted"), "repeated"),
            (LOOKS[TrialState.LEFT_OUT], "skipped by stop"),
        ]
        rows: list[list[Span]] = [[(" ", "")]]
        used = 1
        for (glyph, tone), word in entries:
            if used + len(word) + 2 > width and used > 1:
                rows.append([(" ", "")])
                used = 1
            rows[-1] += [(glyph, tone), (f" {word}  ", "muted")]
            used += len(word) + 4
        return rows
