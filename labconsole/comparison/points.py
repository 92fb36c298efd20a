"""The design points of one side of a comparison: those of forwarding runs, and those of other trials. Pure.

Comparisons, gates, trends and baselines know one sort of point, in two implementations with the same members. A run's
loss is judged together with the other runs of its point (report/points.py), so the points of runs are made from
summaries, and those of all other kinds from single trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from labconsole.contracts.measured import HELD, Bound, MeasuredTrial, MeasuredValue, Quantity
from labconsole.measure.comparison import Pair
from labconsole.measure.groups import occasion_of_block
from labconsole.measure.paired_blocks import select_newest_per_place
from labconsole.measure.statistics.set_ups import SetUpMean, mean_of, mean_over_set_ups, set_up_means
from labconsole.report.formatting import format_design_point, format_noun_count
from labconsole.report.points import PointSummary
from labconsole.report.sample import SetUpOrders

RUN: Final = "run"
"""The kind of forwarding runs; other points have the kind of their records."""

RATE: Final = Quantity(name="forwarding rate", unit="bps", better="higher", shown_unit="Mbit/s", scale=1e6)

COMPARED_OF_RUNS: Final = ("platform", "frame", "sources", "target_bps", "background", "duration_s")
"""Factors by which two sides of runs may be compared, if each side has one value of them."""

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


class SideSetUps(NamedTuple):
    """The set-ups of one point on one side. For each: its mean; the boot of the unit under test, or None if unknown;
    its occasion; and its start time if known (RFC 3339, UTC). ``known_ratio``: resolution of a single value, as a
    deviation of its logarithm.
    """

    means: Mapping[Hashable, float]
    boots: Mapping[Hashable, str | None]
    occasions: Mapping[Hashable, Hashable]
    begun: Mapping[Hashable, str] = MappingProxyType({})
    known_ratio: float = 0.0

    @property
    def boot_count(self) -> int:
        """The number of known boots."""
        return len(set(self.boots.values()) - {None})

    @property
    def set_ups_by_occasion(self) -> list[list[Hashable]]:
        """The set-ups of each occasion."""
        found: dict[Hashable, list[Hashable]] = {}
        for set_up in self.means:
            found.setdefault(self.occasions[set_up], []).append(set_up)
        return list(found.values())

    @property
    def boots_begun(self) -> list[str]:
        """When the first set-up of each known boot began; empty if a time is unknown."""
        found: dict[str, str] = {}
        for set_up, boot in self.boots.items():
            if boot is not None:
                begun = self.begun.get(set_up, "")
                found[boot] = min(begun, found.get(boot, begun))
        return [] if "" in found.values() else list(found.values())


# -- points of runs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """The forwarding rate at one design point. ``begun``: when each set-up was first tried. ``orders``: by run id.
    ``plan_names``: by the hashes of plans, which are the occasions of runs.
    """

    summary: PointSummary
    begun: Mapping[Hashable, str]
    orders: SetUpOrders
    plan_names: Mapping[Hashable, str]

    fingerprints: ClassVar[frozenset[str]] = frozenset()
    """None, as the testbed is a pooled condition of runs."""
    work: ClassVar[frozenset[str]] = frozenset()
    from_memory: ClassVar[frozenset[bool]] = frozenset({False})
    width_ratio: ClassVar[None] = None
    known_ratio: ClassVar[float] = 0.0
    """What one packet changes is known from ``packets``."""

    @property
    def key(self) -> QuantityKey:
        """The requested factors, and the version of the numbers (``method``); other conditions are pooled."""
        of, conditions = self.summary, self.summary.design.conditions
        values = (of.design.platform, of.frame, of.sources, of.design.target_bps, of.background, conditions.duration)
        factors = (*zip(COMPARED_OF_RUNS, values, strict=True), ("method", conditions.method))
        return QuantityKey(RUN, RATE, factors)

    @property
    def name(self) -> str:
        """Human-readable name of the point."""
        return format_design_point(self.summary.design)

    @property
    def title(self) -> str:
        """The point, with its quantity if there may be several."""
        return self.name

    @property
    def mean(self) -> SetUpMean:
        return self.summary.rate_bps

    @property
    def trial_count(self) -> int:
        return self.summary.n

    @property
    def bounds(self) -> set[Bound]:
        """What its rates are, with respect to the unit under test. All of them together decide: see ``carries_all``."""
        if self.summary.missing_ratio is None:
            return {"unknown"}
        if self.summary.carries_all:
            return {"at least"}
        return {"exact", "at least"} if self.summary.full_run_ids else {"exact"}

    @property
    def full_mean(self) -> float | None:
        """Mean of the trials that lost nothing, or None without any; of a point that carried all, no more than its
        mean.
        """
        values = self.summary.full_values_bps
        if not values:
            return None
        return min(self.mean.mean, mean_of(values)) if self.summary.carries_all else mean_of(values)

    @property
    def limited_ratio(self) -> float:
        """The share of trials that lost nothing: beyond it they would scatter like others."""
        return self.summary.full_ratio

    @property
    def boots(self) -> dict[Hashable, str | None]:
        """The unit under test's boot for each set-up."""
        return self.summary.boots

    @property
    def block_means(self) -> dict[Hashable, float]:
        """Mean of each block, by its name, its boot and its stretch, which both sides of a pair share."""
        means, (boots, stretches) = set_up_means(self.summary.values_bps), (self.boots, self.summary.stretches)
        known = [block for block in means if boots[block] is not None and stretches[block] is not None]
        return {(block, boots[block], stretches[block]): means[block] for block in known}

    @property
    def replicates(self) -> SideSetUps:
        """The set-ups, each with its boot, its occasion (the plan's hash) and its first start."""
        means = set_up_means(self.summary.values_bps)
        occasions = {block: occasion_of_block(block) for block in means}
        return SideSetUps(means, self.boots, occasions, self.begun, 1 / self.packets if self.packets else 0.0)

    @property
    def packets(self) -> int | None:
        """The fewest that arrived in a trial: its rate moves in steps of one."""
        return self.summary.packets

    @property
    def step(self) -> float:
        """The smallest difference of values, in their unit, or 0 if unknown."""
        return self.mean.mean / self.packets if self.packets else 0.0

    def describe_failure(self, before: ComparedPoint) -> str | None:
        """Describe set-ups that forwarded nothing, if none did so before."""
        dead = sum(not mean for mean in self.replicates.means.values())
        if not dead or not all(before.replicates.means.values()):
            return None
        return f"nothing was forwarded in {dead} of {format_noun_count(self.summary.set_ups, 'set-up')}"

    def name_set_up(self, set_up: Hashable) -> str:
        """Name a set-up, which is a block of a plan."""
        if not isinstance(set_up, tuple):
            return str(set_up)
        return f"block {set_up[0]} of {self.name_occasion(set_up[1])}"

    def name_occasion(self, occasion: Hashable) -> str:
        return self.plan_names.get(occasion, str(occasion))


