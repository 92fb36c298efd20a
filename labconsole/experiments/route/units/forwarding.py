"""Forwarding rate over routes and over the number of routers, and a paper's conclusions on it (Mattos et al.)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from labconsole.contracts.report import Experiments, Figure, MethodNote, Panel, ReportUnit
from labconsole.experiments.route.points import RouteComparison
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.summary import (
    RoutePointResult,
    RoutesSummary,
    build_summary,
    curve,
    select_records,
    sort_points,
    summarize_routes,
)
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.effects import SIGNIFICANCE, fall_p
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import build_caption, split_shared_parts
from labconsole.report.formatting import format_effect, format_percent
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    ADJUSTED,
    Confirmation,
    PaperConclusion,
    build_abstract_unit,
    describe_unmentioned,
)

# -- forwarding --------------------------------------------------------------------------------------------------------
# Forwarding rate over routes, and over the number of routers (Mattos et al., section 4 and figure 4b).

PAPER = "mattos"
MANY = 2
"""Least number of different values for a curve."""


def build_routes_figure(material: Material) -> Figure | None:
    """A panel per platform and number of routers, a curve per load: the sum over all routers at the sink."""
    summary = build_summary(material)
    points = [each for each in sort_points(summary.points) if each.sum_pps is not None]
    common, panels = _panels(points, lambda point: _routers(summary, point), "routes", ((_load, _forwarded),))
    if not panels:
        return None
    return Figure(
        name="mattos-routes",
        title=f"What routers forward over the routes that they have{common}",
        kind="curves",
        x_label="routes in each router",
        y_label="kpackets/s in all",
        panels=panels,
        caption=build_caption("Packets of all routers together that arrived at the sink", panels),
        ideal=False,
    )


def build_routers_figure(material: Material) -> Figure | None:
    """A panel per platform, a curve per load: the sum over all routers at the sink, over their number."""
    summary = build_summary(material)
    points = [each for each in sort_points(summary.points) if each.sum_pps is not None]
    common, panels = _panels(
        points,
        lambda point: summary.name_parts(point.key),
        "guests",
        ((_each, _forwarded), (_sent, lambda point: point.sent_pps)),
    )
    if not panels:
        return None
    return Figure(
        name="mattos-4b",
        title=f"What routers that forward at once pass on together{common}",
        kind="curves",
        x_label="routers at once",
        y_label="kpackets/s in all",
        panels=panels,
        caption=build_caption(
            "Packets of all routers together that arrived at the sink, and that they were sent: where both are alike, "
            "the routers might forward more",
            panels,
        ),
        ideal=False,
    )


def _forwarded(point: RoutePointResult) -> SetUpMean | None:
    return point.sum_pps


def _panels(
    points: Sequence[RoutePointResult],
    title: Callable[[RoutePointResult], tuple[str, ...]],
    over: str,
    drawn: Sequence[tuple[Callable[[RoutePointResult], str], Callable[[RoutePointResult], SetUpMean | None]]],
) -> tuple[str, tuple[Panel, ...]]:
    """The shared part of all titles, and a panel per title with a curve for each label. A label is drawn if it has
    several values of ``over`` in at least one panel. The other panels show what they have of it, even a single point.
    """

    def values(own: Sequence[RoutePointResult]) -> int:
        return len({getattr(each.key, over) for each in own})

    by_title = [[each for each in points if title(each) == name] for name in dict.fromkeys(map(title, points))]
    found = []
    for panel in by_title:
        curves = []
        for label, y in drawn:
            for name in dict.fromkeys(map(label, panel)):
                if any(values([each for each in other if label(each) == name]) >= MANY for other in by_title):
                    own = [each for each in panel if label(each) == name]
                    curves.append(curve(name, own, lambda each: float(getattr(each.key, over)), y))
        found += [(title(panel[0]), tuple(curves))] if curves else []
    common, titles = split_shared_parts([name for name, _ in found])
    return common, tuple(Panel(name, curves) for name, (_, curves) in zip(titles, found, strict=True))


def _routers(summary: RoutesSummary, point: RoutePointResult) -> tuple[str, ...]:
    return (*summary.name_parts(point.key), f"{point.key.guests} router{'s' if point.key.guests > 1 else ''}")


def _load(point: RoutePointResult) -> str:
    """The label of a curve over routes: the other factors."""
    key = point.key
    label = f"sent {key.rate}"
    label += f", {key.destinations} destinations" if key.destinations > 1 else ""
    return label + (f", {key.filters} filter rules" if key.filters else "")


def _each(point: RoutePointResult) -> str:
    """The label of a curve over the number of routers: the other factors."""
    return f"{point.key.load}, {point.key.rate}"


def _sent(point: RoutePointResult) -> str:
    return f"{_each(point)}: sent"


def method(material: Material) -> MethodNote | None:
    """How routers are measured, for the report's methods."""
    if not select_records(material):
        return None
    return MethodNote(
        "Routers",
        "Guests side by side, each with one NIC on a bridge with the first stream's inbound NIC of the unit under test "
        "and one on a bridge with its outbound NIC. The source sends one flow to each router's own MAC address, all "
        "begun together. The sink captures every packet; a router is identified by source MAC address and port. A rate "
        "is of the whole bins of 0.1 s in which all routers forward. What goes into a router and out of it is counted "
        "at its interfaces on the unit under test. Routes are drawn from a seed, /16 to /24, the same in each router, "
        "given by ip -batch and counted back before and after each trial. That routes change nothing is claimed by "
        "equivalence alone (two one-sided tests within the margin).",
    )


