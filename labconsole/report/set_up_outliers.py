"""Which set-up of a point lies apart from the others of its occasion, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from labconsole.measure.statistics.group_outliers import Outlier, find_outlier
from labconsole.report.compared_effect import ComparedEffect, SideSetUps
from labconsole.report.measured_points import MeasuredPoint
from labconsole.report.words import percent


def describe_outlier_of(
    change: ComparedEffect, sides: Sequence[SideSetUps], name: Callable[[Hashable], str]
) -> str | None:
    """Of both sides, where a change may be told of what they can do: at a limit nothing scatters."""
    return None if change.effect is None or change.bound else describe_outlier(sides, name)


def describe_outlier(sides: Sequence[SideSetUps], name: Callable[[Hashable], str]) -> str | None:
    """Of all sides the set-up that is off, as ``name`` calls it; None: none is, or it cannot be told."""
    groups = [{set_up: side.means[set_up] for set_up in set_ups} for side in sides for set_ups in side.by_occasion]
    found = find_outlier(groups, max(side.known_ratio for side in sides))
    return None if found is None else outlier_words(found, name(found.key), "set-ups of its occasion")


def outlier_words(outlier: Outlier[Hashable], name: str, others: str) -> str:
    """``block 1 of nightly@today is 20.0 % below the other set-ups of its occasion, which scatter by 0.4 %``."""
    which = "below" if outlier.change_ratio < 0 else "above"
    return (
        f"{name} is {percent(abs(outlier.change_ratio))} {which} the other {others}, "
        f"which scatter by {percent(outlier.sd_log, 2)}"
    )


def name_block(block: Hashable, plan_names: Mapping[Hashable, str]) -> str:
    """Of runs: ``plan_names`` by the hashes of plans."""
    if not isinstance(block, tuple):
        return str(block)
    return f"block {block[0]} of {plan_names.get(block[1], block[1])}"


def name_set_up(set_up: Hashable, points: Sequence[MeasuredPoint]) -> str:
    """Of trials that are no runs: as their records call it, or else by the first of them."""
    trials = [trial for point in points for trial in point.trials if trial.set_up == set_up]
    name = f"set-up {set_up}" if isinstance(set_up, str) or not trials else f"the set-up of {trials[0].id}"
    return name if not trials else f"{name} of {trials[0].plan_name}"
