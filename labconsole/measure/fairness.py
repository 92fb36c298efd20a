"""How guests share one NIC, from the throughput of each in each time bin.

Source: Adamczyk and Chydzinski, "Performance Isolation Issues in Network Virtualization in Xen", sections IV and V; the
definitions are in docs/flow.md. Shapes: ``rates`` has one row per guest, with one value per bin, in bit/s; all rows
have the same length. Pure; None means that there is too little data.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

DOMINANT_RATIO = 0.9
"""A guest with more than this share of a bin's total dominates the bin."""

STARVED_RATIO = 0.01
"""A guest with less than this part of an equal share in a bin starves in it."""

RECOVERED_RATIO = 0.95

Rates = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class MarkedBins:
    """The number of marked bins, of all bins, and the longest uninterrupted series of them, in bins."""

    marked_bins: int
    of_bins: int
    longest_bins: int

    @property
    def share_ratio(self) -> float:
        """The share of marked bins."""
        return self.marked_bins / self.of_bins


def whole_bins(first_ns: int, last_ns: int, origin_ns: int, bin_ns: int) -> tuple[int, int]:
    """(first, one past the last) of the bins that lie wholly between two times; equal if there are none."""
    begin = -((origin_ns - first_ns) // bin_ns)
    end = (last_ns - origin_ns) // bin_ns
    return begin, max(begin, end)


def attained_ratio(rates_bps: Sequence[float], limit_bps: float) -> float | None:
    """Mean rate over the bins, relative to the limit in the same layer."""
    return statistics.fmean(rates_bps) / limit_bps if rates_bps and limit_bps > 0 else None


def interference_ratio(alone_bps: Sequence[float], together_bps: Sequence[float]) -> float | None:
    """The share of its rate alone that a guest loses when another sends, too; negative if it gains."""
    if not alone_bps or not together_bps or not (alone := statistics.fmean(alone_bps)):
        return None
    return 1 - statistics.fmean(together_bps) / alone


def spread_bps(rates_bps: Sequence[float]) -> float | None:
    """Standard deviation over bins, n - 1."""
    return statistics.stdev(rates_bps) if len(rates_bps) > 1 else None


def dominance(rates: Rates) -> MarkedBins | None:
    """The bins with any traffic, and those of them in which one guest had more than 90 % of it. None for one guest."""
    if len(rates) < 2:
        return None
    marks: list[bool] = []
    runs = longest = 0
    former: int | None = None
    for values in zip(*rates, strict=True):
        total = math.fsum(values)
        first = max(range(len(values)), key=values.__getitem__)
        dominates = total > 0 and values[first] > DOMINANT_RATIO * total
        marks += [dominates] if total > 0 else []
        runs = (runs + 1 if former == first else 1) if dominates else 0
        former = first if dominates else None
        longest = max(longest, runs)
    return MarkedBins(sum(marks), len(marks), longest) if marks else None


def starvation(rates: Rates, guest: int) -> MarkedBins | None:
    """The bins with any traffic, and those of them in which a guest had less than 1 % of an equal share."""
    marks: list[bool] = []
    run = longest = 0
    for values in zip(*rates, strict=True):
        total = math.fsum(values)
        if total <= 0:
            run = 0
            continue
        marks.append(values[guest] < STARVED_RATIO * total / len(values))
        run = run + 1 if marks[-1] else 0
        longest = max(longest, run)
    return MarkedBins(sum(marks), len(marks), longest) if marks else None


def share_ratio(rates: Rates, guest: int) -> float | None:
    """A guest's share of all traffic.

    A greedy guest with k flows next to a guest with one flow is to be compared with 1/2 (guests are equal) and k/(k +
    1) (flows are equal).
    """
    total = math.fsum(math.fsum(row) for row in rates)
    return math.fsum(rates[guest]) / total if total > 0 else None


def utilization_ratio(rates: Rates, line_bps: float) -> float | None:
    """Mean total rate over the bins, relative to the capacity of the link."""
    totals = [math.fsum(values) for values in zip(*rates, strict=True)]
    return statistics.fmean(totals) / line_bps if totals and line_bps > 0 else None


def during_ratio(rates_bps: Sequence[float], before: tuple[int, int], during: tuple[int, int]) -> float | None:
    """Mean rate in the bins ``during`` an event, relative to those ``before``; each (first, one past the last)."""
    base, meanwhile = rates_bps[slice(*before)], rates_bps[slice(*during)]
    if not base or not meanwhile or not (mean := statistics.fmean(base)):
        return None
    return statistics.fmean(meanwhile) / mean


def recovery_bins(rates_bps: Sequence[float], before: tuple[int, int], after: int) -> int | None:
    """The number of bins from bin ``after`` until one has 95 % of the mean ``before`` again, or None if none has."""
    base = rates_bps[slice(*before)]
    if not base:
        return None
    enough = RECOVERED_RATIO * statistics.fmean(base)
    return next((number for number, rate in enumerate(rates_bps[after:]) if rate >= enough), None)


def weight_error(rates: Rates, weights: Sequence[float]) -> float | None:
    """Mean over guests of the difference between a guest's share and its weight's.

    With two guests it is equal for both.
    """
    shares = [share_ratio(rates, guest) for guest in range(len(rates))]
    wanted = math.fsum(weights)
    if len(weights) != len(shares) or wanted <= 0 or None in shares:
        return None
    return statistics.fmean(
        abs((share or 0.0) - weight / wanted) for share, weight in zip(shares, weights, strict=True)
    )
