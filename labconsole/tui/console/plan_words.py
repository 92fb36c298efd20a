"""A plan in a sentence: how much it asks for, how it ended."""

from __future__ import annotations

from labconsole.engine.execution.progress import Outcome
from labconsole.model.plan.plan import Plan


def extent(plan: Plan) -> str:
    """How much a plan asks for."""
    searches = len(plan.searches)
    words = [f"{plan.trials} trials"] if plan.grid else []
    return " and ".join(words + ([f"{searches} search{'es' if searches > 1 else ''}"] if searches else []))


def ending(plan: Plan, outcome: Outcome) -> str:
    """How a plan ended, in a sentence."""
    counts = ", ".join(f"{number} {word}" for word, number in sorted(outcome.verdicts.items())) or "nothing to do"
    word = "stopped" if outcome.stopped else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
    redone = f", {outcome.redone} redone" if outcome.redone else ""
    words = [f"{outcome.taken} taken ({counts}), {outcome.skipped} stored before{redone}"] if plan.grid else []
    steps = outcome.steps
    if plan.search is not None:
        failed = f", {len(steps.failed)} of them not to their end" if steps.failed else ""
        refused = f", {len(steps.refused)} not searched" if steps.refused else ""
        words.append(f"{len(steps.made)} searches made{failed}{refused}, {steps.skipped} stored before")
    return f"{word}; " + "; ".join(words)
