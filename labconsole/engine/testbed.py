"""A testbed as front ends hold it: a session with the checks and the execution of plans, which build on sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Experiment
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.inspection import Inspection, inspect
from labconsole.engine.session import Session, StoreT
from labconsole.errors import MeasurementError
from labconsole.model.plan.plan import Plan

if TYPE_CHECKING:
    from labconsole.engine.check.result import CheckResult, OnResult


def _imported_checks() -> Callable[..., Awaitable[list[CheckResult]]]:
    """The checks take a twentieth of what opening a session takes to import, and most sessions check nothing."""
    from labconsole.engine.check.runner import preflight

    return preflight


class Testbed(Session[StoreT]):
    """A session that can also look at a node, check the testbed and execute a plan on it."""

    experiments: Sequence[Experiment] = ()
    """The kinds that plans may ask for beside their grids, which whoever opens the session sets."""

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

    def execution(self, plan: Plan) -> PlanExecution:
        """An execution of a plan on this testbed, not begun yet. The plan is resolved for it (check_plan)."""
        return PlanExecution(plan, self)

    async def execute(self, execution: PlanExecution, *, take_over: bool = False) -> Outcome:
        """Take what an execution of this testbed has left to take (PlanRunner.run). Raises LabError, LeaseHeld where
        ``take_over`` would help."""
        return (await PlanRunner([execution], self, take_over=take_over).run())[0]
