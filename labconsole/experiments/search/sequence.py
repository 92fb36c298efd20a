"""All trials that one search requests, in order, on any bench, and the forecast of those to come. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Protocol

from labconsole.experiments.search.goals import Ended, GoalResult, LoadTrial, build_goals, goal_result, search
from labconsole.experiments.search.rfc2544 import (
    BurstSearch,
    back_to_back,
    frame_loss_curve,
    frame_loss_points,
    latency,
    longest_burst,
)
from labconsole.model.plan.search import Search
from labconsole.model.record.search import BackToBackRecord, FrameLossPoint, LatencyRecord, StreamLatency
from labconsole.units import format_count

# -- sequence ----------------------------------------------------------------------------------------------------------
# All trials that one search requests, in order, on any bench: load goals, frame loss, bursts, latency. Blocking.
#
# The bench takes the trials. In the engine that is the testbed; in a rehearsal it is a simulated unit, by which the
# length of a search is estimated before it begins.

LOAD, FRAME_LOSS, BACK_TO_BACK, LATENCY = "load", "frame-loss", "back-to-back", "latency"

REHEARSED_SHARE = 0.37
"""The rehearsed unit's forwarding rate as a share of the line rate, and its buffer as a share of the longest burst."""


class LoadMeasurer(Protocol):
    """The interface that takes the trials. Loads and packets are per source. Raising Ended ends the procedure in good
    order.
    """

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial: ...
    def burst(self, packets: int) -> LoadTrial: ...
    def delays(self, run_id: str) -> Sequence[StreamLatency]: ...


@dataclass(slots=True)
class SearchFindings:
    """The results so far. ``ended_early``: why not everything was tried, or None if it was."""

    goals: list[GoalResult] = field(default_factory=list)
    frame_loss: tuple[FrameLossPoint, ...] | None = None
    back_to_back: BackToBackRecord | None = None
    latency: LatencyRecord | None = None
    trials: list[tuple[str, LoadTrial]] = field(default_factory=list)
    ended_early: str | None = None


class _Counted:
    """A bench that records its trials, and ends at the most trials allowed."""

    def __init__(self, bench: LoadMeasurer, findings: SearchFindings, requested: Search) -> None:
        self._bench, self._findings, self._requested = bench, findings, requested

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial:
        return self._kept(test, lambda: self._bench.trial(test, duration_s, load_pps))

    def burst(self, packets: int) -> LoadTrial:
        return self._kept(BACK_TO_BACK, lambda: self._bench.burst(packets))

    def _kept(self, test: str, take: Callable[[], LoadTrial]) -> LoadTrial:
        if len(self._findings.trials) >= self._requested.max_trials:
            raise Ended(f"ended after {self._requested.max_trials} trials, the maximum number of trials")
        trial = take()
        self._findings.trials.append((test, trial))
        return trial


def run_search(
    requested: Search, bench: LoadMeasurer, findings: SearchFindings, *, line_pps: float, sources: int
) -> None:
    """Fill ``findings``, also with partial results if the bench raises. Loads are below ``line_pps`` per source."""
    counted = _Counted(bench, findings, requested)
    try:
        _load_goals(requested, counted, findings, line_pps)
        if FRAME_LOSS in requested.goals:
            settings = requested.frame_loss
            taken = frame_loss_curve(
                lambda duration_s, load_pps: counted.trial(FRAME_LOSS, duration_s, load_pps),
                line_pps=line_pps,
                step_ratio=settings.step_ratio,
                trial_s=settings.trial_s,
            )
            findings.frame_loss = frame_loss_points(taken, line_pps=line_pps)
        if BACK_TO_BACK in requested.goals:
            findings.back_to_back = _bursts(requested, counted, findings, line_pps, sources)
        if LATENCY in requested.goals:
            findings.latency = _latency(requested, counted, bench, findings)
    except Ended as exc:
        findings.ended_early = str(exc)


