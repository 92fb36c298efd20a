"""What executing a plan needs of a session and a store, and what the store holds of a plan already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from labconsole.contracts.experiment import Experiment, Stage
from labconsole.contracts.ports import RunSink, StoredMaximum, StoredTrial
from labconsole.engine.execution.blocks import find_defining_runs, stored_blocks
from labconsole.engine.execution.pilot import Pilot
from labconsole.engine.execution.stop_rules import TargetLimits
from labconsole.engine.trial.request import Take
from labconsole.engine.trial.second_guest import find_reference, reference_command
from labconsole.errors import ConfigError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.blocks import PILOT
from labconsole.model.plan.order import Trial
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed


class OfflineSession(Protocol):
    """What can be asked about a plan without touching the testbed."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> RunSink: ...


class ExecutionSession(Protocol):
    """What an execution needs of the session."""

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
    def announce_guest_trial(self, request: DesignPoint, words: str, plan: str | None) -> None: ...
    def nodes_of(self, request: DesignPoint) -> list[str]: ...
    async def settle(self, seconds: float) -> None: ...
    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None: ...
    async def wait_stopping(self) -> None: ...
    async def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PlanState:
    """Where a plan stands by the store: the trials that count as done, and what is left to take, in order.

    ``pilot``: what it fixed; ``refusal``: why the plan cannot go on from there. ``broken``: how many of the trials left
    are stored in set-ups that broke off.
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
    said: Mapping[int, Fixed] | None = None,
) -> PlanState:
    """The schedule less what is stored, less what the stored runs rule out already; ``only`` these points.

    ``said``: by point what stored blocks say was fixed for them.
    """
    if plan.set_ups is not None:
        blocks = stored_blocks(plan, stored, only, said)
        return PlanState(blocks.done, blocks.left, blocks.pilot, blocks.refusal, blocks.broken)
    limits = TargetLimits(plan)
    # A plan's repetitions may have been lowered since: what is more than it asks for is none of its trials.
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
    """Where the plan stands on this testbed. Blocking: reads the store."""
    stored = session.store.plan_runs(plan.hash(), session.inventory.fingerprint())
    telling = find_defining_runs(plan, stored)
    fixed = session.store.fixed(list(telling.values())) if telling else {}
    said = {point: fixed[run_id] for point, run_id in telling.items() if run_id in fixed}
    return derive_plan_state(plan, stored, only, said)


def remaining(plan: Plan, session: OfflineSession) -> list[Trial]:
    """What of the plan is left to take. Blocking: reads the store."""
    return load_plan_state(plan, session).left


def count_requested(plan: Plan, only: frozenset[int] | None) -> int:
    """How many trials that is in all: of the chosen points, and of the pilot that they need."""
    if only is None:
        return plan.trials
    return sum(plan.numbers_of(point) for point in only) + len(plan.needed_pilot(only))


def is_requested(plan: Plan, trial: StoredTrial, only: frozenset[int] | None) -> bool:
    """Whether a trial that is done is one of them."""
    if only is None:
        return True
    return trial.point in (plan.needed_pilot(only) if trial.block == PILOT else only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Where the maximum comes from that a platform's trials beside a forwarding guest are a share of.

    ``given_by``: points of this plan that are still to be measured; ``reference``: what the store has.
    """

    platform: str
    points: tuple[int, ...]
    given_by: tuple[int, ...]
    reference: StoredMaximum | None
    words: str

    @property
    def missing(self) -> bool:
        """Neither stored nor measured by this plan: these points will be refused."""
        return self.reference is None and not self.given_by


def dependencies(
    plan: Plan, todo: Iterable[Trial], session: OfflineSession, pilot: Pilot | None = None
) -> list[Dependency]:
    """For every platform that has trials beside a forwarding guest to take. Blocking: reads the store."""
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
        words = f"points {_numbers(waiting)} need the maximum of {need.platform} beside an idle guest: "
        if plan.set_ups is not None and reference is None:
            words += "the pilot measures it first"
        elif first and plan.set_ups is None:
            words += f"points {_numbers(first)} of this plan measure it first"
        elif reference is not None:
            words += f"run {reference.run_id} has it, {reference.measured_pps:.0f} packets/s"
        else:
            words += f"it is not stored and not in this plan; {reference_command(request)}"
        found.append(
            Dependency(platform=need.platform, points=waiting, given_by=first, reference=reference, words=words)
        )
    return found


def _numbers(points: Sequence[int]) -> str:
    """``3, 8-11``."""
    parts: list[list[int]] = []
    for point in sorted(points):
        if parts and point == parts[-1][-1] + 1:
            parts[-1].append(point)
        else:
            parts.append([point])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
