"""A load search on a testbed: the trials that measure/search.py asks for, taken, judged and stored like any other.

The search library decides in a thread of its own and waits there for each trial; the trials run on the event loop. A
trial that comes out invalid is taken again, because a search that believes one is misled for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from labconsole.engine.session import Session
from labconsole.errors import Aborted, ConfigError, MeasurementError
from labconsole.measure.search import Goal, SearchResult, Trial, search
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest, check_request
from labconsole.units import pps_to_bps

MAX_REDO = 2
MINIMUM_SHARE = 0.001
"""The lowest load tried, of the line rate."""

OUTSIDE = ("lost_at_source", "lost_at_sink")
"""Reasons of a verdict by which the instrument lost packets, and not the unit under test."""

SEARCH_WITHIN_S = 24 * 3600.0


def bounds_pps(session: Session[Any], request: TrialRequest) -> tuple[float, float]:
    """The lowest and highest load of a search, per source: a thousandth of the slowest stream's line rate, and that."""
    line_pps = min(request.line_rate_pps(stream) for stream in session.inventory.streams[: request.sources])
    return line_pps * MINIMUM_SHARE, line_pps


def at_load(request: TrialRequest, load_pps: float, duration_s: float) -> TrialRequest:
    """The request with this load per source. The generator keeps whole nanoseconds between packets."""
    target_bps = pps_to_bps(load_pps, request.frame_size_bytes, includes_fcs=request.frame_size_includes_fcs)
    return replace(request, target_bps=max(1, int(target_bps)), duration_s=duration_s)


async def search_load(
    session: Session[Any], request: TrialRequest, goals: Sequence[Goal], *, on_trial: Callable[[RunRecord], None],
    take_over: bool = False,
) -> SearchResult:  # fmt: skip
    """Find the highest load per source that meets each goal; ``request`` gives everything but load and duration.

    Raises LabError; Aborted when the session is stopped. Every trial is in the store, whatever happens.
    """
    if not goals:
        raise ConfigError("a search needs a goal", key="goals")
    minimum_pps, maximum_pps = bounds_pps(session, request)
    shortest_s = min(goal.trial_duration_s for goal in goals)
    check_request(at_load(request, minimum_pps, shortest_s), session.inventory)
    loop = asyncio.get_running_loop()
    over = False
    trial: asyncio.Task[Any] | None = None
    async with session.batch(request, take_over=take_over) as take:

        async def take_one(duration_s: float, load_pps: float) -> Trial:
            nonlocal trial
            trial = asyncio.current_task()
            if over:  # cancelled while the library was reckoning: the testbed is not ours any more
                raise Aborted("the search was stopped")
            wanted = at_load(request, load_pps, duration_s)
            for attempt in range(MAX_REDO + 1):
                record: RunRecord = await take(wanted)
                on_trial(record)
                if session.stopping:
                    raise Aborted("the search was stopped")
                if record.verdict.status != "invalid":
                    await session.settle(session.inventory.defaults.settle_s)
                    return _trial(record, wanted, load_pps)
                await session.settle(session.inventory.defaults.settle_s)
                if attempt == MAX_REDO:
                    break
            reasons = "; ".join(reason.detail for reason in record.verdict.reasons)
            raise MeasurementError(f"{MAX_REDO + 1} trials in a row are invalid, the last {record.run_id}: {reasons}")

        def measure(duration_s: float, load_pps: float) -> Trial:
            return asyncio.run_coroutine_threadsafe(take_one(duration_s, load_pps), loop).result()

        try:
            return await asyncio.to_thread(
                search, measure, goals, minimum_pps=minimum_pps, maximum_pps=maximum_pps, within_s=SEARCH_WITHIN_S
            )
        finally:
            over = True
            if trial is not None and not trial.done():
                trial.cancel()  # a cancelled search leaves no trial behind: it ends before the testbed is given back
                await asyncio.wait([trial])


def _trial(record: RunRecord, request: TrialRequest, load_pps: float) -> Trial:
    total, each = record.total, request.intended_packets
    if total.offered_packets is None or total.measured_packets is None or each is None:
        raise MeasurementError(f"{record.run_id} has no counts to search by")
    return Trial(
        run_id=record.run_id,
        load_pps=load_pps,
        duration_s=request.duration_s,
        intended_packets=each * request.sources,
        offered_packets=total.offered_packets,
        measured_packets=total.measured_packets,
        lost_outside_packets=_lost_outside(record),
    )


def _lost_outside(record: RunRecord) -> int:
    """Packets that a counter of a source or of a sink says were lost there: the verdict's own evidence."""
    found = [(reason.evidence or {}).get("lost_packets") for reason in record.verdict.reasons if reason.code in OUTSIDE]
    return sum(packets for packets in found if isinstance(packets, int))