# -- points of other trials --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPoint:
    """One quantity at one design point, from trials that enter and have it."""

    key: QuantityKey
    trials: tuple[MeasuredTrial, ...]

    packets: ClassVar[None] = None

    @property
    def name(self) -> str:
        """Human-readable name of the point."""
        return self.trials[0].words

    @property
    def title(self) -> str:
        """The point, with its quantity."""
        return f"{self.name}: {self.key.quantity.name}"

    @property
    def values(self) -> list[MeasuredValue]:
        """The value of each trial."""
        return [trial.values[self.key.quantity] for trial in self.trials]

    @property
    def mean(self) -> SetUpMean | None:
        """Mean over set-ups, or None if no value is known."""
        values = self._by(lambda trial: trial.set_up)
        return mean_over_set_ups(values) if values else None

    @property
    def trial_count(self) -> int:
        return len(self.trials)

    @property
    def bounds(self) -> set[Bound]:
        """The kinds of bound that its values are, with respect to the unit under test."""
        return {value.bound for value in self.values}

    @property
    def full_mean(self) -> float | None:
        """Mean of the trials that lost nothing, or None without any."""
        full = [each.value for each in self.values if each.bound == "at least" and each.value is not None]
        return mean_of(full) if full else None

    @property
    def limited_ratio(self) -> float:
        """The share of trials that lost nothing or that the link limited: beyond it they would scatter like others."""
        return sum(value.bound in ("at least", HELD) for value in self.values) / len(self.values)

    @property
    def from_memory(self) -> set[bool]:
        """Whether its trials may have read from memory; both values if trials differ."""
        return {trial.from_memory for trial in self.trials}

    @property
    def fingerprints(self) -> set[str]:
        """The testbeds of its trials."""
        return {trial.testbed_fingerprint for trial in self.trials}

    @property
    def work(self) -> set[str]:
        """What has to be equal before a difference can be attributed to the machine."""
        return {trial.work for trial in self.trials}

    @property
    def boots(self) -> dict[Hashable, str | None]:
        """The unit under test's boot for each set-up. An unknown set-up (None) permits no statement over set-ups."""
        return {trial.set_up: trial.boot_id for trial in self.trials}

    @property
    def block_means(self) -> dict[Hashable, float]:
        """Mean of each block in which it was measured."""
        by_block = self._by(lambda trial: trial.block)
        return set_up_means({block: values for block, values in by_block.items() if block is not None})

    @property
    def replicates(self) -> SideSetUps:
        """The set-ups, each with its boot, its occasion (from the plan's name) and its first start."""
        newest_first = sorted(self.trials, key=lambda trial: trial.started_at, reverse=True)
        return SideSetUps(
            set_up_means(self._by(lambda trial: trial.set_up)),
            self.boots,
            {trial.set_up: trial.plan_name for trial in self.trials},
            {trial.set_up: trial.started_at for trial in newest_first},
            self.known_ratio,
        )

    @property
    def width_ratio(self) -> float | None:
        """The steps in which its values move, as a share of them, or None if they do not matter."""
        return max((value.width_ratio for value in self.values if value.width_ratio), default=None)

    @property
    def known_ratio(self) -> float:
        """Resolution of a single value, as a deviation of its logarithm: within its step, or one packet."""
        known = [(each.value, each.width_ratio or 0.0, each.resolution or 0.0) for each in self.values]
        return max((max(width / UNIFORM, to / value) for value, width, to in known if value), default=0.0)

    @property
    def step(self) -> float:
        """The smallest difference of values, in their unit, or 0 if unknown."""
        steps = [each.value * each.width_ratio for each in self.values if each.value and each.width_ratio]
        steps += [each.resolution for each in self.values if each.value is not None and each.resolution]
        return max(steps, default=0.0)

    @property
    def turns(self) -> dict[Hashable, str]:
        """When it first began in each block."""
        return {turn.of: turn.begun for trial in self.trials if (turn := trial.turn) is not None}

    def describe_failure(self, before: ComparedPoint) -> str | None:
        """Describe searches that met their goal at no load, if none did so before."""
        if "none" not in self.bounds or "none" in before.bounds:
            return None
        dead = sum(value.bound == "none" for value in self.values)
        return f"the goal was not met even at the lowest load in {dead} of {len(self.values)} searches"

    def name_set_up(self, set_up: Hashable) -> str:
        """Name a set-up as the records of its trials do, or else by the first trial."""
        trials = [trial for trial in self.trials if trial.set_up == set_up]
        name = f"set-up {set_up}" if isinstance(set_up, str) else f"the set-up of {trials[0].id}"
        return f"{name} of {trials[0].plan_name}"

    def name_occasion(self, occasion: Hashable) -> str:
        return str(occasion)

    def _by(self, of: Callable[[MeasuredTrial], Hashable]) -> dict[Hashable, list[float]]:
        found: dict[Hashable, list[float]] = {}
        for trial, (value, *_) in zip(self.trials, self.values, strict=True):
            if value is not None:
                found.setdefault(of(trial), []).append(value)
        return found


ComparedPoint = RunPoint | TrialPoint


def select_newest(trials: Iterable[MeasuredTrial]) -> list[MeasuredTrial]:
    """Of trials with the same meaning on one testbed, the newest acceptable one, else the newest."""
    return select_newest_per_place(trials, lambda trial: (trial.kind, trial.testbed_fingerprint, trial.hash))


def sort_factors(trial: MeasuredTrial) -> tuple[tuple[str, Hashable], ...]:
    """The factors of its point, by name."""
    return tuple(sorted(trial.factors.items(), key=lambda factor: factor[0]))


def build_points(trials: Sequence[MeasuredTrial]) -> list[TrialPoint]:
    """Every quantity of every point, in the order in which it was first measured."""
    found: dict[QuantityKey, list[MeasuredTrial]] = {}
    for trial in sorted(trials, key=lambda each: (each.started_at, each.id)):
        for quantity in trial.values:
            found.setdefault(QuantityKey(trial.kind, quantity, sort_factors(trial)), []).append(trial)
    return [TrialPoint(key=key, trials=tuple(of_key)) for key, of_key in found.items()]


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
