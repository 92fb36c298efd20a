"""What the abstract of Mattos and others concludes of several routers, beside one's own findings."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.experiments.route.comparing import RoutesCompared
from labconsole.experiments.route.shown import summary_of
from labconsole.report.abstracts import Concluded, Held, abstract_unit
from labconsole.report.effect_words import effect_words
from labconsole.report.material import Material


def _conclude(material: Material) -> Iterator[Concluded]:
    """For each number of routers above the least."""
    summary = summary_of(material)
    for claim in summary.compared:
        if claim.what == "guests":
            about = f"{summary.name_of(claim.key)}: {claim.key.words}, against {claim.than.guests}"
            yield Concluded(
                "the network needs further enhancement when several guests forward at once", about,
                f"{effect_words(claim.effect)}: {claim.word}", _held(claim),
            )  # fmt: skip


def _held(claim: RoutesCompared) -> Held:
    if claim.word != "different" or claim.effect.change is None:
        return "not decided"
    if claim.effect.change < 0:
        return "confirmed" if claim.saturated else "not decided"
    return "not confirmed"


UNITS = (
    abstract_unit(
        "mattos", "mattos-abstract-routers", 169, _conclude,
        "By the changes of the sum that route-changes claims, after their adjustment: confirmed where it is different, "
        "falls, and the routers lost packets (else the source may have sent less), not confirmed where it is different "
        "and rises.",
    ),
)  # fmt: skip
