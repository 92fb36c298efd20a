"""The runs of a report: which enter its means, and whether they were measured in the drawn order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from labconsole.measure.admission import Admission, SetUpStarts, place_of
from labconsole.measure.groups import block_of
from labconsole.measure.run_row import RunRow
from labconsole.model.design_point import FrameSize
from labconsole.model.query import Query
from labconsole.report.points import PointSummary, RunFacts
from labconsole.report.request import factors_match

# -- sample ------------------------------------------------------------------------------------------------------------
# The runs of a report: which enter its means, and why the others do not; planned against taken.


@dataclass(frozen=True, slots=True)
class RunSample:
    """``entered``: runs that enter a mean, oldest first; ``excluded``: those that do not, with ``why`` by run id."""

    entered: tuple[RunRow, ...]
    excluded: tuple[RunRow, ...]
    why: Mapping[str, str]

    @property
    def suspect(self) -> int:
        """Suspect runs among those that enter, with a named doubt."""
        return sum(run.verdict == "suspect" for run in self.entered)

    @property
    def excluded_by_reason(self) -> tuple[tuple[str, int], ...]:
        """Reasons with their numbers of runs; for invalid runs the codes of their verdict. Most frequent first."""
        reasons = Counter(
            code
            for run in self.excluded
            for code in (
                (run.reason_codes or ("invalid",)) if self.why[run.run_id] == "invalid" else (self.why[run.run_id],)
            )
        )
        return tuple(reasons.most_common())

    @property
    def run_ids(self) -> frozenset[str]:
        """Ids of all selected runs."""
        return frozenset(run.run_id for run in (*self.entered, *self.excluded))


def select_sample(meant: Iterable[RunRow], admission: Admission) -> RunSample:
    """Split the selected runs by whether they enter. ``admission`` was judged from all stored runs."""
    ordered = sorted(meant, key=lambda run: (run.started_at, run.run_id))
    return RunSample(
        tuple(run for run in ordered if run.run_id not in admission.left_out),
        tuple(run for run in ordered if run.run_id in admission.left_out),
        admission.left_out,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """A plan as the newest of its records describes it.

    ``first_set_ups``: as the oldest describes it. Both numbers are None for a plan without blocks.
    """

    name: str
    set_ups: int | None
    repetitions: int | None
    first_set_ups: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """One point of one plan: the numbers of trials planned, taken and entered. ``noun``: the unit that enters.

    ``taken``: stored trials of its places. ``retaken``: those of them beyond one per place. ``planned``: None if
    unknown. ``entered``: places with a trial that enters.
    """

    plan: str
    platform: str
    planned: int | None
    taken: int
    retaken: int
    entered: int
    noun: ClassVar[str] = "trial"

    @property
    def missing(self) -> int | None:
        """Places without a trial that enters."""
        return None if self.planned is None else max(0, self.planned - self.entered)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCoverage(Coverage):
    """One point of runs. ``fingerprint``: the testbed, or None for a point of a plan's file without any run."""

    plan_hash: str
    fingerprint: str | None
    point: int
    frame: FrameSize | None
    sources: int
    target_bps: int | None
    background: str
    noun: ClassVar[str] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePoint:
    """A point as a plan's file requests it, as a run that a filter can test: factors only, without results."""

    plan_name: str
    plan_hash: str
    plan_point: int
    planned: int
    platform: str
    frame: FrameSize
    sources: int
    target_bps: int | None
    background: str
    duration_s: float

    @property
    def frame_size_bytes(self) -> int:
        return self.frame.bytes


def derive_coverage(
    kept: RunSample,
    plans: Mapping[tuple[str, str], PlanFacts],
    file_points: Sequence[FilePoint] = (),
    query: Query | None = None,
    platforms: Collection[str] | None = None,
) -> list[RunCoverage]:
    """Planned, taken, retaken and entered of each point; also points of a plan's file without any run."""
    entered = {run.run_id for run in kept.entered}
    groups: dict[tuple[str, str, int], list[RunRow]] = {}
    for run in (*kept.entered, *kept.excluded):
        place = place_of(run)
        if place is not None and run.role not in ("pilot", "telemetry") and not place[0].startswith("search-"):
            groups.setdefault((place[0], place[1], place[3]), []).append(run)
    requested = {(point.plan_hash, point.plan_point): point for point in file_points}
    found = []
    for (plan_hash, fingerprint, number), runs in groups.items():
        facts, in_file = plans.get((plan_hash, fingerprint)), requested.get((plan_hash, number))
        name, planned = ("", None) if facts is None else (facts.name, _planned(facts))
        planned = planned if in_file is None else in_file.planned
        found.append(_build_coverage(runs[0], (name, plan_hash, fingerprint, number), planned, runs, entered))
    there = {(plan_hash, number) for plan_hash, _, number in groups}
    for key, point in requested.items():
        is_meant = key not in there and (not platforms or point.platform in platforms)
        if is_meant and (query is None or factors_match(query, point)):
            found.append(_build_coverage(point, (point.plan_name, key[0], None, key[1]), point.planned, (), entered))
    return sorted(found, key=lambda each: (each.plan, each.plan_hash, each.fingerprint or "", each.point))


