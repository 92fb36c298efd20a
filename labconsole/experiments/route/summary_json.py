"""Router trials summarized as plain data: the keys are a format, whatever the fields are called."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.route.route_comparison import RouteComparison
from labconsole.experiments.route.summary import RoutePointResult, RouterResult, RoutesSummary
from labconsole.measure.statistics.as_json import effect_json, mean_json


def summary_json(found: RoutesSummary) -> dict[str, Any]:
    """As ``experiment route --summary --json`` prints it."""
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
