"""A testbed as front ends use it: a session that also runs checks, calibrations and plans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Experiment, Step, StepRecord
from labconsole.engine.calibration import (
    CalibrationMeans,
    CalibrationOffer,
    OnProgress,
    add_bypass,
    calibrate,
    calibration_offer,
    calibration_request,
)
from labconsole.engine.connections import StoreT
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.inspection import Inspection, inspect
from labconsole.engine.session import Session
from labconsole.errors import Aborted, MeasurementError
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.ad_hoc import search_purpose
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import Envelope
from labconsole.wire.links import ReadLinks

if TYPE_CHECKING:
    from labconsole.engine.check.result import CheckResult, OnResult


def _imported_checks() -> Callable[..., Awaitable[list[CheckResult]]]:
    """Importing the checks takes 5 % of the time to open a session, and most sessions check nothing."""
    from labconsole.engine.check.runner import preflight

    return preflight


@asynccontextmanager
async def _enter_in_thread(blocking: AbstractContextManager[None] | None) -> AsyncIterator[None]:
    """Enter and leave a blocking context manager in a thread; None enters nothing."""
    if blocking is None:
        yield
        return
    await asyncio.to_thread(blocking.__enter__)
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(blocking.__exit__, None, None, None))


class Testbed(Session[StoreT]):
    """A session that can also inspect a node, check the testbed and execute a plan on it."""

    experiments: Sequence[Experiment] = ()
    """The kinds of experiment that plans may contain in addition to their grids; set by the opener of the session."""

    calibration: CalibrationMeans | None = None
    """The functions needed to calibrate this testbed; set by the opener."""

    opening: Callable[[], Envelope | None] | None = None
    """Opens the store and reads the newest calibration, if both were postponed. Blocking; set by the opener."""

    async def open(self) -> None:
        """Open the store, unless it is open. Raises StoreError."""
        if self.opening is not None:
            self._taker.envelope = await asyncio.to_thread(self.opening)

    async def inspect(self, node: str) -> Inspection:
        """Inspect a node; a session that only watches just reads its facts and lease holder.

        Raises MeasurementError while a trial is under way or another session has leased the node, NodeUnreachable,
        NodeLost.
        """
        if self._taker.trial is not None:
            raise MeasurementError("a trial is running, and reading from a node would disturb it")
        self.refuse_if_others_measure([node], "a look at the node")
        link = self._pool.require([node])[node]
        inspection = await inspect(link, self.guest_processes(), only_watch=self.read_only)
        self._pool.tell_clock(link)
        return inspection

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        """Run the preflight check (engine/check/runner). Connects first.

        Raises OnlyWatches, and MeasurementError if a run is under way or another session has leased a node, because a
        check reads from all nodes and sends frames.
        """
        self.refuse_if_only_watching()
        preflight = await asyncio.to_thread(_imported_checks)
        return await preflight(self, plan=plan, fix=fix, on_result=on_result)

    async def calibration_offer(self, points: Sequence[DesignPoint] = ()) -> CalibrationOffer:
        """Describe a calibration, with usual values or for these ``points``, and the cables to connect before.

        Raises OnlyWatches, and MeasurementError while others measure.
        """
        self.refuse_if_only_watching()
        self.refuse_if_others_measure(self.inventory.nodes, "a calibration")
        assert self.calibration is not None
        wanted = calibration_request(self.inventory, points=points)
        rewired = await asyncio.to_thread(self.calibration.rewire, self.inventory)
        return calibration_offer(self.inventory, wanted, rewired=rewired is not None)

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        """Calibrate, save the envelope, and judge runs against it from now on; restore rewired cables afterwards.

        Raises LabError, including Aborted, after which nothing is saved.
        """
        self.refuse_if_only_watching()
        self.refuse_if_others_measure(self.inventory.nodes, "a calibration")
        if self.running:
            raise MeasurementError("a run is already in progress")
        assert self.calibration is not None
        self._stop.clear()
        rewired = await asyncio.to_thread(self.calibration.rewire, self.inventory) if offer.bypass == "lab" else None
        async with _enter_in_thread(rewired):
            if self.stopping:
                raise Aborted("the calibration was stopped by the operator")
            if rewired is not None:
                await self._read_links()
            fingerprint = self.inventory.fingerprint()
            with self._bypass_among_platforms():
                envelope = await calibrate(self, offer.wanted, fingerprint, offer.bypass, on_progress)
        if rewired is not None:
            await self._read_links()
        await asyncio.to_thread(self.calibration.save, envelope)
        self._taker.envelope = envelope
        return envelope

    async def _read_links(self) -> None:
        """Read all links from the nodes, which report replaced interfaces only a moment later."""
        links = self._pool.require(self.inventory.nodes)
        for name, link in links.items():
            self.telemetry.set_links(name, (await link.ask(ReadLinks())).links)

    @contextmanager
    def _bypass_among_platforms(self) -> Iterator[None]:
        """Within this context there is a platform without a UUT, and nothing is judged against a calibration."""
        own, envelope = self.inventory, self.envelope
        changed = add_bypass(own)[1]
        self.inventory = self._taker.inventory = self._platform.inventory = changed
        self._taker.envelope = None
        try:
            yield
        finally:
            self.inventory = self._taker.inventory = self._platform.inventory = own
            self._taker.envelope = envelope

    def earlier_steps(self) -> list[tuple[Step, StepRecord]]:
        """Stored experiments of every kind on this testbed, the newest first. Blocking. Raises StoreError."""
        fingerprint = self.inventory.fingerprint()
        found = [each for experiment in self.experiments for each in experiment.earlier(fingerprint)]
        return sorted(found, key=lambda each: each[1].started_at, reverse=True)

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        """An execution of a plan on this testbed, not begun yet.

        The plan must be resolved for the testbed (check_plan). With a ``salt``, its steps do not resume earlier ones.
        """
        return PlanExecution(plan, self, salt=salt)

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        """Take what an execution of this testbed has left to take (PlanRunner.run).

        Raises LabError, and LeaseHeld if ``take_over`` would help.
        """
        plan = execution.plan
        purpose = search_purpose(plan) if execution.salt else None
        return (await PlanRunner([execution], self, take_over=take_over, purpose=purpose).run())[0]
