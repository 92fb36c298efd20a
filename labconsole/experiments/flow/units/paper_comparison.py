"""Two papers' statements on guests that send, compared with the report's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.flow.report_data import (
    build_summary,
    describe_missing_result,
    format_set_up_mean,
    full,
    plain,
    select_receive_records,
)
from labconsole.experiments.flow.summary import FlowPointKey, FlowPointResult, FlowsSummary, summarize_flows
from labconsole.measure.statistics.bounded_means import lowest_mean
from labconsole.model.weights import Weights
from labconsole.report.material import Material
from labconsole.report.paper_columns import PaperRow, paper_columns
from labconsole.report.reference import UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import TableColumn, build_table, column

TOPICS = {
    "mattos": ("endpoint", "sending"),
    "adamczyk": (
        "equal limits",
        "unequal limits",
        "no limit",
        "greedy guest",
        "disk",
        "weights",
        "improved equal limits",
        "improved no limit",
    ),
}


ALONE = (
    " A single guest with a limit has no row: nobody disturbs it, so it shows how exactly the limit holds (least "
    "attained of its limit, in How guests share one NIC) and nothing of isolation."
)


UNCONTENDED = (
    " But for work on a disk, guests without limits that together offer no more than the link carries have no row: "
    "nobody takes anything from another there."
)


class PointOnTopic(NamedTuple):
    """A point of a summary, and the topic that it is a result on."""

    summary: FlowsSummary
    topic: str
    point: FlowPointResult

    @property
    def key(self) -> FlowPointKey:
        return self.point.key


def make(material: Material, paper_name: str) -> Table | None:
    """A row for each sentence of the paper on a topic that was measured here, for any platform."""
    paper = material.paper
    if paper is None or paper.name != paper_name:
        return None
    out, into = build_summary(material), summarize_flows(select_receive_records(material))
    found = [PointOnTopic(out, topic, point) for topic, point in _topics(out)]
    found += [PointOnTopic(into, "endpoint", point) for point in full(into.points) if point.key.guests == 1]
    found = [own for own in found if own.topic in TOPICS[paper_name]]
    rows = [
        PaperRow(own, row)
        for own in found
        for row in paper.tables["shapes"]
        if row["topic"] == own.topic
        and ((theirs := material.paper_names.get(own.key.platform)) is None or row["platform"] in (theirs, "all"))
    ]
    if not rows:
        return None
    matched = describe_matching((own.key.platform for own in found), material.paper_names, UNMATCHED_NOTE)
    uncontended = "no limit" in TOPICS[paper_name] and any(map(_uncontended, out.points))
    alone = "equal limits" in TOPICS[paper_name] and any(
        point.key.guests == 1 and point.key.limits_bps for point in out.points
    )
    columns: list[TableColumn[PaperRow[PointOnTopic]]] = [
        column("topic", "topic", lambda row: row.own.topic),
        column("platform", "platform", lambda row: row.own.summary.name_of(row.own.key)),
        column("guests", "guests", lambda row: row.own.key.guests),
        column("scenario", "scenario", lambda row: row.own.key.scenario),
        column("finding", "own finding", lambda row: _format_point(row.own.point)),
        paper_columns(),
    ]
    return build_table(
        f"{paper_name}-flow-beside",
        "Flows of guests beside the paper's",
        columns,
        rows,
        f"{paper.cited(how='its sentences in short')} {matched}{ALONE if alone else ''}"
        f"{UNCONTENDED if uncontended else ''}",
        beside_paper=True,
    )


def weighed_topic(steps: Sequence[Weights], limits_bps: Sequence[int]) -> str | None:
    """Topic of the paper's sentence on guests with such weights, or None if it has none. Figures 11 and 12 have equal
    weights.
    """
    if len(steps) > 1 or len(set(steps[0])) > 1:
        return None if limits_bps else "weights"
    if not limits_bps:
        return "improved no limit"
    return "improved equal limits" if len(set(limits_bps)) == 1 else None


def _uncontended(point: FlowPointResult) -> bool:
    """Several guests that send, all without a limit, that want no more in total than the link carries."""
    key = point.key
    if key.guests < 2 or key.limits_bps or key.disk:
        return False
    return key.offered_bps * (key.guests - 1 + key.greedy) <= point.line_bps


def _topics(summary: FlowsSummary) -> Iterator[tuple[str, FlowPointResult]]:
    without = plain(summary.points)
    for point in summary.points:
        limits = point.key.limits_bps
        if point.key.disk:
            yield "disk", point
            continue
        if _uncontended(point):
            continue
        if point.weight_steps:
            topic = weighed_topic([step.weights for step in point.weight_steps], limits)
            yield from [] if topic is None else [(topic, point)]
            continue
        if point in without:
            yield ("endpoint" if point.key.guests == 1 else "sending"), point
        if limits and point.key.guests > 1:
            yield ("equal limits" if len(set(limits)) == 1 else "unequal limits"), point
        elif point.key.greedy > 1 and point.key.guests > 1:
            yield "greedy guest", point
        elif point.key.guests > 1:
            yield "no limit", point


def _format_point(point: FlowPointResult) -> str:
    """The result of a point in short."""
    if point.sum_bps is None:
        return describe_missing_result(point)
    found = [f"sum {format_set_up_mean(point.sum_bps)} Mbit/s"]
    found += [f"{format_set_up_mean(point.line_ratio, 0.01)} % of the line"] if point.line_ratio is not None else []
    if len(point.guests) > 1 and point.jain is not None:
        found += [f"Jain {format_set_up_mean(point.jain, 1, 4)}"]
    attained = [guest.attained_ratio for guest in point.guests if guest.attained_ratio is not None]
    if attained:
        found.append(f"least attained {format_set_up_mean(lowest_mean(attained), 1, 4)} of the limit")
    if point.interference_ratio is not None:
        found.append(f"interference {format_set_up_mean(point.interference_ratio, 0.01)} %")
    if point.dominant_ratio is not None:
        found.append(f"dominance {format_set_up_mean(point.dominant_ratio, 0.01, 1)} % of the bins")
    if point.dominant_s is not None:
        found.append(f"longest dominance {format_set_up_mean(point.dominant_s, 1, 1)} s")
    if point.during_disk_ratio is not None:
        found.append(f"beside the work on the disk {format_set_up_mean(point.during_disk_ratio, 0.01)} % of before")
    if point.recovered_s is not None:
        found.append(f"95 % again {format_set_up_mean(point.recovered_s, 1, 1)} s after it")
    if point.not_recovered:
        found.append(f"{point.not_recovered} of {len(point.flow_ids)} trials did not recover")
    if point.weight_error is not None:
        fewest = [step.packets for step in point.weight_steps if step.packets is not None]
        packet = f", where one packet is {1 / min(fewest):.4f}" if fewest else ""
        found.append(f"error of weights {format_set_up_mean(point.weight_error, 1, 4)}{packet}")
    if point.key.greedy > 1:
        found.append(f"first guest's share {format_set_up_mean(point.first_share_ratio, 1, 3)}")
    return ", ".join(found)


UNITS = tuple(
    ReportUnit(name=f"{paper}-flow-beside", place=place, make=partial(make, paper_name=paper))
    for place, paper in enumerate(TOPICS, 175)
)
