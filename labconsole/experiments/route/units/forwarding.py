"""Forwarding rate over routes, and over the number of routers (Mattos et al., section 4 and figure 4b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.contracts.report import Figure, MethodNote, Panel, ReportUnit
from labconsole.experiments.route.report_data import build_summary, curve, select_records, sort_points
from labconsole.experiments.route.summary import RoutePointResult, RoutesSummary
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import build_caption, split_shared_parts
from labconsole.report.material import Material

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


UNITS = (
    ReportUnit(name="mattos-routes", place=106, paper=(PAPER, "section 4"), make=build_routes_figure),
    ReportUnit(name="mattos-4b", place=107, paper=(PAPER, "figure 4b"), make=build_routers_figure),
    ReportUnit(name="route-words", place=106, make=method),
)
