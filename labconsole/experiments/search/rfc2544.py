"""RFC 2544's tests other than throughput: frame loss rate (26.3), back-to-back (26.4), latency (26.2). Pure.

A burst that passes says something about the unit under test only if it was sent at line rate, so every result says how
near to it the generator was. docs/search.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labconsole.experiments.search.goals import LoadTrial, Measure
from labconsole.model.record.search import (
    BackToBackRecord,
    Burst,
    BurstLimit,
    FrameLossPoint,
    LatencyRecord,
    StreamLatency,
)

AT_LINE_RATE = 0.99
"""A burst sent at less than this share of the line rate has gaps that the test does not allow."""

LOSS_FREE_RUNNING = 2
"""Successive trials without loss that end the frame loss sweep."""

MeasureBurst = Callable[[int], LoadTrial]
"""Takes packets per source, sent at line rate, and returns a trial."""


def frame_loss_curve(measure: Measure, *, line_pps: float, step_ratio: float, trial_s: float) -> list[LoadTrial]:
    """Take trials from the line rate down in steps, until two successive ones lose nothing or no load is left."""
    taken: list[LoadTrial] = []
    clean = step = 0
    while clean < LOSS_FREE_RUNNING and (share := 1.0 - step * step_ratio) > step_ratio / 2:
        trial = measure(trial_s, line_pps * share)
        taken.append(trial)
        clean = clean + 1 if trial.offered_packets and trial.measured_packets >= trial.offered_packets else 0
        step += 1
    return taken


def frame_loss_points(trials: Sequence[LoadTrial], *, line_pps: float) -> tuple[FrameLossPoint, ...]:
    """Return the curve as data: loss as a share of offered, over the load; intended and offered, which may be less."""
    return tuple(
        FrameLossPoint(
            run_id=trial.run_id,
            share_ratio=trial.load_pps / line_pps,
            intended_pps=trial.load_pps,
            offered_pps=trial.offered_pps,
            loss_ratio=(trial.offered_packets - trial.measured_packets) / trial.offered_packets
            if trial.offered_packets
            else None,
        )
        for trial in trials
    )


@dataclass(frozen=True, slots=True)
class BurstSearch:
    """One repetition: the longest burst that passed (0: none), the shortest longer one that did not, all trials."""

    packets: int
    upper_packets: int | None
    trials: tuple[LoadTrial, ...]


def burst_passed(trial: LoadTrial) -> bool:
    """Return whether the burst passed. A burst that the generator sent only in part did not, however much of it
    arrived.
    """
    return trial.intended_packets <= trial.offered_packets <= trial.measured_packets


def bursts_closed(passed: float, failed: float | None, most_packets: int, width_ratio: float) -> bool:
    """Return whether the longest passing and the shortest failing burst are as close as requested, or none is
    longer.
    """
    if failed is None:
        return passed == most_packets
    return failed - passed <= max(1, width_ratio * passed)


def longest_burst(measure: MeasureBurst, *, most_packets: int, first_packets: int, width_ratio: float) -> BurstSearch:
    """Bisect for the longest burst that passes whole, from a first guess; double or halve while one side is open."""
    passed, failed, length = 0, None, max(1, min(first_packets, most_packets))
    trials: list[LoadTrial] = []
    while True:
        trial = measure(length)
        trials.append(trial)
        if burst_passed(trial):
            passed = length
        else:
            failed = length
        if bursts_closed(passed, failed, most_packets, width_ratio):
            break
        length = min(most_packets, 2 * passed) if failed is None else (passed + failed) // 2
    return BurstSearch(passed, failed, tuple(trials))


def back_to_back(
    searches: Sequence[BurstSearch], *, sources: int, line_pps: float, throughput_pps: float | None
) -> BackToBackRecord:
    """Summarize the repetitions. ``throughput_pps`` is per source, for RFC 9004's corrected buffer time."""
    bursts = tuple(
        Burst(
            packets=each.packets,
            upper_packets=each.upper_packets,
            limited_by=burst_limit(each, sources * line_pps),
            run_ids=tuple(trial.run_id for trial in each.trials),
        )
        for each in searches
    )
    packets = [burst.packets for burst in bursts]
    rates = [trial.offered_pps for each in searches for trial in each.trials]
    known = [rate for rate in rates if rate is not None]
    mean = statistics.fmean(packets)
    buffer_s = None
    if throughput_pps is not None and all(burst.limited_by == "uut" for burst in bursts):
        # Packets that are forwarded while the burst arrives need no buffer.
        buffer_s = mean / line_pps * (1 - throughput_pps / line_pps)
    return BackToBackRecord(
        bursts=bursts,
        mean_packets=mean,
        least_packets=min(packets),
        most_packets=max(packets),
        sd_packets=statistics.stdev(packets) if len(packets) > 1 else None,
        reached_ratio=min(known) / (sources * line_pps) if known and len(known) == len(rates) else None,
        buffer_s=buffer_s,
    )


def burst_limit(found: BurstSearch, line_total_pps: float) -> BurstLimit:
    """Return why no longer burst passed, by the trial that failed, if it was a burst at line rate."""
    failed = next((t for t in reversed(found.trials) if t.measured_packets < t.intended_packets), None)
    decisive = failed if found.upper_packets is not None and failed is not None else found.trials[-1]
    if decisive.offered_pps is None or decisive.offered_pps < AT_LINE_RATE * line_total_pps:
        # Below line rate, a longer burst may pass that would not at line rate, and a lossy one characterizes the UUT.
        return "uut" if decisive is failed and decisive.uut_loss_ratio > 0 else "generator"
    if found.upper_packets is None:
        return "trial_length"
    if decisive.uut_loss_ratio > 0:
        return "uut"
    return "instrument" if decisive.instrument_lost else "generator"


def latency(goal: str, load_pps: float, streams: Sequence[StreamLatency]) -> LatencyRecord:
    """Return means over streams and trials, one-way only if every one of them is, because clocks must be shown to
    agree.
    """
    one_way = [each.one_way_ns for each in streams if each.one_way_ns is not None]
    reason = next((each.reason for each in streams if each.one_way_ns is None), None)
    if not streams:
        reason = "the trials have no time stamps"
    names = ("min", "mean", "p50", "p99", "p999", "max")
    return LatencyRecord(
        goal=goal,
        load_pps=load_pps,
        one_way_mean_ns=_means(one_way, names) if one_way and len(one_way) == len(streams) else None,
        pdv_mean_ns=_means([each.pdv_ns for each in streams], ("p50", "p99", "p999", "max")) if streams else None,
        streams=tuple(streams),
        reason=reason,
    )


def _means(figures: Sequence[object], names: Sequence[str]) -> dict[str, float]:
    return {name: statistics.fmean(float(getattr(each, name)) for each in figures) for name in names}
