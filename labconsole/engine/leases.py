"""The leases of a batch of trials, those of other sessions, and the announcement of the running trial to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.engine.live.events import Event, GuestTrialStarted, Phase, PhaseChanged, TrialStarted
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.errors import AgentError, LeaseHeld, LeaseTaken, NodeError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Figures
from labconsole.wire.lease import (
    LeaseChanged,
    LeaseGranted,
    LeaseLost,
    ReleaseLease,
    StatedHolder,
    TakeLease,
    TellTrial,
    TrialNow,
    TrialTold,
)

# -- leases ------------------------------------------------------------------------------------------------------------
# The leases that a batch of trials has on its nodes, and those known to belong to other sessions.
#
# The nodes are chosen once, at the beginning of a batch. The expected end is announced again with each trial, so that
# an operator who waits for the testbed knows a reliable time. If another operator takes a lease over, the batch ends,
# because from then on it would measure on a testbed that it does not control.

log = logging.getLogger("labconsole.engine")

_PHASES = {phase.value: phase for phase in Phase}

TAKE_OVER_S = 20.0
"""Longer than an agent takes to ask a holder, wait for it, and end it if it does not react."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """The holder of a node's lease. Times are UTC by this machine's clock, or None if the holder did not state them.

    ``own``: it is this session. ``quiet``: it is counting now, and no other session's agent samples there.
    """

    owner: str | None
    purpose: str | None
    since: datetime | None
    until: datetime | None
    observe: str | None
    quiet: bool
    own: bool
    trial: ObservedTrial | None = None
    """The holder's current trial, if announced."""

    def describe(self) -> str:
        """One sentence: who, since when, until when, what for."""
        text = self.owner or "another session"
        if self.since is not None:
            text += f" since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        if self.until is not None:
            text += f", until about {self.until:%H:%M:%S} UTC,"
        if self.purpose:
            text += f" for {self.purpose}"
        return text


def build_holder(stated: StatedHolder, *, clock_offset_ns: int = 0) -> LeaseHolder:
    """A holder as stated by an agent; ``clock_offset_ns`` is the node's clock minus ours."""

    def when(at_ns: int | None) -> datetime | None:
        try:
            return None if at_ns is None else datetime.fromtimestamp((at_ns - clock_offset_ns) / 1e9, UTC)
        except (ValueError, OverflowError, OSError):
            return None  # the stated time may not exist in a calendar

    holder = LeaseHolder(
        owner=stated.owner,
        purpose=stated.purpose,
        since=when(stated.since_wall_ns),
        until=when(stated.until_wall_ns),
        observe=stated.observe,
        quiet=bool(stated.quiet),
        own=False,
    )
    return holder if stated.trial is None else replace(holder, trial=_build_trial(stated.trial, holder, when))


def _build_trial(
    announced: TrialNow, holder: LeaseHolder, when: Callable[[int | None], datetime | None]
) -> ObservedTrial:
    """A trial as announced by the agent of ``holder``'s node; ``when`` converts the node's clock to ours."""
    return ObservedTrial(
        run_id=announced.run_id,
        operator=holder.owner or "another session",
        purpose=holder.purpose or "",
        request=DesignPoint(
            platform=announced.platform,
            frame=FrameSize(announced.frame_bytes, announced.includes_fcs),
            sources=announced.sources,
            target="max" if announced.target_bps is None else announced.target_bps,
            duration_s=announced.duration_s,
            background=announced.background,
            generator=announced.generator,
            observe=announced.observe,
        ),
        repetition=announced.repetition,
        repetitions=announced.repetitions,
        plan=announced.plan,
        block=announced.block,
        set_ups=announced.set_ups,
        phase=_PHASES.get(announced.phase),
        guest_words=announced.words,
        started=when(announced.since_wall_ns),
        phase_started=when(announced.phase_since_wall_ns),
        phase_until=when(announced.phase_until_wall_ns),
        since=holder.since,
        until=holder.until,
    )


def newest_trial(holders: Mapping[str, LeaseHolder]) -> ObservedTrial | None:
    """The trial that was announced last, or None if no holder announces one."""
    trials = [holder.trial for holder in holders.values() if holder.trial is not None]
    return max(trials, key=lambda trial: trial.phase_started.timestamp() if trial.phase_started else 0.0, default=None)


