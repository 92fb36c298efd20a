"""The highest load that meets a loss goal, by MLRsearch (draft-ietf-bmwg-mlrsearch) with its authors' own library.

The controller is theirs; a trial is any function. What is ours is honesty about the bound: a load can fail because the
unit under test lost packets, because the generator did not send them, or because a NIC of source or sink dropped them,
and the library counts all of that as loss on purpose. The result says which of them ended the search, so that the
instrument's limit is not published as a platform's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from labconsole.errors import ConfigError, MeasurementError

Limit = Literal["uut", "generator", "instrument", "line_rate", "below_minimum"]

_PDR = re.compile(r"pdr-(\d+(?:\.\d+)?)%")


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
    "ndr": Goal(name="ndr", loss_ratio=0.0, exceed_ratio=0.5, trial_duration_s=1.0, duration_sum_s=21.0),
    "rfc2544": Goal(name="rfc2544", loss_ratio=0.0, exceed_ratio=0.0, trial_duration_s=60.0, duration_sum_s=60.0),
    "tst009": Goal(name="tst009", loss_ratio=0.0, exceed_ratio=0.5, trial_duration_s=60.0, duration_sum_s=120.0),
}
"""No drop rate as FD.io CSIT takes it, RFC 2544 section 26.1, ETSI GS NFV-TST 009; ``pdr-X%`` beside them."""


def parse_goal(text: str) -> Goal:
    """``ndr``, ``rfc2544``, ``tst009`` or ``pdr-0.5%``. Raises ConfigError."""
    if text in GOALS:
        return GOALS[text]
    match = _PDR.fullmatch(text)
    if match is None or not 0 < float(match[1]) < 100:
        raise ConfigError(
            "is not a goal", key="goals", value=text, allowed=f"{', '.join(GOALS)}, pdr-X% such as pdr-0.5%"
        )
    loss = float(match[1]) / 100
    # The draft asks for a width no smaller than the loss that is allowed.
    return replace(GOALS["ndr"], name=text, loss_ratio=loss, relative_width=max(0.005, loss))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial of a search. ``load_pps`` is per source, counts are summed over the sources.

    ``lost_outside_packets``: of the lost, those that a counter of a source or a sink says were lost there.
    """

    run_id: str
    load_pps: float
    duration_s: float
    intended_packets: int
    offered_packets: int
    measured_packets: int
    lost_outside_packets: int = 0

    @property
    def uut_loss_ratio(self) -> float:
        """Lost of what was offered, and not by a source or a sink. Nothing offered, nothing lost: that is shortfall."""
        lost = self.offered_packets - self.measured_packets - self.lost_outside_packets
        return lost / self.offered_packets if self.offered_packets else 0.0

    @property
    def missing_ratio(self) -> float:
        """Lost or not sent, of what was intended, whoever's doing it was: by this the library judges a trial."""
        bad = abs(self.offered_packets - self.measured_packets) + abs(self.intended_packets - self.offered_packets)
        return bad / max(self.offered_packets, self.intended_packets)


Measure = Callable[[float, float], Trial]
"""(duration_s, load_pps per source) to a trial. Called in the search's thread; raising ends the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """What was found for one goal. Loads are per source; None where there is no such bound.

    ``conditional_throughput_pps`` is the forwarding rate at the lower bound. ``limited_by``: why no higher load meets
    the goal; ``below_minimum`` means that not even the lowest load did.
    """

    goal: Goal
    lower_bound_pps: float | None
    upper_bound_pps: float | None
    conditional_throughput_pps: float | None
    limited_by: Limit


@dataclass(slots=True)
class SearchResult:
    """All goals of one search, and every trial in the order taken."""

    goals: list[GoalResult] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)


def search(
    measure: Measure, goals: Sequence[Goal], *, minimum_pps: float, maximum_pps: float, within_s: float
) -> SearchResult:
    """Find every goal's bounds between two loads. Blocking: takes as long as its trials.

    Raises MeasurementError when ``within_s`` seconds do not suffice, and what ``measure`` raises.
    """
    from MLRsearch import Config, MultipleLossRatioSearch, SearchGoal
    from MLRsearch.trial_measurement import AbstractMeasurer, MeasurementResult

    found = SearchResult()

    class Measurer(AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> Any:
            trial = measure(float(intended_duration), float(intended_load))
            found.trials.append(trial)
            return MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=trial.offered_packets,
                forwarding_count=trial.measured_packets,
                intended_count=trial.intended_packets,
            )

    theirs = {
        goal: SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.trial_duration_s,
            final_trial_duration=goal.trial_duration_s,
            duration_sum=goal.duration_sum_s,
            fail_fast=False,
        )
        for goal in goals
    }
    config = Config()
    config.goals = theirs.values()
    config.min_load = minimum_pps  # first: it must lie below the maximum at every moment
    config.max_load = maximum_pps
    config.search_duration_max, config.warmup_duration = within_s, 0.0
    try:
        bounds = MultipleLossRatioSearch(config=config).search(Measurer(), debug=lambda _text: None)
    except RuntimeError as exc:
        raise MeasurementError(f"the search did not end within {within_s:g} s: {exc}") from exc
    for goal, their_goal in theirs.items():
        found.goals.append(_result(goal, bounds[their_goal], found.trials))
    return found


def _result(goal: Goal, theirs: Any, trials: Sequence[Trial]) -> GoalResult:
    lower, upper = theirs.relevant_lower_bound, theirs.relevant_upper_bound
    throughput = theirs.conditional_throughput
    upper_pps = None if upper is None else float(upper)
    if lower is None:
        limited: Limit = "below_minimum"
    elif upper_pps is None:
        limited = "line_rate"
    else:
        limited = _blame(goal, upper_pps, trials)
    return GoalResult(
        goal=goal,
        lower_bound_pps=None if lower is None else float(lower),
        upper_bound_pps=upper_pps,
        conditional_throughput_pps=None if throughput is None else float(throughput),
        limited_by=limited,
    )


def _blame(goal: Goal, upper_pps: float, trials: Sequence[Trial]) -> Limit:
    """Who failed the goal at its upper bound: the UUT, if what it lost of the packets offered is too much by itself."""
    there = [trial for trial in trials if abs(trial.load_pps - upper_pps) <= upper_pps * 1e-6]
    failed = [trial for trial in there if trial.missing_ratio > goal.loss_ratio]
    if 2 * sum(trial.uut_loss_ratio > goal.loss_ratio for trial in there) >= len(failed):
        return "uut"
    return "instrument" if 2 * sum(trial.lost_outside_packets > 0 for trial in failed) >= len(failed) else "generator"
