"""Routers in numbers: every router of every point, the comparisons, and a paper's statements on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from labconsole.contracts.report import Cell, Finding, Findings, ReportUnit, Table
from labconsole.experiments.route.points import (
    CROSSED,
    FACTOR_NAMES,
    RouteComparison,
    RoutePointKey,
    describe_difference,
    describe_outcome,
    format_word,
)
from labconsole.experiments.route.summary import RoutePointResult, RoutesSummary, build_summary, claimed
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import INTERVALS, JAIN
from labconsole.report.formatting import UNKNOWN, format_effect, format_mean
from labconsole.report.material import Material
from labconsole.report.reference import CAUTION, UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import (
    Item,
    PaperRow,
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_columns,
    csv_interval_columns,
    csv_mean_columns,
    effect_with_bounds,
    environment_columns,
    interval_columns,
    left_out_column,
    mean_columns,
    paper_columns,
    printed_column,
)

PAPER = "mattos"
PAPER_FALL = -0.30
"""Change of the sum through four routers against one (section 4); the text names no other number."""

PAPER_ROUTERS = 4
TOPICS = {"guests": "forwarding", "routes": "routes"}
"""Varied factor to the topic of the paper's sentences on it."""

VARIED = {**FACTOR_NAMES, "guests": "number of routers"}
ALL = "all"
"""All routers of a point together, in place of a router's name."""


class RouterRow(NamedTuple):
    """One router of a point, or all of them together (``all``). Quantities that only one of both has are None."""

    point: RoutePointResult
    router: str
    forwarded_pps: SetUpMean | None
    lost_ratio: SetUpMean | None
    lost_inside_ratio: SetUpMean | None = None
    jain: SetUpMean | None = None
    busy_ratio: SetUpMean | None = None
    switches_per_s: SetUpMean | None = None

    @property
    def key(self) -> RoutePointKey:
        return self.point.key

    @property
    def is_single(self) -> bool:
        return self.router != ALL


def _build_router_rows(point: RoutePointResult) -> Iterator[RouterRow]:
    """Yield a row for all routers of a point together and, of several, one for each."""
    jain, busy_ratio, switches_per_s = point.jain, point.busy_ratio, point.switches_per_s
    yield RouterRow(point, ALL, point.sum_pps, point.lost_ratio, None, jain, busy_ratio, switches_per_s)
    for each in point.routers if point.key.guests > 1 else ():
        yield RouterRow(point, each.guest, each.forwarded_pps, each.lost_ratio, each.inside_ratio)


def routers(material: Material) -> Table | None:
    """A row for each router of each point, and one for all together."""
    summary = build_summary(material)
    rows = [row for point in summary.points for row in _build_router_rows(point)]
    if not rows:
        return None
    columns: list[TableColumn[RouterRow]] = [
        column("platform", "platform", lambda row: row.key.platform, lambda row: summary.name_of(row.key)),
        column("guests", "routers", lambda row: row.key.guests),
        csv_column("routes", lambda row: row.key.routes),
        csv_column("destinations", lambda row: row.key.destinations),
        csv_column("filters", lambda row: row.key.filters),
        printed_column("each has", lambda row: row.key.load),
        column("target_pps", "sent", lambda row: row.key.target_pps, lambda row: row.key.rate),
        _other_factors(lambda row: row.key),
        column("router", "router", lambda row: row.router),
        mean_columns("forwarded_pps", "packets/s", lambda row: row.forwarded_pps),
        mean_columns("lost_ratio", "lost, %", lambda row: row.lost_ratio, 0.01, 3),
        mean_columns("lost_inside_ratio", "lost in it, %", lambda row: row.lost_inside_ratio, 0.01, 3),
        mean_columns("jain", "Jain", lambda row: row.jain, show=_format_jain),
        csv_mean_columns("busy_ratio", lambda row: row.busy_ratio),
        csv_mean_columns("switches_per_s", lambda row: row.switches_per_s),
        column("trials", "trials", lambda row: len(row.point.route_ids)),
        left_out_column(lambda row: row.point.left_out, lambda row: row.is_single),
        environment_columns(lambda row: row.key, summary.testbeds),
    ]
    return build_table(
        "routers",
        "What each router forwarded",
        columns,
        rows,
        "Packets that arrived at the sink, in the bins in which all routers forward. "
        f"{INTERVALS} {JAIN} Lost: of what was sent, with the interval that losses have (at most: none was lost; the "
        "first figure takes packets for independent). Lost in it: of what came into a router's "
        "interface on the unit under test, what did not come out of the other.",
    )


def _format_jain(row: RouterRow) -> str:
    """Jain's index of several routers; of one router the cell is empty."""
    if row.is_single:
        return ""
    return format_mean(row.jain, places=4) if row.key.guests > 1 else UNKNOWN


