"""What the same job takes in guests of one tool against another's, in pairs of blocks: alone, and by how much more
while others stand. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from labconsole.experiments.job.link import held_by_link
from labconsole.experiments.job.points import PointKey, enters, mean_of
from labconsole.experiments.job.summary import (
    LEFT_OUT,
    LeftOut,
    NotDecided,
    left_out_by_outcome,
    not_decided,
    trials_of_points,
)
from labconsole.measure.statistics.effects import Effect
from labconsole.measure.trials_of_guests import Blocks, in_order, newest_trials
from labconsole.model.record.job import JobRecord

Trials = Mapping[PointKey, Sequence[JobRecord]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsCompared:
    """By what one tool's time of a job (``key``) differs from another's (``than``), of the fewest guests that both were
    measured with; or, where ``most_guests`` is told, by what the growth up to so many does.

    ``absent``: why nothing follows from that; ``held``: a side was as fast as its link, so that they cannot be shown
    alike.
    """

    key: PointKey
    than: PointKey
    most_guests: int | None
    effect: Effect
    absent: NotDecided | LeftOut | None
    held: bool


def compare_tools(records: Iterable[JobRecord], bare_platforms: Sequence[str]) -> list[ToolsCompared]:
    """Every two platforms that were asked the same of the same program, with one guest that works; the bare host is
    none.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.job_id))
    by_point = trials_of_points(every, newest_trials(every))
    entered = {key: [each for each in group if enters(each)] for key, group in by_point.items()}
    alike: dict[PointKey, dict[tuple[str, str, str], dict[int, PointKey]]] = {}
    for key in sorted(entered, key=in_order):
        if key.working == "one" and key.platform not in bare_platforms and entered[key]:
            asked = key._replace(platform="", guests=0, kernel="", hypervisor="")
            tool = (key.platform, key.kernel, key.hypervisor)
            alike.setdefault(asked, {}).setdefault(tool, {})[key.guests] = key
    blocks = Blocks(every)
    return [
        found
        for tools in alike.values()
        for (than, of_than), (tool, of_tool) in combinations(tools.items(), 2)
        if tool[0] != than[0]
        for found in _compared(of_tool, of_than, by_point, entered, blocks)
    ]


def _compared(
    ours: Mapping[int, PointKey], theirs: Mapping[int, PointKey], by_point: Trials, entered: Trials,
    blocks: Blocks[JobRecord],
) -> Iterator[ToolsCompared]:  # fmt: skip
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return
    for most in (None, both[-1]) if len(both) > 1 else (None,):
        numbers = [both[0]] if most is None else [both[0], most]
        keys = [side[number] for side in (ours, theirs) for number in numbers]
        sides = [[entered[side[number]] for number in reversed(numbers)] for side in (ours, theirs)]
        if most is None:
            effect = blocks.effect(sides[0][0], sides[1][0], mean_of)
        else:
            effect = blocks.effects_apart((sides[0][0], sides[0][1]), (sides[1][0], sides[1][1]), mean_of)
        out = LEFT_OUT if any(left_out_by_outcome(by_point[key]) for key in keys) else None
        together = [[record for trials in side for record in trials] for side in sides]
        yield ToolsCompared(
            key=ours[both[0]],
            than=theirs[both[0]],
            most_guests=most,
            effect=effect,
            absent=out or not_decided(*together),
            held=any(map(held_by_link, together)),
        )
