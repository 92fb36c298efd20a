"""Quantities other than forwarding rates of one side of a comparison, design point by design point. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from labconsole.contracts.measured import Bound, MeasuredTrial, MeasuredValue, Quantity, TrialTurn
from labconsole.measure.comparison import Pair
from labconsole.measure.paired_blocks import select_newest_per_place
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups, set_up_means
from labconsole.report.compared_effect import SideSetUps

UNIFORM: Final = math.sqrt(12.0)
"""The width of a uniform distribution in standard deviations: the position of a bound within its step is unknown."""


class QuantityKey(NamedTuple):
    """Key that identifies the same quantity of the same point on another side."""

    kind: str
    quantity: Quantity
    factors: tuple[tuple[str, Hashable], ...]

    def without(self, names: Iterable[str]) -> QuantityKey:
        """The key with these factors left open, to compare sides by them."""
        left_open = frozenset(names)
        return self._replace(factors=tuple(each for each in self.factors if each[0] not in left_open))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One quantity at one design point, from trials that enter and have it."""

    key: QuantityKey
    trials: tuple[MeasuredTrial, ...]

    @property
    def quantity(self) -> Quantity:
        return self.key.quantity

    @property
    def words(self) -> str:
        """Human-readable name of the point."""
        return self.trials[0].words

    @property
    def values(self) -> list[MeasuredValue]:
        """The value of each trial."""
        return [trial.values[self.quantity] for trial in self.trials]

    @property
    def bounds(self) -> set[Bound]:
        """The kinds of bound that its values are, with respect to the unit under test."""
        return {value.bound for value in self.values}

    @property
    def from_memory(self) -> set[bool]:
        """Whether its trials may have read from memory; both values if trials differ."""
        return {trial.from_memory for trial in self.trials}

    @property
    def mean(self) -> SetUpMean | None:
        """Mean over set-ups, or None if no value is known."""
        values = self._by(lambda trial: trial.set_up)
        return mean_over_set_ups(values) if values else None

    @property
    def set_up_means(self) -> dict[Hashable, float]:
        """Mean of each set-up. An unknown set-up (None) permits no statement over set-ups."""
        return set_up_means(self._by(lambda trial: trial.set_up))

    @property
    def block_means(self) -> dict[Hashable, float]:
        """Mean of each block in which it was measured."""
        by_block = self._by(lambda trial: trial.block)
        return set_up_means({block: values for block, values in by_block.items() if block is not None})

    @property
    def boots(self) -> dict[Hashable, str | None]:
        """The unit under test's boot for each set-up."""
        return {trial.set_up: trial.boot_id for trial in self.trials}

    @property
    def replicates(self) -> SideSetUps:
        """The set-ups, each with its boot, its occasion (from the plan's name) and its first start."""
        newest_first = sorted(self.trials, key=lambda trial: trial.started_at, reverse=True)
        return SideSetUps(
            self.set_up_means,
            self.boots,
            {trial.set_up: trial.plan_name for trial in self.trials},
            {trial.set_up: trial.started_at for trial in newest_first},
            self.known_ratio,
        )

    @property
    def known_ratio(self) -> float:
        """Resolution of a single value, as a deviation of its logarithm: within its step, or one packet."""
        known = [(each.value, each.width_ratio or 0.0, each.resolution or 0.0) for each in self.values]
        return max((max(width / UNIFORM, to / value) for value, width, to in known if value), default=0.0)

    @property
    def turns(self) -> dict[Hashable, str]:
        """When it first began in each block."""
        turns: list[TrialTurn] = [trial.turn for trial in self.trials if trial.turn is not None]
        return {turn.of: turn.begun for turn in turns}

    def seen(self, of: Callable[[MeasuredTrial], str | None]) -> set[str | None]:
        """The values of ``of`` among its trials."""
        return {of(trial) for trial in self.trials}

    def _by(self, of: Callable[[MeasuredTrial], Hashable]) -> dict[Hashable, list[float]]:
        found: dict[Hashable, list[float]] = {}
        for trial, (value, *_) in zip(self.trials, self.values, strict=True):
            if value is not None:
                found.setdefault(of(trial), []).append(value)
        return found


def select_newest(trials: Iterable[MeasuredTrial]) -> list[MeasuredTrial]:
    """Of trials with the same meaning on one testbed, the newest acceptable one, else the newest."""
    return select_newest_per_place(trials, lambda trial: (trial.kind, trial.testbed_fingerprint, trial.hash))


def sort_factors(trial: MeasuredTrial) -> tuple[tuple[str, Hashable], ...]:
    """The factors of its point, by name."""
    return tuple(sorted(trial.factors.items(), key=lambda factor: factor[0]))


def build_points(trials: Sequence[MeasuredTrial]) -> list[MeasuredPoint]:
    """Every quantity of every point, in the order in which it was first measured."""
    found: dict[QuantityKey, list[MeasuredTrial]] = {}
    for trial in sorted(trials, key=lambda each: (each.started_at, each.id)):
        for quantity in trial.values:
            found.setdefault(QuantityKey(trial.kind, quantity, sort_factors(trial)), []).append(trial)
    return [MeasuredPoint(key=key, trials=tuple(of_key)) for key, of_key in found.items()]


def find_pooled_conditions(trials: Sequence[MeasuredTrial]) -> Mapping[str, list[str]]:
    """By kind, the conditions that differ among the trials of one point, with their values there."""
    differing: dict[str, dict[str, set[str]]] = {}
    for point in build_points(trials):
        for name, values in _conditions(point.key.kind, point.trials).items():
            if len(values) > 1:
                differing.setdefault(point.key.kind, {}).setdefault(name, set()).update(values)
    return {
        kind: [f"{name} {', '.join(sorted(values))}" for name, values in differing[kind].items()]
        for kind in sorted(differing)
    }


def differing_conditions(
    before: Sequence[MeasuredTrial], after: Sequence[MeasuredTrial], reported: Collection[tuple[str, object, object]]
) -> list[Pair]:
    """Conditions of trials that enter, if they differ between the sides; without those ``reported`` already."""
    found = []
    for kind in sorted({trial.kind for trial in before} & {trial.kind for trial in after}):
        sides = [_conditions(kind, trials) for trials in (before, after)]
        for name in dict.fromkeys(name for side in sides for name in side):
            one, other = (", ".join(sorted(side.get(name, ()))) or None for side in sides)
            if one != other and (name, one, other) not in reported:
                found.append(Pair(f"Trials of kind {kind}", name, one, other))
    return found


def _conditions(kind: str, trials: Sequence[MeasuredTrial]) -> dict[str, set[str]]:
    """All values of each condition."""
    found: dict[str, set[str]] = {}
    for trial in trials:
        if trial.kind == kind and trial.values:
            own = {"testbed": trial.testbed, "fingerprint": trial.testbed_fingerprint, **trial.conditions}
            for name, value in own.items():
                found.setdefault(name, set()).add(value or "unknown")
    return found
