"""The stored part of a plan in blocks: its pilot, the complete set-ups, and the trials that are left.

A set-up is complete when each of its places has a usable run of this set-up, or one whose last attempt stayed invalid.
A set-up that broke off is repeated completely: the lost trials are not a random sample, and its guest is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from labconsole.contracts.ports import StoredTrial
from labconsole.engine.execution.pilot import Pilot
from labconsole.errors import ConfigError
from labconsole.model.plan.blocks import PILOT, settings
from labconsole.model.plan.order import Configuration, Trial, configuration, forwards
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed

Key = tuple[int, Configuration]
"""Block number, and the configuration that is set up in it."""

Runs = dict[Trial, StoredTrial]
"""The last attempt, by point and number."""


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """The stored state of a plan in blocks.

    ``done``: the trials that count, including the pilot's. ``left``: the trials to take, in order; ``broken`` of them
    are stored in set-ups that broke off. ``pilot``: its results. ``refusal``: why this plan cannot continue from what
    is stored.
    """

    pilot: Pilot
    done: list[StoredTrial]
    left: list[Trial]
    refusal: ConfigError | None
    broken: int = 0


def find_defining_runs(plan: Plan, stored: Iterable[StoredTrial]) -> dict[int, str]:
    """By point, the first block run of each setting for which a pilot fixes values; it records them."""
    if plan.set_ups is None:
        return {}
    first: dict[int, str] = {}
    for trial in stored:
        if trial.block is not None and trial.block > PILOT:
            first[trial.point] = min(first.get(trial.point, trial.run_id), trial.run_id)
    found: dict[int, str] = {}
    for setting, points in settings([point.request for point in plan.points]).items():
        in_blocks = [point for point in points if point in first]
        if in_blocks and (len(points) > 1 or forwards(setting.background)):
            point = min(in_blocks, key=lambda each: first[each])
            found[point] = first[point]
    return found


def stored_blocks(
    plan: Plan,
    stored: Iterable[StoredTrial],
    only: frozenset[int] | None = None,
    stated: Mapping[int, Fixed] | None = None,
) -> StoredBlocks:
    """Derive the stored state. ``only``: take set-ups of these points and their pilot trials; ``stated``: see Pilot."""
    stored = list(stored)
    pilot, taken = Pilot(plan, stated, only), _group_by_set_up(plan, stored)
    for trial in stored:
        if trial.block == PILOT:
            pilot.note(trial)
    done, wanted = pilot.kept(), plan.needed_pilot(only)
    left: list[Trial] = []
    broken = 0
    outgrown: set[int] = set()
    for set_up in plan.planned_set_ups():
        if set_up.block == PILOT:
            left += [
                trial
                for trial in set_up.trials
                if trial[0] in wanted and not pilot.done(trial[0]) and pilot.left_out(trial) is None
            ]
            continue
        needed = [trial for trial in set_up.trials if pilot.left_out(trial) is None]
        attempts = taken.get((set_up.block, set_up.configuration), [])
        whole = next((runs for each in attempts if (runs := _final(plan, each)).keys() >= set(needed)), None)
        if whole is not None:
            done += [whole[trial] for trial in needed]
        elif only is None or any(point in only for point, _ in set_up.trials):
            left += needed
            broken += len({trial for each in attempts for trial in _final(plan, each)} & set(needed))
            if any(_is_complete(each) for each in attempts):
                outgrown.add(set_up.block)
    return StoredBlocks(pilot, done, left, _build_outgrown_error(plan, outgrown) if outgrown else None, broken)


def count_block_trials(plan: Plan, pilot: Pilot) -> dict[Key, int]:
    """Number of trials in every block's set-up, without those that the pilot excludes."""
    return {
        (each.block, each.configuration): sum(pilot.left_out(trial) is None for trial in each.trials)
        for each in plan.planned_set_ups()
        if each.block != PILOT
    }


def first_block(plan: Plan, left: list[Trial]) -> list[Trial]:
    """The trials left of the pilot and of the first incomplete block."""
    blocks = [plan.place_of(trial)[0] or PILOT for trial in left]
    first = min((block for block in blocks if block != PILOT), default=PILOT)
    return [trial for trial, block in zip(left, blocks, strict=True) if block <= first]


def _group_by_set_up(plan: Plan, stored: Iterable[StoredTrial]) -> dict[Key, list[list[StoredTrial]]]:
    """The plan's set-ups of every block and configuration, in the order in which they were made."""
    found: dict[Key, dict[str, list[StoredTrial]]] = {}
    for trial in stored:
        if trial.block is None or trial.set_up is None or not 0 <= trial.point < len(plan.points):
            continue
        if trial.block > PILOT < trial.repetition:
            key = (trial.block, configuration(plan.points[trial.point].request))
            found.setdefault(key, {}).setdefault(trial.set_up, []).append(trial)
    return {key: [by_id[each] for each in sorted(by_id)] for key, by_id in found.items()}


def _final(plan: Plan, trials: Iterable[StoredTrial]) -> Runs:
    """The filled places of one set-up, each with its last attempt."""
    last: Runs = {}
    for trial in trials:
        if trial.repetition <= plan.repetitions_of(trial.point):
            place = (trial.point, plan.number_of(trial.point, trial.block, trial.repetition))
            before = last.get(place)
            if before is None or (trial.attempt or 0, trial.run_id) >= (before.attempt or 0, before.run_id):
                last[place] = trial
    return {place: trial for place, trial in last.items() if trial.final}


def _is_complete(trials: list[StoredTrial]) -> bool:
    """Whether a set-up contains all the trials that were planned for it when it was made."""
    places = {(trial.point, trial.repetition) for trial in trials if trial.final}
    return bool(places) and len(places) == trials[0].set_up_trials


def _build_outgrown_error(plan: Plan, blocks: set[int]) -> ConfigError:
    named = f"block{'s' if len(blocks) > 1 else ''} {', '.join(str(block) for block in sorted(blocks))}"
    return ConfigError(
        f"plan {plan.name} asks for more trials in a set-up than {named} had, and "
        "their set-ups are gone: raise set_ups instead, and leave repetitions and what stop leaves out as they were",
        key="repetitions",
        value=plan.repetitions,
    )
