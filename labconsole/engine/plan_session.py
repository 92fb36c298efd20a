"""What executing a plan needs of a session and a store, and what the store holds of a plan already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from labconsole.engine.plan_limits import TargetLimits
from labconsole.engine.ports import StoredTrial
from labconsole.model.inventory import Inventory
from labconsole.model.plan import Plan
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest

Take = Callable[..., Awaitable[RunRecord]]
"""What Session.batch yields."""


class PlanStore(Protocol):
    """What a campaign asks of the store. Blocking."""

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]: ...


class Stored(Protocol):
    """What can be asked about a plan without touching the testbed."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> PlanStore: ...


class CampaignSession(Protocol):
    """What a campaign needs of the session."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> PlanStore: ...
    @property
    def stopping(self) -> bool: ...

    def settings(self, *, drain_s: float | None = None) -> Any: ...
    def batch(
        self,
        request: TrialRequest,
        *,
        purpose: str | None = None,
        take_over: bool = False,
        left_s: float | None = None,
    ) -> AbstractAsyncContextManager[Take]: ...
    async def renew_lease(self, left_s: float | None) -> None: ...
    def nodes_of(self, request: TrialRequest) -> list[str]: ...
    async def settle(self, seconds: float) -> None: ...
    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None: ...
    async def wait_stopping(self) -> None: ...
    async def abort(self) -> None: ...


def stored_trials(plan: Plan, session: Stored) -> list[StoredTrial]:
    """The trials of this plan that count as done on this testbed. Blocking: reads the store."""
    runs = session.store.plan_runs(plan.hash(), session.inventory.fingerprint())
    # A plan's repetitions may have been lowered since: what is more than it asks for is none of its trials.
    return [t for t in runs if t.point < len(plan.points) and 1 <= t.repetition <= plan.repetitions_of(t.point)]


def left_to_take(
    plan: Plan, stored: Iterable[StoredTrial], only: frozenset[int] | None = None
) -> list[tuple[int, int]]:
    """The schedule less what is stored, less what the stored runs rule out already; ``only`` these points."""
    limits = TargetLimits(plan)
    completed = set()
    for trial in stored:
        completed.add((trial.point, trial.repetition))
        limits.note(trial.point, trial.repetition, trial.loss_ratio)
    return [
        trial for trial in plan.schedule()
        if trial not in completed and (only is None or trial[0] in only) and limits.left_out(*trial) is None
    ]  # fmt: skip


def remaining(plan: Plan, session: Stored) -> list[tuple[int, int]]:
    """What of the plan is left to take. Blocking: reads the store."""
    return left_to_take(plan, stored_trials(plan, session))
