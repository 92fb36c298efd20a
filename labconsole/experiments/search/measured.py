"""The quantity of a load search for comparisons: each goal's lower bound, the highest load that meets it. Pure.

The replicate is the set-up of its trials: searches that a plan repeats without a new set-up of the platform share one.
A bound moves in steps of the search's width, and every search may use the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from labconsole.contracts.measured import Bound, MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.model.record.search import SEARCH as KIND
from labconsole.model.record.search import SEARCH_FORMAT, GoalRecord, Limit, SearchRecord
from labconsole.model.record.summary import RunSummary
from labconsole.report.formatting import format_percent

BOUNDS: dict[Limit, Bound] = {
    "uut": "exact",
    "generator": "at least",
    "instrument": "at least",
    "line_rate": "at least",
    "below_minimum": "none",
    "undecided": "unknown",
}
"""The meaning of a lower bound for the platform, by what set the upper bound."""


def _trials(records: Sequence[SearchRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return [_measured(record, [runs[id] for id in _run_ids(record) if id in runs]) for record in records]


def _run_ids(record: SearchRecord) -> list[str]:
    return [trial.run_id for trial in record.trials]


def _measured(record: SearchRecord, own: Sequence[RunSummary]) -> MeasuredTrial:
    requested = record.requested
    values = {build_quantity(goal): _value(goal) for goal in record.goals if goal.complete}
    left_out = (
        "format 1 counts what was queued as forwarded"
        if record.format != SEARCH_FORMAT
        else "not finished"
        if record.status != "done" or not values
        else None
    )
    return MeasuredTrial(
        kind=KIND.name,
        id=record.search_id,
        hash=record.plan.hash,
        plan_name=record.plan.name,
        status=record.status,
        started_at=record.started_at,
        testbed=record.testbed,
        testbed_fingerprint=record.testbed_fingerprint,
        emulated=record.emulated,
        factors={
            "platform": requested.platform,
            **requested.frame.columns(),
            "sources": requested.sources,
            "background": requested.background,
        },
        words=requested.point().format_without_load(),
        values=values if left_out is None else {},
        left_out=left_out,
        set_up=_one(run.set_up for run in own),
        boot_id=_one(run.boot_id for run in own),
        conditions={
            "kernel": _one(run.uut_kernel for run in own),
            "hypervisor": _one(run.hypervisor for run in own),
            "labconsole_version": record.labconsole_version,
            "generator": requested.generator,
            "observe": requested.observe,
        },
        nodes={},
        run_ids=_run_ids(record),
    )


def build_quantity(goal: GoalRecord) -> Quantity:
    """Return the quantity of the load that meets a goal. A goal that is no preset names its own parameters.

    So such goals are compared only with equal ones.
    """
    name = f"load that meets {goal.goal}"
    if goal.goal.endswith("(adjusted)"):
        name += (
            f": trials of {goal.trial_duration_s:g} s, {goal.duration_sum_s:g} s at a load, width "
            f"{format_percent(goal.relative_width, 2)}"
        )
    return Quantity(name=name, unit="pps", better="higher", shown_unit="kpackets/s per source", scale=1e3, places=2)


def _value(goal: GoalRecord) -> MeasuredValue:
    bound = BOUNDS[goal.limited_by]
    known = goal.lower_bound_pps if bound != "none" else None
    return MeasuredValue(known, bound, goal.relative_width)


def _one(values: Iterable[str | None]) -> str | None:
    """Return the common value, or None if they differ or one is unknown."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


MEASURED = MeasuredKind(kind=KIND, compared=("platform", "frame_size_bytes", "sources", "background"), trials=_trials)
