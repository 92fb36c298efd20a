"""A plan executed headless: what is done already is skipped, what comes out invalid is redone, every run is stored.

Resume is by meaning: the plan's hash and the testbed's fingerprint say which stored runs belong to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from labconsole.engine.ports import RunSink
from labconsole.engine.session import Session
from labconsole.engine.verdict import Tolerances
from labconsole.model.plan import Plan, Point
from labconsole.model.record import RunRecord


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

    Ends early, with ``stopped`` set, when the session is aborted. Raises LabError when a trial cannot begin.
    """
    todo = await asyncio.to_thread(remaining, plan, session)
    outcome = Outcome(skipped=plan.trials - len(todo))
    if not todo:
        return outcome
    settings = session.settings(drain_s=plan.drain_s)
    tolerances = Tolerances(
        offered_ratio=plan.tolerances.offered_ratio,
        duration_ratio=plan.tolerances.duration_ratio,
        start_skew_s=plan.tolerances.start_skew_s,
        foreign_packets=plan.tolerances.foreign_packets,
    )
    begun = time.monotonic()
    # The first to come is what the lease names; sources differ between points, so take the widest.
    widest = max((plan.points[i].request for i, _ in todo), key=lambda r: r.sources)
    async with session.batch(widest) as take:
        for number, (index, repetition) in enumerate(todo):
            point = plan.points[index]
            left_s = None if number == 0 else (time.monotonic() - begun) / number * (len(todo) - number)
            on_progress(_progress(plan, outcome, point, repetition, left_s, None))
            record = None
            for attempt in range(plan.max_redo + 1):
                record = await take(
                    point.request, plan.ref(index, repetition), repetition, plan.repetitions, settings, tolerances
                )
                if session.stopping or record.verdict.status != "invalid":
                    break
                outcome.redone += attempt < plan.max_redo
                await session.settle(plan.settle_s or 0)
            assert record is not None
            if session.stopping and record.verdict.status == "invalid":
                outcome.stopped = True
                break
            outcome.taken += 1
            outcome.verdicts[record.verdict.status] += 1
            if record.verdict.status == "invalid":
                outcome.invalid.append(record)
            left_s = (time.monotonic() - begun) / (number + 1) * (len(todo) - number - 1)
            on_progress(_progress(plan, outcome, point, repetition, left_s, record))
            if number + 1 < len(todo):
                await session.settle(plan.settle_s or 0)
            if session.stopping:
                outcome.stopped = number + 1 < len(todo)
                break
    return outcome


def _progress(
    plan: Plan, outcome: Outcome, point: Point, repetition: int, left_s: float | None, last: RunRecord | None
) -> Progress:
    return Progress(
        done=outcome.taken,
        skipped=outcome.skipped,
        total=plan.trials,
        point=point,
        repetition=repetition,
        left_s=left_s,
        last=last,
    )
