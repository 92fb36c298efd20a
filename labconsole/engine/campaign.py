"""A plan executed: what is done already is skipped, what comes out invalid is redone, every run is stored.

Resume is by meaning: the plan's hash and the testbed's fingerprint say which stored runs belong to it. A pause keeps
the testbed, with lease and platform, between two trials: it is for looking at something and going on. Whoever wants to
let others have the testbed aborts; running the plan again goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from labconsole.engine.grid import Grid, TrialState
from labconsole.engine.ports import StoredTrial
from labconsole.errors import LabError, NodeLost, NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.model.plan import Plan, Point
from labconsole.model.plan_estimate import Estimate, estimate
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest

BACK_WITHIN_S = 120.0
"""How long a lost node is waited for: a reboot takes about that."""

RENEW_EVERY_S = 30.0
"""How often others are told anew until when a paused plan holds the testbed."""

Take = Callable[..., Awaitable[RunRecord]]
"""What Session.batch yields."""


class PlanStore(Protocol):
    """What a campaign asks of the store. Blocking."""

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]: ...


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


class CampaignStatus(StrEnum):
    """What a campaign does now. PAUSING: a pause was asked for and the running trial has to end first."""

    READY = "ready"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    WAITING = "waiting for a lost node"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED = frozenset({CampaignStatus.DONE, CampaignStatus.STOPPED, CampaignStatus.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a campaign stands. ``left_s`` is estimated from the trials taken so far; None before the first."""

    done: int
    skipped: int
    total: int
    point: Point
    repetition: int
    left_s: float | None
    last: RunRecord | None


@dataclass(slots=True)
class Outcome:
    """How a campaign ended. ``invalid`` counts trials that stayed invalid after all their redos."""

    taken: int = 0
    skipped: int = 0
    redone: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    invalid: list[RunRecord] = field(default_factory=list)
    stopped: bool = False


def remaining(plan: Plan, session: CampaignSession) -> list[tuple[int, int]]:
    """The schedule less what the store holds already. Blocking: reads the store."""
    completed = {(trial.point, trial.repetition) for trial in stored_trials(plan, session)}
    return [trial for trial in plan.schedule() if trial not in completed]


def stored_trials(plan: Plan, session: CampaignSession) -> list[StoredTrial]:
    """The trials of this plan that count as done on this testbed. Blocking: reads the store."""
    runs = session.store.plan_runs(plan.hash(), session.inventory.fingerprint())
    # A plan's repetitions may have been lowered since: what is more than it asks for is none of its trials.
    return [t for t in runs if t.point < len(plan.points) and 1 <= t.repetition <= plan.repetitions_of(t.point)]


async def run_campaign(
    plan: Plan, session: CampaignSession, on_progress: Callable[[Progress], None], *, take_over: bool = False
) -> Outcome:
    """Take every trial of the plan that is not stored yet. The plan is resolved for this testbed (check_plan).

    A node that is lost is waited for, up to BACK_WITHIN_S, and the trial taken again, max_redo times at most. Ends
    early, with ``stopped`` set, when the session is aborted. Raises LabError when a trial cannot begin.
    """
    return await Campaign(plan, session, on_progress, take_over=take_over).run()


