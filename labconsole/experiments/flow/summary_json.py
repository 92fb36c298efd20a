"""Flow trials summarized as plain data: the keys are a format, whatever the fields are called."""

from __future__ import annotations

from typing import Any

from labconsole.experiments.flow.summary import BareHostComparison, FlowPointResult, FlowsSummary, GuestResult
from labconsole.experiments.flow.weight_shares import WeightStepResult
from labconsole.measure.statistics.as_json import effect_json, mean_json


def summary_json(found: FlowsSummary) -> dict[str, Any]:
    """As ``experiment flow --summary --json`` prints it."""
    return {
        "points": [_flow_point_found(each) for each in found.points],
        "testbeds": dict(found.testbeds),
        "superseded": found.superseded,
        "compared": [_beside_bare(each) for each in found.compared],
    }


def _flow_point_found(found: FlowPointResult) -> dict[str, Any]:
    return {
        "key": found.key,
        "line_bps": found.line_bps,
        "sum_bps": mean_json(found.sum_bps),
        "line_ratio": mean_json(found.line_ratio),
        "jain": mean_json(found.jain),
        "interference_ratio": mean_json(found.interference_ratio),
        "alone_spread_bps": mean_json(found.alone_spread_bps),
        "dominant_ratio": mean_json(found.dominant_ratio),
        "dominant_s": mean_json(found.dominant_s),
        "starved_ratio": mean_json(found.starved_ratio),
        "first_share_ratio": mean_json(found.first_share_ratio),
        "lost_ratios": {name: mean_json(each) for name, each in found.lost_ratios.items()},
        "during_disk_ratio": mean_json(found.during_disk_ratio),
        "recovered_s": mean_json(found.recovered_s),
        "not_recovered": found.not_recovered,
        "cpu_s_per_gb": mean_json(found.cpu_s_per_gb),
        "machine_cpu_s_per_gb": mean_json(found.machine_cpu_s_per_gb),
        "weight_error": mean_json(found.weight_error),
        "weight_steps": [_weight_step_found(each) for each in found.weight_steps],
        "guests": [_guest_found(each) for each in found.guests],
        "median_id": found.median_id,
        "left_out": dict(found.left_out),
        "flow_ids": found.flow_ids,
        "by_outcome": found.by_outcome,
    }


def _weight_step_found(found: WeightStepResult) -> dict[str, Any]:
    return {
        "weights": found.weights,
        "due_ratio": found.due_ratio,
        "first_share_ratio": mean_json(found.first_share_ratio),
        "error_ratio": mean_json(found.error_ratio),
        "deviations": [mean_json(each) for each in found.deviations],
        "packets": found.packets,
    }


def _guest_found(found: GuestResult) -> dict[str, Any]:
    return {
        "guest": found.guest,
        "shared_bps": mean_json(found.shared_bps),
        "attained_ratio": mean_json(found.attained_ratio),
        "spread_bps": mean_json(found.spread_bps),
        "lost_packets": mean_json(found.lost_packets),
        "bins_bps": [mean_json(each) for each in found.bins_bps],
    }


def _beside_bare(found: BareHostComparison) -> dict[str, Any]:
    return {
        "key": found.key,
        "bare": found.bare,
        "ours_bps": mean_json(found.ours_bps),
        "bare_bps": mean_json(found.bare_bps),
        "effect": effect_json(found.effect),
        "adjusted_p": found.adjusted_p,
        "equivalent_p": found.equivalent_p,
        "margin_ratio": found.margin_ratio,
        "word": found.word,
        "both_full": found.both_full,
        "one_full": found.one_full,
        "trials": found.trials,
    }
