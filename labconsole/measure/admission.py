"""Which runs enter a report's means, seen together: whole set-ups, one run a place, no contradictions. Pure.

A set-up that broke off is taken again whole, and its own runs enter nothing: which trials it lost is no accident. A
place of a plan (block, point, repetition) holds one run, the last attempt that stands. What claims a place twice, or
one set-up for two things, is listed and never averaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from labconsole.measure.contiguous_set_ups import (
    ContiguousSetUps,
    SetUpStarts,
    find_set_up_starts,
    number_contiguous_set_ups,
)
from labconsole.measure.groups import STANDING, design_of, find_exclusion_reason, is_search_trial
from labconsole.measure.run_row import RunRow

Place = tuple[str, str, int | None, int, int]
"""Plan, testbed, block, point, repetition."""


@dataclass(frozen=True, slots=True)
class Admission:
    """``entered``: runs that enter, in their order; ``left_out``: why the others do not, a key of WHY by run id.

    ``stretches``: which set-ups were taken in one go, ``begun``: when each was first tried, by all that is stored.
    """

    entered: tuple[RunRow, ...]
    left_out: dict[str, str]
    stretches: ContiguousSetUps = field(default_factory=dict)
    begun: SetUpStarts = field(default_factory=dict)


def place_of(run: RunRow) -> Place | None:
    """A run's place in its plan; None without a plan."""
    if run.plan_hash is None or run.plan_point is None or run.repetition is None:
        return None
    return (run.plan_hash, run.testbed_fingerprint, run.block, run.plan_point, run.repetition)


def admit(runs: Sequence[RunRow], meant: Collection[str] | None = None) -> Admission:
    """Judge runs together: ``runs`` has to hold everything that is stored of their set-ups and places.

    ``meant``: ids of those that a report is about, None: all. Runs without a block give way to blocks only among them:
    beside blocks that are not part of the report there is nothing that they could be mixed with.
    """
    left_out = {run.run_id: why for run in runs if (why := find_exclusion_reason(run)) is not None}
    planned = [run for run in runs if run.role not in ("pilot", "telemetry") and not is_search_trial(run)]
    for why, found in (
        ("set_up_contradicts", _contradictory(planned)),
        ("set_up_broke_off", _find_incomplete(planned)),
        ("attempts_missing", _find_missing_attempts(planned)),
    ):
        for run_id in found:
            left_out.setdefault(run_id, why)
    for run_id, why in _find_superseded([run for run in planned if run.run_id not in left_out]):
        left_out.setdefault(run_id, why)
    standing = [run for run in runs if run.run_id not in left_out and (meant is None or run.run_id in meant)]
    for run_id in _find_unblocked(standing):
        left_out[run_id] = "outside_blocks"
    entered = tuple(run for run in runs if run.run_id not in left_out)
    return Admission(entered, left_out, number_contiguous_set_ups(runs), find_set_up_starts(runs))


def _group_by_set_up(runs: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    found: dict[str, list[RunRow]] = {}
    for run in runs:
        if run.set_up is not None and run.block:
            found.setdefault(run.set_up, []).append(run)
    return found


def _contradictory(runs: Iterable[RunRow]) -> list[str]:
    """Runs of set-ups that say to be several, or to hold more trials than they do."""
    found = []
    for held in _group_by_set_up(runs).values():
        said = {(run.platform, run.background, run.testbed_fingerprint, run.plan_hash, run.block) for run in held}
        boots = {run.boot_id for run in held} - {None}  # of a trial that ended early it may not have been read
        trials = held[0].set_up_trials
        if len(said) > 1 or len(boots) > 1 or (trials is not None and len({place_of(run) for run in held}) > trials):
            found += [run.run_id for run in held]
    return found


def _find_incomplete(runs: Iterable[RunRow]) -> list[str]:
    """Runs of set-ups of which fewer places are filled than they have."""
    found = []
    for held in _group_by_set_up(runs).values():
        trials = max((run.set_up_trials or 0 for run in held), default=0)
        if len({place_of(run) for run in held if _fills_its_place(run)}) < trials:
            found += [run.run_id for run in held]
    return found


def _fills_its_place(run: RunRow) -> bool:
    """A run that stands does, and an invalid one after which no further attempt was to come: resume asks the same."""
    return run.verdict in STANDING or run.attempt is None or run.attempts is None or run.attempt >= run.attempts


def _find_missing_attempts(runs: Iterable[RunRow]) -> list[str]:
    """Runs of places whose attempts do not count from 1 without a gap: some are not here."""
    attempts: dict[Place, list[tuple[int, str]]] = {}
    for run in runs:
        place = place_of(run)
        if place is not None and run.attempt is not None:
            attempts.setdefault(place, []).append((run.attempt, run.run_id))
    found = []
    for held in attempts.values():
        if len(held) == 1 and held[0][0] == 1:
            continue
        numbers = {number for number, _ in held}
        if numbers != set(range(1, len(numbers) + 1)):
            found += [run_id for _, run_id in held]
    return found


def _find_superseded(runs: Iterable[RunRow]) -> list[tuple[str, str]]:
    """Of several standing runs of one place the last attempt enters; where there are two of it, none does."""
    places: dict[Place, list[RunRow]] = {}
    for run in runs:
        place = place_of(run)
        if place is not None and run.verdict in STANDING:
            places.setdefault(place, []).append(run)
    found: list[tuple[str, str]] = []
    for held in places.values():
        if len(held) == 1:
            continue
        last = max(run.attempt or 0 for run in held)
        twice = sum((run.attempt or 0) == last for run in held) > 1 or len({run.set_up for run in held}) > 1
        found += [
            (run.run_id, "doubled_place" if twice else "superseded") for run in held if twice or run.attempt != last
        ]
    return found


def _find_unblocked(runs: Iterable[RunRow]) -> list[str]:
    """Runs without a block whose design point has blocks: nobody drew when they were taken."""
    blocked, bare = set(), []
    for run in runs:
        if run.block and run.set_up is not None:
            blocked.add(design_of(run))
        else:
            bare.append(run)
    return [run.run_id for run in bare if design_of(run) in blocked] if blocked else []
