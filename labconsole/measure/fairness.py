"""How guests share one NIC, from what each brought through it in each bin of time.

Source: Adamczyk and Chydzinski, "Performance Isolation Issues in Network Virtualization in Xen", sections IV and
V; the definitions are docs/flow.md's. Shapes: ``rates`` has one row a guest, of one value a bin, in bit/s; all rows
are of one length. Pure; None stands for what cannot be said of so little.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

DOMINANT_RATIO = 0.9
"""Who has more than this of what all have in a bin dominates it."""

STARVED_RATIO = 0.01
"""Who has less than this of an equal share in a bin starves in it."""

RECOVERED_RATIO = 0.95

Rates = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class MarkedBins:
    """How many of so many bins, and the longest run of them without a break, in bins."""

    marked_bins: int
    of_bins: int
    longest_bins: int

    @property
    def share_ratio(self) -> float:
        """Of the bins."""
        return self.marked_bins / self.of_bins


def whole_bins(first_ns: int, last_ns: int, origin_ns: int, bin_ns: int) -> tuple[int, int]:
    """(first, one past the last) of the bins that lie wholly between two times; equal where there is none."""
    begin = -((origin_ns - first_ns) // bin_ns)
    end = (last_ns - origin_ns) // bin_ns
    return begin, max(begin, end)


def attained_ratio(rates_bps: Sequence[float], limit_bps: float) -> float | None:
    """Mean rate over the bins, of the limit in the same layer."""
    return statistics.fmean(rates_bps) / limit_bps if rates_bps and limit_bps > 0 else None


def interference_ratio(alone_bps: Sequence[float], together_bps: Sequence[float]) -> float | None:
    """What of its rate alone a guest loses when another sends too; below 0: it gains."""
    if not alone_bps or not together_bps or not (alone := statistics.fmean(alone_bps)):
        return None
    return 1 - statistics.fmean(together_bps) / alone


def spread_bps(rates_bps: Sequence[float]) -> float | None:
    """Standard deviation over bins, n - 1."""
    return statistics.stdev(rates_bps) if len(rates_bps) > 1 else None


def dominance(rates: Rates) -> MarkedBins | None:
    """Of the bins in which anything came, those in which one guest had more than 90 % of it. One guest has no rival."""
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
    """Of the bins in which anything came, those in which a guest had less than 1 % of an equal share."""
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
    """What a guest had of all that came. A greedy one with k flows beside one of one flow is to be held against 1/2
    (guests are equal) and k/(k + 1) (flows are).
    """
    total = math.fsum(math.fsum(row) for row in rates)
    return math.fsum(rates[guest]) / total if total > 0 else None


def utilization_ratio(rates: Rates, line_bps: float) -> float | None:
    """Mean over the bins of what all had, of what the link can carry."""
    totals = [math.fsum(values) for values in zip(*rates, strict=True)]
    return statistics.fmean(totals) / line_bps if totals and line_bps > 0 else None


def during_ratio(rates_bps: Sequence[float], before: tuple[int, int], during: tuple[int, int]) -> float | None:
    """Mean rate in the bins ``during`` something, of that in those ``before``; each (first, one past the last)."""
    base, meanwhile = rates_bps[slice(*before)], rates_bps[slice(*during)]
    if not base or not meanwhile or not (mean := statistics.fmean(base)):
        return None
    return statistics.fmean(meanwhile) / mean


def recovery_bins(rates_bps: Sequence[float], before: tuple[int, int], after: int) -> int | None:
    """How many bins from bin ``after`` on until one has 95 % of the mean ``before`` again; None: none has."""
    base = rates_bps[slice(*before)]
    if not base:
        return None
    enough = RECOVERED_RATIO * statistics.fmean(base)
    return next((number for number, rate in enumerate(rates_bps[after:]) if rate >= enough), None)


def weight_error(rates: Rates, weights: Sequence[float]) -> float | None:
    """Mean over guests of how far each one's share is from its weight's. With two guests it is that of either."""
    shares = [share_ratio(rates, guest) for guest in range(len(rates))]
    wanted = math.fsum(weights)
    if len(weights) != len(shares) or wanted <= 0 or None in shares:
        return None
    return statistics.fmean(
        abs((share or 0.0) - weight / wanted) for share, weight in zip(shares, weights, strict=True)
    )
