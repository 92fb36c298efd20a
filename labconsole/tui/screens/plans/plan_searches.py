"""A plan's searches, or what it has guests do, in words for its details: what is asked for, how long, how far it is."""

from __future__ import annotations

from pydantic import BaseModel
from textual.widget import Widget

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.step_view import StepState
from labconsole.model.jobs import JOBS
from labconsole.model.plan.boots import PlannedBoots
from labconsole.model.plan.flows import PlannedFlows
from labconsole.model.plan.jobs import PlannedJobs
from labconsole.model.plan.plan import Plan, PlannedOfGuests
from labconsole.model.plan.routes import PlannedRoutes, format_target_pps
from labconsole.text.cells import format_duration, format_rounded
from labconsole.tui.console.plan_text import step_noun

Words = tuple[str, str, str]
"""Label, text, tone."""


def describe_steps(plan: Plan, execution: PlanExecution | None) -> list[Words]:
    """What is searched, or what guests are given to do, and what is left of it. Nothing for a plan of a grid alone."""
    if plan.jobs is not None:
        words = _describe_jobs(plan.jobs)
    elif plan.boots is not None:
        words = _describe_boots(plan.boots)
    elif plan.flows is not None:
        words = _describe_flows(plan.flows)
    elif plan.routes is not None:
        words = _describe_routes(plan.routes)
    elif plan.search is not None:
        searches = len(plan.searches)
        places = f"{format_rounded(searches)} configuration{'s' if searches != 1 else ''}"
        words = [("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), "")]
    elif plan.experiments:
        words = [("asks for", f"{name}{_format_factors(asked)}", "") for name, asked in plan.experiments]
    else:
        return []
    if execution is None or not execution.steps.seen:
        return words
    steps = execution.steps
    left, stored = len(steps.remaining), steps.count(StepState.STORED)
    if stored:
        words.append(
            ("", f"{format_rounded(stored)} stored, which {'is' if stored == 1 else 'are'} not made again", "good")
        )
    if steps.refusals:
        words.append(("", f"{format_rounded(steps.refusals)} cannot be measured on this testbed", "warn"))
    if left and not execution.running:
        after = ", after the grid" if plan.grid else ""
        takes = f"about {format_duration(steps.left_s)}, {format_rounded(steps.reckoned_trials)} trials or more{after}"
        words.append(("", takes, "strong"))
    return words


def make_room(right: Widget, plan: Plan | None) -> None:
    """For what there is of a grid, of searches and of guests: the classes by which the screen is laid out."""
    right.set_class(plan is not None and plan.of_guests is not None, "-jobs")
    right.set_class(plan is not None and (plan.flows or plan.routes) is not None, "-flows")
    right.set_class(plan is not None and plan.step_count > 0, "-searches")
    right.set_class(plan is not None and not plan.grid, "-no-grid")


def _format_factors(asked: BaseModel) -> str:
    """What a plan asks of another package's kind, as it stands in its file."""
    told = ", ".join(f"{key}: {value}" for key, value in asked.model_dump(mode="json").items())
    return f", {told}" if told else ""


def _describe_jobs(jobs: PlannedJobs) -> list[Words]:
    factors = jobs.factors
    each = ", ".join(JOBS[wish.job].words(wish.effective_size) for wish in factors.jobs)
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("jobs", each, ""),
        ("guests", f"{guests}; working {', '.join(factors.working)}; cpu {', '.join(factors.cpu)}", ""),
        ("", _format_trial_count(jobs), ""),
    ]


def _describe_boots(boots: PlannedBoots) -> list[Words]:
    guests = ", ".join(str(number) for number in boots.factors.guests)
    return [
        ("starts", f"of {guests} guests; {', '.join(boots.factors.start)}", ""),
        ("", _format_trial_count(boots), ""),
    ]


def _describe_flows(flows: PlannedFlows) -> list[Words]:
    factors = flows.factors
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("flows", f"out of {guests} guests for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("", _format_trial_count(flows), ""),
    ]


def _describe_routes(routes: PlannedRoutes) -> list[Words]:
    factors = routes.factors
    guests, many = (", ".join(map(str, each)) for each in (factors.guests, factors.routes))
    sent = ", ".join(map(format_target_pps, factors.targets))
    return [
        ("routers", f"{guests} at once for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("routes", f"{many} in each; {sent} of {', '.join(map(str, factors.frame_sizes))} B", ""),
        ("", _format_trial_count(routes), ""),
    ]


def _format_trial_count(asked: PlannedOfGuests) -> str:
    trials, points = len(asked.trials), len(asked.points)
    often = f"{asked.set_ups} set-up{'s' if asked.set_ups > 1 else ''}, {asked.repetitions} in each"
    return f"{format_rounded(trials)} trial{'s' if trials != 1 else ''}: {format_rounded(points)} point{'s' if points != 1 else ''}, {often}"


def describe_running_step(execution: PlanExecution) -> list[Words]:
    """The search or job under way: which of how many, its trials, what is known of it so far."""
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
        *[("", words, "") for words in seen.picture.found],
        *([("", seen.why, "warn")] if seen.why else []),
    ]
