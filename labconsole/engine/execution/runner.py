"""Executes plans one after the other on a testbed, under one lease for all of them.

If a node is lost, the runner waits for it and then continues. The loss ends the batch and its lease, because the agents
have undone their changes, so the testbed is leased again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.pending import ExecutionSession
from labconsole.engine.execution.progress import Outcome
from labconsole.errors import Aborted, LabError, NodeLost, NodeUnreachable

BACK_WITHIN_S = 120.0
"""Time to wait for a lost node; a reboot takes about that long."""


class PlanRunner:
    """Executions on one session; ``run`` them once only. ``purpose``: shown to others; if None, names the plans."""

    def __init__(
        self,
        executions: Sequence[PlanExecution],
        session: ExecutionSession,
        *,
        take_over: bool = False,
        purpose: str | None = None,
    ) -> None:
        self.executions = list(executions)
        self.current: PlanExecution | None = None
        self._session, self._take_over, self._purpose = session, take_over, purpose

    def finish(self) -> None:
        """Let the running trial end and begin no other, of any plan."""
        for execution in self.executions:
            execution.finish()

    @property
    def left_s(self) -> float | None:
        """Time until all plans have ended, or None while one of them has no estimate."""
        each = [execution.left_s for execution in self.executions if execution.running]
        return None if any(left is None for left in each) else sum(left for left in each if left is not None)

    async def run(self) -> list[Outcome]:
        """Take what is left of every plan under one lease of the testbed.

        If a node is lost, wait for it and repeat the trial, max_redo times at most, and at least once. What cannot be
        measured (a guest that does not boot) is left out and reported in the plan's outcome. Ends early, with
        ``stopped`` set, when the session is aborted.

        Raises LabError if a plan cannot continue; later plans are then not begun.
        """
        problem: BaseException | None = None
        try:
            for execution in self.executions:
                await execution.begin()
            if any(not execution.exhausted for execution in self.executions):
                await self._batches()
        except BaseException as exc:
            problem = exc
            raise
        finally:
            await self._end(problem)
        return [execution.outcome for execution in self.executions]

    async def _end(self, problem: BaseException | None) -> None:
        """Give every plan a final status and run its post commands, in all cases."""
        later: list[LabError] = []
        for execution in self.executions:
            mine = problem if execution is self.current or self.current is None else None
            await asyncio.shield(execution.clean_up())
            if problem is not None and mine is None and not execution.exhausted:
                execution.outcome.stopped = True
            try:
                execution.end(mine)
            except LabError as exc:
                later.append(exc)
        if later and problem is None:
            raise later[0]

    async def _batches(self) -> None:
        """Run one batch after the other; a batch ends when all is done, or when a node is lost."""
        session = self._session
        setbacks, stuck_at = 0, -1
        while (open_plans := [c for c in self.executions if not c.exhausted]) and not self._stopped():
            # The lease names one request and covers its nodes: take the widest, plus the nodes of a second guest's own
            # stream.
            requests = list({(r.sources, r.background): r for c in open_plans for r in c.open_requests}.values())
            widest = max(requests, key=lambda request: len(session.nodes_of(request)))
            nodes = list(dict.fromkeys(node for request in requests for node in session.nodes_of(request)))
            names = ", ".join(execution.plan.name for execution in open_plans)
            purpose = self._purpose or (f"plan {names}" if len(open_plans) == 1 else f"plans {names}")
            self.current = open_plans[0]
            try:
                async with session.batch(
                    widest, purpose=purpose, take_over=self._take_over, left_s=self.left_s, nodes=nodes
                ) as take:
                    self._take_over = False  # applies to the first holder, not to one that comes while a node is away
                    for execution in open_plans:
                        self.current = execution
                        await execution.take_all(take)
                        if execution.exhausted and not execution.outcome.stopped:
                            await execution.clean_up()
                        if execution.outcome.stopped:
                            break
            except Aborted:
                # While a platform was set up, or before a trial had sent anything.
                if not self.current.stopping:
                    raise
                self.current.outcome.stopped = True
                return
            except (NodeLost, NodeUnreachable) as exc:
                execution = self.current
                if execution.stopping:
                    execution.outcome.stopped = True
                    return
                place = sum(each.place for each in self.executions)
                setbacks = setbacks + 1 if stuck_at == place else 1
                stuck_at = place
                if setbacks > max(1, execution.plan.max_redo):  # wait for it at least once
                    raise
                execution.lost(str(exc), within_s=BACK_WITHIN_S)
                await session.wait_connected(nodes, within_s=BACK_WITHIN_S)
                if execution.stopping:
                    execution.outcome.stopped = True
                else:
                    execution.report_recovery()

    def _stopped(self) -> bool:
        """Whether the operator wants it to end. Plans that were not begun are then stopped as well."""
        stopped = any(execution.outcome.stopped for execution in self.executions)
        for execution in self.executions:
            if not execution.exhausted and (stopped or execution.is_stop_requested):
                execution.outcome.stopped = stopped = True
        return stopped
