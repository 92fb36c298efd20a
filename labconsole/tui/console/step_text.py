"""The trials of a step as text: a line each, the known bounds, and the forecast."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.picture import Between, PicturePart, StepPicture
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded


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
