"""A plan executed headless: what is done already is skipped, what comes out invalid is redone, every run is stored.

Resume is by meaning: the plan's hash and the testbed's fingerprint say which stored runs belong to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from labconsole.engine.ports import RunSink
from labconsole.engine.session import Session
from labconsole.errors import NodeLost, NodeUnreachable
from labconsole.model.plan import Plan, Point
from labconsole.model.record import RunRecord

BACK_WITHIN_S = 120.0
"""How long a lost node is waited for: a reboot takes about that."""

Take = Callable[..., Awaitable[RunRecord]]
"""What Session.batch yields."""


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


def remaining(plan: Plan, session: Session[RunSink]) -> list[tuple[int, int]]:
    """The schedule less what the store holds already. Blocking: reads the store."""
    completed = set(session.store.completed_points(plan.hash(), session.inventory.fingerprint()))
    return [trial for trial in plan.schedule() if trial not in completed]


async def run_campaign(plan: Plan, session: Session[RunSink], on_progress: Callable[[Progress], None]) -> Outcome:
    """Take every trial of the plan that is not stored yet. The plan is resolved for this testbed (check_plan).

    A node that is lost is waited for, up to BACK_WITHIN_S, and the trial taken again, max_redo times at most. Ends
    early, with ``stopped`` set, when the session is aborted. Raises LabError when a trial cannot begin.
    """
    todo = await asyncio.to_thread(remaining, plan, session)
    campaign = _Campaign(plan, session, todo, on_progress)
    if todo:
        await campaign.run()
    return campaign.outcome


class _Campaign:
    """The state of one execution: how far it is, and what went wrong on the way."""

    def __init__(
        self,
        plan: Plan,
        session: Session[RunSink],
        todo: list[tuple[int, int]],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.outcome = Outcome(skipped=plan.trials - len(todo))
        self._plan, self._session, self._todo, self._on_progress = plan, session, todo, on_progress
        self._done = 0
        self._begun = time.monotonic()
        self._settings = session.settings(drain_s=plan.drain_s)
        self._tolerances = plan.tolerances

    async def run(self) -> None:
        """Batch after batch: a batch ends when all is done, or when a node is lost."""
        session = self._session
        # The lease names one request and takes the nodes of it: those of the widest.
        widest = max((self._plan.points[i].request for i, _ in self._todo), key=lambda request: request.sources)
        setbacks, stuck_at = 0, 0
        while self._done < len(self._todo) and not self.outcome.stopped:
            try:
                async with session.batch(widest) as take:
                    await self._take_all(take)
            except (NodeLost, NodeUnreachable):
                if session.stopping:
                    self.outcome.stopped = True
                    return
                setbacks = setbacks + 1 if stuck_at == self._done else 1
                stuck_at = self._done
                if setbacks > self._plan.max_redo:
                    raise
                self.outcome.redone += 1
                await session.wait_connected(session.nodes_of(widest), within_s=BACK_WITHIN_S)
                if session.stopping:
                    self.outcome.stopped = True

    async def _take_all(self, take: Take) -> None:
        plan, session, outcome = self._plan, self._session, self.outcome
        while self._done < len(self._todo):
            index, repetition = self._todo[self._done]
            self._tell(index, repetition, None)
            record = await self._take_one(take, index, repetition)
            if session.stopping and record.verdict.status == "invalid":
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
            if session.stopping:
                outcome.stopped = self._done < len(self._todo)
                return

    async def _take_one(self, take: Take, index: int, repetition: int) -> RunRecord:
        """One trial, taken again while it comes out invalid; the last attempt's record."""
        plan, session = self._plan, self._session
        attempt = 0
        while True:
            record = await take(
                plan.points[index].request,
                plan.ref(index, repetition),
                repetition,
                plan.repetitions,
                self._settings,
                self._tolerances,
            )
            if session.stopping or record.verdict.status != "invalid" or attempt == plan.max_redo:
                return record
            attempt += 1
            self.outcome.redone += 1
            await session.settle(plan.settle_s or 0)

    def _tell(self, index: int, repetition: int, last: RunRecord | None) -> None:
        left = len(self._todo) - self._done
        self._on_progress(
            Progress(
                done=self.outcome.taken,
                skipped=self.outcome.skipped,
                total=self._plan.trials,
                point=self._plan.points[index],
                repetition=repetition,
                left_s=(time.monotonic() - self._begun) / self._done * left if self._done else None,
                last=last,
            )
        )
