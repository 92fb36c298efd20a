"""Rate over routes, and over the number of routers (Mattos et al., section 4 and figure 4b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.contracts.report import Figure, MethodNote, Panel, PlottedCurve, ReportUnit
from labconsole.experiments.route.shown import curve, in_order, records_of, summary_of
from labconsole.experiments.route.summary import RoutePointFound, RoutesSummary
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import caption
from labconsole.report.material import Material

PAPER = "mattos"
MANY = 2
"""Of different values, to make a curve."""


def over_routes(material: Material) -> Figure | None:
    """A panel a platform and number of routers, a curve for each load: what came of all routers together."""
    summary = summary_of(material)
    points = [each for each in in_order(summary.points) if each.sum_pps is not None]
    panels = []
    for title in dict.fromkeys(_routers(summary, each) for each in points):
        own = [each for each in points if _routers(summary, each) == title]
        curves = _curves(own, _load, "routes")
        panels += [Panel(title, curves)] if curves else []
    if not panels:
        return None
    return Figure(
        name="mattos-routes",
        title="What routers forward over the routes that they have",
        kind="curves",
        x_label="routes in each router",
        y_label="kpackets/s in all",
        panels=tuple(panels),
        caption=caption("Packets that came to the sink of all routers together", panels),
        ideal=False,
    )


def over_routers(material: Material) -> Figure | None:
    """A panel a platform, a curve for each load: what came of all routers together over how many there are."""
    summary = summary_of(material)
    points = [each for each in in_order(summary.points) if each.sum_pps is not None]
    panels = []
    for name in dict.fromkeys(summary.name_of(each.key) for each in points):
        own = [each for each in points if summary.name_of(each.key) == name]
        curves = (*_curves(own, _each, "guests"), *_curves(own, _sent, "guests", lambda point: point.sent_pps))
        panels += [Panel(name, curves)] if curves else []
    if not panels:
        return None
    return Figure(
        name="mattos-4b",
        title="What routers that forward at once pass on together",
        kind="curves",
        x_label="routers at once",
        y_label="kpackets/s in all",
        panels=tuple(panels),
        caption=caption(
            "Packets that came to the sink of all routers together, and that they were sent: where both are alike, the "
            "routers might forward more",
            panels,
        ),
        ideal=False,
    )


def _curves(
    points: Sequence[RoutePointFound],
    label: Callable[[RoutePointFound], str],
    over: str,
    y: Callable[[RoutePointFound], SetUpMean | None] = lambda point: point.sum_pps,
) -> tuple[PlottedCurve, ...]:
    """One for each label, of those that have something to go over."""
    curves = []
    for name in dict.fromkeys(map(label, points)):
        own = [each for each in points if label(each) == name]
        if len({getattr(each.key, over) for each in own}) >= MANY:
            curves.append(curve(name, own, lambda each: float(getattr(each.key, over)), y))
    return tuple(curves)


def _routers(summary: RoutesSummary, point: RoutePointFound) -> str:
    return f"{summary.name_of(point.key)}, {point.key.guests} router{'s' if point.key.guests > 1 else ''}"


def _load(point: RoutePointFound) -> str:
    """What else is asked than routes."""
    key = point.key
    words = f"sent {key.rate}"
    words += f", {key.destinations} destinations" if key.destinations > 1 else ""
    return words + (f", {key.filters} filter rules" if key.filters else "")


def _each(point: RoutePointFound) -> str:
    """What else is asked than routers."""
    return f"{point.key.load}, sent {point.key.rate}"


def _sent(point: RoutePointFound) -> str:
    return f"{_each(point)}: what was sent"


def method(material: Material) -> MethodNote | None:
    """How routers are measured."""
    if not records_of(material):
        return None
    return MethodNote(
        "Routers",
        "Guests side by side, each with one NIC on a bridge with the first stream's inbound NIC of the unit under test "
        "and one on a bridge with its outbound NIC. The source sends one flow to each router's own MAC address, all "
        "begun together. The sink captures every packet; a router is told by source MAC address and port. A rate is of "
        "the whole bins of 0.1 s in which all routers forward. What goes into a router and out of it is counted at its "
        "interfaces on the unit under test. Routes are drawn from a seed, /16 to /24, the same in each router, given "
        "by ip -batch and counted back before and after each trial. That routes change nothing is claimed by "
        "equivalence alone (two one-sided tests within the margin).",
    )


UNITS = (
    ReportUnit(name="mattos-routes", place=106, paper=(PAPER, "section 4"), make=over_routes),
    ReportUnit(name="mattos-4b", place=107, paper=(PAPER, "figure 4b"), make=over_routers),
    ReportUnit(name="route-words", place=106, make=method),
)
