"""Trials of routers as plain lines of text: the forwarded packets of each, and where the rest was lost."""

from __future__ import annotations

import re
from typing import Any

from labconsole.experiments.route.plan import RoutePoint
from labconsole.experiments.route.points import RouteComparison
from labconsole.experiments.route.rates import build_hops
from labconsole.experiments.route.record import RouteRecord, RouterRecord
from labconsole.experiments.route.summary import RoutePointResult, RouterResult, RoutesSummary, summarize_routes
from labconsole.measure.statistics.as_json import effect_json, mean_json
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.plan.guest_kind import GuestText
from labconsole.report.formatting import format_mean, format_noun_count
from labconsole.report.trial_text import describe_left_out, format_sink
from labconsole.text.cells import UNKNOWN, format_decimal

MAX_ROUTERS = 20
_ONE = re.compile(r"\b1 (route|filter rule|block)s\b")
"""The terminal uses the singular. Tables of bundles have the same texts and are left unchanged."""


def _point(record: RouteRecord) -> RoutePoint:
    target_pps = record.requested.target_pps
    return RoutePoint.from_request(record.requested, target="max" if target_pps is None else target_pps)


def format_route_request(record: RouteRecord) -> str:
    """The request in one line."""
    cpu = record.requested.cpu
    return _point(record).format_load() + ("" if cpu == "any" else f", cpu {cpu}")


def format_route_result(record: RouteRecord) -> str:
    """Format ``130,000 packets/s, Jain 0.9999``."""
    if record.sum_pps is None:
        return UNKNOWN
    jain = "" if record.jain is None or len(record.routers) < 2 else f", Jain {record.jain:.4f}"
    return f"{format_decimal(record.sum_pps, 0)} packets/s{jain}"


def format_trial(record: RouteRecord) -> list[str]:
    """The trial between its request and its verdict."""
    while_all = ""
    if record.shared_from is not None and record.shared_to is not None:
        bin_s = record.requested.bin_s
        while_all = f" from {record.shared_from * bin_s:g} to {record.shared_to * bin_s:g} s"
    lines = [f"while all forwarded{while_all}: {format_route_result(record)}"]
    lines += [_router_line(each) for each in record.routers[:MAX_ROUTERS]]
    if len(record.routers) > MAX_ROUTERS:
        lines.append(f"and {len(record.routers) - MAX_ROUTERS} more routers")
    if record.sink is not None:
        lines.append(format_sink(record.sink))
    if record.start_skew_s is not None:
        lines.append(f"the first and the last router began {record.start_skew_s * 1e3:.1f} ms apart")
    if record.busy_ratio is not None:
        switches = (
            "" if record.switches_per_s is None else f", {format_decimal(record.switches_per_s, 0)} context switches/s"
        )
        lines.append(
            f"processors of the unit under test {record.busy_ratio:.1%} busy while packets were sent{switches}"
        )
    return lines


def _router_line(each: RouterRecord) -> str:
    rate = UNKNOWN if each.forwarded_pps is None else f"{format_decimal(each.forwarded_pps, 0)} packets/s"
    sent = UNKNOWN if each.sent_packets is None else each.sent_packets
    text = f"{each.guest:<6} {rate}; {sent} sent, {UNKNOWN if each.to_packets is None else each.to_packets} into it, "
    text += f"{UNKNOWN if each.from_packets is None else each.from_packets} out of it, {each.packets} at the sink"
    text += build_hops(each).words()
    text += "" if each.routes is None else f"; {format_noun_count(each.routes, 'route')}"
    return text + ("" if each.load_s is None else f", given in {each.load_s:.2f} s")


def summary_lines(summary: RoutesSummary) -> list[str]:
    """Rates of all points, router by router, and the effect of routes, filters and further routers."""
    lines = ["packets/s that arrived at the sink; mean with its 95 % interval over set-ups; only valid trials enter"]
    for point in summary.points:
        lines.append(f"  {_format_point(point, summary.name_of(point.key))}")
        if point.key.guests > 1:
            lines += [
                f"    {each.guest}: {_format_mean(each.forwarded_pps)}, "
                f"lost in it {_format_mean(each.inside_ratio, 0.01, 3)} %"
                for each in point.routers
            ]
    lines += [f"  {_format_claim(summary, each)}" for each in summary.compared]
    return [_ONE.sub(r"1 \1", line) for line in lines]


def _format_claim(summary: RoutesSummary, claim: RouteComparison) -> str:
    """One comparison. The reason for a missing interval is given once, for a mean and the differences within it."""
    absent, text = claim.effect.absent, summary.describe_claim(claim)
    if absent is None or claim.apart is None or claim.apart.absent != absent:
        return text
    head, why, rest = text.partition(f" ({absent})")
    return head + why + rest.replace(why, "")


def _format_point(point: RoutePointResult, name: str) -> str:
    text = f"{name}, {point.key.words}: {'no valid trial' if point.sum_pps is None else _format_mean(point.sum_pps)}"
    text += f", Jain {_format_mean(point.jain, 1, 4)}" if point.jain is not None and point.key.guests > 1 else ""
    text += f", lost {_format_mean(point.lost_ratio, 0.01, 3)} %" if point.lost_ratio is not None else ""
    return text + describe_left_out(point.left_out)


def _format_mean(found: SetUpMean | None, unit: float = 1.0, digits: int = 0) -> str:
    return UNKNOWN if found is None else format_mean(found, unit, digits, format_decimal)


def summary_json(found: RoutesSummary) -> dict[str, Any]:
    """As ``experiment route --summary --json`` prints it: the keys are a format, whatever the fields are called."""
    return {
        "points": [_route_point_found(each) for each in found.points],
        "compared": [_routes_compared(each) for each in found.compared],
        "testbeds": dict(found.testbeds),
        "superseded": found.superseded,
    }


def _route_point_found(found: RoutePointResult) -> dict[str, Any]:
    return {
        "key": found.key,
        "sum_pps": mean_json(found.sum_pps),
        "sent_pps": mean_json(found.sent_pps),
        "lost_ratio": mean_json(found.lost_ratio),
        "jain": mean_json(found.jain),
        "busy_ratio": mean_json(found.busy_ratio),
        "switches_per_s": mean_json(found.switches_per_s),
        "load_s": mean_json(found.load_s),
        "routers": [_router_found(each) for each in found.routers],
        "left_out": dict(found.left_out),
        "route_ids": found.route_ids,
        "by_outcome": found.by_outcome,
    }


def _router_found(found: RouterResult) -> dict[str, Any]:
    return {
        "guest": found.guest,
        "forwarded_pps": mean_json(found.forwarded_pps),
        "lost_ratio": mean_json(found.lost_ratio),
        "inside_ratio": mean_json(found.inside_ratio),
    }


def _routes_compared(found: RouteComparison) -> dict[str, Any]:
    return {
        "what": found.what,
        "key": found.key,
        "than": found.than,
        "pairs": found.pairs,
        "effect": effect_json(found.effect),
        "adjusted_p": found.adjusted_p,
        "equivalent_p": found.equivalent_p,
        "margin_ratio": found.margin_ratio,
        "word": found.word,
        "apart": effect_json(found.apart),
        "untested": found.untested,
        "saturated": found.saturated,
        "than_saturated": found.than_saturated,
    }


TEXT = GuestText(
    request=format_route_request,
    result=format_route_result,
    columns=lambda record: _point(record).format_factors(),
    lines=format_trial,
    summarize=summarize_routes,
    summary_lines=summary_lines,
    summary_json=summary_json,
)
