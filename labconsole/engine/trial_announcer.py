"""Tells those who watch which trial runs, beside the lease of the first stream's source.

Phase by phase and nothing between, never on the unit under test, and never awaited by the trial: a node that is slow to
answer delays nothing, and what was overtaken meanwhile is not told any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from labconsole.contracts.ports import AgentLink
from labconsole.engine.live.events import Event, GuestTrialStarted, Phase, PhaseChanged, TrialStarted
from labconsole.errors import NodeError
from labconsole.wire.lease import TellTrial, TrialTold

log = logging.getLogger("labconsole.engine")


class TrialAnnouncer:
    """Hears the events of a session and tells of the trials between begin() and end()."""

    def __init__(self, links: Mapping[str, AgentLink], node: str) -> None:
        self._links, self._node = links, node
        self._trial: TrialStarted | GuestTrialStarted | None = None
        self._next: TellTrial | None = None
        self._task: asyncio.Task[None] | None = None

    def hear(self, event: Event) -> None:
        """Take an event of a batch that holds the testbed; called on the event loop."""
        if isinstance(event, TrialStarted):
            self._trial = event
        elif isinstance(event, GuestTrialStarted):
            self._trial = event
            begins = PhaseChanged(run_id=event.run_id, phase=Phase.PREPARING)
            self._tell(TellTrial(trial=build_announcement(event, begins)))
        elif self._trial is not None and isinstance(event, PhaseChanged) and event.run_id in (self._trial.run_id, ""):
            self._tell(
                TellTrial(trial=build_announcement(self._trial, event), left_s=event.expected_s)
            )  # "": between two trials

    def _tell(self, wish: TellTrial) -> None:
        self._next = wish
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="telling of the trial")

    async def _send(self) -> None:
        while self._next is not None:
            wish, self._next = self._next, None
            link = self._links.get(self._node)
            if link is None:
                return
            try:
                await link.ask(wish, timeout_s=5)
            except NodeError as exc:
                log.info("telling of the trial on %s: %s", self._node, exc.message)

    async def end(self) -> None:
        """The batch is over: tell nothing more, before the lease is given back."""
        self._trial = self._next = None
        if self._task is not None:
            self._task.cancel()
            (problem,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(problem, Exception):
                log.warning("telling of the trial on %s: %s", self._node, problem)
            self._task = None


def build_announcement(trial: TrialStarted | GuestTrialStarted, phase: PhaseChanged) -> TrialTold:
    """What others are told of a trial in a phase."""
    request = trial.request
    words: dict[str, str] = {}  # agents of earlier versions refuse a key that they do not know
    if isinstance(trial, GuestTrialStarted):
        repetition, repetitions, name, plan, words = 1, 1, trial.plan, None, {"words": trial.words}
    else:
        repetition, repetitions, plan = trial.repetition, trial.repetitions, trial.plan
        name = plan.name if plan is not None else None
    return TrialTold(
        run_id=trial.run_id,
        platform=request.platform,
        frame_bytes=request.frame.bytes,
        includes_fcs=request.frame.includes_fcs,
        sources=request.sources,
        target_bps=None if request.target == "max" else request.target,
        background=request.background,
        duration_s=request.duration_s,
        generator=request.generator,
        observe=request.observe,
        repetition=repetition,
        repetitions=repetitions,
        plan=name,
        block=plan.block if plan is not None else None,
        set_ups=plan.set_ups if plan is not None else None,
        phase=phase.phase.value,
        **words,
    )
