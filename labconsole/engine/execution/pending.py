"""The interfaces that executing a plan needs, and the trials of a plan that are stored or left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from labconsole.contracts.experiment import Experiment, Stage
from labconsole.contracts.ports import RunSink, StoredMaximum, StoredTrial
from labconsole.engine.execution.blocks import Pilot, find_defining_runs, stored_blocks
from labconsole.engine.execution.stop_conditions import TargetLimits
from labconsole.engine.trial.second_guest import find_reference, reference_command
from labconsole.engine.trial.setup import Take
from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.order import PILOT, Trial
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed


class OfflineSession(Protocol):
    """The part of a session that answers questions about a plan without the testbed."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> RunSink: ...


class ExecutionSession(Protocol):
    """The part of a session that an execution needs."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> RunSink: ...
    @property
    def experiments(self) -> Sequence[Experiment]: ...
    @property
    def stage(self) -> Stage: ...
    @property
    def operator(self) -> str: ...
    @property
    def boots_s(self) -> Mapping[str, float]: ...
    @property
    def stopping(self) -> bool: ...

    def settings(self, plan: Plan | None = None) -> Any: ...
    def batch(
        self,
        request: DesignPoint,
        *,
        purpose: str | None = None,
        take_over: bool = False,
        left_s: float | None = None,
        nodes: Iterable[str] | None = None,
    ) -> AbstractAsyncContextManager[Take]: ...
    async def renew_lease(self, left_s: float | None) -> None: ...
    def announce_guest_trial(self, request: DesignPoint, description: str, plan: str | None) -> None: ...
    def nodes_of(self, request: DesignPoint) -> list[str]: ...
    async def settle(self, seconds: float) -> None: ...
    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None: ...
    async def wait_stopping(self) -> None: ...
    async def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PlanState:
    """The stored state of a plan: the trials that count as done, and those that are left, in order.

    ``pilot``: its results. ``refusal``: why the plan cannot continue from there. ``broken``: how many of the trials
    left are stored in set-ups that broke off.
    """

    done: list[StoredTrial]
    left: list[Trial]
    pilot: Pilot
    refusal: ConfigError | None = None
    broken: int = 0


def derive_plan_state(
    plan: Plan,
    stored: Iterable[StoredTrial],
    only: frozenset[int] | None = None,
    stated: Mapping[int, Fixed] | None = None,
) -> PlanState:
    """The schedule without stored trials and those that stored runs rule out; only these points, if ``only`` is set.

    ``stated``: the values fixed by the pilot, as stored blocks state them, by point.
    """
    if plan.set_ups is not None:
        blocks = stored_blocks(plan, stored, only, stated)
        return PlanState(blocks.done, blocks.left, blocks.pilot, blocks.refusal, blocks.broken)
    limits = TargetLimits(plan)
    # The plan's repetitions may have been lowered since; excess ones do not belong to it any more.
    done = [
        trial
        for trial in stored
        if trial.block is None
        and trial.point < len(plan.points)
        and 1 <= trial.repetition <= plan.repetitions_of(trial.point)
    ]
    for trial in done:
        limits.note(trial.point, trial.repetition, trial.lost_ratio)
    completed = {(trial.point, trial.repetition) for trial in done}
    left = [
        trial
        for trial in plan.schedule()
        if trial not in completed and (only is None or trial[0] in only) and limits.left_out(*trial) is None
    ]
    return PlanState(done, left, Pilot(plan))


def load_plan_state(plan: Plan, session: OfflineSession, only: frozenset[int] | None = None) -> PlanState:
    """The plan's state on this testbed. Blocking: reads the store."""
    stored = session.store.plan_runs(plan.hash(), session.inventory.fingerprint())
    defining = find_defining_runs(plan, stored)
    fixed = session.store.fixed(list(defining.values())) if defining else {}
    stated = {point: fixed[run_id] for point, run_id in defining.items() if run_id in fixed}
    return derive_plan_state(plan, stored, only, stated)


def remaining(plan: Plan, session: OfflineSession) -> list[Trial]:
    """The trials of the plan that are left. Blocking: reads the store."""
    return load_plan_state(plan, session).left


def count_requested(plan: Plan, only: frozenset[int] | None) -> int:
    """Number of requested trials: of the chosen points, and of the pilot that they need."""
    if only is None:
        return plan.trials
    return sum(plan.numbers_of(point) for point in only) + len(plan.needed_pilot(only))


def is_requested(plan: Plan, trial: StoredTrial, only: frozenset[int] | None) -> bool:
    """Whether a stored trial is one of the requested ones."""
    if only is None:
        return True
    return trial.point in (plan.needed_pilot(only) if trial.block == PILOT else only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """The source of the maximum that defines the load of a platform's forwarding second guest.

    ``given_by``: points of this plan that are still to be measured; ``reference``: the stored maximum.
    """

    platform: str
    points: tuple[int, ...]
    given_by: tuple[int, ...]
    reference: StoredMaximum | None
    words: str

    @property
    def missing(self) -> bool:
        """Whether the maximum is neither stored nor measured by this plan, so that these points will be refused."""
        return self.reference is None and not self.given_by


def dependencies(
    plan: Plan, todo: Iterable[Trial], session: OfflineSession, pilot: Pilot | None = None
) -> list[Dependency]:
    """The dependencies of platforms with open trials next to a forwarding guest. Blocking: reads the store."""
    open_points = {index for index, _ in todo}
    found = []
    for need in plan.needs():
        waiting = tuple(index for index in need.points if index in open_points)
        if not waiting:
            continue
        request = plan.points[waiting[0]].request
        if plan.set_ups is None:
            reference = find_reference(request, session.inventory, session.store)
        else:
            reference = pilot.reference(waiting[0]) if pilot is not None else None
        first = tuple(index for index in need.given_by if index in open_points)
        text = f"points {_numbers(waiting)} need the maximum of {need.platform} with an idle guest: "
        if plan.set_ups is not None and reference is None:
            text += "the pilot measures it first"
        elif first and plan.set_ups is None:
            text += f"points {_numbers(first)} of this plan measure it first"
        elif reference is not None:
            text += f"run {reference.run_id} has it, {reference.measured_pps:.0f} packets/s"
        else:
            text += f"it is not stored and not in this plan; {reference_command(request)}"
        found.append(
            Dependency(platform=need.platform, points=waiting, given_by=first, reference=reference, words=text)
        )
    return found


def _numbers(points: Sequence[int]) -> str:
    """Numbers as text: ``3, 8-11``."""
    parts: list[list[int]] = []
    for point in sorted(points):
        if parts and point == parts[-1][-1] + 1:
            parts[-1].append(point)
        else:
            parts.append([point])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
