"""Which set-up of a point is apart from the others of its occasion, or occasion from the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple

from labconsole.measure.statistics.group_outliers import Outlier, find_outlier
from labconsole.measure.statistics.set_ups import mean_of
from labconsole.report.compared_effect import ComparedEffect, SideSetUps
from labconsole.report.formatting import format_percent
from labconsole.report.measured_points import MeasuredPoint

OFF_BEFORE: Final = "look at its trials, or set the baseline without its occasion"
OFF_AFTER: Final = "look at its trials, or judge by another occasion"


class OutlierDescription(NamedTuple):
    """What is off, and the remedy if nothing else decides the point."""

    words: str
    remedy: str


def describe_change_outlier(
    change: ComparedEffect,
    sides: tuple[SideSetUps, SideSetUps],
    name: Callable[[Hashable], str],
    name_occasion: Callable[[Hashable], str],
) -> OutlierDescription | None:
    """The outlier of both sides: a set-up, or else an occasion of the baseline.

    None if the change is only a bound: at a limit nothing scatters.
    """
    if change.effect is None or change.bound:
        return None
    if (found := _find_set_up(sides)) is not None:
        is_before = found.key in sides[0].means
        text = format_outlier(found, name(found.key), "set-ups of its occasion")
        return OutlierDescription(text, OFF_BEFORE if is_before else OFF_AFTER)
    if (occasion := find_outlying_occasion(sides[0])) is not None:
        text = format_outlier(occasion, name_occasion(occasion.key), "occasions of the baseline")
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


def describe_outlier(sides: Sequence[SideSetUps], name: Callable[[Hashable], str]) -> str | None:
    """The outlying set-up of all sides, as ``name`` calls it, or None if there is none or it cannot be determined."""
    found = _find_set_up(sides)
    return None if found is None else format_outlier(found, name(found.key), "set-ups of its occasion")


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


def name_block(block: Hashable, plan_names: Mapping[Hashable, str]) -> str:
    """Name a block of runs. ``plan_names``: by the hashes of plans."""
    if not isinstance(block, tuple):
        return str(block)
    return f"block {block[0]} of {plan_names.get(block[1], block[1])}"


def name_set_up(set_up: Hashable, points: Sequence[MeasuredPoint]) -> str:
    """Name a set-up of trials other than runs, as their records do, or else by the first trial."""
    trials = [trial for point in points for trial in point.trials if trial.set_up == set_up]
    name = f"set-up {set_up}" if isinstance(set_up, str) or not trials else f"the set-up of {trials[0].id}"
    return name if not trials else f"{name} of {trials[0].plan_name}"
