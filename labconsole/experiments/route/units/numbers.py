"""Routers in numbers: every router of every point, the comparisons, and a paper's statements on them."""

from __future__ import annotations

from labconsole.contracts.report import Cell, Finding, Findings, ReportUnit, Table
from labconsole.experiments.route.points import RoutePointKey
from labconsole.experiments.route.report_data import build_summary, claimed, format_set_up_mean, interval
from labconsole.experiments.route.route_comparison import (
    CROSSED,
    FACTOR_NAMES,
    RouteComparison,
    describe_difference,
    describe_outcome,
    format_word,
)
from labconsole.experiments.route.summary import RoutesSummary
from labconsole.report.captions import INTERVALS, JAIN
from labconsole.report.effect_formatting import format_effect
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN
from labconsole.report.material import Material
from labconsole.report.reference import CAUTION, UNMATCHED_NOTE, describe_matching

PAPER = "mattos"
PAPER_FALL = -0.30
"""Change of the sum through four routers against one (section 4); the text names no other number."""

PAPER_ROUTERS = 4
TOPICS = {"guests": "forwarding", "routes": "routes"}
"""Varied factor to the topic of the paper's sentences on it."""

VARIED = {**FACTOR_NAMES, "guests": "number of routers"}


def routers(material: Material) -> Table | None:
    """A row for each router of each point, and one for all together."""
    summary = build_summary(material)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for point in summary.points:
        key, where = point.key, build_environment_cells(point.key, summary.testbeds)
        out = ", ".join(f"{times} {code}" for code, times in point.left_out.items())
        factors = (
            key.platform,
            key.guests,
            key.routes,
            key.destinations,
            key.filters,
            key.target_pps,
            *_else(key),
        )
        trials = len(point.route_ids)
        name_cells = (summary.name_of(key), str(key.guests), key.load, key.rate)
        of_all = (point.sum_pps, point.lost_ratio, None, point.jain, point.busy_ratio, point.switches_per_s)
        rows.append((*factors, "all", *(c for each in of_all for c in interval(each)), trials, out, *where))
        shown.append(
            (
                *name_cells,
                "all",
                format_set_up_mean(point.sum_pps),
                format_set_up_mean(point.lost_ratio, 0.01, 3),
                UNKNOWN,
                format_set_up_mean(point.jain, 1, 4) if key.guests > 1 else UNKNOWN,
                str(trials),
                out or "none",
            )
        )
        for each in point.routers if key.guests > 1 else ():
            own = (each.forwarded_pps, each.lost_ratio, each.inside_ratio, None, None, None)
            cells = [cell for found in own for cell in interval(found)]
            rows.append((*factors, each.guest, *cells, trials, out, *where))
            shown.append(
                (
                    *name_cells,
                    each.guest,
                    format_set_up_mean(each.forwarded_pps),
                    format_set_up_mean(each.lost_ratio, 0.01, 3),
                    format_set_up_mean(each.inside_ratio, 0.01, 3),
                    "",
                    str(trials),
                    "",
                )
            )
    if not rows:
        return None
    quantities = ("forwarded_pps", "lost_ratio", "lost_inside_ratio", "jain", "busy_ratio", "switches_per_s")
    return Table(
        name="routers",
        title="What each router forwarded",
        columns=(
            "platform",
            "guests",
            "routes",
            "destinations",
            "filters",
            "target_pps",
            *ELSE,
            "router",
            *(column for name in quantities for column in (name, f"{name}_ci_low", f"{name}_ci_high")),
            "trials",
            "left_out_codes",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "routers",
            "each has",
            "sent",
            "router",
            "packets/s",
            "lost, %",
            "lost in it, %",
            "Jain",
            "trials",
            "left out",
        ),
        shown=tuple(shown),
        note="Packets that arrived at the sink, in the bins in which all routers forward. "
        f"{INTERVALS} {JAIN} Lost: of what was sent, with the interval that losses have (at most: none was lost; the "
        "first figure takes packets for independent). Lost in it: of what came into a router's "
        "interface on the unit under test, what did not come out of the other.",
    )


