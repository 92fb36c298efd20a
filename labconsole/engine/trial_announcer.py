"""Announces the running trial to watching sessions, together with the lease of the first stream's source.

It announces phases only, never at the unit under test, and the trial never waits for it: a slow node delays nothing,
and an outdated announcement is dropped.
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
    """Listens to the events of a session, and announces its trials between begin() and end()."""

    def __init__(self, links: Mapping[str, AgentLink], node: str) -> None:
        self._links, self._node = links, node
        self._trial: TrialStarted | GuestTrialStarted | None = None
        self._next: TellTrial | None = None
        self._task: asyncio.Task[None] | None = None

    def hear(self, event: Event) -> None:
        """Take an event of a batch that has leased the testbed; called on the event loop."""
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
            self._task = asyncio.create_task(self._send(), name="announcing the trial")

    async def _send(self) -> None:
        while self._next is not None:
            wish, self._next = self._next, None
            link = self._links.get(self._node)
            if link is None:
                return
            try:
                await link.ask(wish, timeout_s=5)
            except NodeError as exc:
                log.info("announcing the trial on %s: %s", self._node, exc.message)

    async def end(self) -> None:
        """Announce nothing more: the batch is over, and its lease will be released."""
        self._trial = self._next = None
        if self._task is not None:
            self._task.cancel()
            (problem,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(problem, Exception):
                log.warning("announcing the trial on %s: %s", self._node, problem)
            self._task = None


def build_announcement(trial: TrialStarted | GuestTrialStarted, phase: PhaseChanged) -> TrialTold:
    """The announcement of a trial in a phase."""
    request = trial.request
    optional: dict[str, str] = {}  # agents of earlier versions refuse unknown keys
    if isinstance(trial, GuestTrialStarted):
        repetition, repetitions, name, plan, optional = 1, 1, trial.plan, None, {"words": trial.words}
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
        **optional,
    )
