"""A plan as a sentence: its extent, and how it ended."""

from __future__ import annotations

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.model.plan.plan import Plan
from labconsole.units import counted


def step_noun(plan: Plan) -> str:
    """The noun for one experiment of the plan outside its grid. Another package's experiment is a step."""
    return plan.guests.kind if plan.guests is not None else "step" if plan.experiments else "search"


def is_ending_guests(execution: PlanExecution) -> bool:
    """Whether the last trial is over and the guests that are still up are being shut down."""
    steps = execution.steps
    return execution.plan.guests is not None and steps.asked > 0 and not steps.remaining


def format_extent(plan: Plan) -> str:
    """Format the extent of a plan."""
    searches, guests = len(plan.searches), plan.guests
    parts = [counted(plan.trials, "trial")] if plan.grid else []
    parts += [f"{searches} search{'es' if searches > 1 else ''}"] if searches else []
    parts += [f"{(many := len(guests.trials))} {guests.kind}{'s' if many > 1 else ''}"] if guests is not None else []
    parts += [f"experiments of {', '.join(name for name, _ in plan.experiments)}"] if plan.experiments else []
    return " and ".join(parts)


def format_repeats(outcome: Outcome) -> str:
    """Format the number of attempts beyond the first ones. A trial may have several."""
    return f"{outcome.redone} repeat{'' if outcome.redone == 1 else 's'}"


def _is_all_stored(outcome: Outcome) -> bool:
    """Whether everything was stored before."""
    steps = outcome.steps
    tried = outcome.taken or outcome.redone or steps.made or steps.redone or outcome.refused or steps.refused
    stored = outcome.skipped or steps.skipped
    return bool(stored) and not (tried or outcome.left_out or outcome.stopped or outcome.ended_by or outcome.problem)


def describe_ending(plan: Plan, outcome: Outcome) -> str:
    """Describe how a plan ended, in a sentence."""
    if _is_all_stored(outcome):
        stored = f"all is stored ({format_extent(plan)})"
        invalid = outcome.invalid_before
        bad = f", {invalid} of them invalid: --retake repeats those" if invalid else ""
        return f"nothing left to measure: {stored}{bad}; to measure it again: labconsole replay --occasion"
    counts = ", ".join(f"{number} {word}" for word, number in sorted(outcome.verdicts.items())) or "nothing to do"
    word = "stopped" if outcome.stopped else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
    again = f", {format_repeats(outcome)}" if outcome.redone else ""
    noun = "trial" if outcome.taken == 1 else "trials"
    parts = [f"{outcome.taken} {noun} measured ({counts}), {outcome.skipped} stored before{again}"] if plan.grid else []
    steps = outcome.steps
    if plan.search is not None:
        failed = f", {len(steps.failed)} of them not completed" if steps.failed else ""
        refused = f", {steps.not_measured} not searched" if steps.refused else ""
        parts.append(f"{len(steps.made)} searches made{failed}{refused}, {steps.skipped} stored before")
    if plan.experiments:
        failed = f", {len(steps.failed)} of them not completed" if steps.failed else ""
        refused = f", {steps.not_measured} not done" if steps.refused else ""
        names, noun = ", ".join(name for name, _ in plan.experiments), "step" if len(steps.made) == 1 else "steps"
        parts.append(f"{len(steps.made)} {noun} of {names} done{failed}{refused}, {steps.skipped} stored before")
    if plan.guests is not None:
        verdicts = ", ".join(f"{number} {word}" for word, number in steps.verdicts.items())
        counts = f" ({verdicts})" if verdicts else ""
        refused = f", {steps.not_measured} not measured" if steps.refused else ""
        noun = plan.guests.kind + ("" if len(steps.made) == 1 else "s")
        parts.append(f"{len(steps.made)} {noun} measured{counts}{refused}, {steps.skipped} stored before")
        if steps.to_retake:
            parts.append(f"{steps.to_retake} of guests that failed, to be repeated")
        if steps.doubtful:
            parts.append("only valid ones enter a mean")
    return f"{word}; " + "; ".join(parts)
