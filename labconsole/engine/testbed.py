"""A testbed as front ends hold it: a session with the checks and the execution of plans, which build on sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Experiment, Step, StepRecord
from labconsole.engine.calibration.calibration import OnProgress, calibrate
from labconsole.engine.calibration.offer import (
    CalibrationMeans,
    CalibrationOffer,
    add_bypass,
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
from labconsole.model.plan.one_search import search_purpose
from labconsole.model.plan.plan import Plan
from labconsole.model.record.envelope import Envelope
from labconsole.wire.links import ReadLinks

if TYPE_CHECKING:
    from labconsole.engine.check.result import CheckResult, OnResult


def _imported_checks() -> Callable[..., Awaitable[list[CheckResult]]]:
    """The checks take a twentieth of what opening a session takes to import, and most sessions check nothing."""
    from labconsole.engine.check.runner import preflight

    return preflight


@asynccontextmanager
async def _enter_in_thread(blocking: AbstractContextManager[None] | None) -> AsyncIterator[None]:
    """Enter and leave a context manager that blocks; None is none."""
    if blocking is None:
        yield
        return
    await asyncio.to_thread(blocking.__enter__)
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(blocking.__exit__, None, None, None))


class Testbed(Session[StoreT]):
    """A session that can also look at a node, check the testbed and execute a plan on it."""

    experiments: Sequence[Experiment] = ()
    """The kinds that plans may ask for beside their grids, which whoever opens the session sets."""

    calibration: CalibrationMeans | None = None
    """What it takes to calibrate this testbed, set likewise."""

    opening: Callable[[], Envelope | None] | None = None
    """Opens the store and reads the newest calibration, where both were left for later; blocking, set likewise."""

    async def open(self) -> None:
        """Open the store, if it is not. Raises StoreError."""
        if self.opening is not None:
            self._taker.envelope = await asyncio.to_thread(self.opening)

    async def inspect(self, node: str) -> Inspection:
        """Look at a node; a session that only watches asks no more than who the node is and who holds it.

        Raises MeasurementError while a trial is under way and while others hold the node, NodeUnreachable, NodeLost.
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
        """Preflight: see engine/check/runner. Connects first. Raises OnlyWatches, and MeasurementError when a run is
        under way or another session holds a node: a check reads from all of them, and sends frames.
        """
        self.refuse_if_only_watching()
        preflight = await asyncio.to_thread(_imported_checks)
        return await preflight(self, plan=plan, fix=fix, on_result=on_result)

    async def calibration_offer(self, points: Sequence[DesignPoint] = ()) -> CalibrationOffer:
        """What a calibration would be of, what is usual or what these ``points`` need, and what has to be connected
        before. Raises OnlyWatches, MeasurementError while others measure.
        """
        self.refuse_if_only_watching()
        self.refuse_if_others_measure(self.inventory.nodes, "a calibration")
        assert self.calibration is not None
        wanted = calibration_request(self.inventory, points=points)
        rewired = await asyncio.to_thread(self.calibration.rewire, self.inventory)
        return calibration_offer(self.inventory, wanted, rewired=rewired is not None)

    async def calibrate(self, offer: CalibrationOffer, on_progress: OnProgress) -> Envelope:
        """Take this calibration, keep it, and hold runs against it from now on; what was rewired for it is wired back.

        Raises LabError, of which Aborted: then nothing is kept.
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
        """What the nodes have now: of interfaces that were replaced they tell only a moment later."""
        links = self._pool.require(self.inventory.nodes)
        for name, link in links.items():
            self.telemetry.set_links(name, (await link.ask(ReadLinks())).links)

    @contextmanager
    def _bypass_among_platforms(self) -> Iterator[None]:
        """As long as the block runs there is a platform without a UUT, and nothing is held against a calibration."""
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
        """What is stored of this testbed of every kind of experiment, the newest first. Blocking. Raises StoreError."""
        fingerprint = self.inventory.fingerprint()
        found = [each for experiment in self.experiments for each in experiment.earlier(fingerprint)]
        return sorted(found, key=lambda each: each[1].started_at, reverse=True)

    def execution(self, plan: Plan, *, salt: str = "") -> PlanExecution:
        """An execution of a plan on this testbed, not begun yet. The plan is resolved for it (check_plan); with a
        ``salt`` its steps resume none before.
        """
        return PlanExecution(plan, self, salt=salt)

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        """Take what an execution of this testbed has left to take (PlanRunner.run). Raises LabError, LeaseHeld where
        ``take_over`` would help."""
        plan = execution.plan
        purpose = search_purpose(plan) if execution.salt else None
        return (await PlanRunner([execution], self, take_over=take_over, purpose=purpose).run())[0]
