"""Recompute a stored search: its bounds from its trials, and its trials' counts from their runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from labconsole.experiments.search.goals import Goal, LoadTrial, goal_result
from labconsole.experiments.search.rfc2544 import frame_loss_points
from labconsole.experiments.search.sequence import BACK_TO_BACK, FRAME_LOSS, LOAD
from labconsole.measure.recompute.discrepancy import RELATIVE_ERROR, Discrepancy, against
from labconsole.measure.recompute.guest_trial import duplicate_problems
from labconsole.measure.recompute.plausibility import WALL_CLOCK_S, moment, stepped, trial_s
from labconsole.measure.recompute.verdict import lost_at_sink
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import BackToBackRecord, GoalRecord, SearchRecord

# -- plausibility ------------------------------------------------------------------------------------------------------
# Values that no search can have: trials of another testbed, after its end or repeated, or reversed bounds. Pure.


class RunHead(NamedTuple):
    """The testbed, platform and times of a run that is a trial of a search. ``stepped``: its times mean nothing."""

    testbed: str
    platform: str
    operator: str
    started_at: str
    finished_at: str
    stepped: bool


def head_of(run: RunRecord) -> RunHead:
    """Return the head of this run."""
    return RunHead(
        run.testbed_fingerprint,
        run.requested.platform,
        run.operator,
        run.started_at,
        run.finished_at,
        stepped(run.verdict),
    )


def find_implausible(record: SearchRecord, runs: Mapping[str, RunHead]) -> Iterator[Discrepancy]:
    """Find the values of a record that no search can have. ``runs``: the available runs, by run ID."""
    took_s = trial_s(record.started_at, record.finished_at)
    if took_s is None:
        yield against("finished_at", "is not a time in UTC", record.finished_at[:80])
    elif took_s < 0:
        yield against("finished_at", f"is {-took_s:g} s before started_at", record.finished_at)
    if record.status == "done" and record.failure is not None:
        yield against("failure", "says why a search that is done ended early", record.failure[:80])
    if not 0 < record.lowest_load_pps <= record.line_rate_pps:
        yield against("lowest_load_pps", "is not between zero and the line rate", record.lowest_load_pps)
    yield from duplicate_problems("trials", record.trials, {"run_id": lambda trial: trial.run_id})
    yield from duplicate_problems("goals", record.goals, {"goal": lambda goal: goal.goal})
    for place, trial in enumerate(record.trials):
        head = runs.get(trial.run_id)
        if head is not None:
            yield from _trial(f"trials[{place}].run_id", record, head)
    for place, goal in enumerate(record.goals):
        lower, upper = goal.lower_bound_pps, goal.upper_bound_pps
        if lower is not None and upper is not None and lower > upper:
            yield against(f"goals[{place}].lower_bound_pps", f"is above the upper bound of {upper}", lower)


def _trial(where: str, record: SearchRecord, head: RunHead) -> Iterator[Discrepancy]:
    """Check that a trial is of the testbed and the platform, and within the search's time if one console wrote both.

    A trial that an interrupted search took earlier is before the beginning of this one.
    """
    if head.testbed != record.testbed_fingerprint:
        yield against(where, "was measured on another testbed", head.testbed[:80])
    if head.platform != record.requested.platform:
        yield against(where, f"is of platform {head.platform}, not of {record.requested.platform}", head.platform)
    begun, over = moment(head.started_at), moment(record.finished_at)
    if head.operator == record.operator and not head.stepped and begun is not None and over is not None:
        late_s = (begun - over).total_seconds()
        if late_s > WALL_CLOCK_S:
            yield against(where, f"began {late_s:g} s after the search was over", head.started_at)


# -- recomputation -----------------------------------------------------------------------------------------------------

Counts = Mapping[str, int | None]
"""The values of a run that a search uses, by the field names of the search's trials."""


def counts_of(run: RunRecord) -> Counts:
    """Return the values that a search must have for this run."""
    total = run.total
    return {
        "offered_packets": total.offered_packets,
        "measured_packets": total.measured_packets,
        "lost_outside_packets": sum(max(0, lost_at_sink(stream)) for stream in run.streams),
        "source_lost_packets": total.source_lost_packets or 0,
        "queued_packets": total.queued_packets,
    }


