"""Bounds of the rate without loss, from trials, and the next rate to narrow them. Pure.

A loss is accepted only if a second trial at the same target has loss, too (ETSI GS NFV-TST 009's binary search with
loss verification): one hiccup of the machine must not count as a limit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

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
