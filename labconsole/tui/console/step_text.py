"""The trials of a step in words: a line each, and what is known of the bounds and of what comes."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.contracts.picture import Between, PicturePart, StepPicture
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded


def trial_lines(picture: StepPicture, after: int = 0) -> Iterator[str]:
    """Every trial but so many first ones: where it was, whether it passed, the bounds by then."""
    for number, trial in enumerate(picture.trials[after:], after + 1):
        part = picture.parts[trial.part]
        words = [f"trial {number}, {part.name} at {format_rounded(trial.at)} {part.unit}, {trial.duration_s:.3g} s"]
        if trial.missing_ratio is not None:
            words.append(f"missing {format_percent(trial.missing_ratio)} %")
        for order, (criterion, passed) in enumerate(zip(part.criteria, trial.passed, strict=False)):
            bounds = trial.bounds[order] if trial.bounds else Between()
            known = f", bounds {format_bounds(part, bounds)}" if bounds.known else ""
            words.append(f"{criterion} {'passed' if passed else 'failed'}{known}")
        yield "; ".join(words)


def format_bounds(part: PicturePart, bounds: Between) -> str:
    """The open interval, and how wide it is."""
    low, high, settled, high_by = bounds
    unit = part.unit.split()[0]
    words = f"{UNKNOWN if low is None else format_rounded(low)} to {UNKNOWN if high is None else format_rounded(high)} {unit}"
    if low is not None and high:
        words += f", {format_percent((high - low) / high, 2)} % apart"
    words = words if settled else f"{words}, not settled"
    return f"{words}; upper bound set by the {high_by}" if high_by else words


def format_forecast(picture: StepPicture) -> str:
    """What follows, and how many trials that takes with the one under way."""
    left = [] if picture.left_trials is None else [f"about {format_rounded(picture.left_trials)} left"]
    left += [] if picture.most_left_trials is None else [f"at most {format_rounded(picture.most_left_trials)}"]
    return "; ".join(", ".join(words) for words in (picture.coming, left) if words)
