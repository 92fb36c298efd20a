"""Conclusions of the abstract of Mattos and others on several routers, compared with the report's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from labconsole.contracts.report import Experiments
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.report_data import build_summary
from labconsole.experiments.route.route_comparison import RouteComparison
from labconsole.experiments.route.summary import RoutesSummary, summarize_routes
from labconsole.measure.paired_blocks import adjusted
from labconsole.measure.statistics.effects import SIGNIFICANCE, fall_p
from labconsole.report.effect_formatting import format_effect
from labconsole.report.formatting import format_percent
from labconsole.report.material import Material
from labconsole.report.paper_abstracts import (
    ADJUSTED,
    Confirmation,
    PaperConclusion,
    build_abstract_unit,
    describe_unmentioned,
)

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
