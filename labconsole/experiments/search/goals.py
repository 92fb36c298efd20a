"""The highest load that meets a loss goal, by MLRsearch (draft-ietf-bmwg-mlrsearch) with its authors' own library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from labconsole.errors import ConfigError
from labconsole.model.plan.search import ALLOWED_GOALS, PRESET_SUM_S, Search, partial_drop_ratio, preset_trial_s
from labconsole.model.record.search import Limit

# -- load class --------------------------------------------------------------------------------------------------------
# What trials show about a load, and about the bounds of a goal: MLRsearch's load classification. Pure.
#
# This is the draft's definition and not the library's code, so that a stored search can be recomputed from its trials,
# and so that a search that ended early gives exactly the bounds that its trials support.


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


# -- goals -------------------------------------------------------------------------------------------------------------
# The controller is theirs; a trial is any function. Ours is the reason of a bound: a load can fail because the unit
# under test lost packets, because the generator did not send them, or because a NIC of source or sink dropped them, and
# the library counts all of these as loss on purpose. The result says which of them ended the search, so that the
# instrument's limit is not published as a platform's.


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A loss goal in MLRsearch's words. ``exceed_ratio``: share of trial time that may lose more than the goal."""

    name: str
    loss_ratio: float
    exceed_ratio: float
    trial_duration_s: float
    duration_sum_s: float
    relative_width: float = 0.005


GOALS = {
    name: Goal(
        name=name,
        loss_ratio=0.0,
        exceed_ratio=exceed_ratio,
        trial_duration_s=preset_trial_s(name),
        duration_sum_s=PRESET_SUM_S[name],
    )
    for name, exceed_ratio in {"ndr": 0.5, "rfc2544": 0.0, "tst009": 0.5}.items()
}
"""No drop rate as in FD.io CSIT, RFC 2544 section 26.1, ETSI GS NFV-TST 009; ``pdr-X%`` is allowed as well."""


def parse_goal(text: str) -> Goal:
    """Parse ``ndr``, ``rfc2544``, ``tst009`` or ``pdr-0.5%``. Raises ConfigError."""
    if text in GOALS:
        return GOALS[text]
    loss = partial_drop_ratio(text)
    if loss is None:
        raise ConfigError("is not a goal", key="goals", value=text, allowed=ALLOWED_GOALS)
    # The draft requires a width of at least the allowed loss.
    return replace(
        GOALS["ndr"],
        name=text,
        loss_ratio=loss,
        relative_width=max(0.005, loss),
        trial_duration_s=preset_trial_s(text),
    )


def build_goals(search: Search) -> list[Goal]:
    """Return the goals that a plan's search requests, with its changes. A changed goal is no longer a preset."""
    goals = []
    for word in search.load_goals:
        preset = parse_goal(word)
        goal = replace(
            preset,
            trial_duration_s=search.trial_s or preset.trial_duration_s,
            duration_sum_s=search.duration_sum_s or preset.duration_sum_s,
            relative_width=search.width_ratio or preset.relative_width,
        )
        goals.append(goal if goal == preset else replace(goal, name=f"{word} (adjusted)"))
    return goals


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrial:
    """One trial of a search. ``load_pps`` is per source, counts are summed over the sources.

    ``lost_outside_packets``: the part of offered and not measured packets that was lost behind the unit under test.
    ``source_lost_packets``: made by the generators and not on the wire. ``queued_packets``: arrived so long after the
    sending time that they were queued, or None if unknown. ``offered_pps``: the offered rate over all sources while
    they sent, or None if unknown.
    """

    run_id: str
    load_pps: float
    duration_s: float
    intended_packets: int
    offered_packets: int
    measured_packets: int
    lost_outside_packets: int = 0
    offered_pps: float | None = None
    source_lost_packets: int = 0
    queued_packets: int | None = None

    @property
    def forwarded_packets(self) -> int:
        """Packets measured in time. Where the number of queued packets is unknown, none are subtracted
        (docs/search.md).
        """
        return self.measured_packets - (self.queued_packets or 0)

    @property
    def uut_loss_ratio(self) -> float:
        """Lost or queued by the unit under test, as a share of offered. Without offered packets it is 0: a
        shortfall.
        """
        lost = self.offered_packets - self.forwarded_packets - self.lost_outside_packets
        return lost / self.offered_packets if self.offered_packets else 0.0

    @property
    def instrument_lost(self) -> bool:
        """Whether a source or a sink lost packets itself."""
        return self.lost_outside_packets > 0 or self.source_lost_packets > 0

    @property
    def missing_ratio(self) -> float:
        """Lost, queued or not sent by any cause, as a share of intended. The library judges a trial by this."""
        return missing_ratio(self)


