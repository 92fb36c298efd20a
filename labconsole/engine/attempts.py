"""One trial of a plan, from warm-up to the attempt that counts: taken again while it comes out invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from labconsole.engine.campaign_state import Outcome
from labconsole.engine.grid import Grid
from labconsole.engine.plan_session import CampaignSession, Take
from labconsole.errors import (
    Aborted,
    ConfigError,
    LabError,
    LeaseHeld,
    LeaseTaken,
    NodeLost,
    NodeUnreachable,
    StoreError,
)
from labconsole.model.plan import Plan
from labconsole.model.plan_order import Standing, standing
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest

ENDS_ALL = (NodeLost, NodeUnreachable, LeaseHeld, LeaseTaken, StoreError, Aborted)
"""What no other trial would fare better with. Anything else keeps one platform, or one point, from being measured."""


class Running(Protocol):
    """What is needed of the campaign that a trial belongs to."""

    @property
    def plan(self) -> Plan: ...
    @property
    def grid(self) -> Grid: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def stopping(self) -> bool: ...

    async def hold(self) -> None: ...
    def tell(self, trial: tuple[int, int], last: RunRecord | None, *, warm_up: bool = False) -> None: ...


class Attempts:
    """Takes trials of one campaign; knows whether what stands is warm."""

    def __init__(self, campaign: Running, session: CampaignSession) -> None:
        self._campaign, self._session = campaign, session
        self._warm: Standing | None = None
        self._warm_ups = 0

    def cold(self) -> None:
        """Nothing stands any more: the next trial is warmed up for."""
        self._warm = None

    async def take(self, take: Take, trial: tuple[int, int]) -> RunRecord | None:
        """The last attempt's record, None when stopped before it. Raises LabError when it cannot be taken."""
        campaign, session = self._campaign, self._session
        plan = campaign.plan
        attempt = 0
        while True:
            await campaign.hold()
            if campaign.stopping:
                return None
            problem: LabError | None = None
            record: RunRecord | None = None
            try:
                await self._warm_up(take, trial)
                if campaign.stopping:
                    return None
                campaign.grid.begin(trial)
                await session.renew_lease(campaign.left_s)
                record = await self._ask(take, trial, plan.points[trial[0]].request)
            except (*ENDS_ALL, ConfigError):
                raise
            except LabError as exc:
                problem = exc
                self.cold()
                campaign.grid.give_up(trial, str(exc))
            last = campaign.stopping or attempt == plan.max_redo
            if record is not None:
                campaign.grid.finish(trial, record)
                if record.verdict.status == "invalid":
                    self.cold()  # the session sets the platform up anew
                if last or not self._retries(record):
                    return record
            elif problem is not None and last:
                raise problem
            attempt += 1
            campaign.outcome.redone += 1
            campaign.grid.redo(trial)
            await session.settle(max(plan.settle_s or 0, plan.retry.pause_s))

    async def _ask(self, take: Take, trial: tuple[int, int], request: TrialRequest, **more: Any) -> RunRecord:
        plan, (index, repetition) = self._campaign.plan, trial
        return await take(
            request,
            plan.ref(index, repetition, warm_ups=self._warm_ups),
            repetition,
            plan.repetitions_of(index),
            self._session.settings(drain_s=plan.drain_s),
            plan.tolerances_of(index),
            **more,
        )

    def _retries(self, record: RunRecord) -> bool:
        codes = self._campaign.plan.retry.codes
        return record.verdict.status == "invalid" and (
            codes is None or any(reason.code in codes for reason in record.verdict.reasons)
        )

    async def _warm_up(self, take: Take, trial: tuple[int, int]) -> None:
        """A trial that is thrown away, when the platform or a second guest was just set up."""
        campaign = self._campaign
        request, how = campaign.plan.points[trial[0]].request, campaign.plan.warm_up
        stands = standing(request, self._session.inventory)
        if how is None or self._warm == stands:
            return
        self._warm_ups = 0
        campaign.tell(trial, None, warm_up=True)
        warmed = replace(
            request,
            target_bps="max" if how.target == "max" else request.target_bps,
            duration_s=how.duration_s or request.duration_s,
        )
        await self._session.renew_lease(campaign.left_s)
        await self._ask(take, trial, warmed, keep=False)
        campaign.outcome.warm_ups += 1
        self._warm_ups = 1
        self._warm = stands
