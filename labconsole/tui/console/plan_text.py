"""Plans and their steps as text: extent, outcome, and the trials of a step."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.picture import Between, PicturePart, StepPicture
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded
from labconsole.units import counted

# -- plans -------------------------------------------------------------------------------------------------------------
# A plan as a sentence: its extent, and how it ended.


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


# -- steps -------------------------------------------------------------------------------------------------------------
# The trials of a step as text: a line each, the known bounds, and the forecast.


def trial_lines(picture: StepPicture, after: int = 0) -> Iterator[str]:
    """Yield a line for every trial after the first ``after``: where it was, whether it passed, the bounds by then."""
    for number, trial in enumerate(picture.trials[after:], after + 1):
        part = picture.parts[trial.part]
        parts = [f"trial {number}, {part.name} at {format_rounded(trial.at)} {part.unit}, {trial.duration_s:.3g} s"]
        if trial.missing_ratio is not None:
            parts.append(f"missing {format_percent(trial.missing_ratio)} %")
        for order, (criterion, passed) in enumerate(zip(part.criteria, trial.passed, strict=False)):
            bounds = trial.bounds[order] if trial.bounds else Between()
            known = f", bounds {format_bounds(part, bounds)}" if bounds.known else ""
            parts.append(f"{criterion} {'passed' if passed else 'failed'}{known}")
        yield "; ".join(parts)


def format_bounds(part: PicturePart, bounds: Between) -> str:
    """Format the open interval and its width."""
    low, high, settled, high_by = bounds
    unit = part.unit.split()[0]
    lower, upper = (UNKNOWN if bound is None else format_rounded(bound) for bound in (low, high))
    text = f"{lower} to {upper} {unit}"
    if low is not None and high:
        text += f", {format_percent((high - low) / high, 2)} % apart"
    text = text if settled else f"{text}, not settled"
    return f"{text}; upper bound set by the {high_by}" if high_by else text


def format_forecast(picture: StepPicture) -> str:
    """Format the next trial, and the number of trials to go, including the one under way."""
    left = [] if picture.left_trials is None else [f"about {format_rounded(picture.left_trials)} left"]
    left += [] if picture.most_left_trials is None else [f"at most {format_rounded(picture.most_left_trials)}"]
    return "; ".join(", ".join(parts) for parts in (picture.coming, left) if parts)
