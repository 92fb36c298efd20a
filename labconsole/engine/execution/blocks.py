"""A plan in blocks: its pilot, the stored part, the current set-up, and the time for another block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from labconsole.contracts.ports import StoredMaximum, StoredTrial
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.stop_conditions import TargetLimits, rate
from labconsole.errors import ConfigError, LabError, MeasurementError
from labconsole.measure.groups import WHY
from labconsole.model.design_point import DesignPoint, Target
from labconsole.model.inventory import Inventory
from labconsole.model.plan.estimate import estimate
from labconsole.model.plan.order import (
    PILOT,
    Configuration,
    Trial,
    configuration,
    forwards,
    reference_key,
    references,
    settings,
)
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed, RunRecord

# -- pilot -------------------------------------------------------------------------------------------------------------
# The results of a plan's pilot, and the values that they fix for every block, from the pilot's stored runs alone.
#
# If a trial has several runs the first counts, so that later runs never change fixed values. Values that stored blocks
# state as fixed stay fixed, whatever pilot another store contains. A run that enters no mean of its platform, because
# of losses elsewhere or of a load beyond the instrument, fixes no load and no reference.


class Pilot:
    """Collects the pilot's trials by ``note``, then answers what they fix. A plan without blocks has no pilot.

    ``stated``: the fixed values in runs of stored blocks, by point. ``only``: the requested points, or None for all.
    """

    def __init__(
        self, plan: Plan, stated: Mapping[int, Fixed] | None = None, only: frozenset[int] | None = None
    ) -> None:
        requests = [point.request for point in plan.points]
        self.limits = TargetLimits(plan, passes=1)
        self._plan = plan
        stated = stated or {}
        self._named = {run_id for fixed in stated.values() for run_id in fixed.run_ids}
        self._loads: dict[DesignPoint, Fixed] = {}
        self._stored_references: dict[tuple[str, bool], Fixed] = {}
        for point, fixed in stated.items():
            self._loads.setdefault(requests[point].setting(), fixed)
            if fixed.reference_pps is not None and fixed.run_ids:
                self._stored_references.setdefault(reference_key(requests[point]), fixed)
        self._kept: dict[int, StoredTrial] = {}
        self._informative: dict[int, StoredTrial] = {}  # that say something of the platform
        self._given_up: set[int] = set()
        self._settings = settings(requests) if plan.pilot else {}
        self._references = references(requests)[0] if plan.pilot else {}
        requested = requests if only is None else [requests[point] for point in only]
        self._requested_references = {reference_key(each) for each in requested if forwards(each.background)}
        self._at_max = {
            point: key for key, points in self._references.items() for point in points if self._target(point) == "max"
        }

    def note(self, trial: StoredTrial) -> None:
        """Note a trial of the pilot that ended or is stored. A trial that may be repeated yields no result."""
        if trial.status == "invalid":
            if trial.final:
                self._given_up.add(trial.point)
        elif trial.point in self._plan.pilot:
            self._keep_first(self._kept, trial)
            self.limits.note(trial.point, 1, self._kept[trial.point].lost_ratio)
            if trial.says_nothing is None:
                self._keep_first(self._informative, trial)

    def _keep_first(self, kept: dict[int, StoredTrial], trial: StoredTrial) -> None:
        kept[trial.point] = min(
            kept.get(trial.point, trial), trial, key=lambda each: (each.run_id not in self._named, each.run_id)
        )

    def done(self, point: int) -> bool:
        """Whether the pilot needs no further trial of this point."""
        if self._awaited(point):
            return False
        if point in self._kept:
            return True
        # A trial that stays invalid is dispensable if another run of its setting is usable.
        return point in self._given_up and any(other in self._kept for other in self._points_of_setting(point))

    def _awaited(self, point: int) -> bool:
        """Whether a requested reference is missing because this point has no trial at max."""
        key = self._at_max.get(point)
        return key is not None and key in self._requested_references and self._reference(key) is None

    def kept(self) -> list[StoredTrial]:
        """The trials that count, by point."""
        return [self._kept[point] for point in sorted(self._kept) if self.done(point)]

    def _points_of_setting(self, point: int) -> list[int]:
        if point >= len(self._plan.points):
            return [point]
        return self._settings.get(self._plan.points[point].request.setting(), [])

    def fixed(self, point: int, *, over: bool = True) -> Fixed | None:
        """The values fixed for the runs of a point in every block, or None if the plan has no blocks.

        ``over``: False within the pilot itself, where only the references of forwarding guests are fixed.
        """
        if self._plan.set_ups is None:
            return None
        request = self._plan.every_point[point].request
        if over and (stated := self._loads.get(request.setting())) is not None:
            return stated
        load, runs = self._maximum(self._points_of_setting(point)) if over else (None, [])
        reference = self.reference(point) if forwards(request.background) else None
        if reference is not None:
            runs += [run for run in self._behind(reference_key(request)) if run not in runs]
        return Fixed(
            maximum_target_bps=load,
            reference_pps=None if reference is None else reference.measured_pps,
            run_ids=tuple(runs),
        )

    def reference(self, point: int) -> StoredMaximum | None:
        """The maximum that defines the load of this point's second guest, or None if that does not forward."""
        return self._reference(reference_key(self._plan.every_point[point].request))

    def _reference(self, key: tuple[str, bool]) -> StoredMaximum | None:
        """The reference, or None without a trial at max: the others may not have reached the maximum."""
        stated = self._stored_references.get(key)
        if stated is not None and stated.reference_pps is not None:
            return self._build_reference(stated, stated.reference_pps)
        given = self._given(key)
        if not any(trial.point in self._at_max for trial in given):
            return None
        best = min(given, key=lambda trial: (-(trial.rate_pps or 0.0), rate(self._target(trial.point))))
        if not best.rate_pps:
            return None
        return StoredMaximum(
            measured_pps=best.rate_pps, runs=1, run_id=best.run_id, target_bps=self._target(best.point)
        )

    def _given(self, key: tuple[str, bool]) -> list[StoredTrial]:
        """The trials whose highest rate is the reference.

        The trial at max always belongs to them. Others do unless they are left out, because whether the pilot took
        those depends on its order.
        """
        informative = [
            self._informative[point] for point in self._references.get(key, ()) if point in self._informative
        ]
        return [
            trial
            for trial in informative
            if trial.rate_pps is not None and (trial.point in self._at_max or self.left_out((trial.point, 1)) is None)
        ]

    def _behind(self, key: tuple[str, bool]) -> list[str]:
        """The runs behind a reference."""
        if (stated := self._stored_references.get(key)) is not None:
            others = {trial.run_id for point, trial in self._kept.items() if point not in self._references[key]}
            return [run_id for run_id in stated.run_ids if run_id not in others]
        return [trial.run_id for trial in self._given(key)]

    def _build_reference(self, stated: Fixed, reference_pps: float) -> StoredMaximum:
        """The reference as the blocks state it; its target is that of the pilot's run with this rate, if stored."""
        known = [*self._informative.values(), *self._kept.values()]
        of_it = [t for t in known if t.run_id in stated.run_ids and t.rate_pps == reference_pps]
        run_id, target = (of_it[0].run_id, self._target(of_it[0].point)) if of_it else (stated.run_ids[0], "max")
        return StoredMaximum(measured_pps=reference_pps, runs=1, run_id=run_id, target_bps=target)

    def missing(self, wanted: Configuration) -> str | None:
        """Why no set-up of this platform and background can be measured after the pilot, or None if it can."""
        points = [point.index for point in self._plan.points if configuration(point.request) == wanted]
        for index in points:
            if (lacking := self.lacks_reference(index)) is not None:
                return lacking
            same_setting = self._points_of_setting(index)
            stored = self._plan.points[index].request.setting() in self._loads
            if len(same_setting) > 1 and not stored and not any(each in self._kept for each in same_setting):
                named = self._plan.points[index].request
                size, sources = named.frame.bytes, named.sources
                return f"the pilot has no usable trial at {size} B with {sources} source{'s' if sources > 1 else ''}"
        return None

    def lacks_reference(self, point: int) -> str | None:
        """Why a point with a forwarding second guest cannot be taken, or None if it can or has no such guest."""
        request = self._plan.every_point[point].request
        if not forwards(request.background) or self.reference(point) is not None:
            return None
        found = self._references.get(reference_key(request), ())
        at_max = (self._kept.get(each) for each in found if each in self._at_max)
        why = next((f"; at max {WHY[each.says_nothing]}" for each in at_max if each and each.says_nothing), "")
        return (
            f"the pilot found no maximum of {request.platform} with an idle guest, which {request.background} is a "
            f"share of{why}"
        )

    def left_out(self, trial: tuple[int, int]) -> str | None:
        """Why a trial of the pilot or of a block is not worth taking in view of the pilot's losses, or None.

        The pilot always takes the trial at max that a requested forwarding load refers to, whatever was lost below.
        """
        point, number = trial
        if point >= len(self._plan.points) or (number == PILOT and self._awaited(point)):
            return None
        return self.limits.left_out(point, 1)

    def _maximum(self, points: list[int]) -> tuple[Target | None, list[str]]:
        """The load with the highest rate among those that blocks take, and the runs that were compared."""
        if len(points) < 2:
            return None, []
        known = [
            self._informative[index]
            for index in points
            if index in self._informative
            and self._informative[index].rate_pps is not None
            and self.left_out((index, 1)) is None
        ]
        if not known:
            return None, []
        best = min(known, key=lambda trial: (-(trial.rate_pps or 0.0), rate(self._target(trial.point))))
        return self._target(best.point), [trial.run_id for trial in known]

    def _target(self, point: int) -> Target:
        return self._plan.every_point[point].request.target