class Leases:
    """``holders``: the connected nodes that other sessions have leased; ``lost``: why a lease of ours is gone."""

    def __init__(self, owner: str) -> None:
        self.holders: dict[str, LeaseHolder] = {}
        self.lost: LeaseTaken | None = None
        self._owner = owner
        self._leased: list[AgentLink] = []
        self._nodes: tuple[str, ...] = ()
        self._left_s: float | None = None
        self._observe: dict[str, str] = {}
        self._taken_from: list[Figures] = []

    @property
    def influences(self) -> list[Figures]:
        """Influences that a record must mention: the previous holders of leases that were taken over."""
        return list(self._taken_from)

    async def take(
        self,
        links: dict[str, AgentLink],
        *,
        purpose: str,
        observe: dict[str, str],
        left_s: float | None,
        take_over: bool,
    ) -> None:
        """Lease these nodes in order. Raises LeaseHeld, with the known details, if another session has one."""
        self.lost = None
        self._taken_from.clear()
        self._purpose, self._observe, self._left_s = purpose, observe, left_s
        self._nodes = tuple(links)
        for name, link in links.items():
            taken = await self._take(link, take_over=take_over)
            if taken.taken_from is not None:
                holder = build_holder(taken.taken_from, clock_offset_ns=link.clock_offset_ns)
                self._taken_from.append(
                    {
                        "node": name,
                        "kind": "lease_taken_over",
                        "detail": f"taken over from {holder.describe()}",
                        "owner": holder.owner,
                    }
                )

    async def _take(self, link: AgentLink, *, take_over: bool) -> LeaseGranted:
        wish = self._wish(link.name, self._left_s, take_over=take_over)
        try:
            taken = await link.ask(wish, timeout_s=TAKE_OVER_S if take_over else 30.0)
        except AgentError as exc:
            if exc.code not in ("lease_held", "lease_stuck", "lease_lost"):
                raise
            raise LeaseHeld(link.name, exc.message, code=exc.code, operation=wish.op, detail=exc.detail) from None
        self._leased.append(link)
        return taken

    async def retake(self, links: Mapping[str, AgentLink]) -> None:
        """Lease the batch's nodes that were lost and are back again, of ``links``: their agents had released them.

        Raises LeaseHeld if another session was faster, and NodeError.
        """
        leased = {link.name for link in self._leased}
        for name in self._nodes:
            if name in links and name not in leased and self.lost is None:
                await self._take(links[name], take_over=False)

    async def renew(self, left_s: float | None) -> None:
        """Announce the time left again. A node that cannot answer is noticed by the trial."""
        if left_s is None:
            return
        self._left_s = max(0.0, left_s)

        async def tell(link: AgentLink) -> None:
            try:
                await link.ask(self._wish(link.name, self._left_s), timeout_s=5)
            except NodeError as exc:
                log.info("renewing the lease on %s: %s", link.name, exc.message)

        await run_concurrently(tell(link) for link in self._leased)

    async def release(self) -> None:
        """Release all leases. A node that cannot answer has released its lease by itself."""
        self._nodes = ()
        while self._leased:
            link = self._leased.pop()
            try:
                await link.ask(ReleaseLease(), timeout_s=5)
            except NodeError as exc:
                log.info("lease.release on %s: %s", link.name, exc.message)

    def _wish(self, node: str, left_s: float | None, *, take_over: bool | None = None) -> TakeLease:
        return TakeLease(
            owner=self._owner,
            purpose=self._purpose,
            observe=self._observe.get(node, ""),
            left_s=left_s,
            take_over=take_over,
        )

    def taken_over(self, node: str, event: LeaseLost) -> bool:
        """Handle a checked ``lease_lost``. Returns True if it is the first one about a lease of this batch."""
        if self.lost is not None or not any(link.name == node for link in self._leased):
            return False
        self.lost = LeaseTaken(node, event.by, event.purpose)
        return True

    def seen(self, node: str, event: LeaseChanged, clock_offset_ns: int) -> None:
        """Handle a checked ``lease``: another session's lease of a node."""
        if event.holder is None:
            self.holders.pop(node, None)
        else:
            self.holders[node] = build_holder(event.holder, clock_offset_ns=clock_offset_ns)

    def forget(self, node: str) -> None:
        """Forget a node's lease and holder, because its link is gone."""
        self.holders.pop(node, None)
        self._leased = [link for link in self._leased if link.name != node]


# -- trial announcer ---------------------------------------------------------------------------------------------------
# Announces the running trial to watching sessions, together with the lease of the first stream's source.
#
# It announces phases only, never at the unit under test, and the trial never waits for it: a slow node delays nothing,
# and an outdated announcement is dropped.


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
