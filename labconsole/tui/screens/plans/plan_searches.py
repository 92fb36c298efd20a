"""A plan's searches, in words for the plan's details: what is asked for, how long it takes, how far it is."""

from __future__ import annotations

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.steps import StepState
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import count, span

Words = tuple[str, str, str]
"""Label, text, tone."""


def search_words(plan: Plan, execution: PlanExecution | None) -> list[Words]:
    """What is searched, and what is left of it. Nothing for a plan that does not search."""
    if plan.search is None:
        return []
    searches = len(plan.searches)
    places = f"{count(searches)} configuration{'s' if searches != 1 else ''}"
    words = [("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), "")]
    if execution is None or not execution.steps.seen:
        return words
    steps = execution.steps
    left, stored = len(steps.rest), steps.count(StepState.STORED)
    if stored:
        words.append(("", f"{count(stored)} stored, which {'is' if stored == 1 else 'are'} not made again", "good"))
    if left and not execution.running:
        after = ", after the grid" if plan.grid else ""
        takes = f"about {span(steps.left_s)}, {count(steps.reckoned_trials)} trials or more{after}"
        words.append(("", takes, "strong"))
    return words


def running_words(execution: PlanExecution) -> list[Words]:
    """The search under way: which of how many, its trials, its bounds so far."""
    seen, steps = execution.steps.current, execution.steps
    if seen is None:
        return []
    number, total, trials = steps.number_of(seen), steps.asked, len(seen.picture.trials)
    return [
        ("search", f"{number} of {total}: {seen.step.describe()}", "strong"),
        ("", f"{count(trials)} trial{'s' if trials != 1 else ''} so far", ""),
        *[("", words, "") for words in seen.picture.found],
        *([("", seen.why, "warn")] if seen.why else []),
    ]
