"""The leases that a batch of trials holds on its nodes, and what is known of those that others hold.

Which nodes are taken is decided once, at the beginning of a batch; how long it will take is told again with each trial,
so that who waits for the testbed reads an end that is worth something. A lease that another operator takes over ends
the batch: what it measures from then on would be measured on somebody else's testbed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.live.events import Phase
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.errors import AgentError, LeaseHeld, LeaseTaken, NodeError
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Figures
from labconsole.wire.lease import LeaseChanged, LeaseLost, ReleaseLease, StatedHolder, TakeLease, TrialNow

log = logging.getLogger("labconsole.engine")

_PHASES = {phase.value: phase for phase in Phase}

TAKE_OVER_S = 20.0
"""Longer than an agent takes to ask a holder, wait for it and end it if it does not react."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """Who has a node. Times are UTC by this machine's clock; None is what the holder did not say.

    ``own``: it is this session. ``quiet``: it counts just now, and nobody else's agent samples there.
    """

    owner: str | None
    purpose: str | None
    since: datetime | None
    until: datetime | None
    observe: str | None
    quiet: bool
    own: bool
    trial: ObservedTrial | None = None
    """What it takes now, where it says so."""

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


def build_holder(told: StatedHolder, *, clock_offset_ns: int = 0) -> LeaseHolder:
    """A holder as an agent tells it; ``clock_offset_ns`` is the node's clock minus ours."""

    def when(at_ns: int | None) -> datetime | None:
        try:
            return None if at_ns is None else datetime.fromtimestamp((at_ns - clock_offset_ns) / 1e9, UTC)
        except (ValueError, OverflowError, OSError):
            return None  # a node may say a year that no calendar has

    holder = LeaseHolder(
        owner=told.owner,
        purpose=told.purpose,
        since=when(told.since_wall_ns),
        until=when(told.until_wall_ns),
        observe=told.observe,
        quiet=bool(told.quiet),
        own=False,
    )
    return holder if told.trial is None else replace(holder, trial=_build_trial(told.trial, holder, when))


def _build_trial(told: TrialNow, holder: LeaseHolder, when: Callable[[int | None], datetime | None]) -> ObservedTrial:
    """What came from the agent of a node that ``holder`` has; ``when`` reckons the node's clock back to ours."""
    return ObservedTrial(
        run_id=told.run_id,
        operator=holder.owner or "another session",
        purpose=holder.purpose or "",
        request=DesignPoint(
            platform=told.platform,
            frame=FrameSize(told.frame_bytes, told.includes_fcs),
            sources=told.sources,
            target="max" if told.target_bps is None else told.target_bps,
            duration_s=told.duration_s,
            background=told.background,
            generator=told.generator,
            observe=told.observe,
        ),
        repetition=told.repetition,
        repetitions=told.repetitions,
        plan=told.plan,
        block=told.block,
        set_ups=told.set_ups,
        phase=_PHASES.get(told.phase),
        guest_words=told.words,
        started=when(told.since_wall_ns),
        phase_started=when(told.phase_since_wall_ns),
        phase_until=when(told.phase_until_wall_ns),
        since=holder.since,
        until=holder.until,
    )


def newest_trial(holders: Mapping[str, LeaseHolder]) -> ObservedTrial | None:
    """The trial that was announced last, or None if no holder announces one."""
    trials = [holder.trial for holder in holders.values() if holder.trial is not None]
    return max(trials, key=lambda trial: trial.phase_started.timestamp() if trial.phase_started else 0.0, default=None)


class Leases:
    """``holders`` has every connected node that another session holds; ``lost`` why a lease of ours is gone."""

    def __init__(self, owner: str) -> None:
        self.holders: dict[str, LeaseHolder] = {}
        self.lost: LeaseTaken | None = None
        self._owner = owner
        self._held: list[AgentLink] = []
        self._observe: dict[str, str] = {}
        self._taken_from: list[Figures] = []

    @property
    def influences(self) -> list[Figures]:
        """What a record must say: whose testbed this was before it was taken over."""
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
        """Take these nodes in order. Raises LeaseHeld, with all that is known, when another session has one."""
        self.lost = None
        self._taken_from.clear()
        self._purpose, self._observe = purpose, observe
        for name, link in links.items():
            wish = self._wish(name, left_s, take_over=take_over)
            try:
                taken = await link.ask(wish, timeout_s=TAKE_OVER_S if take_over else 30.0)
            except AgentError as exc:
                if exc.code not in ("lease_held", "lease_stuck", "lease_lost"):
                    raise
                raise LeaseHeld(name, exc.message, code=exc.code, operation=wish.op, detail=exc.detail) from None
            self._held.append(link)
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

    async def renew(self, left_s: float | None) -> None:
        """Tell again how long it will take. A node that cannot answer is found out by the trial."""
        if left_s is None:
            return

        async def tell(link: AgentLink) -> None:
            try:
                await link.ask(self._wish(link.name, max(0.0, left_s)), timeout_s=5)
            except NodeError as exc:
                log.info("renewing the lease on %s: %s", link.name, exc.message)

        await run_concurrently(tell(link) for link in self._held)

    async def release(self) -> None:
        """Give back what is held. A node that cannot answer has let go by itself."""
        while self._held:
            link = self._held.pop()
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
        """A checked ``lease_lost``. True when it is about a lease of this batch, for the first time."""
        if self.lost is not None or not any(link.name == node for link in self._held):
            return False
        self.lost = LeaseTaken(node, event.by, event.purpose)
        return True

    def seen(self, node: str, event: LeaseChanged, clock_offset_ns: int) -> None:
        """A checked ``lease``: who else holds a node now."""
        if event.holder is None:
            self.holders.pop(node, None)
        else:
            self.holders[node] = build_holder(event.holder, clock_offset_ns=clock_offset_ns)

    def forget(self, node: str) -> None:
        """The link to a node is gone, and what was known with it."""
        self.holders.pop(node, None)
        self._held = [link for link in self._held if link.name != node]