Measure = Callable[[float, float], LoadTrial]
"""Takes duration_s and load_pps per source and returns a trial. Called in the search's thread; raising ends the
search.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """The result for one goal. Loads are per source, or None without such a bound.

    ``conditional_throughput_pps``: the forwarding rate at the lower bound. ``limited_by``: why no higher load meets the
    goal; ``below_minimum`` means that even the lowest load failed. ``complete``: False if the search ended before the
    bounds were as close as the goal requires; the bounds are valid all the same. ``*_run_ids``: the trials at the
    bounds.
    """

    goal: Goal
    lower_bound_pps: float | None
    upper_bound_pps: float | None
    conditional_throughput_pps: float | None
    limited_by: Limit
    complete: bool = True
    lower_run_ids: tuple[str, ...] = ()
    upper_run_ids: tuple[str, ...] = ()


@dataclass(slots=True)
class SearchResult:
    """All goals of one search, and every trial in the order taken. ``ended_early``: the reason, or None if it was
    complete.
    """

    goals: list[GoalResult] = field(default_factory=list)
    trials: list[LoadTrial] = field(default_factory=list)
    ended_early: str | None = None


class Ended(Exception):
    """Raised by a measuring function when the search has used all its trials or its time."""


def search(
    measure: Measure,
    goals: Sequence[Goal],
    *,
    minimum_pps: float,
    maximum_pps: float,
    max_trials: int = 2000,
) -> SearchResult:
    """Find every goal's bounds between two loads. Blocking; raises what ``measure`` raises.

    Ended by ``max_trials`` or by Ended, it gives the bounds that its trials support so far, and says so.
    """
    from MLRsearch import Config, MultipleLossRatioSearch, SearchGoal
    from MLRsearch.trial_measurement import AbstractMeasurer, MeasurementResult

    found = SearchResult()

    class Measurer(AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> Any:
            if len(found.trials) >= max_trials:
                raise Ended(f"ended after {max_trials} trials, the maximum number of trials")
            trial = measure(float(intended_duration), float(intended_load))
            found.trials.append(trial)
            return MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=trial.offered_packets,
                forwarding_count=trial.forwarded_packets,
                intended_count=trial.intended_packets,
            )

    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.trial_duration_s,
            final_trial_duration=goal.trial_duration_s,
            duration_sum=goal.duration_sum_s,
            fail_fast=False,
        )
        for goal in goals
    ]
    config.min_load = minimum_pps  # first: it must be below the maximum at every moment
    config.max_load = maximum_pps
    # We end a search early ourselves, because the library would then give no bounds.
    config.search_duration_max, config.warmup_duration = LIBRARY_WITHIN_S, 0.0
    try:
        MultipleLossRatioSearch(config=config).search(Measurer(), debug=lambda _text: None)
    except Ended as exc:
        found.ended_early = str(exc)
    found.goals = [goal_result(goal, found.trials, minimum_pps=minimum_pps, maximum_pps=maximum_pps) for goal in goals]
    return found


def goal_result(goal: Goal, trials: Sequence[LoadTrial], *, minimum_pps: float, maximum_pps: float) -> GoalResult:
    """Return what these trials show about a goal, and nothing else. Also recomputes a stored search."""
    lower, upper = relevant_bounds(goal, trials)
    there: dict[float, list[LoadTrial]] = {}
    for trial in trials:
        there.setdefault(trial.load_pps, []).append(trial)
    complete = True
    if upper is not None and lower is not None:
        limited: Limit = blame(goal, there[upper])
        complete = upper - lower <= upper * goal.relative_width * (1 + WIDTH_SLACK)
    elif lower is not None:
        complete = _same(lower, maximum_pps)
        limited = "line_rate" if complete else "undecided"
    else:
        complete = upper is not None and _same(upper, minimum_pps)
        limited = "below_minimum" if complete else "undecided"
    return GoalResult(
        goal=goal,
        lower_bound_pps=lower,
        upper_bound_pps=upper,
        conditional_throughput_pps=None if lower is None else conditional_throughput_pps(goal, lower, there[lower]),
        limited_by=limited,
        complete=complete,
        lower_run_ids=() if lower is None else tuple(trial.run_id for trial in there[lower]),
        upper_run_ids=() if upper is None else tuple(trial.run_id for trial in there[upper]),
    )


LIBRARY_WITHIN_S = 1e9
WIDTH_SLACK = 0.01
"""The library rounds loads to a grid of its own, whose step differs slightly from the requested width."""


def _same(load_pps: float, limit_pps: float) -> bool:
    return abs(load_pps - limit_pps) <= limit_pps * 1e-6


def blame(goal: Goal, there: Sequence[LoadTrial]) -> Limit:
    """Return who failed the goal at its upper bound: the UUT, if its own loss and queueing alone exceed the goal."""
    failed = [trial for trial in there if trial.missing_ratio > goal.loss_ratio]
    if 2 * sum(trial.uut_loss_ratio > goal.loss_ratio for trial in there) >= len(failed):
        return "uut"
    return "instrument" if 2 * sum(trial.instrument_lost for trial in failed) >= len(failed) else "generator"
