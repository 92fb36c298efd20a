"""What a share of a maximum is a share of: the highest mean rate of a group of points, out of a list of runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.contracts.ports import StoredMaximum
from labconsole.measure.groups import GroupConditions, conditions_of, find_exclusion_reason, rate_of
from labconsole.model.record.summary import RunSummary

Loads = dict[int | str, list[tuple[RunSummary, float]]]
"""By target the runs and what each forwarded, packets/s."""


def highest(runs: Iterable[RunSummary]) -> StoredMaximum | None:
    """Of runs that differ in target, repetition and conditions only, newest first: the target with the highest mean.

    Over the newest conditions that have a run at target max (without one nobody knows whether any of them is the
    maximum); what differs in conditions is not averaged. Runs that enter no mean do not enter this one: pilots, and
    what was lost beside the platform or asked beyond the instrument. Of several plans, and of none, runs count alike.
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
    means = {target: sum(pps for _, pps in held) / len(held) for target, held in of.items()}
    target = max(means, key=lambda key: means[key])
    if means[target] <= 0:
        return None
    found = of[target]
    return StoredMaximum(measured_pps=means[target], runs=len(found), run_id=found[0][0].run_id, target_bps=target)
