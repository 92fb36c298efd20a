"""The searches of a plan, or its work for guests: as rows, and as text for the plan's details."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel
from rich.cells import cell_len
from textual.message import Message
from textual.widget import Widget

from labconsole.engine.crew_step import CrewStep
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import StepState, StepView
from labconsole.experiments.kinds import PluginStep
from labconsole.model.plan.crews import PlannedCrews
from labconsole.model.plan.guest_kind import GuestKind, guest_kinds
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Verdict
from labconsole.model.record.verdict_codes import TITLES as TITLES_OF_CODES
from labconsole.text.cells import fit_parts, format_duration, format_rounded, safe
from labconsole.tui.console.plan_text import step_noun
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import Column, FactorTable, factor_columns

# -- searches table ----------------------------------------------------------------------------------------------------
# The searches of a plan, or its work for guests, one per row: state, and results so far.

LOOKS = {
    StepState.PENDING: ("·", "muted"),
    StepState.RUNNING: ("▶", "accent"),
    StepState.DONE: ("✓", "good"),
    StepState.FAILED: ("✗", "bad"),
    StepState.STORED: ("■", "good"),
}


DOUBTED = {"suspect": ("?", "warn"), "invalid": ("✗", "bad")}
"""Look by a trial's verdict: the trial is stored, and enters no mean."""

LEAST_FOUND, MOST_FOUND = 26, 90
"""Width of the result of a trial, in cells."""

TITLES = {"search": "Searches", "step": "Steps"}


def _verdict(seen: StepView) -> Verdict | None:
    """The verdict of a trial of guests. A search has none."""
    verdict = getattr(seen.record, "verdict", None)
    return verdict if isinstance(verdict, Verdict) else None


class SearchesTable(FactorTable):
    """Rows are in the plan's order."""

    EMPTY = "reading the store …"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("state", "", 1, right=False),
        Column("platform", "platform", 8, right=False, grow_to=14),
        Column("size", "B", 5),
        Column("sources", "src", 3),
        Column("background", "backgr.", 8, right=False, rank=2),
        Column("trials", "trials", 6),
        Column("found", "bounds in packets/s per source", 30, right=False, grow_to=90),
    )

    OF_OTHERS: ClassVar[tuple[Column, ...]] = (
        Column("state", "", 1, right=False),
        Column("step", "step", 30, right=False, grow_to=100),
        Column("found", "found", 20, right=False, grow_to=90),
    )
    """Columns for kinds of experiment of other packages."""

    ACTIONS = (
        Action(
            "enter",
            "open",
            "Open",
            "Show a search trial by trial, or guest by guest a trial of flows, routers, jobs or starts, over the "
            "whole screen, also while it runs.",
            id="search-open",
            title="Show the search or trial of guests",
        ),
    )

    @dataclass
    class Opened(Message):
        """The operator opened a search."""

        index: int

    def __init__(self) -> None:
        super().__init__(id="searches")
        self._execution: PlanExecution | None = None
        self._of: list[StepView] | None = None
        self._widest = 0
        self.border_title = "Searches"

    def show(self, execution: PlanExecution | None) -> None:
        """Take a plan's execution, begun or not."""
        self._execution = execution
        steps = execution.steps.seen if execution is not None else None
        widest = max((cell_len(self._format_result(each)[0]) for each in steps or () if not each.why), default=0)
        if steps is not self._of or widest != self._widest:
            self._of, self._widest = steps, widest
            self._tell_apart(steps or [])
        self._cells.clear()
        self.border_title = TITLES[self._noun] if self._guests is None else self._guests.title
        self.paint()

    @property
    def _noun(self) -> str:
        return "search" if self._execution is None else step_noun(self._execution.plan)

    @property
    def _guests(self) -> GuestKind | None:
        """The kind of the plan's trials of guests, or None if it has none."""
        guests = None if self._execution is None else self._execution.plan.guests
        return None if guests is None else guest_kinds()[guests.kind]

    def columns(self) -> tuple[Column, ...]:
        if self.factors:
            return super().columns()
        return self.COLUMNS if self._noun == "search" else self.OF_OTHERS

    def _tell_apart(self, steps: list[StepView]) -> None:
        """Find columns for the factors of guests, once for all of a plan's trials."""
        factors = [each.step.format_factors() for each in steps if isinstance(each.step, CrewStep | PluginStep)]
        self.factors = {}
        if factors and all(factors) and len(factors) == len(steps):
            self.factors = dict(enumerate(factors))
            title = "found" if self._guests is None else self._guests.result_title
            found = Column("found", title, LEAST_FOUND, right=False, grow_to=MOST_FOUND)
            columns = (Column("state", "", 1, right=False), *factor_columns(factors), found)
            self.take_columns(columns, min(MOST_FOUND, self._widest))

    @property
    def empty_text(self) -> str:
        """Explain why the table is empty."""
        refusal = self._execution.refusal if self._execution is not None else None
        not_done = "not searched" if self._noun == "search" else "not measured"
        return super().empty_text if refusal is None else f"{not_done}: {refusal}"

    def keys(self) -> list[int]:
        return list(range(len(self._execution.steps.seen))) if self._execution is not None else []

    def cell_state(self, key: int, width: int) -> Span:
        seen = self._seen(key)
        verdict = _verdict(seen)
        return LOOKS[seen.state] if verdict is None else DOUBTED.get(verdict.status, LOOKS[seen.state])

    def cell_step(self, key: int, width: int) -> Span:
        return safe(self._seen(key).step.describe(), width), ""

    def cell_platform(self, key: int, width: int) -> Span:
        return safe(self._seen(key).step.request.platform, width), ""

    def cell_size(self, key: int, width: int) -> Span:
        return str(self._seen(key).step.request.frame.bytes), ""

    def cell_sources(self, key: int, width: int) -> Span:
        return str(self._seen(key).step.request.sources), ""

    def cell_background(self, key: int, width: int) -> Span:
        return safe(self._seen(key).step.request.background, width), "muted"

    def cell_trials(self, key: int, width: int) -> Span:
        trials = len(self._seen(key).picture.trials)
        return (format_rounded(trials) if trials else ""), ""

    def cell_found(self, key: int, width: int) -> Span:
        text, tone = self._format_result(self._seen(key))
        return (safe if self._seen(key).why else fit_parts)(text, width), tone

    @staticmethod
    def _format_result(seen: StepView) -> Span:
        if seen.why:
            return seen.why, "bad" if seen.state is StepState.FAILED else "warn"
        text, verdict = seen.picture.brief or "; ".join(seen.picture.found), _verdict(seen)
        if verdict is not None and verdict.reasons and verdict.status in DOUBTED:
            # The glyph already shows a doubt, so the result comes before the reason if room is short.
            return "; ".join(filter(None, (text, TITLES_OF_CODES[verdict.reasons[0].code]))), "warn"
        return text, ""

    @property
    def seen(self) -> StepView | None:
        """The step under way, until the operator puts the cursor on another."""
        steps = self._execution.steps if self._execution is not None else None
        if steps is None or not steps.seen:
            return None
        running = None if self._steered else steps.current
        return running or steps.seen[min(self.cursor_index, len(steps.seen) - 1)]

    def action_open(self) -> None:
        if self.seen is not None and self._execution is not None:
            self.post_message(self.Opened(self._execution.steps.seen.index(self.seen)))

    def _seen(self, key: int) -> StepView:
        assert self._execution is not None
        return self._execution.steps.seen[key]


