"""What trials show about a load, and about the bounds of a goal: MLRsearch's load classification. Pure.

This is the draft's definition and not the library's code, so that a stored search can be recomputed from its trials,
and so that a search that ended early gives exactly the bounds that its trials support.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol


class GoalLike(Protocol):
    """A loss goal in MLRsearch's words."""

    @property
    def loss_ratio(self) -> float: ...
    @property
    def exceed_ratio(self) -> float: ...
    @property
    def trial_duration_s(self) -> float: ...
    @property
    def duration_sum_s(self) -> float: ...


class TrialLike(Protocol):
    """One trial's load, duration, and counts over all sources."""

    @property
    def load_pps(self) -> float: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def intended_packets(self) -> int: ...
    @property
    def offered_packets(self) -> int: ...
    @property
    def forwarded_packets(self) -> int: ...


def missing_ratio(trial: TrialLike) -> float:
    """Return the packets lost, queued or not sent by any cause, as a share of intended. MLRsearch judges a trial by
    this.
    """
    bad = abs(trial.offered_packets - trial.forwarded_packets) + abs(trial.intended_packets - trial.offered_packets)
    most = max(trial.offered_packets, trial.intended_packets)
    return bad / most if most else 0.0


def meets(goal: GoalLike, trials: Iterable[TrialLike]) -> bool | None:
    """Return whether the load of these trials meets the goal, or None while that depends on future trials."""
    good_long = bad_long = good_short = bad_short = 0.0
    for trial in trials:
        good = missing_ratio(trial) <= goal.loss_ratio
        if trial.duration_s >= goal.trial_duration_s:
            good_long, bad_long = good_long + trial.duration_s * good, bad_long + trial.duration_s * (not good)
        else:
            good_short, bad_short = good_short + trial.duration_s * good, bad_short + trial.duration_s * (not good)
    # Short trials that meet the goal balance short ones that do not; the bad ones left over count as long.
    balance = good_short * goal.exceed_ratio / (1.0 - goal.exceed_ratio)
    excess_s = bad_long + max(0.0, bad_short - balance)
    sum_s = max(good_long + excess_s, goal.duration_sum_s)
    allowed_s = sum_s * goal.exceed_ratio
    optimistic, pessimistic = excess_s <= allowed_s, sum_s - good_long <= allowed_s
    return optimistic if optimistic == pessimistic else None


def group_by_load(trials: Iterable[TrialLike]) -> dict[float, list[TrialLike]]:
    """Group the trials by load, the lowest load first."""
    loads: dict[float, list[TrialLike]] = defaultdict(list)
    for trial in trials:
        loads[trial.load_pps].append(trial)
    return dict(sorted(loads.items()))


def relevant_bounds(goal: GoalLike, trials: Iterable[TrialLike]) -> tuple[float | None, float | None]:
    """Return (lower, upper): upper is the lowest load that fails the goal, lower the highest one below it that meets
    it.
    """
    lower = None
    for load_pps, there in group_by_load(trials).items():
        met = meets(goal, there)
        if met is False:
            return lower, load_pps
        if met:
            lower = load_pps
    return lower, None


def conditional_throughput_pps(goal: GoalLike, load_pps: float, trials: Sequence[TrialLike]) -> float:
    """Return the forwarding rate at a load that meets the goal, from the long trials in the share that has to meet it.

    Trial time that the goal requires and that was not needed counts as wholly lost, which is the worst case.
    """
    long = sorted((missing_ratio(t), t.duration_s) for t in trials if t.duration_s >= goal.trial_duration_s)
    left_s = max(goal.duration_sum_s, sum(duration_s for _, duration_s in long)) * (1.0 - goal.exceed_ratio)
    lost = 1.0
    for index, (ratio, duration_s) in enumerate(long):
        if index and left_s <= 0:
            break
        lost = ratio
        left_s -= duration_s
    else:
        lost = 1.0 if left_s > 0 else lost
    return load_pps * (1.0 - lost)
