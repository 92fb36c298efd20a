"""The stored maximum that shares refer to: the highest mean rate in a group of points, from a list of runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.contracts.ports import StoredMaximum
from labconsole.measure.groups import GroupConditions, conditions_of, find_exclusion_reason, rate_of
from labconsole.model.record.summary import RunSummary

Loads = dict[int | str, list[tuple[RunSummary, float]]]
"""Runs by target, each with its forwarding rate in packets/s."""


def highest(runs: Iterable[RunSummary]) -> StoredMaximum | None:
    """The target with the highest mean rate, or None.

    The runs, newest first, differ in target, repetition and conditions. Uses the newest conditions that have a run at
    target max: without such a run it is unknown whether any of them is the maximum. Runs of different conditions are
    not averaged. Runs that enter no mean do not enter this one either: pilots, runs with loss outside the platform, and
    runs with loads beyond the instrument. Runs of several plans, and of none, count alike.
    """
    by_conditions: dict[GroupConditions, Loads] = {}
    for run in runs:
        rate = rate_of(run)
        if find_exclusion_reason(run) is None and rate is not None:
            loads = by_conditions.setdefault(conditions_of(run), {})
            loads.setdefault(run.target_bps, []).append((run, rate[0]))
    of = next((loads for loads in by_conditions.values() if "max" in loads), None)
    if of is None:
        return None
    means = {target: sum(pps for _, pps in rated) / len(rated) for target, rated in of.items()}
    target = max(means, key=lambda key: means[key])
    if means[target] <= 0:
        return None
    found = of[target]
    return StoredMaximum(measured_pps=means[target], runs=len(found), run_id=found[0][0].run_id, target_bps=target)