def changes(material: Material) -> Table | None:
    """A row for each change by routes, filters or further routers, against the least of them."""
    summary = build_summary(material)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.compared:
        effect, key = each.effect, each.key
        figures = (
            effect.change,
            effect.ci_low,
            effect.ci_high,
            effect.blocks,
            effect.p,
            each.adjusted_p,
            each.equivalent_p,
        )
        apart = each.apart
        between = (None, None, None) if apart is None else (apart.change, apart.ci_low, apart.ci_high)
        rows.append(
            (
                each.what,
                key.platform,
                key.guests,
                _level(each, "routes"),
                key.destinations,
                _level(each, "filters"),
                each.crossed or "",
                key.rate,
                *_else(key),
                _least(each),
                *figures,
                each.margin_ratio,
                format_word(each),
                each.untested or "",
                *between,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        shown.append(
            (
                VARIED[each.what],
                summary.name_of(key),
                str(key.guests),
                _each_has(each),
                key.rate,
                _against(each),
                format_effect(effect) + describe_difference(each),
                str(effect.blocks),
                describe_outcome(each),
                _paper(each) or "",
            )
        )
    if not rows:
        return None
    return Table(
        name="route-changes",
        title="What routes, filter rules and further routers change",
        columns=(
            "varied",
            "platform",
            "guests",
            "routes",
            "destinations",
            "filters",
            "mean_over",
            "sent",
            *ELSE,
            "against",
            "change",
            "change_ci_low",
            "change_ci_high",
            "blocks",
            "p",
            "adjusted_p",
            "equivalent_p",
            "margin_ratio",
            "word",
            "equivalence_untested",
            "levels_apart",
            "levels_apart_ci_low",
            "levels_apart_ci_high",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "varied",
            "platform",
            "routers",
            "each has",
            "sent",
            "against",
            "change of the sum",
            "blocks",
            "word",
            "the paper",
        ),
        shown=tuple(shown),
        note="Paired by block, on the logarithm, with the 95 % interval; p values adjusted by Holm over all that the "
        "report claims. Mean over: where a plan crosses two factors, the change averaged over all values of the other, "
        "one value per block, and by what it differs between the first and the last of them. Equivalent: of routes "
        "alone, two one-sided tests within the plan's margin, by Holm over these tests, where routers lost packets at "
        "both points or a cost of rules was found as well. The paper names the fall through four routers and no other "
        f"number; its routers are guests of Xen, whatever platform a row is of. {CAUTION}",
    )


ELSE = ("cpu", "frame_bytes", "duration_s", "memory_mib")
"""Other factors that distinguish one row from another."""


def _else(key: RoutePointKey) -> tuple[Cell, ...]:
    return tuple(getattr(key, name) for name in ELSE)


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
        (TOPICS[claim.what], *_own(summary, claim), each["platform"], each["shape"], each["where"])
        for claim in summary.compared
        if claim.what == "guests" or _is_paper_claim(claim)
        for each in paper.tables["shapes"]
        if each["topic"] == TOPICS[claim.what]
        and material.paper_names.get(claim.key.platform, each["platform"]) in (each["platform"], "all")
    ]
    if not rows:
        return None
    matched = describe_matching(
        (claim.key.platform for claim in summary.compared), material.paper_names, UNMATCHED_NOTE
    )
    return Table(
        name="mattos-route-beside",
        title="Routers compared with the paper's",
        columns=("topic", "platform", "finding", "paper_platform", "paper", "where"),
        rows=tuple(rows),
        headings=("topic", "platform", "own finding", "paper's platform", "the paper", "where"),
        shown=tuple(tuple(map(str, row)) for row in rows),
        note=f"{paper.cited(how='its sentences in short')} {matched}",
        beside_paper=True,
    )


def _own(summary: RoutesSummary, claim: RouteComparison) -> tuple[str, str]:
    name = summary.name_of(claim.key)
    return name, summary.describe_claim(claim).removeprefix(f"{name}: ")


UNITS = (
    ReportUnit(name="routers", place=122, make=routers),
    ReportUnit(name="route-changes", place=123, make=changes, claims=claimed),
    ReportUnit(name="route-findings", place=124, make=findings),
    ReportUnit(name="mattos-route-beside", place=177, make=build_paper_table),
)
