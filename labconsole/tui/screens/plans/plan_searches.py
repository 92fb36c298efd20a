"""A plan's searches, or its work for guests, as text for its details: contents, duration, progress."""

from __future__ import annotations

from pydantic import BaseModel
from textual.widget import Widget

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.step_view import StepState
from labconsole.experiments.boot.plan import PlannedBoots
from labconsole.experiments.flow.plan import PlannedFlows
from labconsole.experiments.job.plan import PlannedJobs
from labconsole.experiments.route.plan import PlannedRoutes, format_target_pps
from labconsole.model.jobs import JOBS
from labconsole.model.plan.plan import Plan, PlannedOfGuests
from labconsole.text.cells import format_duration, format_rounded
from labconsole.tui.console.plan_text import step_noun

DetailLine = tuple[str, str, str]
"""Label, text, tone."""


def describe_steps(plan: Plan, execution: PlanExecution | None) -> list[DetailLine]:
    """Describe the searches or the work of guests, and what is left of it. Empty for a plan of a grid alone."""
    if plan.jobs is not None:
        lines = _describe_jobs(plan.jobs)
    elif plan.boots is not None:
        lines = _describe_boots(plan.boots)
    elif plan.flows is not None:
        lines = _describe_flows(plan.flows)
    elif plan.routes is not None:
        lines = _describe_routes(plan.routes)
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
    right.set_class(plan is not None and plan.of_guests is not None, "-jobs")
    right.set_class(plan is not None and (plan.flows or plan.routes) is not None, "-flows")
    right.set_class(plan is not None and plan.step_count > 0, "-searches")
    right.set_class(plan is not None and not plan.grid, "-no-grid")


def _format_factors(factors: BaseModel) -> str:
    """Format a plan's request to another package's kind, as in its file."""
    text = ", ".join(f"{key}: {value}" for key, value in factors.model_dump(mode="json").items())
    return f", {text}" if text else ""


def _describe_jobs(jobs: PlannedJobs) -> list[DetailLine]:
    factors = jobs.factors
    each = ", ".join(JOBS[wish.job].words(wish.effective_size) for wish in factors.jobs)
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("jobs", each, ""),
        ("guests", f"{guests}; working {', '.join(factors.working)}; cpu {', '.join(factors.cpu)}", ""),
        ("", _format_trial_count(jobs), ""),
    ]


def _describe_boots(boots: PlannedBoots) -> list[DetailLine]:
    guests = ", ".join(str(number) for number in boots.factors.guests)
    return [
        ("starts", f"of {guests} guests; {', '.join(boots.factors.start)}", ""),
        ("", _format_trial_count(boots), ""),
    ]


def _describe_flows(flows: PlannedFlows) -> list[DetailLine]:
    factors = flows.factors
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("flows", f"out of {guests} guests for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("", _format_trial_count(flows), ""),
    ]


def _describe_routes(routes: PlannedRoutes) -> list[DetailLine]:
    factors = routes.factors
    guests, many = (", ".join(map(str, each)) for each in (factors.guests, factors.routes))
    sent = ", ".join(map(format_target_pps, factors.targets))
    return [
        ("routers", f"{guests} at once for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("routes", f"{many} in each; {sent} of {', '.join(map(str, factors.frame_sizes))} B", ""),
        ("", _format_trial_count(routes), ""),
    ]


def _format_trial_count(guests: PlannedOfGuests) -> str:
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
