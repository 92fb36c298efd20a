"""Searches as plain lines of text: the result per source, with bounds, and the limiting side."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.cli.text.runs import DASH, percent_or_dash
from labconsole.model.record.search import BackToBackRecord, GoalRecord, LatencyRecord, SearchRecord
from labconsole.units import counted, format_count, format_rate_bps

LIMITS = {
    "uut": "the unit under test lost or queued packets at higher loads",
    "generator": "the generator could not send more: this is not the platform's limit",
    "instrument": "the NIC of a source or sink lost packets: this is not the platform's limit",
    "line_rate": "the goal is met at line rate",
    "below_minimum": "the goal is not met even at the lowest load",
    "undecided": "the search ended before the limit was known",
    "trial_length": "the longest allowed burst was sent",
}


def search_lines(record: SearchRecord, *, trials: bool = False) -> list[str]:
    """One search for people; with ``trials`` each of its trials too."""
    request = record.requested
    plural = "source" if request.sources == 1 else "sources"
    lines = [
        f"{record.search_id}  {record.testbed}{' (emulated)' if record.emulated else ''}  {request.platform}, "
        f"{request.frame.words()}, {request.sources} {plural}, background {request.background}: "
        f"{counted(len(record.trials), 'trial')}; loads are per source, bandwidth on the wire"
    ]
    lines += [f"  {_goal_line(found, record)}" for found in record.goals]
    lines += _frame_loss_lines(record)
    if record.back_to_back is not None:
        lines.append(f"  {_burst_line(record.back_to_back)}")
    if record.latency is not None:
        lines += [f"  {line}" for line in _latency_lines(record.latency)]
    elif "latency" in record.settings.get("goals", ()) and record.status == "done":
        lines.append("  latency: not measured, because no load meets any goal")
    if record.failure is not None:
        lines.append(f"  not finished: {record.failure}")
    if trials:
        for trial in record.trials:
            lost = trial.offered_packets - trial.measured_packets
            queued = f", queued {format_count(trial.queued_packets)}" if trial.queued_packets else ""
            lines.append(
                f"    {trial.run_id}  {trial.for_test:<12} {format_load(trial.load_pps, record):>36}  "
                f"{trial.duration_s:g} s  offered {format_count(trial.offered_packets)} of "
                f"{format_count(trial.intended_packets)}, "
                f"lost {format_count(lost)}{queued}"
            )
    return lines


def format_load(pps: float | None, record: SearchRecord) -> str:
    """A load per source, in packets and in bandwidth."""
    if pps is None:
        return DASH
    request = record.requested
    bps = request.frame.rate_bps(pps)
    return f"{format_count(round(pps))} pps ({format_rate_bps(bps)})"


def _goal_line(found: GoalRecord, record: SearchRecord) -> str:
    return (
        f"{found.goal}: lower bound {format_load(found.lower_bound_pps, record)}, "
        f"upper bound {format_load(found.upper_bound_pps, record)}, "
        f"conditional throughput {format_load(found.conditional_throughput_pps, record)}; {LIMITS[found.limited_by]}"
        + ("" if found.complete else "; the bounds are wider than the goal allows")
    )


def _frame_loss_lines(record: SearchRecord) -> list[str]:
    return [
        f"  frame loss rate at {100 * point.share_ratio:.0f} % of line rate "
        f"({format_load(point.intended_pps, record)}): {percent_or_dash(point.loss_ratio)}"
        for point in record.frame_loss or ()
    ]


def _burst_line(found: BackToBackRecord) -> str:
    limits = dict.fromkeys(burst.limited_by for burst in found.bursts)
    spread = "" if found.sd_packets is None else f", standard deviation {found.sd_packets:.1f}"
    reached = (
        "" if found.reached_ratio is None else f"; sent at {percent_or_dash(found.reached_ratio)} of line rate or more"
    )
    buffered = "" if found.buffer_s is None else f"; corrected buffer time {found.buffer_s * 1e3:.3f} ms"
    least, most = format_count(found.least_packets), format_count(found.most_packets)
    return (
        f"back-to-back: {found.mean_packets:.1f} packets per source on average, {least} to {most}{spread}, "
        f"{len(found.bursts)} repetitions{buffered}{reached}; {', '.join(LIMITS[limit] for limit in limits)}"
    )


def _latency_lines(found: LatencyRecord) -> Sequence[str]:
    head = f"latency at the lower bound of {found.goal} ({format_count(round(found.load_pps))} pps)"
    if found.one_way_mean_ns is not None:
        delay = found.one_way_mean_ns
        one_way = ", ".join(f"{name} {delay[name] / 1e3:.1f}" for name in ("min", "mean", "p50", "p99", "p999", "max"))
        lines = [f"{head}: one-way delay {one_way} µs, means over streams and trials"]
    else:
        lines = [f"{head}: no one-way delay: {found.reason}"]
    if found.pdv_mean_ns is not None:
        pdv = ", ".join(f"{name} {found.pdv_mean_ns[name] / 1e3:.1f}" for name in ("p50", "p99", "p999", "max"))
        lines.append(f"delay variation relative to the shortest: {pdv} µs")
    return lines


def searches_table(records: Sequence[SearchRecord]) -> list[str]:
    """Saved searches, newest first: a line for each result."""
    if not records:
        return ["no searches saved yet"]
    lines = []
    for record in records:
        lines += search_lines(record)
    return lines
