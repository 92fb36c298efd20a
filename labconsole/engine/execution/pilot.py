"""What a plan's pilot found, and what it thereby fixes for every block. Decided by the stored runs of the pilot alone.

Of several runs of one trial the first counts, so that nothing that is added later moves what was fixed; and what stored
blocks say was fixed for them stays fixed, whatever pilot another store brings. A run that enters no mean of its
platform, for what was lost beside it or asked beyond the instrument, fixes no load and no reference either.
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
    """``note`` its trials as they end; then ask what it fixed. A plan without blocks has none, and nothing is fixed.

    ``said``: by point what runs of stored blocks say was fixed for them. ``only``: the points asked for; None: all.
    """

    def __init__(self, plan: Plan, said: Mapping[int, Fixed] | None = None, only: frozenset[int] | None = None) -> None:
        requests = [point.request for point in plan.points]
        self.limits = TargetLimits(plan, passes=1)
        self._plan = plan
        said = said or {}
        self._named = {run_id for fixed in said.values() for run_id in fixed.run_ids}
        self._loads: dict[DesignPoint, Fixed] = {}
        self._stored_references: dict[tuple[str, bool], Fixed] = {}
        for point, fixed in said.items():
            self._loads.setdefault(requests[point].setting(), fixed)
            if fixed.reference_pps is not None and fixed.run_ids:
                self._stored_references.setdefault(reference_key(requests[point]), fixed)
        self._kept: dict[int, StoredTrial] = {}
        self._telling: dict[int, StoredTrial] = {}  # of the platform
        self._given_up: set[int] = set()
        self._settings = settings(requests) if plan.pilot else {}
        self._references = references(requests)[0] if plan.pilot else {}
        asked = requests if only is None else [requests[point] for point in only]
        self._asked_references = {reference_key(each) for each in asked if forwards(each.background)}
        self._at_max = {
            point: key for key, points in self._references.items() for point in points if self._target(point) == "max"
        }

    def note(self, trial: StoredTrial) -> None:
        """A trial of the pilot ended, or is stored. One that may be tried again says nothing."""
        if trial.status == "invalid":
            if trial.final:
                self._given_up.add(trial.point)
        elif trial.point in self._plan.pilot:
            self._keep_first(self._kept, trial)
            self.limits.note(trial.point, 1, self._kept[trial.point].lost_ratio)
            if trial.says_nothing is None:
                self._keep_first(self._telling, trial)

    def _keep_first(self, held: dict[int, StoredTrial], trial: StoredTrial) -> None:
        held[trial.point] = min(
            held.get(trial.point, trial), trial, key=lambda each: (each.run_id not in self._named, each.run_id)
        )

    def done(self, point: int) -> bool:
        """Whether the pilot needs no further trial of this point."""
        if self._awaited(point):
            return False
        if point in self._kept:
            return True
        # One that stays invalid is done without, where another run of its setting stands.
        return point in self._given_up and any(other in self._kept for other in self._beside(point))

    def _awaited(self, point: int) -> bool:
        """Whether a reference that is asked for is missing for want of this point at max."""
        key = self._at_max.get(point)
        return key is not None and key in self._asked_references and self._reference(key) is None

    def kept(self) -> list[StoredTrial]:
        """The trials that count, by point."""
        return [self._kept[point] for point in sorted(self._kept) if self.done(point)]

    def _beside(self, point: int) -> list[int]:
        if point >= len(self._plan.points):
            return [point]
        return self._settings.get(self._plan.points[point].request.setting(), [])

    def fixed(self, point: int, *, over: bool = True) -> Fixed | None:
        """What is fixed for the runs of a point in every block; None: the plan has no blocks.

        ``over``: False in the pilot itself, where nothing is fixed yet but what its forwarding guests are shares of.
        """
        if self._plan.set_ups is None:
            return None
        request = self._plan.every_point[point].request
        if over and (said := self._loads.get(request.setting())) is not None:
            return said
        load, runs = self._maximum(self._beside(point)) if over else (None, [])
        reference = self.reference(point) if forwards(request.background) else None
        if reference is not None:
            runs += [run for run in self._behind(reference_key(request)) if run not in runs]
        return Fixed(
            maximum_target_bps=load,
            reference_pps=None if reference is None else reference.measured_pps,
            run_ids=tuple(runs),
        )

    def reference(self, point: int) -> StoredMaximum | None:
        """The maximum that this point's second guest forwards a share of, where it does."""
        return self._reference(reference_key(self._plan.every_point[point].request))

    def _reference(self, key: tuple[str, bool]) -> StoredMaximum | None:
        """None without a trial at max: then nobody knows whether any of the others forwarded the maximum."""
        said = self._stored_references.get(key)
        if said is not None and said.reference_pps is not None:
            return self._build_reference(said, said.reference_pps)
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
        """What a reference is the highest of. The trial at max always; others unless they are left out: whether the
        pilot took those is a matter of its order."""
        held = [self._telling[point] for point in self._references.get(key, ()) if point in self._telling]
        return [
            trial
            for trial in held
            if trial.rate_pps is not None and (trial.point in self._at_max or self.left_out((trial.point, 1)) is None)
        ]

    def _behind(self, key: tuple[str, bool]) -> list[str]:
        """The runs behind a reference."""
        if (said := self._stored_references.get(key)) is not None:
            others = {trial.run_id for point, trial in self._kept.items() if point not in self._references[key]}
            return [run_id for run_id in said.run_ids if run_id not in others]
        return [trial.run_id for trial in self._given(key)]

    def _build_reference(self, said: Fixed, reference_pps: float) -> StoredMaximum:
        """As the blocks have it; its target by the run of that rate, where the pilot's runs are stored."""
        known = [*self._telling.values(), *self._kept.values()]
        of_it = [t for t in known if t.run_id in said.run_ids and t.rate_pps == reference_pps]
        run_id, target = (of_it[0].run_id, self._target(of_it[0].point)) if of_it else (said.run_ids[0], "max")
        return StoredMaximum(measured_pps=reference_pps, runs=1, run_id=run_id, target_bps=target)

    def missing(self, asked: Configuration) -> str | None:
        """Why no set-up of this platform and background can be measured after the pilot; None: it can."""
        points = [point.index for point in self._plan.points if configuration(point.request) == asked]
        for index in points:
            if (lacking := self.lacks_reference(index)) is not None:
                return lacking
            beside = self._beside(index)
            stored = self._plan.points[index].request.setting() in self._loads
            if len(beside) > 1 and not stored and not any(each in self._kept for each in beside):
                named = self._plan.points[index].request
                size, sources = named.frame.bytes, named.sources
                return f"no trial of the pilot stands at {size} B with {sources} source{'s' if sources > 1 else ''}"
        return None

    def lacks_reference(self, point: int) -> str | None:
        """Why a point beside a forwarding guest cannot be taken; None: it can, or nothing forwards beside it."""
        request = self._plan.every_point[point].request
        if not forwards(request.background) or self.reference(point) is not None:
            return None
        found = self._references.get(reference_key(request), ())
        at_max = (self._kept.get(each) for each in found if each in self._at_max)
        why = next((f"; at max {WHY[each.says_nothing]}" for each in at_max if each and each.says_nothing), "")
        return (
            f"the pilot found no maximum of {request.platform} beside an idle guest, which {request.background} is a "
            f"share of{why}"
        )

    def left_out(self, trial: tuple[int, int]) -> str | None:
        """Why a trial of the pilot or of a block is not worth taking, in view of what the pilot lost.

        The pilot itself takes what a forwarding load that is asked for is a share of at max, whatever was lost below.
        """
        point, number = trial
        if point >= len(self._plan.points) or (number == PILOT and self._awaited(point)):
            return None
        return self.limits.left_out(point, 1)

    def _maximum(self, points: list[int]) -> tuple[Target | None, list[str]]:
        """The load of the highest rate among those that blocks take, and the runs that were compared."""
        if len(points) < 2:
            return None, []
        known = [
            self._telling[index]
            for index in points
            if index in self._telling
            and self._telling[index].rate_pps is not None
            and self.left_out((index, 1)) is None
        ]
        if not known:
            return None, []
        best = min(known, key=lambda trial: (-(trial.rate_pps or 0.0), rate(self._target(trial.point))))
        return self._target(best.point), [trial.run_id for trial in known]

    def _target(self, point: int) -> Target:
        return self._plan.every_point[point].request.target


def stored_trial(record: RunRecord) -> StoredTrial:
    """A run of a plan that was just taken, as the store will tell it."""
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
