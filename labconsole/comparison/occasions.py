"""The successive occasions of a plan as sides; which occasions are complete. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from labconsole.comparison.changes import Side
from labconsole.contracts.measured import MeasuredTrial
from labconsole.measure.run_row import RunRow
from labconsole.model.plan.plan import AT
from labconsole.report.digest import Digest


def base_name(plan_name: str | None) -> str:
    """The plan's name without the occasion."""
    return (plan_name or "").partition(AT)[0]


def count_planned_and_missing(runs: Iterable[RunRow], set_ups: int | None) -> tuple[int, int]:
    """Planned and missing set-ups of one plan on one testbed, for the kinds that were begun. ``set_ups``: of each, or
    None if unknown; then nothing is missing.
    """
    begun = {(run.platform, run.background, run.block) for run in runs if run.block}
    planned = 0 if set_ups is None else set_ups * len({each[:2] for each in begun})
    return planned, 0 if set_ups is None else max(0, planned - len(begun))


def describe_incomplete(name: str, planned: int, missing: int, noun: str) -> str:
    """Describe an occasion that is left out."""
    return f"{name} is left out: {missing} of its {planned} {noun} {'is' if missing == 1 else 'are'} missing"


def build_trial_sides(
    meant: Sequence[MeasuredTrial], every: Sequence[MeasuredTrial], place: str, tell: Callable[[str], None]
) -> Iterator[Side]:
    """One side for each complete occasion; others are reported. ``every``: all trials, as a filter makes no occasion
    incomplete.
    """
    groups, of_occasion = _group_by_occasion(meant), _group_by_occasion(every)
    for key, trials in groups.items():
        planned, missing = _planned_and_missing(of_occasion[key])
        if missing:
            tell(describe_incomplete(key[0], planned, missing, "trials"))
        elif not any(trial.values for trial in trials):
            tell(f"{key[0]} is left out: none of its trials enters a mean")
        else:
            digest = Digest(())
            add_trials_to_digest(digest, trials)
            yield Side(words=key[0], place=place, digest=digest, trials=tuple(trials))


def add_trials_to_digest(digest: Digest, trials: Iterable[MeasuredTrial]) -> None:
    """Add to a digest what trials that enter say of their nodes, the oldest first."""
    for trial in sorted(trials, key=lambda each: each.started_at):
        if trial.values:
            digest.add_nodes(trial.nodes)


def _group_by_occasion(trials: Iterable[MeasuredTrial]) -> dict[tuple[str, str], list[MeasuredTrial]]:
    found: dict[tuple[str, str], list[MeasuredTrial]] = {}
    for trial in trials:
        found.setdefault((trial.plan_name, trial.testbed_fingerprint), []).append(trial)
    return found


def _planned_and_missing(trials: Sequence[MeasuredTrial]) -> tuple[int, int]:
    """Trials of the points that were begun; searches do not record how many their plan requests."""
    points: dict[Hashable, tuple[int, int]] = {}
    for trial in trials:
        key = (trial.kind, tuple(sorted(trial.factors.items(), key=lambda factor: factor[0])))
        planned, there = points.get(key, (0, 0))
        points[key] = (max(planned, trial.planned or 0), there + 1)
    return sum(planned for planned, _ in points.values()), sum(
        max(0, planned - there) for planned, there in points.values()
    )
