"""One trial of a plan, from warm-up to the attempt that counts: taken again while it comes out invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from labconsole.engine.execution.grid import Grid
from labconsole.engine.execution.pending import CampaignSession, Take
from labconsole.engine.execution.pilot import Pilot
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.set_up_course import SetUpBroke, SetUpCourse, breaks
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
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.blocks import PILOT
from labconsole.model.plan.order import Standing, Trial, forwards, standing
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord

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
    @property
    def course(self) -> SetUpCourse: ...
    @property
    def pilot(self) -> Pilot: ...

    async def hold(self) -> None: ...
    def tell(self, trial: Trial, last: RunRecord | None, *, warm_up: bool = False, attempt: int = 1) -> None: ...


class Attempts:
    """Takes trials of one campaign; knows whether what stands is warm."""

    def __init__(self, campaign: Running, session: CampaignSession) -> None:
        self._campaign, self._session = campaign, session
        self._warm: Standing | None = None
        self._warm_ups = 0
        self._anew = False
        self._without_run = 0
        self.attempt = 1
        """Of the trial that is being taken; one that gave no run is none."""

    def cold(self) -> None:
        """Nothing stands any more: the next trial is warmed up for."""
        self._warm = None

    def set_up_anew(self) -> None:
        """What stands is not used again: the next trial begins a set-up of its own."""
        self.cold()
        self._anew = True

    async def take(self, take: Take, trial: Trial) -> RunRecord | None:
        """The last attempt's record, None when stopped before it.

        Raises LabError when it cannot be taken, SetUpBroke when its set-up has to be taken again whole.
        """
        campaign, session = self._campaign, self._session
        plan = campaign.plan
        in_block = campaign.course.key is not None
        attempt = self._without_run = 0
        self.attempt = 1
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
                record = await self._ask(take, trial, plan.every_point[trial[0]].request)
            except (*ENDS_ALL, ConfigError, SetUpBroke):
                raise
            except LabError as exc:
                if in_block:
                    raise SetUpBroke(str(exc), exc) from exc
                problem = exc
                self.cold()
                campaign.grid.give_up(trial, str(exc))
            last = campaign.stopping or attempt == plan.max_redo
            if record is not None:
                campaign.grid.finish(trial, record)
                if record.verdict.status == "invalid" and (not in_block or breaks(record)):
                    self.cold()  # the session sets the platform up anew
                if last or not self._retries(record):
                    return record
                if in_block and breaks(record):
                    raise SetUpBroke("; ".join(reason.detail for reason in record.verdict.reasons))
                self.attempt += 1
            elif problem is not None:
                if last:
                    raise problem
                self._without_run += 1
            attempt += 1
            campaign.outcome.redone += 1
            campaign.grid.redo(trial)
            await session.settle(max(plan.settle_s or 0, plan.retry.pause_s))

    async def _ask(self, take: Take, trial: Trial, request: DesignPoint, **more: Any) -> RunRecord:
        plan, (index, number), campaign = self._campaign.plan, trial, self._campaign
        place = plan.ref(
            index,
            number,
            warm_ups=self._warm_ups,
            attempt=self.attempt,
            set_up_trials=campaign.course.size(campaign.pilot),
            without_run=self._without_run,
            fixed=campaign.pilot.fixed(index, over=number != PILOT),
        )
        if plan.set_ups is not None:
            more |= {
                "role": "pilot" if place.block == PILOT else "measured",
                "reference": campaign.pilot.reference(index) if forwards(request.background) else None,
                "anew": self._anew,
            }
        self._anew = False
        record = await take(
            request,
            place,
            number or 1,
            plan.numbers_of(index) if number else 1,
            self._session.settings(drain_s=plan.drain_s),
            plan.tolerances_of(index),
            settle_s=plan.settle_s,
            **more,
        )
        campaign.course.saw(record)
        return record

    def _retries(self, record: RunRecord) -> bool:
        codes = self._campaign.plan.retry.codes
        return record.verdict.status == "invalid" and (
            codes is None or any(reason.code in codes for reason in record.verdict.reasons)
        )

    async def _warm_up(self, take: Take, trial: Trial) -> None:
        """A trial that is thrown away, when the platform or a second guest was just set up."""
        campaign = self._campaign
        request, how = campaign.plan.every_point[trial[0]].request, campaign.plan.warm_up
        stands = standing(request, self._session.inventory)
        if how is None or self._warm == stands:
            return
        self._warm_ups = 0
        campaign.tell(trial, None, warm_up=True)
        warmed = replace(
            request,
            target="max" if how.target == "max" else request.target,
            duration_s=how.duration_s or request.duration_s,
        )
        await self._session.renew_lease(campaign.left_s)
        record = await self._ask(take, trial, warmed, keep=False)
        if campaign.course.key is not None and breaks(record):
            raise SetUpBroke("the warm-up: " + "; ".join(reason.detail for reason in record.verdict.reasons))
        campaign.outcome.warm_ups += 1
        self._warm_ups = 1
        self._warm = stands
