"""A plan's searches, in words for the plan's details: what is asked for, how long it takes, how far each is."""

from __future__ import annotations

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.steps import StepSeen, StepState
from labconsole.model.plan.plan import Plan
from labconsole.model.record.search import SearchRecord
from labconsole.text.cells import count, span

SHOWN = 12
"""Searches listed one by one; the one under way is always told."""

LOOKS = {
    StepState.PENDING: ("·", "muted"),
    StepState.RUNNING: ("▶", "accent"),
    StepState.DONE: ("✓", "good"),
    StepState.FAILED: ("✗", "bad"),
    StepState.STORED: ("■", "good"),
}

Words = tuple[str, str, str]
"""Label, text, tone."""


def search_words(plan: Plan, campaign: PlanExecution | None) -> list[Words]:
    """What is searched, and what is left of it. Nothing for a plan that does not search."""
    if plan.search is None:
        return []
    searches = len(plan.searches)
    places = f"{count(searches)} configuration{'s' if searches != 1 else ''}"
    words = [("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), "")]
    if campaign is None or not campaign.steps.seen:
        return words
    steps = campaign.steps
    left, stored = len(steps.rest), steps.count(StepState.STORED)
    if stored:
        words.append(("", f"{count(stored)} stored, which {'is' if stored == 1 else 'are'} not made again", "good"))
    if left and not campaign.running:
        after = ", after the grid" if plan.grid else ""
        takes = f"about {span(steps.left_s)}, {count(steps.reckoned_trials)} trials or more{after}"
        words.append(("", takes, "strong"))
    return words + [each for seen in steps.seen[:SHOWN] for each in _told(seen)]


def running_words(campaign: PlanExecution) -> list[Words]:
    """The search under way: which of how many, its trials, its bounds so far."""
    seen, steps = campaign.steps.current, campaign.steps
    if seen is None:
        return []
    number, total = steps.number_of(seen), steps.asked
    return [
        ("search", f"{number} of {total}: {seen.step.describe()}", "strong"),
        ("", f"{count(seen.trials)} trial{'s' if seen.trials != 1 else ''} so far", ""),
        *[("", words, "") for words in seen.found],
        *([("", seen.why, "warn")] if seen.why else []),
    ]


def _told(seen: StepSeen) -> list[Words]:
    """One search of the list, with its bounds where it has ended."""
    glyph, tone = LOOKS[seen.state]
    words = [("", f"{glyph} {seen.step.describe()}", tone)]
    if isinstance(seen.record, SearchRecord):
        words += [("", f"  {line}", "") for line in _bounds(seen.record)]
    if seen.why and seen.state is not StepState.RUNNING:
        words.append(("", f"  {seen.why}", "bad" if seen.state is StepState.FAILED else "warn"))
    return words


def _bounds(record: SearchRecord) -> list[str]:
    found = []
    for goal in record.goals:
        low, high = (
            "?" if each is None else count(round(each)) for each in (goal.lower_bound_pps, goal.upper_bound_pps)
        )
        found.append(f"{goal.goal}: {low} to {high} packets/s, {len(record.trials)} trials")
    return found