# -- conclusions of an abstract ----------------------------------------------------------------------------------------
# Conclusions of the abstract of Mattos and others on several routers, compared with the report's own findings.

MATTERS_RATIO = 0.05
"""A smaller fall requires no enhancement."""


def _conclude(material: Material) -> Iterator[PaperConclusion]:
    """Conclusions for each number of routers above the least, without filter rules that only cost something."""
    summary = build_summary(material)
    claims = _claims(summary)
    confirmations = _judge_claims(summary, claims, material.evaluation.claims.p_values)
    for claim, confirmation in zip(claims, confirmations, strict=True):
        name = f"{summary.name_of(claim.key)}{describe_unmentioned(claim.key.platform, material.paper_names)}"
        yield PaperConclusion(
            "the network needs further enhancement when several guests forward at once",
            f"{name}: {claim.key.words}, against {claim.than.guests}",
            format_effect(claim.effect),
            confirmation,
            tuple(p for p in (_fall_p(claim),) if p is not None),
        )


def _claims(summary: RoutesSummary) -> list[RouteComparison]:
    return [each for each in summary.compared if each.what == "guests" and not each.key.filters]


def _claimed(experiments: Experiments, names: Mapping[str, str]) -> list[float]:
    """The p values of the claims that the sum falls by more than matters."""
    records = (each for each in experiments.get("route", ()) if isinstance(each, RouteRecord))
    return [p for claim in _claims(summarize_routes(records)) if (p := _fall_p(claim)) is not None]


def _fall_p(claim: RouteComparison) -> float | None:
    found = fall_p(claim.effect, MATTERS_RATIO)
    return None if found is None else found[0]


def _judge_claims(
    summary: RoutesSummary, claims: Sequence[RouteComparison], family: Sequence[float]
) -> list[Confirmation]:
    tested = [fall_p(claim.effect, MATTERS_RATIO) or (None, None) for claim in claims]
    falls, unchanged = adjusted([each[0] for each in tested], family), adjusted([each[1] for each in tested])
    return [_word(summary, claim, *ps) for claim, *ps in zip(claims, falls, unchanged, strict=True)]


def _word(summary: RoutesSummary, claim: RouteComparison, falls: float | None, unchanged: float | None) -> Confirmation:
    """Confirm a fall only if the routers lost packets although the source sent at least what fewer had forwarded.
    Reject it only if the fewer lost packets, too; otherwise they might have forwarded more.
    """
    points = {each.key: each for each in summary.points}
    if any(points[key].by_outcome for key in (claim.key, claim.than)):
        return "not decided"
    if falls is not None and falls <= SIGNIFICANCE and claim.saturated and _sent_enough(summary, claim):
        return "confirmed"
    return (
        "not confirmed"
        if unchanged is not None and unchanged <= SIGNIFICANCE and claim.than_saturated
        else "not decided"
    )


def _sent_enough(summary: RoutesSummary, claim: RouteComparison) -> bool:
    points = {each.key: each for each in summary.points}
    sent, forwarded = points[claim.key].sent_pps, points[claim.than].sum_pps
    return sent is not None and forwarded is not None and sent.mean >= forwarded.mean


UNITS = (
    ReportUnit(name="mattos-routes", place=106, paper=(PAPER, "section 4"), make=build_routes_figure),
    ReportUnit(name="mattos-4b", place=107, paper=(PAPER, "figure 4b"), make=build_routers_figure),
    ReportUnit(name="route-words", place=106, make=method),
    build_abstract_unit(
        "mattos",
        "mattos-abstract-routers",
        169,
        _conclude,
        "By what all routers together forward: confirmed where that is shown to fall by more than "
        f"{format_percent(MATTERS_RATIO)}, while they lost packets and were sent at least what fewer had forwarded; "
        "not confirmed where it is shown not to, and the fewer lost packets, so that they could do no more; nothing "
        "is decided where trials were left out because of their results. Points with rules that do nothing but cost "
        f"something are left out. {ADJUSTED}",
        _claimed,
    ),
)
