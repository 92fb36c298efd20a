"""Decides which runs enter a report's means: whole set-ups, one run per place, no contradictions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labconsole.measure.groups import STANDING, block_of, design_of, find_exclusion_reason, is_search_trial
from labconsole.measure.run_row import RunRow

# -- contiguous set ups ------------------------------------------------------------------------------------------------
# Finds the set-ups of a block that were measured without interruption; only they share the block's conditions.
#
# A *stretch* is a series of set-ups, in the order of their start, that all belong to one block of a plan on a testbed.
# A set-up that was repeated after other blocks, or whose platform was measured apart from the others, has its own
# stretch, and drift lies between it and the rest of its block. A mere pause does not end a stretch.

ContiguousSetUps = Mapping[tuple[Hashable, str], int]
"""The number of a set-up's stretch, by block (``block_of``) and set-up."""

SetUpStarts = Mapping[tuple[Hashable, str, str], str]
"""The start of the first try at a set-up, by block, platform and background."""

LAST = "~"
"""Sorts after every time stamp."""


def find_set_up_starts(runs: Iterable[RunRow]) -> SetUpStarts:
    """The start of all set-ups in ``runs``. A repeated set-up counts from its first try, not from the repetition."""
    begun: dict[tuple[Hashable, str, str], str] = {}
    for run in runs:
        if run.set_up is None or not run.block or run.plan_hash is None:
            continue
        key = (block_of(run), run.platform, run.background)
        begun[key] = min(run.started_at, begun.get(key, LAST))
    return begun


def number_contiguous_set_ups(runs: Iterable[RunRow]) -> ContiguousSetUps:
    """The stretches of all set-ups in ``runs``, by block and set-up.

    ``runs`` must contain everything stored, because excluded runs also separate blocks. A set-up begins with its
    earliest run. Set-ups of the same moment are ordered by block.
    """
    begun: dict[tuple[Any, str], str] = {}
    for run in runs:
        if run.set_up is None or not run.block or run.plan_hash is None:
            continue
        key = (block_of(run), run.set_up)
        if run.started_at < begun.get(key, LAST):
            begun[key] = run.started_at
    found: dict[tuple[Hashable, str], int] = {}
    latest: dict[tuple[str, str], tuple[Hashable, int]] = {}
    for _, block, set_up in sorted((at, *key) for key, at in begun.items()):
        plan = block[1:]
        earlier, number = latest.get(plan, (None, 0))
        if block != earlier:
            number += 1
            latest[plan] = (block, number)
        found[block, set_up] = number
    return found


# -- admission ---------------------------------------------------------------------------------------------------------
# A set-up that was not completed is repeated as a whole, and its own runs enter nothing: which trials it lost is not
# random. A place of a plan (block, point, repetition) has one run, the last standing attempt. Runs that claim a place
# twice, or one set-up for two things, are listed and never averaged.

Place = tuple[str, str, int | None, int, int]
"""Plan, testbed, block, point, repetition."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of admission.

    ``entered``: runs that enter, in their order. ``left_out``: why the others do not, a key of WHY by run id.
    ``stretches``: the contiguous set-ups. ``begun``: when each set-up was first tried, according to everything stored.
    """

    entered: tuple[RunRow, ...]
    left_out: dict[str, str]
    stretches: ContiguousSetUps = field(default_factory=dict)
    begun: SetUpStarts = field(default_factory=dict)


def place_of(run: RunRow) -> Place | None:
    """A run's place in its plan, or None without a plan."""
    if run.plan_hash is None or run.plan_point is None or run.repetition is None:
        return None
    return (run.plan_hash, run.testbed_fingerprint, run.block, run.plan_point, run.repetition)


def admit(runs: Sequence[RunRow], meant: Collection[str] | None = None) -> Admission:
    """Judge runs together: ``runs`` must contain everything that is stored of their set-ups and places.

    ``meant``: ids of the runs that a report covers, or None for all. Runs without a block are excluded in favour of
    blocks only among these: there is nothing to mix them with if the blocks are not part of the report.
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
    """Runs of set-ups with contradictory facts, or with more trials than the set-up should have."""
    found = []
    for members in _group_by_set_up(runs).values():
        said = {(run.platform, run.background, run.testbed_fingerprint, run.plan_hash, run.block) for run in members}
        boots = {run.boot_id for run in members} - {None}  # it may be missing for a trial that ended early
        trials = members[0].set_up_trials
        if len(said) > 1 or len(boots) > 1 or (trials is not None and len({place_of(run) for run in members}) > trials):
            found += [run.run_id for run in members]
    return found


def _find_incomplete(runs: Iterable[RunRow]) -> list[str]:
    """Runs of set-ups in which fewer places are filled than they have."""
    found = []
    for members in _group_by_set_up(runs).values():
        trials = max((run.set_up_trials or 0 for run in members), default=0)
        if len({place_of(run) for run in members if _fills_its_place(run)}) < trials:
            found += [run.run_id for run in members]
    return found


def _fills_its_place(run: RunRow) -> bool:
    """Whether a run fills its place: a standing run does, and an invalid last attempt. Resume uses the same rule."""
    return run.verdict in STANDING or run.attempt is None or run.attempts is None or run.attempt >= run.attempts


def _find_missing_attempts(runs: Iterable[RunRow]) -> list[str]:
    """Runs of places whose attempts are not numbered from 1 without a gap: some are not here."""
    attempts: dict[Place, list[tuple[int, str]]] = {}
    for run in runs:
        place = place_of(run)
        if place is not None and run.attempt is not None:
            attempts.setdefault(place, []).append((run.attempt, run.run_id))
    found = []
    for numbered in attempts.values():
        if len(numbered) == 1 and numbered[0][0] == 1:
            continue
        numbers = {number for number, _ in numbered}
        if numbers != set(range(1, len(numbers) + 1)):
            found += [run_id for _, run_id in numbered]
    return found


def _find_superseded(runs: Iterable[RunRow]) -> list[tuple[str, str]]:
    """Runs that do not enter because their place has several. Only the last attempt enters; none if it exists twice."""
    places: dict[Place, list[RunRow]] = {}
    for run in runs:
        place = place_of(run)
        if place is not None and run.verdict in STANDING:
            places.setdefault(place, []).append(run)
    found: list[tuple[str, str]] = []
    for candidates in places.values():
        if len(candidates) == 1:
            continue
        last = max(run.attempt or 0 for run in candidates)
        twice = sum((run.attempt or 0) == last for run in candidates) > 1 or len({run.set_up for run in candidates}) > 1
        found += [
            (run.run_id, "doubled_place" if twice else "superseded")
            for run in candidates
            if twice or run.attempt != last
        ]
    return found


def _find_unblocked(runs: Iterable[RunRow]) -> list[str]:
    """Runs without a block whose design point has blocks: their order was not randomized."""
    blocked, bare = set(), []
    for run in runs:
        if run.block and run.set_up is not None:
            blocked.add(design_of(run))
        else:
            bare.append(run)
    return [run.run_id for run in bare if design_of(run) in blocked] if blocked else []
