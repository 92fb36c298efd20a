"""What papers print and conclude on guests that send, next to the report's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from labconsole.contracts.report import Experiments, ReportUnit, Table
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import (
    WAYS,
    build_summary,
    compare_payloads,
    describe_missing_result,
    format_set_up_mean,
    full,
    is_bare,
    plain,
    select_receive_records,
    select_send_records,
)
from labconsole.experiments.flow.summary import FlowPointKey, FlowPointResult, FlowsSummary, summarize_flows
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.bounded_means import fairness_p, lowest_mean
from labconsole.measure.statistics.effects import SIGNIFICANCE, Effect, fall_p, rise_p
from labconsole.model.flow_scenarios import Weights
from labconsole.report.formatting import format_effect
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    NOT_BY_LINK,
    Confirmation,
    PaperConclusion,
    build_abstract_unit,
    describe_unmentioned,
    format_none_valid,
    pair_tools,
)
from labconsole.report.reference import UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import PaperRow, TableColumn, build_table, column, paper_columns

# -- statements --------------------------------------------------------------------------------------------------------
# Two papers' statements on guests that send, compared with the report's own findings.

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
    " A single guest with a limit has no row: no other guest disturbs it, so it shows how exactly the limit holds "
    "(least attained of its limit, in How guests share one NIC) and nothing of isolation."
)


UNCONTENDED = (
    " But for work on a disk, guests without limits that together offer no more than the link carries have no row: "
    "no guest takes anything from another there."
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
        "Flows of guests compared with the paper's",
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
        found.append(f"during the work on the disk {format_set_up_mean(point.during_disk_ratio, 0.01)} % of before")
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


# -- conclusions of an abstract ----------------------------------------------------------------------------------------
# Conclusions of the abstract of Mattos and others on guests that send, compared with the report's own findings.

LEAST = "Xen introduces the least overhead on network performance"
BEST = "xen"
MATTERS_RATIO = 0.01
"""A smaller difference between platforms decides nothing, because all may fill the link."""

FULL_RATIO = 0.95
"""Share of the line rate from which the link limits a guest. It makes two such guests alike."""

FAIR = 0.99
"""Jain's index from which each of several guests has its part; of two guests, 55 and 45 % have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstractComparison:
    """One guest of the paper's best platform compared with one of another. ``effect``: how much more the best one
    carries. ``about``: the best one's name and direction. ``than``: the other's name.
    """

    best: FlowPointResult
    other: FlowPointResult
    about: str
    than: str
    effect: Effect

    @property
    def out(self) -> str | None:
        """A code that excludes trials because of their outcome, or None. With it, the included ones are a selection."""
        return self.best.by_outcome or self.other.by_outcome

    @property
    def by_link(self) -> bool:
        """Whether both fill the link in every trial, so that the link limits them."""
        ratios = [each.line_ratio for each in (self.best, self.other)]
        return all(ratio is not None and ratio.minimum >= FULL_RATIO for ratio in ratios)

    @property
    def p_values(self) -> tuple[float | None, float | None]:
        """p that the best one carries more, by more than matters, and p that it carries less; None if not tested."""
        if self.out or self.by_link:
            return None, None
        fall = fall_p(self.effect, MATTERS_RATIO)
        return rise_p(self.effect, MATTERS_RATIO), None if fall is None else fall[0]

    @property
    def said(self) -> str:
        none = [each.key.platform for each in (self.best, self.other) if not each.flow_ids]
        if none:
            return format_none_valid(none)
        return f"trials left out by {self.out}" if self.out else format_effect(self.effect)


def _conclude(material: Material) -> Iterator[PaperConclusion]:
    """Conclusions on one guest in each direction, and on each platform with several that send."""
    names, found = material.paper_names, list[AbstractComparison]()
    for way, records in (("out", select_send_records(material)), ("in", select_receive_records(material))):
        compared = _compare_platforms(records, names, WAYS[way])
        found += compared
        if records and not compared:
            yield PaperConclusion(
                LEAST,
                WAYS[way],
                "no platform that is the paper's Xen was measured in the same way as another",
                "not decided",
            )
    family = material.evaluation.claims.p_values
    more, less = (
        [p is not None and p <= SIGNIFICANCE for p in adjusted([each.p_values[side] for each in found], family)]
        for side in (0, 1)
    )
    for about in dict.fromkeys(each.about for each in found):
        of = [place for place, each in enumerate(found) if each.about == about]
        said = "; ".join(f"{found[at].than}: {found[at].said}" for at in of)
        full = any(_fills_link(point) for at in of for point in (found[at].best, found[at].other))
        yield PaperConclusion(
            LEAST,
            about,
            f"compared with {said}",
            "not confirmed"
            if any(less[at] for at in of)
            else "confirmed"
            if all(more[at] for at in of)
            else NOT_BY_LINK
            if full
            else "not decided",
            tuple(p for at in of for p in found[at].p_values if p is not None),
        )
    records, summary = select_send_records(material), build_summary(material)
    points = _sharing(records, summary)
    tested = [_fairness(records, point) for point in points]
    fair, unfair = (adjusted([each and each[side] for each in tested], family) for side in (0, 1))
    for point, ps, *p_values in zip(points, tested, fair, unfair, strict=True):
        name = f"{summary.name_of(point.key)}{describe_unmentioned(point.key.platform, names)}"
        about = f"{name}: {point.key.guests} guests that send"
        yield PaperConclusion("sharing the network among guests is fair", about, *_fair(point, *p_values), ps or ())