def changes(material: Material) -> Table | None:
    """A row for each change by routes, filters or further routers, against the least of them."""
    summary = build_summary(material)
    if not summary.compared:
        return None
    columns: list[TableColumn[RouteComparison]] = [
        column("varied", "varied", lambda each: each.what, lambda each: VARIED[each.what]),
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "routers", lambda each: each.key.guests),
        csv_column("routes", lambda each: _level(each, "routes")),
        csv_column("destinations", lambda each: each.key.destinations),
        csv_column("filters", lambda each: _level(each, "filters")),
        column("mean_over", "each has", lambda each: each.crossed or "", _each_has),
        column("sent", "sent", lambda each: each.key.rate),
        _other_factors(lambda each: each.key),
        column("against", "against", _least, _against),
        interval_columns(
            "change",
            "change of the sum",
            lambda each: effect_with_bounds(each.effect),
            lambda each: format_effect(each.effect) + describe_difference(each),
        ),
        column("blocks", "blocks", lambda each: each.effect.blocks),
        csv_column("p", lambda each: each.effect.p),
        csv_column("adjusted_p", lambda each: each.adjusted_p),
        csv_column("equivalent_p", lambda each: each.equivalent_p),
        csv_column("margin_ratio", lambda each: each.margin_ratio),
        column("word", "word", format_word, describe_outcome),
        csv_column("equivalence_untested", lambda each: each.untested or ""),
        csv_interval_columns("levels_apart", lambda each: effect_with_bounds(each.apart)),
        printed_column("the paper", lambda each: _paper(each) or ""),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "route-changes",
        "What routes, filter rules and further routers change",
        columns,
        summary.compared,
        "Paired by block, on the logarithm, with the 95 % interval; p values adjusted by Holm over all that the report "
        "claims. Mean over: where a plan crosses two factors, the change averaged over all values of the other, one "
        "value per block, and by what it differs between the first and the last of them. Equivalent: of routes alone, "
        "two one-sided tests within the plan's margin, by Holm over these tests, where routers lost packets at both "
        "points or a cost of rules was found as well. The paper names the fall through four routers and no other "
        f"number; its routers are guests of Xen, whatever platform a row is of. {CAUTION}",
    )


def _other_factors(key: Callable[[Item], RoutePointKey]) -> TableColumn[Item]:
    """Other factors that distinguish one row from another."""
    names = ("cpu", "frame_bytes", "duration_s", "memory_mib")
    return csv_columns(names, lambda item: [getattr(key(item), name) for name in names])


def _least(claim: RouteComparison) -> int:
    value = getattr(claim.than, claim.what)
    assert isinstance(value, int)
    return value


def _level(claim: RouteComparison, factor: str) -> Cell:
    """The value of a factor, or None if the change is the mean over several."""
    if claim.crossed and CROSSED[claim.what] == factor:
        return None
    level: int = getattr(claim.key, factor)
    return level


def _each_has(claim: RouteComparison) -> str:
    return claim.loads[0] + (f", mean over {claim.crossed}" if claim.crossed else "")


def _against(claim: RouteComparison) -> str:
    least = _least(claim)
    if claim.what == "guests":
        return f"{least} router{'s' if least > 1 else ''}"
    return f"{least} {VARIED[claim.what]}"


def _paper(claim: RouteComparison) -> str | None:
    """What Mattos et al. print, in short, or None."""
    if claim.what == "guests" and claim.key.guests == PAPER_ROUTERS and claim.than.guests == 1:
        return f"−{abs(PAPER_FALL):.0%}".replace("%", " %")
    return "no change" if _is_paper_claim(claim) else None


def _is_paper_claim(claim: RouteComparison) -> bool:
    """Whether the paper says something on this. Its routers have no filter rules, so a mean over some says nothing
    about its sentence on routes.
    """
    return claim.what == "routes" and not claim.crossed and claim.key.filters == 0


def findings(material: Material) -> Findings | None:
    """The changes that can be claimed, in either direction."""
    summary = build_summary(material)
    claims = [each for each in summary.compared if each.word not in ("inconclusive", "no claim")]
    ids = {point.key: point.route_ids for point in summary.points}
    if not claims:
        return None
    return Findings(
        kind="route-changes",
        heading="Routers",
        found=tuple(
            Finding(summary.describe_claim(each), tuple(name for point in each.points for name in ids[point]))
            for each in claims
        ),
        claims=True,
        evidence="trial",
    )


def build_paper_table(material: Material) -> Table | None:
    """A row for each sentence of the paper on what was varied here, for any platform."""
    paper = material.paper
    if paper is None or paper.name != PAPER:
        return None
    summary = build_summary(material)
    rows = [
        PaperRow(claim, each)
        for claim in summary.compared
        if claim.what == "guests" or _is_paper_claim(claim)
        for each in paper.tables["shapes"]
        if each["topic"] == TOPICS[claim.what]
        and material.paper_names.get(claim.key.platform, each["platform"]) in (each["platform"], "all")
    ]
    if not rows:
        return None
    columns: list[TableColumn[PaperRow[RouteComparison]]] = [
        column("topic", "topic", lambda row: TOPICS[row.own.what]),
        column("platform", "platform", lambda row: summary.name_of(row.own.key)),
        column("finding", "own finding", lambda row: _describe_own(summary, row.own)),
        paper_columns(),
    ]
    matched = describe_matching(
        (claim.key.platform for claim in summary.compared), material.paper_names, UNMATCHED_NOTE
    )
    return build_table(
        "mattos-route-beside",
        "Routers compared with the paper's",
        columns,
        rows,
        f"{paper.cited(how='its sentences in short')} {matched}",
        beside_paper=True,
    )


def _describe_own(summary: RoutesSummary, claim: RouteComparison) -> str:
    return summary.describe_claim(claim).removeprefix(f"{summary.name_of(claim.key)}: ")


UNITS = (
    ReportUnit(name="routers", place=122, make=routers),
    ReportUnit(name="route-changes", place=123, make=changes, claims=claimed),
    ReportUnit(name="route-findings", place=124, make=findings),
    ReportUnit(name="mattos-route-beside", place=177, make=build_paper_table),
)
