"""A plan's searches, or its work for guests, as text for its details: contents, duration, progress."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from textual.widget import Widget

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.step_view import StepState
from labconsole.model.plan.crews import PlannedCrews
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import format_duration, format_rounded
from labconsole.tui.console.plan_text import step_noun

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
