"""The runs of a report: which enter its means, and why the others do not; planned against taken. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from labconsole.measure.admission import Admission, place_of
from labconsole.measure.run_row import RunRow
from labconsole.model.design_point import FrameSize
from labconsole.model.query import Query
from labconsole.report.selection import factors_match


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
    """One point of one plan: the numbers of trials planned, taken and entered.

    ``taken``: stored trials of its places. ``retaken``: those of them beyond one per place. ``planned``: None if
    unknown.
    """

    plan: str
    plan_hash: str
    fingerprint: str | None
    point: int
    platform: str
    frame: FrameSize | None
    sources: int
    target_bps: int | None
    background: str
    planned: int | None
    taken: int
    retaken: int
    entered: int
    noun: ClassVar[str] = "run"

    @property
    def missing(self) -> int | None:
        """Places without a trial that enters."""
        return None if self.planned is None else max(0, self.planned - self.entered)


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
) -> list[Coverage]:
    """Planned, taken, retaken and entered of each point; also points of a plan's file without any run."""
    entered = {run.run_id for run in kept.entered}
    groups: dict[tuple[str, str, int], list[RunRow]] = {}
    for run in (*kept.entered, *kept.excluded):
        place = place_of(run)
        if place is not None and run.role not in ("pilot", "telemetry") and not place[0].startswith("search-"):
            groups.setdefault((place[0], place[1], place[3]), []).append(run)
    requested = {(point.plan_hash, point.plan_point): point for point in file_points}
    found = []
    for (plan_hash, fingerprint, number), runs_of_point in groups.items():
        facts = plans.get((plan_hash, fingerprint))
        in_file = requested.get((plan_hash, number))
        first = runs_of_point[0]
        found.append(
            Coverage(
                plan=facts.name if facts is not None else "",
                plan_hash=plan_hash,
                fingerprint=fingerprint,
                point=number,
                platform=first.platform,
                frame=first.frame,
                sources=first.sources,
                target_bps=None if first.target_bps == "max" else first.target_bps,
                background=first.background,
                planned=in_file.planned if in_file is not None else _planned(facts),
                taken=len(runs_of_point),
                retaken=len(runs_of_point) - len({place_of(run) for run in runs_of_point}),
                entered=sum(run.run_id in entered for run in runs_of_point),
            )
        )
    there = {(plan_hash, number) for plan_hash, _, number in groups}
    for key, point in requested.items():
        if key in there or (platforms and point.platform not in platforms):
            continue
        if query is not None and not factors_match(query, point):  # type: ignore[arg-type]
            continue
        found.append(
            Coverage(
                plan=point.plan_name,
                plan_hash=point.plan_hash,
                fingerprint=None,
                point=point.plan_point,
                platform=point.platform,
                frame=point.frame,
                sources=point.sources,
                target_bps=point.target_bps,
                background=point.background,
                planned=point.planned,
                taken=0,
                retaken=0,
                entered=0,
            )
        )
    return sorted(found, key=lambda each: (each.plan, each.plan_hash, each.fingerprint or "", each.point))


def _planned(facts: PlanFacts | None) -> int | None:
    if facts is None or facts.repetitions is None:
        return None
    return facts.repetitions * (facts.set_ups or 1)


class PlannedCounts(Protocol):
    """A plan's point and its missing trials; ``noun``: the unit that enters."""

    noun: ClassVar[str]

    @property
    def plan(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def taken(self) -> int: ...
    @property
    def retaken(self) -> int: ...
    @property
    def entered(self) -> int: ...
    @property
    def missing(self) -> int | None: ...


def describe_missing(found: Sequence[PlannedCounts]) -> list[str]:
    """Trials that a plan requests and the report lacks, in sentences, platform by platform."""
    groups: dict[tuple[str, str], list[PlannedCounts]] = {}
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
