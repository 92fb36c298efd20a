"""All trials that one search requests, in order, on any bench: load goals, frame loss, bursts, latency. Blocking.

The bench takes the trials. In the engine that is the testbed; in a rehearsal it is a simulated unit, by which the
length of a search is estimated before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
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
