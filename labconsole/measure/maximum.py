"""The maximum of a setting, what may be stated about it, and bounds of the rate without loss. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from labconsole.measure.statistics.effects import Effect, paired_effect
from labconsole.measure.statistics.set_ups import Key, set_up_means

# -- bounds ------------------------------------------------------------------------------------------------------------
# Bounds of the rate without loss, from trials, and the next rate to narrow them.
#
# A loss is accepted only if a second trial at the same target has loss, too (ETSI GS NFV-TST 009's binary search with
# loss verification): one hiccup of the machine must not count as a limit.

WIDTH_RATIO = 0.1
"""Bounds closer than this are close enough: the steps in which an envelope is used are coarser."""


@dataclass(frozen=True, slots=True)
class LossTrial:
    """One trial of one stream for one witness: target (any key), offered rate, and whether all packets were seen."""

    target: Hashable
    offered_pps: float
    clean: bool


@dataclass(frozen=True, slots=True)
class LossBounds:
    """The highest rate without loss below the lowest rate with loss; None if no trial showed one."""

    clean_pps: float | None
    lossy_pps: float | None

    @property
    def wide(self) -> bool:
        """Whether another trial between them would narrow them usefully."""
        if self.lossy_pps is None:
            return False
        return self.clean_pps is None or self.lossy_pps > self.clean_pps * (1 + WIDTH_RATIO)

    @property
    def next_pps(self) -> float | None:
        """The next rate to try, or None if none is needed.

        Halfway on a logarithmic scale; a quarter of the lossy rate while no rate was clean.
        """
        if not self.wide or self.lossy_pps is None:
            return None
        return self.lossy_pps / 4 if self.clean_pps is None else math.sqrt(self.clean_pps * self.lossy_pps)


def loss_bounds(trials: Iterable[LossTrial]) -> LossBounds:
    """The bounds from these trials. A target counts as lossy if all of its trials had loss."""
    by_target: dict[Hashable, list[LossTrial]] = defaultdict(list)
    for trial in trials:
        by_target[trial.target].append(trial)
    clean: list[float] = []
    lossy: list[float] = []
    for taken in by_target.values():
        passed = [trial.offered_pps for trial in taken if trial.clean]
        (clean if passed else lossy).append(min(passed) if passed else min(trial.offered_pps for trial in taken))
    lossy_pps = min(lossy, default=None)
    below = [rate for rate in clean if lossy_pps is None or rate < lossy_pps]
    return LossBounds(max(below, default=None), lossy_pps)


def unverified(trials: Sequence[LossTrial]) -> Hashable | None:
    """The target of the lossy bound if it has only one trial, or None if nothing needs verification."""
    lossy_pps = loss_bounds(trials).lossy_pps
    for trial in trials:
        if trial.offered_pps == lossy_pps and not trial.clean:
            alone = sum(other.target == trial.target for other in trials) == 1
            return trial.target if alone else None
    return None


# -- maximum -----------------------------------------------------------------------------------------------------------
# The maximum of a setting: the load to read it at, from which blocks, and what may be stated about it.
#
# The highest of several noisy means is too high on average. The load is therefore chosen on other measurements than
# those that give the value: by a pilot, or on block 1 with the value from the others (D. R. Cox, A note on
# data-splitting for the evaluation of significance levels, Biometrika 62, 1975).

MINIMUM_TO_CHOOSE = 4
"""Set-ups without a pilot: one to choose by, three to compute an interval from."""
REACHED_LOSS_RATIO = 0.001
COLLAPSE_RATIO = 0.98
SECOND_GUEST_RATIO = 0.99

Values = Mapping[Any, Sequence[float]]
"""The values of the trials at one load, by block."""

Method = Literal[
    "pilot's load",
    "chosen on block 1, read from the others",
    "one load: a rate, no maximum",
    "too few set-ups to choose",
    "the pilot's load was not measured",
]


@dataclass(frozen=True, slots=True)
class MaximumChoice:
    """The load of the maximum and its ``values`` (by block), ready for ``mean_over_set_ups``.

    ``load`` is None if there is no maximum to read; with a single load it is that one, and ``is_maximum`` is False.
    ``highest``: the highest load measured.
    """

    load: float | None
    method: Method
    highest: float | None
    values: Values = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[Hashable, ...]:
        """The blocks from which the value is read."""
        return tuple(self.values)

    @property
    def is_maximum(self) -> bool:
        """Whether the value may be called a maximum."""
        return self.method in ("pilot's load", "chosen on block 1, read from the others")


def choose_maximum(
    by_load: Mapping[float, Values], pilot_load: float | None, first_block: Hashable | None = None
) -> MaximumChoice:
    """The load of one setting at which its maximum is read.

    ``by_load``: values by load (any one unit; infinity for "as fast as it goes") and block. ``pilot_load``: the load
    that a pilot chose, if there was one. ``first_block``: the block to choose on without a pilot, else the lowest block
    number.
    """
    known = {load: _drop_empty(values) for load, values in by_load.items()}
    known = {load: values for load, values in sorted(known.items()) if values}
    highest = max(known, default=None)
    if len(known) == 1 and (pilot_load is None or pilot_load in known):
        (load,) = known
        return MaximumChoice(load, "one load: a rate, no maximum", highest, known[load])
    if pilot_load is not None:
        if pilot_load not in known:
            return MaximumChoice(None, "the pilot's load was not measured", highest)
        return MaximumChoice(pilot_load, "pilot's load", highest, known[pilot_load])
    blocks = {block for values in known.values() for block in values}
    if len(blocks) < MINIMUM_TO_CHOOSE:
        return MaximumChoice(None, "too few set-ups to choose", highest)
    first = _first(blocks) if first_block is None else first_block
    means = {load: set_up_means({first: values[first]})[first] for load, values in known.items() if first in values}
    if not means:
        return MaximumChoice(None, "too few set-ups to choose", highest)
    load = max(means, key=lambda one: (means[one], -one))
    others = {block: trials for block, trials in known[load].items() if block != first}
    return MaximumChoice(load, "chosen on block 1, read from the others", highest, others)


def is_at_least(load: float | None, highest: float | None, lost_or_late_ratio: float | None) -> bool | None:
    """Whether the value at ``load`` is only a lower bound, because the highest load was still carried.

    ``lost_or_late_ratio``: the share that the unit under test lost or delivered late there, or None if unknown.
    """
    if load is None or highest is None:
        return None
    if load < highest:
        return False
    return None if lost_or_late_ratio is None else lost_or_late_ratio < REACHED_LOSS_RATIO


def collapse(choice: MaximumChoice, at_highest: Values, *, packets: float | None = None) -> Effect | None:
    """The rate at the highest load compared with the maximum's load, in the blocks that the maximum is read from.

    The p-value is one-sided, for a fall by more than 2 %. None if there is nothing to compare: the maximum is at the
    highest load, or there is no maximum.
    """
    if not choice.is_maximum or choice.load is None or choice.load == choice.highest:
        return None
    highest = {block: trials for block, trials in at_highest.items() if block in choice.values}
    return paired_effect(
        set_up_means(highest), set_up_means(choice.values), packets=packets, null=COLLAPSE_RATIO, alternative="less"
    )


def second_guest_loses(
    forwarded: Mapping[Key, float], received: Mapping[Key, float], *, packets: float | None = None
) -> Effect:
    """A second guest's output compared with its input, by block; one-sided p for a loss of more than 1 % in it."""
    return paired_effect(forwarded, received, packets=packets, null=SECOND_GUEST_RATIO, alternative="less")


def _drop_empty(values: Values) -> Values:
    return {block: trials for block, trials in values.items() if len(trials)}


def _first(blocks: set[Hashable]) -> Hashable:
    numbers = [block for block in blocks if isinstance(block, int)]
    if len(numbers) != len(blocks):
        raise ValueError("blocks without numbers: which of them came first has to be said")
    return min(numbers)
