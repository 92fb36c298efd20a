"""The picture of a search while it runs, and from its record: every trial, whether it passed, the bounds at that
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from labconsole.contracts.picture import Between, PicturePart, PictureTrial, StepPicture
from labconsole.experiments.search.goals import Goal, LoadTrial, blame, build_goals, meets
from labconsole.experiments.search.report_data import LIMITS
from labconsole.experiments.search.rfc2544 import BurstSearch, burst_limit, burst_passed, bursts_closed
from labconsole.experiments.search.sequence import BACK_TO_BACK, FRAME_LOSS, LATENCY, LOAD, Forecast
from labconsole.model.plan.search import Search
from labconsole.model.record.search import Limit, SearchRecord

RATE_UNIT, BURST_UNIT = "packets/s per source", "packets per source"


class SearchPicture:
    """The picture of a search. Call ``add`` for every trial in the order taken, and ``now`` at any time."""

    def __init__(self, requested: Search, *, line_pps: float, sources: int) -> None:
        self._requested, self._sources = requested, sources
        self._line_total_pps = line_pps * sources
        self._most_burst = max(1, round(line_pps * requested.back_to_back.trial_s))
        self._goals = [_GoalBounds(goal) for goal in build_goals(requested)]
        self._tests = [LOAD] if self._goals else []
        self._tests += [test for test in (FRAME_LOSS, BACK_TO_BACK, LATENCY) if test in requested.goals]
        self._parts = tuple(self._part(test, line_pps) for test in self._tests)
        self._burst = Between()
        self.limited_by: Mapping[str, Limit] = {}
        """The limits of a finished search, by goal. Its trials alone do not show why it ended."""
        self._trials: list[PictureTrial] = []

    def _part(self, test: str, line_pps: float) -> PicturePart:
        if test == BACK_TO_BACK:
            return PicturePart(name=test, unit=BURST_UNIT, low=0.0, high=self._most_burst, criteria=("whole",))
        criteria = {LOAD: tuple(each.goal.name for each in self._goals), FRAME_LOSS: ("without loss",), LATENCY: ()}
        return PicturePart(name=test, unit=RATE_UNIT, low=0.0, high=line_pps, criteria=criteria[test])

    def add(self, test: str, trial: LoadTrial) -> None:
        """Add a trial. A record may have trials of a test that was not requested; these are in no picture."""
        if test not in self._tests:
            return
        at, missing = trial.load_pps, trial.missing_ratio
        passed: tuple[bool, ...] = ()
        bounds: tuple[Between, ...] = ()
        if test == LOAD:
            passed = tuple(missing <= each.goal.loss_ratio for each in self._goals)
            bounds = tuple(each.after(trial) for each in self._goals)
        elif test == FRAME_LOSS:
            passed = (bool(trial.offered_packets) and trial.measured_packets >= trial.offered_packets,)
        elif test == BACK_TO_BACK:
            at, passed = trial.intended_packets / self._sources, (burst_passed(trial),)
            bounds = (self._update_burst(at, trial, passed=passed[0]),)
        self._trials.append(
            PictureTrial(
                part=self._tests.index(test),
                at=at,
                duration_s=trial.duration_s,
                run_id=trial.run_id,
                missing_ratio=missing,
                passed=passed,
                bounds=bounds,
            )
        )

    def _update_burst(self, packets: float, trial: LoadTrial, *, passed: bool) -> Between:
        low, high, _, high_by = self._burst
        if bursts_closed(low or 0, high, self._most_burst, self._requested.back_to_back.width_ratio):
            low = high = None  # that repetition is over, and the next begins
        if passed:
            self._burst = Between(packets, high, high_by=high_by if high is not None else "")
        else:
            limit = burst_limit(BurstSearch(0, round(packets), (trial,)), self._line_total_pps)
            self._burst = Between(low, packets, high_by=_not_the_unit(limit))
        return self._burst

    def now(self, under_way: tuple[str, float, float] | None = None, ahead: Forecast | None = None) -> StepPicture:
        """Return the current picture, with test, place and duration of the trial under way, and the forecast after
        it.
        """
        drawn = None
        if under_way is not None:
            test, at, duration_s = under_way
            drawn = PictureTrial(part=self._tests.index(test), at=at, duration_s=duration_s)
        return StepPicture(
            parts=self._parts,
            trials=tuple(self._trials),
            under_way=drawn,
            found=(*self._describe_loads(), *self._lossless()),
            coming=ahead.words if ahead is not None else (),
            left_trials=ahead.trials if ahead is not None else None,
            most_left_trials=max(0, self._requested.max_trials - len(self._trials)) if under_way is not None else None,
        )

    @property
    def _unit(self) -> str:
        return "pps" if self._sources == 1 else "pps per source"

    def _describe_loads(self) -> Iterator[str]:
        for each in self._goals:
            limit = self.limited_by.get(each.goal.name, each.limited_by)
            limited_by = "" if limit == "uut" else f", limit: {LIMITS[limit]}"
            yield f"{each.goal.name} {' to '.join(map(_pps, each.decided))} {self._unit}{limited_by}"

    def _lossless(self) -> Iterator[str]:
        """Describe the highest load without loss on the frame loss curve."""
        if FRAME_LOSS not in self._tests:
            return
        part = self._tests.index(FRAME_LOSS)
        tried = [trial for trial in self._trials if trial.part == part]
        whole = [trial.at for trial in tried if all(trial.passed)]
        if tried:
            yield f"no loss up to {_pps(max(whole))} {self._unit}" if whole else "loss at every load"


class _GoalBounds:
    """A goal's relevant bounds (goals.py), trial by trial: only the load of a new trial is judged again.

    Several trials decide on a load. Until they have, the majority of their time decides, and the bound is not settled.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.decided: tuple[float | None, float | None] = (None, None)
        self._there: dict[float, list[LoadTrial]] = {}
        self._met: dict[float, bool | None] = {}
        self._looks: dict[float, bool] = {}

    def after(self, trial: LoadTrial) -> Between:
        """Return the bounds after one more trial."""
        load = trial.load_pps
        there = self._there.setdefault(load, [])
        there.append(trial)
        met = self._met[load] = meets(self.goal, there)
        good_s = sum(each.duration_s for each in there if each.missing_ratio <= self.goal.loss_ratio)
        self._looks[load] = 2 * good_s > sum(each.duration_s for each in there) if met is None else met
        self.decided = _around(self._met)
        low, high = _around(self._looks)
        limit = self._limit(high)
        return Between(low, high, settled=(low, high) == self.decided, high_by=_not_the_unit(limit))

    @property
    def limited_by(self) -> Limit:
        """What set the upper bound that is decided, or the unit under test without one."""
        return self._limit(self.decided[1])

    def _limit(self, load: float | None) -> Limit:
        return "uut" if load is None else blame(self.goal, self._there[load])


def _not_the_unit(limit: str) -> str:
    return LIMITS[limit] if limit in ("generator", "instrument") else ""


def _around(met: Mapping[float, bool | None]) -> tuple[float | None, float | None]:
    """Return (lower, upper): upper is the lowest load that fails, lower the highest one below it that passes."""
    lower = None
    for load in sorted(met):
        if met[load] is False:
            return lower, load
        if met[load]:
            lower = load
    return lower, None


def build_picture(requested: Search, record: SearchRecord) -> StepPicture:
    """Build the picture of a finished search from its record."""
    picture = SearchPicture(requested, line_pps=record.line_rate_pps, sources=record.requested.sources)
    for trial in record.trials:
        values = trial.model_dump()
        test = values.pop("for_test")
        picture.add(test, LoadTrial(**values))
    picture.limited_by = {goal.goal: goal.limited_by for goal in record.goals}
    drawn = picture.now()
    if record.back_to_back is None:
        return drawn
    each = "" if record.requested.sources == 1 else " per source"
    bursts = f"bursts of {record.back_to_back.mean_packets:.0f} packets{each}"
    return replace(drawn, found=(*drawn.found, bursts))


def _pps(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"
