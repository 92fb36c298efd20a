"""What the store holds of a plan in blocks: its pilot, the set-ups that are whole, and what is left to take.

A set-up is whole when each of its places has a run of this setting-up that stands, or whose last attempt stayed
invalid. One that broke off is taken again whole: which trials it lost is no accident, and its guest is gone.
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
"""Block, and what is set up in it."""

Runs = dict[Trial, StoredTrial]
"""By point and number, the last attempt."""


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """``done``: the trials that count, the pilot's too; ``left``: those to be taken, in order, of which ``broken`` are
    stored in set-ups that broke off.

    ``pilot``: what it fixed; ``refusal``: why this plan cannot go on from what is stored.
    """

    pilot: Pilot
    done: list[StoredTrial]
    left: list[Trial]
    refusal: ConfigError | None
    broken: int = 0


def find_defining_runs(plan: Plan, stored: Iterable[StoredTrial]) -> dict[int, str]:
    """By point, one for each setting for which a pilot fixes something, the first run of a block, which says what."""
    if plan.set_ups is None:
        return {}
    first: dict[int, str] = {}
    for trial in stored:
        if trial.block is not None and trial.block > PILOT:
            first[trial.point] = min(first.get(trial.point, trial.run_id), trial.run_id)
    found: dict[int, str] = {}
    for asked, points in settings([point.request for point in plan.points]).items():
        held = [point for point in points if point in first]
        if held and (len(points) > 1 or forwards(asked.background)):
            point = min(held, key=lambda each: first[each])
            found[point] = first[point]
    return found


def stored_blocks(
    plan: Plan,
    stored: Iterable[StoredTrial],
    only: frozenset[int] | None = None,
    said: Mapping[int, Fixed] | None = None,
) -> StoredBlocks:
    """``only``: set-ups of these points, and what of the pilot they need, are left to take. ``said``: see Pilot."""
    stored = list(stored)
    pilot, taken = Pilot(plan, said, only), _group_by_set_up(plan, stored)
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
        held = taken.get((set_up.block, set_up.configuration), [])
        whole = next((runs for each in held if (runs := _final(plan, each)).keys() >= set(needed)), None)
        if whole is not None:
            done += [whole[trial] for trial in needed]
        elif only is None or any(point in only for point, _ in set_up.trials):
            left += needed
            broken += len({trial for each in held for trial in _final(plan, each)} & set(needed))
            if any(_is_complete(each) for each in held):
                outgrown.add(set_up.block)
    return StoredBlocks(pilot, done, left, _build_outgrown_error(plan, outgrown) if outgrown else None, broken)


def count_block_trials(plan: Plan, pilot: Pilot) -> dict[Key, int]:
    """How many trials every block's set-up holds after what the pilot leaves out."""
    return {
        (each.block, each.configuration): sum(pilot.left_out(trial) is None for trial in each.trials)
        for each in plan.planned_set_ups()
        if each.block != PILOT
    }


def first_block(plan: Plan, left: list[Trial]) -> list[Trial]:
    """What is left of the pilot and of the first block that is not whole."""
    blocks = [plan.place_of(trial)[0] or PILOT for trial in left]
    first = min((block for block in blocks if block != PILOT), default=PILOT)
    return [trial for trial, block in zip(left, blocks, strict=True) if block <= first]


def _group_by_set_up(plan: Plan, stored: Iterable[StoredTrial]) -> dict[Key, list[list[StoredTrial]]]:
    """The settings-up of every block's platform and background, in their order, of what is the plan's."""
    found: dict[Key, dict[str, list[StoredTrial]]] = {}
    for trial in stored:
        if trial.block is None or trial.set_up is None or not 0 <= trial.point < len(plan.points):
            continue
        if trial.block > PILOT < trial.repetition:
            key = (trial.block, configuration(plan.points[trial.point].request))
            found.setdefault(key, {}).setdefault(trial.set_up, []).append(trial)
    return {key: [held[each] for each in sorted(held)] for key, held in found.items()}


def _final(plan: Plan, trials: Iterable[StoredTrial]) -> Runs:
    """The places of one setting-up that are filled: each with its last attempt."""
    last: Runs = {}
    for trial in trials:
        if trial.repetition <= plan.repetitions_of(trial.point):
            place = (trial.point, plan.number_of(trial.point, trial.block, trial.repetition))
            before = last.get(place)
            if before is None or (trial.attempt or 0, trial.run_id) >= (before.attempt or 0, before.run_id):
                last[place] = trial
    return {place: trial for place, trial in last.items() if trial.final}


def _is_complete(trials: list[StoredTrial]) -> bool:
    """Whether a setting-up holds all that it was to hold when it was taken."""
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
