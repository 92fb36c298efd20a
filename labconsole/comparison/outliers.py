"""Outlying set-ups and occasions: which is apart from the others, and the scatter of a baseline. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from labconsole.comparison.changes import Side
from labconsole.comparison.effects import Change, find_occasion_means
from labconsole.comparison.points import ComparedPoint, SideSetUps
from labconsole.measure.statistics.effects import FEWEST_OTHERS, MINIMUM_BLOCKS
from labconsole.measure.statistics.gate_power import OccasionCounts, noncentrality_of_known_spread
from labconsole.measure.statistics.set_ups import Outlier, deviation, find_outlier, mean_of
from labconsole.report.formatting import format_noun_count, format_percent

# -- set up outliers ---------------------------------------------------------------------------------------------------
# Which set-up of a point is apart from the others of its occasion, or occasion from the others.

OFF_BEFORE: Final = "look at its trials, or set the baseline without its occasion"
OFF_AFTER: Final = "look at its trials, or judge by another occasion"


class OutlierDescription(NamedTuple):
    """What is off, and the remedy if nothing else decides the point."""

    words: str
    remedy: str


def describe_change_outlier(change: Change) -> OutlierDescription | None:
    """The outlier of both sides: a set-up, or else an occasion of the baseline.

    None if the change is only a bound: at a limit nothing scatters.
    """
    if change.effect is None or change.bound:
        return None
    before, after = change.sides
    if (found := _find_set_up([before, after])) is not None:
        point, remedy = (change.before, OFF_BEFORE) if found.key in before.means else (change.after, OFF_AFTER)
        text = format_outlier(found, point.name_set_up(found.key), "set-ups of its occasion")
        return OutlierDescription(text, remedy)
    if (occasion := find_outlying_occasion(before)) is not None:
        text = format_outlier(occasion, change.before.name_occasion(occasion.key), "occasions of the baseline")
        return OutlierDescription(text, OFF_BEFORE.replace("its occasion", "it"))
    return None


def find_outlying_occasion(side: SideSetUps) -> Outlier[Hashable] | None:
    """The occasion farthest from the others of this side, unless that is chance."""
    return find_outlier(
        [
            {
                side.occasions[set_ups[0]]: mean_of([side.means[each] for each in set_ups])
                for set_ups in side.set_ups_by_occasion
            }
        ],
        side.known_ratio,
    )


def _find_set_up(sides: Sequence[SideSetUps]) -> Outlier[Hashable] | None:
    return find_outlier(
        [{set_up: side.means[set_up] for set_up in set_ups} for side in sides for set_ups in side.set_ups_by_occasion],
        max(side.known_ratio for side in sides),
    )


def format_outlier(outlier: Outlier[Hashable], name: str, others: str) -> str:
    """Format ``block 1 of nightly@today is 20.0 % below the other set-ups of its occasion, which scatter by 0.4 %``."""
    which = "below" if outlier.change_ratio < 0 else "above"
    return (
        f"{name} is {format_percent(abs(outlier.change_ratio))} {which} the other {others}, "
        f"which scatter by {format_percent(outlier.sd_log, 2)}"
    )


# -- baseline scatter --------------------------------------------------------------------------------------------------
# Scatter between the occasions of a baseline, point by point, and outlying occasions and set-ups.

FEW: Final = (
    "fewer than three occasions do not show how far occasions differ: where packets are lost, a gate finds nothing but "
    "undecided, unless it is given three later ones"
)

MOST_LINES: Final = 12
"""Most outliers listed for people; ``--json`` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScatter:
    """One quantity of one design point. ``sd_ratio``: between occasions. ``passing_margin_ratio``: the margin within
    which one later occasion (two, if one is not judged) passes 8 times in 10 if nothing has changed, or None for fewer
    than three occasions; occasions of one boot count as one. ``boots``: None if some are unknown. ``off``: sentences.
    """

    point: str
    occasions: int
    boots: int | None
    sd_ratio: float | None
    passing_margin_ratio: float | None
    off: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The scatter as an object, for machine-readable output."""
        return {
            "point": self.point,
            "occasions": self.occasions,
            "boots": self.boots,
            "sd_ratio": self.sd_ratio,
            "passing_margin_ratio": self.passing_margin_ratio,
            "off": list(self.off),
        }


def find_scatter(side: Side) -> list[PointScatter]:
    """Scatter of every point that shows what the unit under test can do, as all its trials have exact values: at a
    limit nothing scatters.
    """
    return [_scatter(point) for point in side.points if point.bounds == {"exact"}]


def later_occasions(baseline: int) -> int:
    """The fewest later occasions that a gate judges with this many before."""
    return 1 if baseline >= FEWEST_OTHERS else 2


def _scatter(point: ComparedPoint) -> PointScatter:
    side = point.replicates
    means = find_occasion_means(side)
    counts = OccasionCounts(len(means), later_occasions(len(means)))
    sd = deviation([math.log(mean) for mean in means]) if means and min(means) > 0 else None
    if sd is None or len(means) < MINIMUM_BLOCKS:
        sd = margin = None
    else:
        margin = math.expm1(noncentrality_of_known_spread(counts) * counts.error_ratio * sd)
    off = []
    if (occasion := find_outlying_occasion(side)) is not None:
        off.append(format_outlier(occasion, point.name_occasion(occasion.key), "occasions"))
    if (set_up := _find_set_up([side])) is not None:
        off.append(format_outlier(set_up, point.name_set_up(set_up.key), "set-ups of its occasion"))
    return PointScatter(
        point=point.title,
        occasions=len(means),
        boots=None if None in side.boots.values() else side.boot_count,
        sd_ratio=sd,
        passing_margin_ratio=margin,
        off=tuple(off),
    )


def describe_scatter(found: Sequence[PointScatter], named: int) -> Iterator[str]:
    """Describe the point whose occasions differ most, and the outliers.

    Also describes what a gate cannot show with these ``named`` occasions.
    """
    known = [(each.sd_ratio, each.passing_margin_ratio, each) for each in found]
    spread = [(sd, margin, each) for sd, margin, each in known if sd is not None and margin is not None]
    if spread:
        sd, margin, most = max(spread, key=lambda each: each[1])
        most_of_all = "at most " if len(spread) > 1 else ""
        later = "one later occasion passes" if later_occasions(most.occasions) == 1 else "two later occasions pass"
        yield (
            f"{format_noun_count(most.occasions, 'occasion')} scatter by {most_of_all}{format_percent(sd, 2)}, at "
            f"{most.point}: {later} there 8 times in 10 within a margin of "
            f"{format_percent(margin, 2)} if nothing has changed"
        )
    off = [
        f"{each.point}: {sentence}; while it is in the baseline, a gate finds less"
        for each in found
        for sentence in each.off
    ]
    yield from off[:MOST_LINES]
    if len(off) > MOST_LINES:
        yield f"and {len(off) - MOST_LINES} more that are off, which --json lists"
    yield from _describe_boots(found, named)


def _describe_boots(found: Sequence[PointScatter], named: int) -> Iterator[str]:
    """Report too few occasions, also if only their boots are too few; otherwise a gate would report it first."""
    boots = {each.boots for each in found}
    fewest = min((each.occasions for each in found), default=named)
    if named < MINIMUM_BLOCKS:
        yield FEW
    elif None in boots:
        yield (
            "the boot of some trials is not known, and so neither is how far occasions differ: where packets are lost, "
            "a gate finds nothing but undecided"
        )
    elif fewest < MINIMUM_BLOCKS:
        yield f"occasions of one boot count as one, which makes {fewest} of these {named}; {FEW}"
    elif boots == {1}:
        yield (
            "all of them are of one boot, and do not show how far boots differ: a gate on an occasion of another boot, "
            "such as of another kernel, is undecided; set the baseline from three boots or more for those"
        )
