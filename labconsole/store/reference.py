"""What a share of a maximum is a share of: the highest mean rate of a group of points, out of a list of runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.engine.ports import Reference
from labconsole.store.summary import RunSummary

STANDING = ("valid", "suspect")
"""Verdicts of runs that enter a mean."""


def highest(runs: Iterable[RunSummary]) -> Reference | None:
    """Of runs that differ in target and repetition only, newest first: the target with the highest mean.

    None without a run at target max: then nobody knows whether any of them is the maximum. Runs of several plans, and
    of none, count alike.
    """
    by_target: dict[int | str, list[RunSummary]] = {}
    for run in runs:
        if run.verdict in STANDING and run.measured_pps is not None:
            by_target.setdefault(run.target_bps, []).append(run)
    if "max" not in by_target:
        return None
    means = {target: sum(run.measured_pps or 0.0 for run in of) / len(of) for target, of in by_target.items()}
    target = max(means, key=lambda key: means[key])
    if means[target] <= 0:
        return None
    found = by_target[target]
    return Reference(measured_pps=means[target], runs=len(found), run_id=found[0].run_id, target_bps=target)