def stored_trial(record: RunRecord) -> StoredTrial:
    """A run of a plan that was just taken, in the form in which the store returns it."""
    total, place, verdict = record.total, record.plan, record.verdict
    assert place is not None
    return StoredTrial(
        place.point,
        place.repetition,
        record.run_id,
        verdict.status,
        total.loss_ratio,
        block=place.block,
        attempt=place.attempt,
        attempts=place.attempts,
        rate_pps=total.measured_pps if total.forwarding_pps is None else total.forwarding_pps,
        uut_loss_ratio=total.uut_loss_ratio,
        reason_codes=tuple(reason.code for reason in verdict.reasons),
        offered_packets=total.offered_packets,
    )


# -- the stored part ---------------------------------------------------------------------------------------------------
# The stored part of a plan in blocks: its pilot, the complete set-ups, and the trials that are left.
#
# A set-up is complete when each of its places has a usable run of this set-up, or one whose last attempt stayed
# invalid. A set-up that broke off is repeated completely: the lost trials are not a random sample, and its guest is
# gone.

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


# -- set up tracker ----------------------------------------------------------------------------------------------------
# Tracks the set-ups of a plan in blocks: which is current, whether it is complete, and how often it was tried.
#
# A set-up that breaks off is repeated completely, at most ``max_redo`` times in one execution: its first trials share a
# boot of a guest that is gone. An invalid trial breaks it off only if the platform itself may be broken. Faults of the
# instruments (a failed generator, witnesses that disagree, a background load that was missed) leave the guest intact,
# and setting it up again would discard sound trials.


