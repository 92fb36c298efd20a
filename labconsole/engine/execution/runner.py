"""Plans executed one after the other on a testbed that is held for all of them by one lease.

A node that is lost is waited for and the plan goes on; that ends the batch and its lease, because the agents undid what
they did, and takes the testbed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.pending import ExecutionSession
from labconsole.engine.execution.progress import Outcome
from labconsole.errors import Aborted, LabError, NodeLost, NodeUnreachable

BACK_WITHIN_S = 120.0
"""How long a lost node is waited for: a reboot takes about that."""


class PlanRunner:
    """Executions on one session. ``run`` once only. ``purpose``: what others are told, None: which plans."""

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
        """Until all plans are through; None while one of them cannot tell."""
        each = [execution.left_s for execution in self.executions if execution.running]
        return None if any(left is None for left in each) else sum(left for left in each if left is not None)

    async def run(self) -> list[Outcome]:
        """Take what is left of every plan, holding the testbed meanwhile.

        A node that is lost is waited for and the trial taken again, max_redo times at most, and once at least. What
        cannot be measured (a guest that does not boot) is left out and told in the plan's outcome. Ends early, with
        ``stopped`` set, when the session is aborted.
        Raises LabError when a plan cannot go on: then none after it is begun.
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
        """Every plan has a status that tells how it ended, and its post commands have run, whatever happened."""
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
        """Batch after batch: a batch ends when all is done, or when a node is lost."""
        session = self._session
        setbacks, stuck_at = 0, -1
        while (open_plans := [c for c in self.executions if not c.exhausted]) and not self._stopped():
            # The lease names one request and takes the nodes of it: those of the widest.
            # A second guest's own stream may be none of theirs.
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
                    self._take_over = False  # meant for who had it then, not for who takes it while a node is away
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
                if setbacks > max(1, execution.plan.max_redo):  # it is waited for once in any case
                    raise
                execution.lost(str(exc), within_s=BACK_WITHIN_S)
                await session.wait_connected(nodes, within_s=BACK_WITHIN_S)
                if execution.stopping:
                    execution.outcome.stopped = True
                else:
                    execution.report_recovery()

    def _stopped(self) -> bool:
        """Whether the operator wants it to end: then plans that were not begun are stopped as well."""
        stopped = any(execution.outcome.stopped for execution in self.executions)
        for execution in self.executions:
            if not execution.exhausted and (stopped or execution.is_stop_requested):
                execution.outcome.stopped = stopped = True
        return stopped
