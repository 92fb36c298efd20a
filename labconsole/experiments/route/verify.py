"""Recomputation of a stored trial of routers: rates from packets, their sums, and the verdict from observations."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.route.plausibility import find_implausible
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.rules import RULES
from labconsole.measure.recompute.discrepancy import Discrepancy, Number, same
from labconsole.measure.recompute.verdict_check import empty_trial_problems, recompute_verdict, unjudged_reasons


def recompute_route(record: RouteRecord) -> list[Discrepancy]:
    """Find values of a trial that do not follow from its data, or contradict each other."""
    if record.set_up is None:
        found = [*empty_trial_problems(record, record.routers), *_rates(record)]
    else:
        found = [*_counts(record), *_rates(record)]
    return [*found, *find_implausible(record), *recompute_verdict(record, RULES)]


def _counts(record: RouteRecord) -> Iterator[Discrepancy]:
    if len(record.routers) != record.requested.guests:
        yield Discrepancy(where="routers", stored=len(record.routers), recomputed=record.requested.guests)
    for index, each in enumerate(record.routers):
        total = sum(each.bin_packets) + each.outside_packets
        if total != each.packets:
            yield Discrepancy(where=f"routers[{index}].packets", stored=each.packets, recomputed=total)
    sink = record.sink
    if sink is not None:
        total = sum(each.packets for each in record.routers) + sink.foreign_packets + sink.other_packets
        if total != sink.captured_packets:
            yield Discrepancy(where="sink.captured_packets", stored=sink.captured_packets, recomputed=total)


def _rates(record: RouteRecord) -> Iterator[Discrepancy]:
    """Check rates by the formulas of docs/route.md, without the functions that made the record."""
    bins, bin_s = _bins(record), record.requested.bin_s
    each_pps: list[float] = []
    wanted: dict[str, tuple[Number, Number]] = {
        "shared_from": (record.shared_from, None if bins is None else bins.start),
        "shared_to": (record.shared_to, None if bins is None else bins.stop),
    }
    for index, each in enumerate(record.routers):
        again = None
        if bins is not None:
            again = sum(each.bin_packets[bins.start : bins.stop]) / (len(bins) * bin_s)
            each_pps.append(again)
        wanted[f"routers[{index}].forwarded_pps"] = each.forwarded_pps, again
        sent_pps = None if each.sent_packets is None or not each.sent_for_s else each.sent_packets / each.sent_for_s
        wanted[f"routers[{index}].sent_pps"] = each.sent_pps, sent_pps
    total_pps, squares = sum(each_pps), sum(rate * rate for rate in each_pps)
    firsts = [each.first_at_ns for each in record.routers if each.first_at_ns is not None]
    wanted |= {
        "sum_pps": (record.sum_pps, total_pps if each_pps else None),
        "jain": (record.jain, total_pps * total_pps / (len(each_pps) * squares) if squares else None),
        "start_skew_s": (record.start_skew_s, (max(firsts) - min(firsts)) / 1e9 if len(firsts) > 1 else None),
    }
    for where, (stored, computed) in wanted.items():
        if not same(stored, computed):
            yield Discrepancy(where=where, stored=stored, recomputed=computed)


def _bins(record: RouteRecord) -> range | None:
    """The bins that begin after the first packet of every router and end before the last of every one, or None without
    any.
    """
    bin_ns, origin_ns = round(record.requested.bin_s * 1e9), record.origin_ns
    begun, ended = [each.first_at_ns for each in record.routers], [each.last_at_ns for each in record.routers]
    if origin_ns is None or not begun or None in begun or None in ended:
        return None
    inside = [
        number
        for number in range(max(len(each.bin_packets) for each in record.routers))
        if all(first is not None and origin_ns + number * bin_ns >= first for first in begun)
        and all(last is not None and origin_ns + (number + 1) * bin_ns <= last for last in ended)
    ]
    return range(inside[0], inside[-1] + 1) if inside else None


RECOMPUTE = recompute_route


def UNJUDGED(record: RouteRecord) -> Iterator[str]:
    """Reasons of its verdict that cannot be judged again."""
    return unjudged_reasons(record, RULES)
