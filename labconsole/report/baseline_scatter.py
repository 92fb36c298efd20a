"""How far the occasions of a baseline lie apart, point by point, and which occasion or set-up is off. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.measure.statistics.gate_power import OccasionCounts, noncentrality_of_known_spread
from labconsole.measure.statistics.group_outliers import find_outlier
from labconsole.measure.statistics.set_ups import deviation, mean_of
from labconsole.report.changes import Side, set_ups_of
from labconsole.report.compared_effect import SideSetUps, find_occasion_means
from labconsole.report.set_up_outliers import describe_outlier, name_block, name_set_up, outlier_words
from labconsole.report.words import asked_words, count, percent

MOST_LINES: Final = 12
"""Of what is off, for people; ``--json`` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScatter:
    """One quantity of one design point. ``sd_ratio``: between occasions; ``passing_margin_ratio``: within which one
    later occasion passes 8 times in 10 if nothing has changed; None: fewer than three occasions. ``off``: sentences.
    """

    point: str
    occasions: int
    sd_ratio: float | None
    passing_margin_ratio: float | None
    off: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As commands tell it to machines."""
        return {
            "point": self.point, "occasions": self.occasions, "sd_ratio": self.sd_ratio,
            "passing_margin_ratio": self.passing_margin_ratio, "off": list(self.off),
        }  # fmt: skip


def find_scatter(side: Side) -> list[PointScatter]:
    """Of every point where packets are lost, and of every quantity of which all trials say what the unit under test can
    do: at a limit nothing scatters.
    """
    plan_names: dict[Hashable, str] = {key: facts.name for (key, _), facts in side.digest.planned.items()}
    found = [
        _scatter(
            asked_words(point.design), set_ups_of(point), partial(name_block, plan_names=plan_names), plan_names.get
        )
        for point in side.points
        if point.missing_ratio is not None and point.missing_ratio >= REACHED_LOSS_RATIO
    ]
    found += [
        _scatter(f"{point.words}: {point.quantity.name}", point.replicates, partial(name_set_up, points=[point]), str)
        for point in side.quantities
        if point.bounds == {"exact"}
    ]
    return found


def _scatter(
    point: str,
    side: SideSetUps,
    name: Callable[[Hashable], str],
    name_occasion: Callable[[Hashable], str | None],
) -> PointScatter:
    means = find_occasion_means(side)
    counts = OccasionCounts(len(means), 1)
    sd = deviation([math.log(mean) for mean in means]) if means and min(means) > 0 else None
    if sd is None or len(means) < MINIMUM_BLOCKS:
        sd = margin = None
    else:
        margin = math.expm1(noncentrality_of_known_spread(counts.degrees) * counts.error_ratio * sd)
    each = {
        side.occasions[set_ups[0]]: mean_of([side.means[set_up] for set_up in set_ups]) for set_ups in side.by_occasion
    }
    outlier = find_outlier([each], side.known_ratio)
    off = (
        [] if outlier is None else [outlier_words(outlier, name_occasion(outlier.key) or str(outlier.key), "occasions")]
    )
    set_up = describe_outlier([side], name)
    return PointScatter(
        point=point, occasions=len(means), sd_ratio=sd, passing_margin_ratio=margin,
        off=(*off, *([] if set_up is None else [set_up])),
    )  # fmt: skip


def describe_scatter(found: Sequence[PointScatter]) -> Iterator[str]:
    """The point whose occasions lie farthest apart, and what is off."""
    known = [(each.sd_ratio, each.passing_margin_ratio, each) for each in found]
    spread = [(sd, margin, each) for sd, margin, each in known if sd is not None and margin is not None]
    if spread:
        sd, margin, most = max(spread, key=lambda each: each[1])
        most_of_all = "at most " if len(spread) > 1 else ""
        yield (
            f"{count(most.occasions, 'occasion')} scatter by {most_of_all}{percent(sd, 2)}, at {most.point}: one later "
            f"occasion passes there 8 times in 10 within a margin of {percent(margin, 2)} if nothing has changed"
        )
    off = [
        f"{each.point}: {words}; while it is in the baseline, a gate finds less" for each in found for words in each.off
    ]
    yield from off[:MOST_LINES]
    if len(off) > MOST_LINES:
        yield f"and {len(off) - MOST_LINES} more that are off, which --json lists"