def _build_coverage(
    of: RunRow | FilePoint,
    point: tuple[str, str, str | None, int],
    planned: int | None,
    runs: Sequence[RunRow],
    entered: Collection[str],
) -> RunCoverage:
    """Count the runs of a point: its plan and hash, testbed and number."""
    plan, plan_hash, fingerprint, number = point
    return RunCoverage(
        plan=plan,
        plan_hash=plan_hash,
        fingerprint=fingerprint,
        point=number,
        platform=of.platform,
        frame=of.frame,
        sources=of.sources,
        target_bps=None if of.target_bps == "max" else of.target_bps,
        background=of.background,
        planned=planned,
        taken=len(runs),
        retaken=len(runs) - len({place_of(run) for run in runs}),
        entered=sum(run.run_id in entered for run in runs),
    )


def _planned(facts: PlanFacts) -> int | None:
    return None if facts.repetitions is None else facts.repetitions * (facts.set_ups or 1)


def describe_missing(found: Sequence[Coverage]) -> list[str]:
    """Trials that a plan requests and the report lacks, in sentences, platform by platform."""
    groups: dict[tuple[str, str], list[Coverage]] = {}
    for each in found:
        if each.missing:
            groups.setdefault((each.plan, each.platform), []).append(each)
    sentences = []
    for (plan, platform), points in groups.items():
        trials = sum(each.missing or 0 for each in points)
        bare = sum(not each.entered for each in points)
        without = f", {bare} of them without any {points[0].noun} that enters" if bare else ""
        kept_out = sum(each.taken - each.retaken - each.entered for each in points)
        # For runs a table of its own lists the excluded ones and why.
        left_out = f", {kept_out} of them taken and left out" if kept_out and points[0].noun == "trial" else ""
        sentences.append(
            f"plan {plan}, {platform}: {_many(trials, 'trial')} of {_many(len(points), 'point')}{left_out}{without}"
        )
    return sentences


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- randomization -----------------------------------------------------------------------------------------------------
# Whether trials, and set-ups of a block, were measured in the order that their plan drew.
#
# An operator who measures one platform after the other by hand (``--platforms A``, then ``B``) measures A before B in
# every block. Drift of the machine then affects B each time, and looks like an effect. The draw prevents that.

AS_LISTED = "as-listed"
"""The order without a draw: the same in every block, and in every pass through a set-up's points."""

ORDER_LISTED = "the plan lists the order instead of drawing it: set order: blocked-random, raise set_ups and replay"
NOT_AS_DRAWN = (
    "set-ups of one block were not taken in the order that the plan drew: raise set_ups and replay the whole plan"
)

MISTAKEN_SHARE = 3
"""An order counts as wrong if at least one in this number of blocks differs from the drawn one.

Two platforms that are always measured in the same order match the plan's in one of two blocks, since every second block
is the previous one reversed. One of four or more is a guest that did not boot at its turn.
"""


class SetUpOrder(NamedTuple):
    """When the first try at a run's set-up began, and the run's place in the plan's order.

    ``repetitions``: the number that the plan requested for its point then; positions are only comparable between equal
    numbers.
    """

    begun: str
    seed: int
    order: str | None
    position: int
    repetitions: int | None


SetUpOrders = Mapping[str, SetUpOrder]
"""By run id, for the runs whose records have it."""


def collect_orders(entered: Iterable[RunRow], begun: SetUpStarts, facts: Mapping[str, RunFacts]) -> SetUpOrders:
    """For every run of a block: the order in its record, and when its set-up was actually first tried."""
    found = {}
    for run in entered:
        first = begun.get((block_of(run), run.platform, run.background))
        known = facts.get(run.run_id)
        if first is not None and known is not None and known.place is not None:
            found[run.run_id] = SetUpOrder(first, *known.place)
    return found


def find_order_objection(
    one: PointSummary, other: PointSummary, blocks: Collection[Hashable], known: SetUpOrders
) -> str | None:
    """Why the order of two points forbids a comparison, or None if records show no reason.

    ``blocks``: those in which they are a pair. A point that is as listed in a third or more of its own blocks is
    compared with nothing: drift of the machine during a set-up affects the same point each time.
    """
    ours, theirs = _group_by_block(one, known), _group_by_block(other, known)
    if any(
        _too_many(sum(each.order == AS_LISTED for each in orders.values()), len(orders)) for orders in (ours, theirs)
    ):
        return ORDER_LISTED
    both = [block for block in blocks if block in ours and block in theirs]
    pairs = [(ours[block], theirs[block]) for block in both]
    repetitions = {(own.repetitions, other.repetitions) for own, other in pairs}
    against = sum(
        _contradicts_order(own, other, own.repetitions == other.repetitions or len(repetitions) == 1)
        for own, other in pairs
    )
    return NOT_AS_DRAWN if _too_many(against, len(blocks)) else None


def _too_many(against: int, blocks: int) -> bool:
    return against > 0 and blocks <= MISTAKEN_SHARE * against


def _group_by_block(point: PointSummary, known: SetUpOrders) -> dict[Hashable, SetUpOrder]:
    """Places of one set-up are adjacent, so that any of its runs represents it."""
    runs = zip(point.run_ids, point.blocks_of_runs, strict=True)
    return {block: known[run_id] for run_id, block in runs if run_id in known}


def _contradicts_order(one: SetUpOrder, other: SetUpOrder, of_one_plan: bool) -> bool:
    """``of_one_plan``: if False, the plan's repetitions were lowered between the two, and their order is unknown.

    Two set-ups that differ in every block do so by a plan that requests it.
    """
    if AS_LISTED in (one.order, other.order) or (one.seed, one.order) != (other.seed, other.order):
        return True
    if not of_one_plan or one.begun == other.begun:
        return False
    return (one.begun < other.begun) is not (one.position < other.position)