def _load_goals(requested: Search, counted: _Counted, findings: SearchFindings, line_pps: float) -> None:
    goals = build_goals(requested)
    if not goals:
        return
    lowest_pps = line_pps * requested.lowest_ratio
    try:
        found = search(
            lambda duration_s, load_pps: counted.trial(LOAD, duration_s, load_pps),
            goals,
            minimum_pps=lowest_pps,
            maximum_pps=line_pps,
            max_trials=requested.max_trials,
        )
        if found.ended_early is not None:
            raise Ended(found.ended_early)
    finally:
        taken = [trial for _, trial in findings.trials]
        findings.goals = [goal_result(goal, taken, minimum_pps=lowest_pps, maximum_pps=line_pps) for goal in goals]


def _throughput(findings: SearchFindings, *, loss: bool) -> GoalResult | None:
    """Return the strictest result of a goal without loss, or with ``loss`` also of one that allows some."""
    found = [result for result in findings.goals if result.lower_bound_pps is not None]
    found.sort(key=lambda result: (result.goal.loss_ratio, result.goal.exceed_ratio))
    return next((result for result in found if loss or result.goal.loss_ratio == 0), None)


def _bursts(
    requested: Search, counted: _Counted, findings: SearchFindings, line_pps: float, sources: int
) -> BackToBackRecord | None:
    settings = requested.back_to_back
    most = max(1, round(line_pps * settings.trial_s))
    done: list[BurstSearch] = []
    spent: Ended | None = None
    first = most
    for _ in range(settings.repetitions):
        try:
            done.append(
                longest_burst(counted.burst, most_packets=most, first_packets=first, width_ratio=settings.width_ratio)
            )
        except Ended as exc:
            spent = exc
            break
        first = max(1, done[-1].packets)
    throughput = _throughput(findings, loss=False)
    pps = throughput.lower_bound_pps if throughput is not None else None
    found = back_to_back(done, sources=sources, line_pps=line_pps, throughput_pps=pps) if done else None
    if spent is not None:
        findings.back_to_back = found
        raise spent
    return found


def _latency(
    requested: Search, counted: _Counted, bench: LoadMeasurer, findings: SearchFindings
) -> LatencyRecord | None:
    at = _throughput(findings, loss=True)
    if at is None or at.lower_bound_pps is None:
        return None
    streams: list[StreamLatency] = []
    for _ in range(requested.latency.repetitions):
        streams += bench.delays(counted.trial(LATENCY, requested.latency.trial_s, at.lower_bound_pps).run_id)
    return latency(at.goal.name, at.lower_bound_pps, streams)


class _Rehearsal:
    """A unit that drops everything above its capacity, with a buffer of a fixed number of packets."""

    def __init__(self, line_pps: float, burst_s: float) -> None:
        self._line_pps = line_pps
        self._capacity_pps, self._buffer = REHEARSED_SHARE * line_pps, round(REHEARSED_SHARE * burst_s * line_pps)

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial:
        sent = max(1, round(load_pps * duration_s))
        return self._made(load_pps, duration_s, sent, min(sent, round(self._capacity_pps * duration_s)))

    def burst(self, packets: int) -> LoadTrial:
        return self._made(self._line_pps, packets / self._line_pps, packets, min(packets, self._buffer))

    def delays(self, run_id: str) -> Sequence[StreamLatency]:
        return ()

    def _made(self, load_pps: float, duration_s: float, sent: int, measured: int) -> LoadTrial:
        return LoadTrial(
            run_id="",
            load_pps=load_pps,
            duration_s=duration_s,
            intended_packets=sent,
            offered_packets=sent,
            measured_packets=measured,
            offered_pps=load_pps,
        )


@cache
def rehearse(requested: Search, line_pps: float) -> Sequence[float]:
    """Return the durations of the trials of one search on a well-behaved unit; a real one may need more."""
    findings = SearchFindings()
    run_search(requested, _Rehearsal(line_pps, requested.back_to_back.trial_s), findings, line_pps=line_pps, sources=1)
    return [trial.duration_s for _, trial in findings.trials]


# -- forecast ----------------------------------------------------------------------------------------------------------
# Forecast of a search: its next trial and about how many remain, found by running it again on what is known. Blocking.
#
# The procedure makes the same requests whenever it gets the same answers, so its next request after a trial without
# loss is exact. After a trial with loss, the next load depends on the rate that it forwarded, so the forecast is
# approximate.