def recompute_search(record: SearchRecord, runs: Mapping[str, Counts]) -> list[Discrepancy]:
    """Return what of a search does not follow. ``runs``: the counts of the available runs, by run ID."""
    found = list(_counts(record, runs))
    trials = {name: _trials(record, name) for name in (LOAD, FRAME_LOSS, BACK_TO_BACK)}
    for index, goal in enumerate(record.goals):
        found += _goal(f"goals[{index}]", goal, trials[LOAD], record)
    if record.frame_loss is not None:
        again = frame_loss_points(trials[FRAME_LOSS], line_pps=record.line_rate_pps)
        stored = record.frame_loss
        found += [
            Discrepancy(where=f"frame_loss[{index}].loss_ratio", stored=one.loss_ratio, recomputed=other.loss_ratio)
            for index, (one, other) in enumerate(zip(stored, again, strict=False))
            if one != other
        ]
        if len(stored) != len(again):
            found.append(Discrepancy(where="frame_loss", stored=len(stored), recomputed=len(again)))
    if record.back_to_back is not None:
        found += _bursts(record.back_to_back, trials[BACK_TO_BACK], record.requested.sources)
    return found


def _bursts(bursts: BackToBackRecord, trials: Sequence[LoadTrial], sources: int) -> Iterator[Discrepancy]:
    """Check that a burst's length is what the trial intended, if the trial passed whole."""
    passed = {
        trial.run_id: trial.intended_packets // sources
        for trial in trials
        if trial.intended_packets <= trial.offered_packets <= trial.measured_packets
    }
    for index, burst in enumerate(bursts.bursts):
        longest = max((passed[run_id] for run_id in burst.run_ids if run_id in passed), default=0)
        if longest != burst.packets:
            yield Discrepancy(where=f"back_to_back.bursts[{index}]", stored=burst.packets, recomputed=longest)
    mean = statistics.fmean(burst.packets for burst in bursts.bursts)
    if not math.isclose(mean, bursts.mean_packets, rel_tol=RELATIVE_ERROR):
        yield Discrepancy(where="back_to_back.mean_packets", stored=bursts.mean_packets, recomputed=mean)


OF_FORMAT_1 = ("offered_packets", "measured_packets")


def _counts(record: SearchRecord, runs: Mapping[str, Counts]) -> Iterator[Discrepancy]:
    for index, trial in enumerate(record.trials):
        counts = runs.get(trial.run_id)
        if counts is None:
            yield Discrepancy(where=f"trials[{index}].run_id", stored=trial.run_id, recomputed=None)
            continue
        for name in OF_FORMAT_1 if record.format == 1 else counts:
            counted = counts[name]
            stored = getattr(trial, name)
            if stored != counted:
                yield Discrepancy(where=f"trials[{index}].{name}", stored=stored, recomputed=counted)


def _trials(record: SearchRecord, test: str) -> list[LoadTrial]:
    return [
        LoadTrial(**{name: value for name, value in trial.model_dump().items() if name != "for_test"})
        for trial in record.trials
        if trial.for_test == test
    ]


def _goal(where: str, found: GoalRecord, trials: list[LoadTrial], record: SearchRecord) -> Iterator[Discrepancy]:
    goal = Goal(
        name=found.goal,
        loss_ratio=found.loss_ratio,
        exceed_ratio=found.exceed_ratio,
        trial_duration_s=found.trial_duration_s,
        duration_sum_s=found.duration_sum_s,
        relative_width=found.relative_width,
    )
    again = goal_result(goal, trials, minimum_pps=record.lowest_load_pps, maximum_pps=record.line_rate_pps)
    recomputed = {
        "lower_bound_pps": again.lower_bound_pps,
        "upper_bound_pps": again.upper_bound_pps,
        "conditional_throughput_pps": again.conditional_throughput_pps,
        "limited_by": again.limited_by,
        "complete": again.complete,
        "lower_run_ids": again.lower_run_ids,
        "upper_run_ids": again.upper_run_ids,
    }
    for name, value in recomputed.items():
        stored = getattr(found, name)
        if stored != value:
            texts = [", ".join(each) if isinstance(each, tuple) else each for each in (stored, value)]
            yield Discrepancy(where=f"{where}.{name}", stored=texts[0], recomputed=texts[1])