# -- plan searches -----------------------------------------------------------------------------------------------------
# A plan's searches, or its work for guests, as text for its details: contents, duration, progress.

DetailLine = tuple[str, str, str]
"""Label, text, tone."""


def describe_steps(plan: Plan, execution: PlanExecution | None) -> list[DetailLine]:
    """Describe the searches or the work of guests, and what is left of it. Empty for a plan of a grid alone."""
    if plan.guests is not None:
        lines = [*((label, text, "") for label, text in plan.guests.describe()), ("", _format_trials(plan.guests), "")]
    elif plan.search is not None:
        searches = len(plan.searches)
        places = f"{format_rounded(searches)} configuration{'s' if searches != 1 else ''}"
        lines = [("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), "")]
    elif plan.experiments:
        lines = [("asks for", f"{name}{_format_factors(factors)}", "") for name, factors in plan.experiments]
    else:
        return []
    if execution is None or not execution.steps.seen:
        return lines
    steps = execution.steps
    left, stored = len(steps.remaining), steps.count(StepState.STORED)
    if stored:
        lines.append(
            ("", f"{format_rounded(stored)} stored, which {'is' if stored == 1 else 'are'} not made again", "good")
        )
    if steps.refusals:
        lines.append(("", f"{format_rounded(steps.refusals)} cannot be measured on this testbed", "warn"))
    if left and not execution.running:
        after = ", after the grid" if plan.grid else ""
        takes = f"about {format_duration(steps.left_s)}, {format_rounded(steps.reckoned_trials)} trials or more{after}"
        lines.append(("", takes, "strong"))
    return lines


def make_room(right: Widget, plan: Plan | None) -> None:
    """Set the classes that lay the screen out for a grid, searches and guests."""
    guests = None if plan is None else plan.guests
    right.set_class(guests is not None, "-jobs")
    right.set_class(guests is not None and guest_kinds()[guests.kind].over_time, "-flows")
    right.set_class(plan is not None and plan.step_count > 0, "-searches")
    right.set_class(plan is not None and not plan.grid, "-no-grid")


def _format_factors(factors: BaseModel) -> str:
    """Format a plan's request to another package's kind, as in its file."""
    text = ", ".join(f"{key}: {value}" for key, value in factors.model_dump(mode="json").items())
    return f", {text}" if text else ""


def _format_trials(guests: PlannedCrews[Any, Any]) -> str:
    trials, points = len(guests.trials), len(guests.points)
    often = f"{guests.set_ups} set-up{'s' if guests.set_ups > 1 else ''}, {guests.repetitions} in each"
    many = f"{format_rounded(trials)} trial{'s' if trials != 1 else ''}"
    return f"{many}: {format_rounded(points)} point{'s' if points != 1 else ''}, {often}"


def describe_running_step(execution: PlanExecution) -> list[DetailLine]:
    """Describe the search or job under way: its number, its trials, its results so far."""
    seen, steps = execution.steps.current, execution.steps
    if seen is None:
        return []
    number, total, trials = steps.number_of(seen), steps.asked, len(seen.picture.trials)
    return [
        (
            step_noun(execution.plan),
            f"{number} of {total}: {seen.step.describe()}",
            "strong",
        ),
        *(
            [("", f"{format_rounded(trials)} trial{'s' if trials != 1 else ''} so far", "")]
            if seen.picture.parts
            else []
        ),
        *[("", text, "") for text in seen.picture.found],
        *([("", seen.why, "warn")] if seen.why else []),
    ]