def _claimed(experiments: Experiments, names: Mapping[str, str]) -> list[float]:
    """The p values of all rows, in either direction."""
    flows = [each for each in experiments.get("flow", ()) if isinstance(each, FlowRecord)]
    found: list[float | None] = []
    for way in WAYS:
        records = [each for each in flows if each.requested.pattern == way]
        found += [p for comparison in _compare_platforms(records, names, WAYS[way]) for p in comparison.p_values]
    out = [each for each in flows if each.requested.pattern == "out"]
    for point in _sharing(out, summarize_flows(out)):
        found += _fairness(out, point) or ()
    return [p for p in found if p is not None]


def _sharing(records: Sequence[FlowRecord], summary: FlowsSummary) -> list[FlowPointResult]:
    """Points with several guests that send, without the bare host."""
    bare = _bare(records)
    return [
        point
        for point in plain(summary.points)
        if point.key.guests > 1 and (point.key.testbed_fingerprint, point.key.platform) not in bare
    ]


def _fairness(records: Sequence[FlowRecord], point: FlowPointResult) -> tuple[float, float] | None:
    """p of the claim that sharing is fair, and that it is not; None if not tested."""
    if point.jain is None or _undecided(point) is not None:
        return None
    jain: dict[str, list[float]] = {}
    for record in records:
        if record.flow_id in point.flow_ids and record.jain is not None:
            jain.setdefault(record.set_up_id, []).append(record.jain)
    return fairness_p(jain, point.key.guests, FAIR)


def _compare_platforms(records: Sequence[FlowRecord], names: Mapping[str, str], way: str) -> list[AbstractComparison]:
    """Compare one guest of the paper's best platform with one of each other platform at the same point. Leaves out the
    bare host, and other platforms that are the paper's best as well.
    """
    summary, of = summarize_flows(records), {each.flow_id: each for each in records}
    bare = _bare(records)
    points = [
        point
        for point in plain(summary.points)
        if point.key.guests == 1 and (point.key.testbed_fingerprint, point.key.platform) not in bare
    ]
    by_key = {point.key: point for point in points}
    pairs = [
        (by_key[best], by_key[other])
        for pair in pair_tools(by_key)
        for best, other in (pair, pair[::-1])
        if names.get(best.platform) == BEST != names.get(other.platform)
    ]
    trials = [([of[each] for each in best.flow_ids], [of[each] for each in other.flow_ids]) for best, other in pairs]
    return [
        AbstractComparison(
            best=best,
            other=other,
            about=f"{summary.name_of(best.key)}, {way}",
            than=summary.name_of(other.key),
            effect=effect,
        )
        for (best, other), effect in zip(pairs, compare_payloads(records, trials), strict=True)
    ]


def _bare(records: Sequence[FlowRecord]) -> set[tuple[str, str]]:
    """Testbeds, with platforms whose guests are processes of the bare host."""
    return {(each.testbed_fingerprint, each.requested.platform) for each in records if is_bare(each)}


def _fills_link(point: FlowPointResult) -> bool:
    return point.line_ratio is not None and point.line_ratio.maximum >= FULL_RATIO


def _undecided(point: FlowPointResult) -> str | None:
    """Why fairness is not decided, or None if it may be. Only a full link, or one processor, has to be shared."""
    if point.by_outcome:
        return f"with trials left out by {point.by_outcome}"
    if point.key.cpu != "same" and (point.line_ratio is None or point.line_ratio.minimum < FULL_RATIO):
        return "of a link that was not full"
    return None


def _fair(point: FlowPointResult, fair_p: float | None, unfair_p: float | None) -> tuple[str, Confirmation]:
    if point.jain is None:
        return describe_missing_result(point), "not decided"
    said, why = f"Jain {format_set_up_mean(point.jain, 1, 4)}", _undecided(point)
    if why is not None:
        return f"{said}, {why}", "not decided"
    if fair_p is not None and fair_p <= SIGNIFICANCE:
        return said, "confirmed"
    return said, "not confirmed" if unfair_p is not None and unfair_p <= SIGNIFICANCE else "not decided"


UNITS = (
    *tuple(
        ReportUnit(name=f"{paper}-flow-beside", place=place, make=partial(make, paper_name=paper))
        for place, paper in enumerate(TOPICS, 175)
    ),
    build_abstract_unit(
        "mattos",
        "mattos-abstract-network",
        169,
        _conclude,
        "Least overhead: one guest of the paper's best platform sends, or is sent, more than one of every other, each "
        f"by more than {100 * MATTERS_RATIO:.0f} %; which of your platforms that is, --reference-map says. Where all "
        f"fill the link, or none is shown to, nothing is decided; at {100 * FULL_RATIO:.0f} % of what it can carry, "
        "the link is the limit. Fair: Jain's index of guests that send at once is above "
        f"{FAIR} on the average of set-ups, where they fill the link or share a processor; not, where it is below. "
        "What is carried is compared in pairs of blocks, or over three boots a side. All of this is one family with "
        "all that the report claims (Holm); nothing is decided where trials were left out because of their results.",
        _claimed,
    ),
)
