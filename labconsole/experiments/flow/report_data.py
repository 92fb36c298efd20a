"""Shared parts of the figures and tables of flows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.summary import FlowPointResult, FlowsSummary, summarize_flows
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.formatting import format_left_out, format_mean
from labconsole.report.material import Material

MEGA = 1e6
FULL_RATIO = 0.999
"""Share of the line rate that counts as full, because each guest's rate is a whole number of bit/s."""


def select_send_records(material: Material) -> list[FlowRecord]:
    """All trials of guests that send in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "out"]


def select_receive_records(material: Material) -> list[FlowRecord]:
    """All trials of guests that receive in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "in"]


def select_ring_records(material: Material) -> list[FlowRecord]:
    """All trials of guests in a ring in the report's material."""
    return [each for each in _flows(material) if each.requested.pattern == "ring"]


def _flows(material: Material) -> list[FlowRecord]:
    return [record for record in material.of("flow") if isinstance(record, FlowRecord)]


def build_summary(material: Material) -> FlowsSummary:
    """Summarize the trials of guests that send."""
    return summarize_flows(select_send_records(material))


def full(points: Sequence[FlowPointResult]) -> list[FlowPointResult]:
    """The points whose guests are sent all that the link carries."""
    return [point for point in points if point.key.offered_bps * point.key.guests >= FULL_RATIO * point.line_bps]


def plain(points: Sequence[FlowPointResult]) -> list[FlowPointResult]:
    """The points whose guests send more than fits: no limit, no greedy guest, all from the start."""
    return [
        point
        for point in points
        if not point.key.limits_bps
        and not point.key.weights
        and not point.key.disk
        and point.key.greedy == 1
        and not point.key.second_after_s
        and point.key.offered_bps >= point.line_bps
    ]


NOTHING_OF = {
    "out": "there is no bin in which all guests send",
    "in": "what one of the guests read is not known",
    "ring": "what one of the guests sent while all did is not known",
}


def describe_missing_result(point: FlowPointResult) -> str:
    """Why a point says nothing about how its guests share."""
    why = NOTHING_OF[point.key.pattern] if point.flow_ids else "no trial is valid"
    return why + (f" (left out: {format_left_out(point.left_out)})" if point.left_out else "")


def format_set_up_mean(found: SetUpMean | None, unit: float = MEGA, places: int = 2) -> str:
    """Format a mean with its interval over set-ups."""
    return format_mean(found, unit, places)
