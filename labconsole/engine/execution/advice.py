"""How many set-ups and repetitions a plan needs, by Kalibera and Jones' components of its own stored blocks.

The advice is per platform and background, whose points share a set-up: one more repetition costs a trial of each.
Variances are pooled over the points at which maxima are read, because a report compares those, and because a platform
hardly varies far below its maximum. Durations are those of the records.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

from labconsole.errors import MeasurementError
from labconsole.measure.statistics.as_json import advice_json, components_json
from labconsole.measure.statistics.components import (
    MINIMUM_REPETITIONS,
    MINIMUM_SET_UPS,
    Advice,
    Components,
    advise,
    components,
    pooled_components,
    upper_variance_of_mean,
)
from labconsole.measure.statistics.effects import SIGNIFICANCE, smallest_effect
from labconsole.model.plan.order import Configuration
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord


@dataclass(frozen=True, slots=True)
class Dimension:
    """A number of set-ups and repetitions, with the resulting sensitivity and duration.

    ``smallest_ratio``: the smallest change between two platforms that is detected with 80 % power in a single
    comparison. ``of_family_ratio``: the same with 0.05 shared among all claims (the hardest step of Holm's method).
    Both are None with fewer than three set-ups, or if nothing varied.
    """

    set_ups: int
    repetitions: int
    smallest_ratio: float | None
    of_family_ratio: float | None
    total_s: float

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        return {
            "set_ups": self.set_ups,
            "repetitions": self.repetitions,
            "smallest_ratio": self.smallest_ratio,
            "of_family_ratio": self.of_family_ratio,
            "total_s": self.total_s,
        }


@dataclass(frozen=True, slots=True)
class ConfigurationAdvice:
    """Advice for one platform with one background. ``left_out``: points that could not be used, and why."""

    platform: str
    background: str
    spread: Components
    setup_s: float
    trial_s: float
    advised: Advice
    as_advised: Dimension
    as_planned: Dimension
    left_out: tuple[tuple[int, str], ...]

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        return {
            "platform": self.platform,
            "background": self.background,
            "spread": components_json(self.spread),
            "setup_s": self.setup_s,
            "trial_s": self.trial_s,
            "advised": advice_json(self.advised),
            "as_advised": self.as_advised.to_json(),
            "as_planned": self.as_planned.to_json(),
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True)
class PlanAdvice:
    """``set_ups``, ``repetitions``: those of the most demanding configuration. ``claims``: maximum size of the family.

    ``total_s``: duration of all blocks with these numbers, without the pilot.
    """

    accuracy_ratio: float
    claims: int
    each: tuple[ConfigurationAdvice, ...]
    set_ups: int
    repetitions: int
    total_s: float
    refused: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """As ``plan advise --json`` prints it."""
        return {
            "accuracy_ratio": self.accuracy_ratio,
            "claims": self.claims,
            "each": [each.to_json() for each in self.each],
            "set_ups": self.set_ups,
            "repetitions": self.repetitions,
            "total_s": self.total_s,
            "refused": self.refused,
        }


def plan_advice(plan: Plan, records: Iterable[RunRecord], accuracy_ratio: float, claims: int) -> PlanAdvice:
    """Dimension a plan from the runs of whole set-ups, one per place. Raises MeasurementError if there are too few."""
    if plan.set_ups is None:
        raise MeasurementError(f"plan {plan.name} has no blocks: {_FIRST}, {APART}")
    by_configuration: dict[Configuration, list[RunRecord]] = {}
    for record in records:
        if record.set_up is not None and record.plan is not None and record.plan.block:
            by_configuration.setdefault((record.requested.platform, record.requested.background), []).append(record)
    each: list[ConfigurationAdvice] = []
    refused: dict[str, list[str]] = {}
    for (platform, background), runs in by_configuration.items():
        try:
            each.append(_advise_configuration(plan, platform, background, runs, accuracy_ratio, claims))
        except MeasurementError as exc:
            refused.setdefault(str(exc), []).append(f"{platform} with background {background}")
    refusals = tuple(f"{', '.join(names)}: {why}" for why, names in refused.items())
    if not each:
        why = "; ".join(refusals) or "no block of it is stored for this testbed"
        raise MeasurementError(f"plan {plan.name} cannot be dimensioned yet ({why}): {_FIRST}, {APART}")
    set_ups = max(advice.advised.set_ups for advice in each)
    repetitions = max(advice.advised.repetitions for advice in each)
    return PlanAdvice(
        accuracy_ratio=accuracy_ratio,
        claims=claims,
        each=tuple(each),
        set_ups=set_ups,
        repetitions=repetitions,
        total_s=set_ups * sum(advice.setup_s + repetitions * advice.trial_s for advice in each),
        refused=refusals,
    )


_FIRST = f"first measure it with set_ups: {MINIMUM_SET_UPS}, repetitions: {MINIMUM_REPETITIONS}"
APART = "replay it into a separate store (--store), and get advice from that one"


def _advise_configuration(
    plan: Plan, platform: str, background: str, runs: list[RunRecord], accuracy_ratio: float, claims: int
) -> ConfigurationAdvice:
    by_point: dict[int, list[RunRecord]] = {}
    for record in runs:
        assert record.plan is not None
        by_point.setdefault(record.plan.point, []).append(record)
    parts, left_out = [], []
    for point, taken in sorted(by_point.items()):
        if not _is_maximum(taken[0]):
            continue
        try:
            parts.append(components(_group_by_set_up(taken)))
        except MeasurementError as exc:
            left_out.append((point, str(exc)))
    if not parts:
        raise MeasurementError(left_out[0][1] if left_out else "no point at which a maximum is read has runs")
    spread = pooled_components(parts)
    setup_s, trial_s = _setup_s(runs), sum(_trial_s(taken) for taken in by_point.values())
    advised = advise(spread, setup_s, trial_s, accuracy_ratio)
    return ConfigurationAdvice(
        platform=platform,
        background=background,
        spread=spread,
        setup_s=setup_s,
        trial_s=trial_s,
        advised=advised,
        as_advised=_dimension(advised, advised.set_ups, advised.repetitions, setup_s, trial_s, claims),
        as_planned=_dimension(advised, plan.set_ups or 0, plan.repetitions, setup_s, trial_s, claims),
        left_out=tuple(left_out),
    )


def _is_maximum(record: RunRecord) -> bool:
    """Whether the maximum of the run's setting is read at this load, or the setting has this load only."""
    fixed = record.plan.fixed if record.plan is not None else None
    load = None if fixed is None else fixed.maximum_target_bps
    return load is None or load == record.requested.target_bps


def _group_by_set_up(runs: Iterable[RunRecord]) -> dict[Hashable, list[float]]:
    """Rates by set-up. A set-up with fewer than two usable trials says nothing of the variation within it."""
    found: dict[Hashable, list[float]] = {}
    for record in runs:
        rate = record.total.measured_pps if record.total.forwarding_pps is None else record.total.forwarding_pps
        if record.verdict.status != "invalid" and rate is not None and record.set_up is not None:
            found.setdefault(record.set_up.id, []).append(rate)
    enough = {set_up: rates for set_up, rates in found.items() if len(rates) >= MINIMUM_REPETITIONS}
    return enough or found


def _dimension(
    advised: Advice, set_ups: int, repetitions: int, setup_s: float, trial_s: float, claims: int
) -> Dimension:
    """The dimension, by the same upper bound of the stored blocks' variance as the advice."""
    upper = upper_variance_of_mean(advised.components, repetitions)
    return dimension(upper, set_ups, repetitions, setup_s, trial_s, claims)


def dimension(
    variance: float, set_ups: int, repetitions: int, setup_s: float, trial_s: float, claims: int
) -> Dimension:
    """The dimension for ``variance``, that of a set-up's mean over ``repetitions``."""
    sd = sqrt(2 * variance)
    return Dimension(
        set_ups=set_ups,
        repetitions=repetitions,
        smallest_ratio=smallest_effect(sd, set_ups),
        of_family_ratio=smallest_effect(sd, set_ups, alpha=SIGNIFICANCE / max(1, claims)),
        total_s=set_ups * (setup_s + repetitions * trial_s),
    )


def _setup_s(runs: Iterable[RunRecord]) -> float:
    """Mean time from the beginning of a set-up to its first trial, including the warm-up."""
    took: dict[str, float] = {}
    for record in runs:
        if record.set_up is not None:
            until_s = seconds_between(record.set_up.started_at, record.started_at)
            known = took.get(record.set_up.id)
            took[record.set_up.id] = until_s if known is None else min(known, until_s)
    return sum(took.values()) / len(took)


def _trial_s(runs: list[RunRecord]) -> float:
    """Mean time from the beginning of a trial to the end of its pause."""
    took = [
        seconds_between(record.started_at, record.finished_at)
        + (record.in_force.settle_s or 0.0 if record.in_force is not None else 0.0)
        for record in runs
    ]
    return sum(took) / len(took)


def seconds_between(begin: str, end: str) -> float:
    """Seconds between two times, at least 0. Raises MeasurementError for invalid times."""
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())
    except (ValueError, TypeError):
        raise MeasurementError(f"a record has invalid times: {begin!r} to {end!r}") from None