Taken = Sequence[tuple[str, LoadTrial]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast as text, and about how many trials are left, including the one under way."""

    words: tuple[str, ...]
    trials: int


class _NextTrial(Exception):
    """The trial after the one under way: test, and load or packets per source."""

    def __init__(self, test: str, at: float) -> None:
        super().__init__(test, at)
        self.question = test, at


class _Known:
    """A bench that answers with the measured trials, then with ``then(number from 0, test, load, duration)``."""

    def __init__(self, taken: Taken, then: Callable[[int, str, float, float], LoadTrial], line_pps: float) -> None:
        self._taken, self._then, self._line_pps = taken, then, line_pps
        self._number = 0

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial:
        return self._next(test, load_pps, duration_s)

    def burst(self, packets: int) -> LoadTrial:
        return self._next(BACK_TO_BACK, self._line_pps, packets / self._line_pps)

    def delays(self, run_id: str) -> Sequence[StreamLatency]:
        return ()

    def _next(self, test: str, load_pps: float, duration_s: float) -> LoadTrial:
        number, self._number = self._number, self._number + 1
        if number < len(self._taken):
            return self._taken[number][1]
        return self._then(number - len(self._taken), test, load_pps, duration_s)


def forecast_search(requested: Search, taken: Taken, *, line_pps: float, sources: int) -> Forecast:
    """Forecast the search after these trials, with the next one under way."""
    share = _share(taken, line_pps)

    def question(*, passes: bool) -> tuple[str, float] | None:
        def then(number: int, test: str, load_pps: float, duration_s: float) -> LoadTrial:
            sent = max(1, round(load_pps * duration_s))
            if number == 0:
                kept = sent if passes else min(sent - 1, round(sent * min(0.9, share * line_pps / load_pps)))
                return _build_trial(load_pps, duration_s, sent, kept, sources)
            raise _NextTrial(test, sent if test == BACK_TO_BACK else load_pps)

        try:
            run_search(requested, _Known(taken, then, line_pps), SearchFindings(), line_pps=line_pps, sources=sources)
        except _NextTrial as exc:
            return exc.question
        return None

    def rehearsed(number: int, test: str, load_pps: float, duration_s: float) -> LoadTrial:
        sent = max(1, round(load_pps * duration_s))
        most = share * (requested.back_to_back.trial_s if test == BACK_TO_BACK else duration_s) * line_pps
        return _build_trial(load_pps, duration_s, sent, min(sent, round(most)), sources)

    findings = SearchFindings()
    run_search(requested, _Known(taken, rehearsed, line_pps), findings, line_pps=line_pps, sources=sources)
    passing, failing = question(passes=True), question(passes=False)
    if passing == failing:
        texts: tuple[str, ...] = (_format_question(passing),)
    else:
        about = "about " if failing is not None and failing[0] == LOAD else ""
        texts = (f"if ✓ {_format_question(passing)}", f"if ✗ {about}{_format_question(failing)}")
    return Forecast(texts, max(1, len(findings.trials) - len(taken)))


def _share(taken: Taken, line_pps: float) -> float:
    """Return the assumed capacity as a share of the line rate, between what passed and what did not."""
    loads = [(trial.load_pps, trial.missing_ratio == 0) for test, trial in taken if test == LOAD]
    failed = min((load for load, passed in loads if not passed), default=None)
    passed = max((load for load, passed in loads if passed and (failed is None or load < failed)), default=None)
    if failed is None:
        return REHEARSED_SHARE if passed is None else 1.0
    if passed is None:
        counts = [trial for test, trial in taken if test == LOAD and trial.load_pps == failed]
        rates = chain((each.measured_packets / each.intended_packets * failed for each in counts), (failed,))
        return min(rates) / line_pps
    return (passed + failed) / 2 / line_pps


def _build_trial(load_pps: float, duration_s: float, sent: int, measured: int, sources: int) -> LoadTrial:
    return LoadTrial(
        run_id="",
        load_pps=load_pps,
        duration_s=duration_s,
        intended_packets=sent * sources,
        offered_packets=sent * sources,
        measured_packets=measured * sources,
        offered_pps=load_pps * sources,
    )


def _format_question(question: tuple[str, float] | None) -> str:
    if question is None:
        return "the search is done"
    test, at = question
    return f"{'' if test == LOAD else test + ' '}{format_count(round(at))}"
