"""Conclusions of the abstract of Mattos and others on guests that send, compared with the report's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labconsole.contracts.report import Experiments
from labconsole.experiments.flow.bare_host_comparison import WAYS, compare_payloads, is_bare
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import (
    build_summary,
    describe_missing_result,
    format_set_up_mean,
    plain,
    select_receive_records,
    select_send_records,
)
from labconsole.experiments.flow.summary import FlowPointResult, FlowsSummary, set_up_of, summarize_flows
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.bounded_means import fairness_p
from labconsole.measure.statistics.effects import SIGNIFICANCE, Effect, fall_p, rise_p
from labconsole.report.effect_formatting import format_effect
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
            jain.setdefault(set_up_of(record), []).append(record.jain)
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