class SetUpFailure(MeasurementError):
    """The current set-up cannot be finished. ``cause``: the error behind it, or None."""

    def __init__(self, message: str, cause: LabError | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class SetUpTracker:
    """Tracks the set-ups of one execution. A plan without blocks, and the pilot, have no tracked set-ups."""

    def __init__(self, plan: Plan) -> None:
        self.key: Key | None = None
        self.again: Counter[Key] = Counter()
        self._plan = plan
        self._id: str | None = None
        self._known = False
        self._taken: list[RunRecord] = []
        self._gave_run: set[Key] = set()
        self._sizes: dict[Key, int] | None = None

    def enter(self, trial: Trial) -> bool:
        """Enter the trial's set-up; return whether the trial begins one."""
        key = self._plan.set_up_of(trial)
        if key == self.key:
            return False
        self.leave()
        self.key = key
        return key is not None

    def leave(self) -> None:
        """Leave the set-up: nothing is set up any more."""
        self.key, self._id, self._known = None, None, False
        self._taken = []

    @property
    def begun(self) -> bool:
        """Whether a trial, or a warm-up, was taken in the current set-up."""
        return self._known

    def size(self, pilot: Pilot) -> int | None:
        """Number of trials in the current set-up."""
        if self.key is None:
            return None
        if self._sizes is None:  # the pilot is over once a block begins
            self._sizes = count_block_trials(self._plan, pilot)
        return self._sizes[self.key]

    def saw(self, record: RunRecord) -> None:
        """Note a trial or a warm-up. Raises SetUpFailure if it was in another set-up."""
        if self.key is None:
            return
        self._gave_run.add(self.key)
        set_up_id = record.set_up.id if record.set_up is not None else None
        if self._known and set_up_id != self._id:
            raise SetUpFailure("the platform had to be set up again in between")
        self._id, self._known = set_up_id, True

    def counts(self, record: RunRecord) -> None:
        """Count a trial that ended its last attempt."""
        self._taken.append(record)

    def broke(self, outcome: Outcome) -> bool:
        """Withdraw the set-up's results; return whether it may be tried again."""
        assert self.key is not None
        outcome.redone += len(self._taken)
        outcome.taken -= len(self._taken)
        outcome.verdicts.subtract(record.verdict.status for record in self._taken)
        outcome.verdicts += Counter()  # drops zero counts
        gone = {record.run_id for record in self._taken}
        outcome.invalid[:] = [record for record in outcome.invalid if record.run_id not in gone]
        self.again[self.key] += 1
        tries = self.again[self.key]
        self._taken = []
        return tries <= self._plan.max_redo

    @property
    def taken(self) -> int:
        """Number of trials in the current set-up that ended their last attempt."""
        return len(self._taken)

    @property
    def gave_runs(self) -> bool:
        """Whether the platform was up at least once, so that a later set-up may succeed."""
        return self.key in self._gave_run


def describe_set_up(key: Key) -> str:
    """Block, platform and background of a set-up, for people."""
    block, (platform, background) = key
    return f"block {block}: {platform} {describe_background(background)}"


def describe_background(background: str) -> str:
    """The background that a platform is measured with, as text."""
    return "alone" if background == "none" else f"with background {background}"


def format_block(block: int, set_ups: int | None) -> str:
    """Place in the plan: ``pilot``, ``block 2 of 5``."""
    return "pilot" if block == PILOT else f"block {block} of {set_ups}"


# -- time limit --------------------------------------------------------------------------------------------------------
# Whether a plan in blocks has time for another block before it is to stop; an incomplete block would be lost.


def room_refusal(
    plan: Plan, left: list[Trial], inventory: Inventory, boots_s: Mapping[str, float]
) -> ConfigError | None:
    """The error if no block, with the rest of the pilot, fits before the plan is to stop; None if one fits."""
    if plan.set_ups is None or not left:
        return None
    now = datetime.now().astimezone()
    needed_s = estimate(plan, inventory, boots_s, first_block(plan, left)).total_s
    deadline = plan.stop.deadline(now)
    for key, room_s, value in (
        ("stop.after_s", plan.stop.after_s, plan.stop.after_s),
        ("stop.at", None if deadline is None else (deadline - now).total_seconds(), plan.stop.at),
    ):
        if room_s is not None and room_s < needed_s:
            return ConfigError(
                f"leaves {_format_duration(max(0.0, room_s))} to plan {plan.name}, and its next block takes about "
                f"{_format_duration(needed_s)} with what is left of the pilot: stop later, or make a block shorter "
                "(fewer repetitions, points or platforms; --platforms selects some of them)",
                key=key,
                value=value,
            )
    return None


def _format_duration(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"
