"""The results of a plan's pilot, and the values that they fix for every block, from the pilot's stored runs alone.

If a trial has several runs the first counts, so that later runs never change fixed values. Values that stored blocks
state as fixed stay fixed, whatever pilot another store contains. A run that enters no mean of its platform, because of
losses elsewhere or of a load beyond the instrument, fixes no load and no reference.
"""

from __future__ import annotations

from collections.abc import Mapping

from labconsole.contracts.ports import StoredMaximum, StoredTrial
from labconsole.engine.execution.stop_rules import TargetLimits, rate
from labconsole.measure.groups import WHY
from labconsole.model.design_point import DesignPoint, Target
from labconsole.model.plan.blocks import PILOT, reference_key, references, settings
from labconsole.model.plan.order import Configuration, configuration, forwards
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed, RunRecord


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
