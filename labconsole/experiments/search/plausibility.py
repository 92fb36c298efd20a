"""Values that no search can have: trials of another testbed, after its end or repeated, or reversed bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.guest_trial import duplicate_problems
from labconsole.measure.recompute.plausibility import WALL_CLOCK_S, moment, stepped, trial_s
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord


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