class Campaign:
    """One execution of a plan: how far it is, what went wrong on the way, pause, resume, abort.

    ``detail`` is the sentence that goes with the status (which node is waited for, why it failed). ``estimate`` is of
    what was left to take when the store was looked at.
    """

    def __init__(
        self,
        plan: Plan,
        session: CampaignSession,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        *,
        take_over: bool = False,
    ) -> None:
        self._take_over = take_over
        self.plan = plan
        self.grid = Grid(plan)
        self.status = CampaignStatus.READY
        self.detail = ""
        self.current: tuple[int, int] | None = None
        self.outcome = Outcome()
        self._session, self._on_progress = session, on_progress
        self._todo: list[tuple[int, int]] = []
        self._done = 0
        self.estimate: Estimate | None = None
        self._begun: float | None = None
        self._ended: float | None = None
        self._held_s = 0.0
        self._held_since: float | None = None
        self._aborted = False
        self._resumed = asyncio.Event()
        self._resumed.set()

    @property
    def revision(self) -> int:
        """Moves with every change of a cell or of the status."""
        return self.grid.revision

    @property
    def running(self) -> bool:
        """True from run() until its end, also while paused."""
        return self._begun is not None and self.status not in ENDED

    @property
    def spent_s(self) -> float:
        """Time spent measuring so far: pauses not counted."""
        if self._begun is None:
            return 0.0
        now = self._ended if self._ended is not None else time.monotonic()
        held_s = self._held_s + (now - self._held_since if self._held_since is not None else 0.0)
        return now - self._begun - held_s

    @property
    def left_s(self) -> float | None:
        """Time left without pauses: by the trials taken so far, before the first by the plan's estimate."""
        if self._begun is None or self.status in ENDED:
            return None
        if not self._done:
            return max(0.0, self.estimate.total_s - self.spent_s) if self.estimate is not None else None
        return self.spent_s / self._done * (len(self._todo) - self._done)

    @property
    def trials_per_s(self) -> float | None:
        """How fast trials are taken, over all so far; None before the first has ended."""
        return self._done / self.spent_s if self._done and self.spent_s > 0 else None

    def pause(self) -> None:
        """Begin no further trial; the running one ends. The testbed stays held and set up."""
        if self.running and self.status is not CampaignStatus.STOPPING:
            self._resumed.clear()
            if self.status is CampaignStatus.RUNNING:
                self._say(CampaignStatus.PAUSING)

    def resume(self) -> None:
        """Go on after a pause."""
        self._resumed.set()
        if self.status is CampaignStatus.PAUSING:
            self._say(CampaignStatus.RUNNING)

    async def abort(self) -> None:
        """Stop the running trial and end; what was measured is kept, and the same plan goes on from there."""
        self._aborted = True
        if self.running:
            self._say(CampaignStatus.STOPPING)
        await self._session.abort()

    async def look(self) -> None:
        """Learn from the store what is measured already; run() begins with it. Raises StoreError."""
        stored, schedule = await asyncio.to_thread(
            lambda: (stored_trials(self.plan, self._session), self.plan.schedule())
        )
        self.grid.stored(stored)
        completed = {(trial.point, trial.repetition) for trial in stored}
        self._todo = [trial for trial in schedule if trial not in completed]
        self.outcome.skipped = self.plan.trials - len(self._todo)
        self.estimate = estimate(self.plan, self._session.inventory, self._todo)

    async def run(self) -> Outcome:
        """Take what is left to take. See run_campaign. Once only."""
        self._begun = time.monotonic()
        self._say(CampaignStatus.RUNNING)
        try:
            await self.look()
            if self._todo:
                await self._batches()
        except LabError as exc:
            self._end(CampaignStatus.FAILED, str(exc))
            raise
        except BaseException:
            self._end(CampaignStatus.STOPPED)
            raise
        self._end(CampaignStatus.STOPPED if self.outcome.stopped else CampaignStatus.DONE)
        return self.outcome

    @property
    def _stopping(self) -> bool:
        return self._aborted or self._session.stopping

    def _say(self, status: CampaignStatus, detail: str = "") -> None:
        self.status, self.detail = status, detail
        self.grid.revision += 1

    def _end(self, status: CampaignStatus, detail: str = "") -> None:
        if self.current is not None and self.grid[self.current].state is TrialState.RUNNING:
            self.grid.give_up(self.current, detail or "stopped before it had ended")
        self.current = None
        self._ended = time.monotonic()
        self._say(status, detail)

    async def _batches(self) -> None:
        """Batch after batch: a batch ends when all is done, or when a node is lost."""
        session = self._session
        # The lease names one request and takes the nodes of it: those of the widest.
        widest = max((self.plan.points[i].request for i, _ in self._todo), key=lambda request: request.sources)
        setbacks, stuck_at = 0, 0
        while self._done < len(self._todo) and not self.outcome.stopped:
            if self._aborted:
                self.outcome.stopped = True
                return
            try:
                purpose = f"plan {self.plan.name}"
                async with session.batch(
                    widest, purpose=purpose, take_over=self._take_over, left_s=self.left_s
                ) as take:
                    self._take_over = False  # meant for who had it then, not for who takes it while a node is away
                    await self._take_all(take)
            except (NodeLost, NodeUnreachable) as exc:
                if self._stopping:
                    self.outcome.stopped = True
                    return
                setbacks = setbacks + 1 if stuck_at == self._done else 1
                stuck_at = self._done
                if setbacks > self.plan.max_redo:
                    raise
                self.outcome.redone += 1
                if self.current is not None:
                    self.grid.redo(self.current)
                    self.grid.give_up(self.current, str(exc))
                self._say(CampaignStatus.WAITING, str(exc))
                await session.wait_connected(session.nodes_of(widest), within_s=BACK_WITHIN_S)
                if self._stopping:
                    self.outcome.stopped = True
                else:
                    self._say(CampaignStatus.RUNNING if self._resumed.is_set() else CampaignStatus.PAUSING)

    async def _take_all(self, take: Take) -> None:
        plan, session, outcome = self.plan, self._session, self.outcome
        while self._done < len(self._todo):
            index, repetition = self.current = self._todo[self._done]
            self._tell(index, repetition, None)
            record = await self._take_one(take, index, repetition)
            if record is None or (self._stopping and record.verdict.status == "invalid"):
                outcome.stopped = True
                return
            self._done += 1
            outcome.taken += 1
            outcome.verdicts[record.verdict.status] += 1
            if record.verdict.status == "invalid":
                outcome.invalid.append(record)
            self._tell(index, repetition, record)
            if self._done < len(self._todo):
                await session.settle(plan.settle_s or 0)
            if self._stopping:
                outcome.stopped = self._done < len(self._todo)
                return

    async def _take_one(self, take: Take, index: int, repetition: int) -> RunRecord | None:
        """One trial, taken again while it comes out invalid: the last attempt's record, None when stopped before it."""
        plan, session, trial = self.plan, self._session, (index, repetition)
        settings = session.settings(drain_s=plan.drain_s)
        attempt = 0
        while True:
            await self._hold()
            if self._stopping:
                return None
            self.grid.begin(trial)
            await session.renew_lease(self.left_s)
            record = await take(
                plan.points[index].request,
                plan.ref(index, repetition),
                repetition,
                plan.repetitions_of(index),
                settings,
                plan.tolerances,
            )
            self.grid.finish(trial, record)
            if self._stopping or record.verdict.status != "invalid" or attempt == plan.max_redo:
                return record
            attempt += 1
            self.outcome.redone += 1
            self.grid.redo(trial)
            await session.settle(plan.settle_s or 0)

    async def _hold(self) -> None:
        """Wait while paused; an abort ends it."""
        if self._resumed.is_set() or self._stopping:
            return
        self._held_since = time.monotonic()
        self._say(CampaignStatus.PAUSED)
        waits = [asyncio.ensure_future(self._resumed.wait()), asyncio.ensure_future(self._session.wait_stopping())]
        try:
            done: set[asyncio.Future[Any]] = set()
            while not done:
                # Others are told until when the testbed is held; while the plan is held, that moves with the clock.
                await self._session.renew_lease(self.left_s)
                done, _ = await asyncio.wait(waits, timeout=RENEW_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            self._held_s += time.monotonic() - self._held_since
            self._held_since = None
        self._say(CampaignStatus.STOPPING if self._stopping else CampaignStatus.RUNNING)

    def _tell(self, index: int, repetition: int, last: RunRecord | None) -> None:
        self._on_progress(
            Progress(
                done=self.outcome.taken,
                skipped=self.outcome.skipped,
                total=self.plan.trials,
                point=self.plan.points[index],
                repetition=repetition,
                left_s=self.left_s if self._done else None,
                last=last,
            )
        )
