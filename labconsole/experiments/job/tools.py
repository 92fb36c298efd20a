"""What the same job takes in guests of one tool against another's, in pairs of blocks: alone, and by how much more
while others stand. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from labconsole.measure.trials_of_guests import Blocks, newest_trials
from labconsole.model.record.job import JobRecord
from labconsole.report.abstracts import asked_of, tool_pairs

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
    none. Of a job alone at the fewest guests that all of them were measured with, of its growth up to the most.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.job_id))
    by_point = trials_of_points(every, newest_trials(every))
    entered = {key: [each for each in group if enters(each)] for key, group in by_point.items()}
    numbers: dict[PointKey, set[int]] = {}
    for key in entered:
        if key.working == "one" and key.platform not in bare_platforms and entered[key]:
            numbers.setdefault(key._replace(guests=0), set()).add(key.guests)
    pairs = tool_pairs(numbers)
    blocks = Blocks(every)
    found: list[ToolsCompared] = []
    for one, other in pairs:
        group = {key for pair in pairs for key in pair if asked_of(key) == asked_of(one)}
        common = sorted(set.intersection(*(numbers[key] for key in group)) or numbers[one] & numbers[other])
        for least, most in ((common[0], None), (common[0], common[-1])) if common else ():
            if most != least:
                sides = [[key._replace(guests=n) for n in (most or least, least)] for key in (one, other)]
                found.append(_compared(sides[0], sides[1], most, by_point, entered, blocks))
    return found


def _compared(
    ours: Sequence[PointKey], theirs: Sequence[PointKey], most_guests: int | None, by_point: Trials, entered: Trials,
    blocks: Blocks[JobRecord],
) -> ToolsCompared:  # fmt: skip
    """Of both sides the point with the most guests, and that with the fewest."""
    if most_guests is None:
        effect = blocks.effect(entered[ours[-1]], entered[theirs[-1]], mean_of)
    else:
        one, other = ((entered[most], entered[least]) for most, least in (ours, theirs))
        effect = blocks.effects_apart(one, other, mean_of)
    out = any(left_out_by_outcome(by_point[key]) for key in (*ours, *theirs))
    together = [[record for key in side for record in entered[key]] for side in (ours, theirs)]
    return ToolsCompared(
        key=ours[-1],
        than=theirs[-1],
        most_guests=most_guests,
        effect=effect,
        absent=LEFT_OUT if out else not_decided(*together),
        held=any(map(held_by_link, together)),
    )
