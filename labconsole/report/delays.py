"""Delay at a design point, if its trials report one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.points import PointSummary, RunFacts, Values, mean_of_point

NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class DelayAt:
    """Delay at one point: medians and 99th percentiles of its trials. ``kind``: over the shortest (RFC 5481, PDV) if
    the clocks of the nodes are not shown to agree.
    """

    kind: Literal["one way", "over the shortest"]
    p50_ns: SetUpMean
    p99_ns: SetUpMean


def find_delay(point: PointSummary, facts: Mapping[str, RunFacts]) -> DelayAt | None:
    """Delay at a point, or None if no trial reports one. One-way only if all trials with a delay report it so."""
    known = [
        (block, facts[run_id])
        for run_id, block in zip(point.run_ids, point.blocks_of_runs, strict=True)
        if run_id in facts and facts[run_id].pdv_ns is not None
    ]
    if not known:
        return None
    one_way = all(fact.one_way_ns is not None for _, fact in known)
    p50: Values = {}
    p99: Values = {}
    for block, fact in known:
        delay = fact.one_way_ns if one_way else fact.pdv_ns
        if delay is not None:
            p50.setdefault(block, []).append(delay[0])
            p99.setdefault(block, []).append(delay[1])
    return DelayAt("one way" if one_way else "over the shortest", mean_of_point(p50), mean_of_point(p99))
