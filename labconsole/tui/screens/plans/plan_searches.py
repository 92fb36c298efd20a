"""A plan's searches, or what it has guests do, in words for its details: what is asked for, how long, how far it is."""

from __future__ import annotations

from pydantic import BaseModel
from textual.widget import Widget

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.step_seen import StepState
from labconsole.model.jobs import JOBS
from labconsole.model.plan.boots import PlannedBoots
from labconsole.model.plan.flows import PlannedFlows
from labconsole.model.plan.jobs import PlannedJobs
from labconsole.model.plan.plan import Plan, PlannedOfGuests
from labconsole.model.plan.routes import PlannedRoutes, target_words
from labconsole.text.cells import count, span
from labconsole.tui.console.plan_words import step_noun

Words = tuple[str, str, str]
"""Label, text, tone."""


def step_words(plan: Plan, execution: PlanExecution | None) -> list[Words]:
    """What is searched, or what guests are given to do, and what is left of it. Nothing for a plan of a grid alone."""
    if plan.jobs is not None:
        words = _job_words(plan.jobs)
    elif plan.boots is not None:
        words = _boot_words(plan.boots)
    elif plan.flows is not None:
        words = _flow_words(plan.flows)
    elif plan.routes is not None:
        words = _route_words(plan.routes)
    elif plan.search is not None:
        searches = len(plan.searches)
        places = f"{count(searches)} configuration{'s' if searches != 1 else ''}"
        words = [("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), "")]
    elif plan.experiments:
        words = [("asks for", f"{name}{_factor_words(asked)}", "") for name, asked in plan.experiments]
    else:
        return []
    if execution is None or not execution.steps.seen:
        return words
    steps = execution.steps
    left, stored = len(steps.rest), steps.count(StepState.STORED)
    if stored:
        words.append(("", f"{count(stored)} stored, which {'is' if stored == 1 else 'are'} not made again", "good"))
    if steps.refusals:
        words.append(("", f"{count(steps.refusals)} cannot be measured on this testbed", "warn"))
    if left and not execution.running:
        after = ", after the grid" if plan.grid else ""
        takes = f"about {span(steps.left_s)}, {count(steps.reckoned_trials)} trials or more{after}"
        words.append(("", takes, "strong"))
    return words


def make_room(right: Widget, plan: Plan | None) -> None:
    """For what there is of a grid, of searches and of guests: the classes by which the screen is laid out."""
    right.set_class(plan is not None and plan.of_guests is not None, "-jobs")
    right.set_class(plan is not None and (plan.flows or plan.routes) is not None, "-flows")
    right.set_class(plan is not None and plan.step_count > 0, "-searches")
    right.set_class(plan is not None and not plan.grid, "-no-grid")


def _factor_words(asked: BaseModel) -> str:
    """What a plan asks of another package's kind, as it stands in its file."""
    told = ", ".join(f"{key}: {value}" for key, value in asked.model_dump(mode="json").items())
    return f", {told}" if told else ""


def _job_words(jobs: PlannedJobs) -> list[Words]:
    factors = jobs.factors
    each = ", ".join(JOBS[wish.job].words(wish.asked_size) for wish in factors.jobs)
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("jobs", each, ""),
        ("guests", f"{guests}; working {', '.join(factors.working)}; cpu {', '.join(factors.cpu)}", ""),
        ("", _many(jobs), ""),
    ]


def _boot_words(boots: PlannedBoots) -> list[Words]:
    guests = ", ".join(str(number) for number in boots.factors.guests)
    return [("starts", f"of {guests} guests; {', '.join(boots.factors.start)}", ""), ("", _many(boots), "")]


def _flow_words(flows: PlannedFlows) -> list[Words]:
    factors = flows.factors
    guests = ", ".join(str(number) for number in factors.guests)
    return [
        ("flows", f"out of {guests} guests for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("", _many(flows), ""),
    ]


def _route_words(routes: PlannedRoutes) -> list[Words]:
    factors = routes.factors
    guests, many = (", ".join(map(str, each)) for each in (factors.guests, factors.routes))
    sent = ", ".join(map(target_words, factors.targets))
    return [
        ("routers", f"{guests} at once for {factors.duration_s:g} s; cpu {', '.join(factors.cpu)}", ""),
        ("routes", f"{many} in each; {sent} of {', '.join(map(str, factors.frame_sizes))} B", ""),
        ("", _many(routes), ""),
    ]


def _many(asked: PlannedOfGuests) -> str:
    trials, points = len(asked.trials), len(asked.points)
    often = f"{asked.set_ups} set-up{'s' if asked.set_ups > 1 else ''}, {asked.repetitions} in each"
    return (
        f"{count(trials)} trial{'s' if trials != 1 else ''}: {count(points)} point{'s' if points != 1 else ''}, {often}"
    )


def running_words(execution: PlanExecution) -> list[Words]:
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
        *([("", f"{count(trials)} trial{'s' if trials != 1 else ''} so far", "")] if seen.picture.parts else []),
        *[("", words, "") for words in seen.picture.found],
        *([("", seen.why, "warn")] if seen.why else []),
    ]
