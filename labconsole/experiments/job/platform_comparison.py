"""The times of the same job under two tools, in pairs of blocks: alone, and the increase while other guests run.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.contracts.measured import HELD
from labconsole.experiments.job.limiting_resource import is_link_limited
from labconsole.experiments.job.points import PointKey, enters, mean_of
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import LEFT_OUT, find_outcome_exclusion, not_decided, trials_of_points
from labconsole.measure.paired_blocks import Blocks, newest_trials
from labconsole.measure.statistics.effects import Effect
from labconsole.report.paper_abstracts import build_comparison_key, format_none_valid, pair_tools

Trials = Mapping[PointKey, Sequence[JobRecord]]

SEVERAL_MARGINS = "of plans with different margins"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformComparison:
    """The difference between one tool's time of a job (``key``) and another's (``than``).

    It is that at the fewest guests measured with most tools, or, if ``most_guests`` is given, that of the growth up to
    this number. ``margin_ratio``: the plan's equivalence margin, or None if none is declared or a side was limited by
    its link, so that equivalence cannot be shown. ``absent``: why the comparison allows no conclusion.
    """

    key: PointKey
    than: PointKey
    most_guests: int | None
    effect: Effect
    margin_ratio: float | None
    absent: str | None


def compare_platforms(records: Iterable[JobRecord], bare_platforms: Sequence[str]) -> list[PlatformComparison]:
    """Compare every two platforms with the same request and one guest that works, without the bare host.

    A platform without included trials is compared as well, with ``absent`` set.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.job_id))
    by_point = trials_of_points(every, newest_trials(every))
    stands = {
        each: of
        for each, of in resolve_programs({key: any(map(enters, trials)) for key, trials in by_point.items()}).items()
        if each.working == "one" and each.platform not in bare_platforms
    }
    entered = {each: [trial for trial in by_point[of] if enters(trial)] for each, of in stands.items()}
    tools: dict[PointKey, set[int]] = {}
    for key, trials in entered.items():
        tools.setdefault(key._replace(guests=0), set()).update({key.guests} if trials else ())
    requested = {each: by_point[of] for each, of in stands.items()}
    blocks, pairs = Blocks(every), pair_tools(tools)
    alike: dict[Hashable, set[PointKey]] = {}
    for key in (key for pair in pairs for key in pair):
        alike.setdefault(build_comparison_key(key), set()).add(key)
    found: list[PlatformComparison] = []
    for one, other in pairs:
        numbers = _common_guest_counts(tools[key] for key in alike[build_comparison_key(one)]) or sorted(
            key.guests for key in requested if key._replace(guests=0) == one
        )
        least, most = numbers[0], numbers[-1]
        for number in (None,) if most == least else (None, most):
            sides = [[key._replace(guests=n) for n in (number or least, least)] for key in (one, other)]
            found.append(_compared(sides[0], sides[1], number, requested, entered, blocks))
    return found


def resolve_programs(valid: Mapping[PointKey, bool]) -> dict[PointKey, PointKey]:
    """Map the points to compare to the stored points.

    A point whose guests never ran their program gets the program of the others. ``valid``: whether a point has an
    included trial.
    """
    known: dict[PointKey, set[str]] = {}
    for key in valid:
        known.setdefault(_question(key), set()).update({key.program} if key.program else ())
    found: dict[PointKey, PointKey] = {}
    for key, enters_it in valid.items():
        others = known[_question(key)] if not key.program and not enters_it else ()
        for program in others or (key.program,):
            found.setdefault(key._replace(program=program), key)
    return found


def _question(key: PointKey) -> PointKey:
    return key._replace(platform="", guests=0, program="", kernel="", hypervisor="")


def _common_guest_counts(numbers: Iterable[set[int]]) -> list[int]:
    """Return the numbers of guests that most tools have valid trials with; empty if each has only one tool."""
    times = Counter(number for each in numbers for number in each)
    return sorted(number for number, of in times.items() if of == max(times.values()) > 1)


def _compared(
    ours: Sequence[PointKey],
    theirs: Sequence[PointKey],
    most_guests: int | None,
    requested: Trials,
    entered: Trials,
    blocks: Blocks[JobRecord],
) -> PlatformComparison:
    """Compare the points with the most guests of both sides, and those with the fewest."""
    one, other = ([entered.get(key, ()) for key in side] for side in (ours, theirs))
    none = [side[0].platform for side, trials in ((ours, one), (theirs, other)) if not all(trials)]
    if most_guests is None or none:
        effect = blocks.effect(() if none else one[-1], () if none else other[-1], mean_of)
    else:
        effect = blocks.effects_apart((one[0], one[1]), (other[0], other[1]), mean_of)
    used = [record for side in (one, other) for trials in side for record in trials]
    margins = {record.plan.margin_ratio for record in used}
    link_limited = any(is_link_limited(trials) for trials in (*one, *other))
    return PlatformComparison(
        key=ours[-1],
        than=theirs[-1],
        most_guests=most_guests,
        effect=effect,
        margin_ratio=margins.pop() if len(margins) == 1 and not link_limited else None,
        absent=format_none_valid(none)
        if none
        else LEFT_OUT
        if any(find_outcome_exclusion(requested[key]) for key in (*ours, *theirs))
        else SEVERAL_MARGINS
        if len(margins) > 1
        else HELD
        if link_limited and most_guests is not None  # a full link hides further growth
        else not_decided(*([record for trials in side for record in trials] for side in (one, other))),
    )
