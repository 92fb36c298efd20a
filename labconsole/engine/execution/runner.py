"""Plans executed one after the other on a testbed that is held for all of them by one lease.

A node that is lost is waited for and the plan goes on; that ends the batch and its lease, because the agents undid what
they did, and takes the testbed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.pending import CampaignSession
from labconsole.engine.execution.progress import Outcome
from labconsole.errors import Aborted, LabError, NodeLost, NodeUnreachable

BACK_WITHIN_S = 120.0
"""How long a lost node is waited for: a reboot takes about that."""


class PlanRunner:
    """Campaigns on one session. ``run`` once only. ``purpose``: what others are told, None: which plans."""

    def __init__(
        self, campaigns: Sequence[PlanExecution], session: CampaignSession, *, take_over: bool = False,
        purpose: str | None = None,
    ) -> None:  # fmt: skip
        self.campaigns = list(campaigns)
        self.current: PlanExecution | None = None
        self._session, self._take_over, self._purpose = session, take_over, purpose

    def finish(self) -> None:
        """Let the running trial end and begin no other, of any plan."""
        for campaign in self.campaigns:
            campaign.finish()

    @property
    def left_s(self) -> float | None:
        """Until all plans are through; None while one of them cannot tell."""
        each = [campaign.left_s for campaign in self.campaigns if campaign.running]
        return None if any(left is None for left in each) else sum(left for left in each if left is not None)

    async def run(self) -> list[Outcome]:
        """Take what is left of every plan, holding the testbed meanwhile.

        A node that is lost is waited for and the trial taken again, max_redo times at most. What cannot be measured (a
        guest that does not boot) is left out and told in the plan's outcome. Ends early, with ``stopped`` set, when the
        session is aborted. Raises LabError when a plan cannot go on: then none after it is begun.
        """
        problem: BaseException | None = None
        try:
            for campaign in self.campaigns:
                await campaign.begin()
            if any(not campaign.exhausted for campaign in self.campaigns):
                await self._batches()
        except BaseException as exc:
            problem = exc
            raise
        finally:
            await self._end(problem)
        return [campaign.outcome for campaign in self.campaigns]

    async def _end(self, problem: BaseException | None) -> None:
        """Every plan has a status that tells how it ended, and its post commands have run, whatever happened."""
        later: list[LabError] = []
        for campaign in self.campaigns:
            mine = problem if campaign is self.current or self.current is None else None
            await asyncio.shield(campaign.clean_up())
            if problem is not None and mine is None and not campaign.exhausted:
                campaign.outcome.stopped = True
            try:
                campaign.end(mine)
            except LabError as exc:
                later.append(exc)
        if later and problem is None:
            raise later[0]

    async def _batches(self) -> None:
        """Batch after batch: a batch ends when all is done, or when a node is lost."""
        session = self._session
        setbacks, stuck_at = 0, -1
        while (open_plans := [c for c in self.campaigns if not c.exhausted]) and not self._stopped():
            # The lease names one request and takes the nodes of it: those of the widest.
            # A second guest's own stream may be none of theirs.
            requests = list({(r.sources, r.background): r for c in open_plans for r in c.open_requests}.values())
            widest = max(requests, key=lambda request: len(session.nodes_of(request)))
            nodes = list(dict.fromkeys(node for request in requests for node in session.nodes_of(request)))
            names = ", ".join(campaign.plan.name for campaign in open_plans)
            purpose = self._purpose or (f"plan {names}" if len(open_plans) == 1 else f"plans {names}")
            self.current = open_plans[0]
            try:
                async with session.batch(
                    widest, purpose=purpose, take_over=self._take_over, left_s=self.left_s, nodes=nodes
                ) as take:
                    self._take_over = False  # meant for who had it then, not for who takes it while a node is away
                    for campaign in open_plans:
                        self.current = campaign
                        await campaign.take_all(take)
                        if campaign.exhausted and not campaign.outcome.stopped:
                            await campaign.clean_up()
                        if campaign.outcome.stopped:
                            break
            except Aborted:
                # While a platform was set up, or before a trial had sent anything.
                if not self.current.stopping:
                    raise
                self.current.outcome.stopped = True
                return
            except (NodeLost, NodeUnreachable) as exc:
                campaign = self.current
                if campaign.stopping:
                    campaign.outcome.stopped = True
                    return
                place = sum(each.place for each in self.campaigns)
                setbacks = setbacks + 1 if stuck_at == place else 1
                stuck_at = place
                if setbacks > campaign.plan.max_redo:
                    raise
                campaign.lost(str(exc))
                await session.wait_connected(nodes, within_s=BACK_WITHIN_S)
                if campaign.stopping:
                    campaign.outcome.stopped = True
                else:
                    campaign.say_again()

    def _stopped(self) -> bool:
        """Whether the operator wants it to end: then plans that were not begun are stopped as well."""
        stopped = any(campaign.outcome.stopped for campaign in self.campaigns)
        for campaign in self.campaigns:
            if not campaign.exhausted and (stopped or campaign.told_to_stop):
                campaign.outcome.stopped = stopped = True
        return stopped
