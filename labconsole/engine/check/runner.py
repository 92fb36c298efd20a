"""Runs the checks on all nodes concurrently, each with its own time limit. A failing check does not stop the others."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from labconsole.engine.check import access, cabling, capacity, clocks, cpu, feasibility, flows, nics, quiet, tools, uut
from labconsole.engine.check.context import Check, CheckContext, Wave, find_checks
from labconsole.engine.check.result import CheckFinding, CheckResult, OnResult, failed, skipped
from labconsole.engine.live.events import NodeState
from labconsole.errors import LabError, NodeError
from labconsole.model.plan.plan import Plan
from labconsole.wire.lease import ReleaseLease

if TYPE_CHECKING:
    from labconsole.engine.session import Session

log = logging.getLogger("labconsole.engine")

SUBJECTS = (access, tools, clocks, nics, cpu, uut, quiet, capacity)
"""Modules with checks of single nodes, in the order in which people read their results."""

CHECKS = find_checks(SUBJECTS)

RETRY_S = 5.0
RETRY_STEP_S = 0.05
CABLES_S = 15.0
FLOW_S = 60.0
"""A platform may have to boot guests."""

CAPTURE_S = 40.0
WHOLE_S = 10.0
TITLES = {
    "store": "room for runs",
    "calibration": "calibration",
    "plan.points": "design points",
    "plan.envelope": "within calibration",
    "plan.references": "background maxima",
    "plan.order": "order",
    "plan.time": "time",
    "cable.in": "cable to the UUT",
    "cable.out": "cable from the UUT",
    "capacity.capture": "capture at the highest rate",
}
FLOW = "flow."
Place = tuple[str, str | None]
"""A check's id and its node."""


def catalogue() -> dict[str, str]:
    """Every check's id and title in reading order; ``flow.`` is the prefix of one check per platform."""
    ids = {check.id: check.title for check in CHECKS}
    return {**ids, **TITLES, FLOW: "flow through a platform"}


def family(name: str) -> str:
    """The catalogue's id for a result's id."""
    return FLOW if name.startswith(FLOW) else name


async def preflight(
    session: Session[Any], *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
) -> list[CheckResult]:
    """Check the testbed and, with ``plan``, whether it can be measured here; ``on_result`` gets each result at once.

    ``fix`` corrects what is safe to correct, and undoes it at the end unless the result says otherwise. Raises
    MeasurementError if a run is under way in this or another session, because a check would disturb it.
    """
    return await CheckRun(session, plan, fix=fix, on_result=on_result).run()


class CheckRun:
    """One check of a testbed."""

    def __init__(self, session: Session[Any], plan: Plan | None, *, fix: bool, on_result: OnResult | None) -> None:
        self._bench = CheckContext(session, plan, fix=fix)
        self._session, self._on_result = session, on_result
        self._results: list[CheckResult] = []

    async def run(self) -> list[CheckResult]:
        """Return all results in the order of the catalogue; on_result receives them as they are found."""
        await self._connect()
        # Lease holders are known only once the nodes are connected.
        self._session.refuse_if_others_measure(self._session.inventory.nodes, "a check")
        async with self._session.exclusive():
            try:
                for step in self._steps():
                    if self._session.stopping:
                        break
                    await step()
            finally:
                await self._let_go()
        order = list(catalogue())
        return sorted(self._results, key=lambda result: order.index(family(result.id)))

    async def _connect(self) -> None:
        """Connect to all nodes. Retry unreachable ones now, without waiting for their back-off."""
        nodes, session = self._session.telemetry.nodes, self._session
        before = [name for name, live in nodes.items() if live.state in (NodeState.FAILED, NodeState.LOST)]
        await session.connect()
        waiting = [name for name in before if name not in session.links and session.reconnect(name)]
        deadline = time.monotonic() + RETRY_S
        while waiting and time.monotonic() < deadline:
            await asyncio.sleep(RETRY_STEP_S)
            # Done once a node waits again or never waited: this attempt is over.
            waiting = [name for name in waiting if name not in session.links and nodes[name].retry_at_s is None]

    def _steps(self) -> list[Callable[[], Awaitable[None]]]:
        """The steps in order; abort() ends the check between two of them."""

        async def look() -> None:
            await asyncio.gather(self._node_checks(Wave.OTHERS), self._whole_checks())

        first, fixes, links = (
            functools.partial(self._node_checks, wave) for wave in (Wave.FIRST, Wave.FIXES, Wave.LINKS)
        )
        # From the cables on, frames are sent, and nothing else runs meanwhile.
        return [first, fixes, look, links, self._cables, self._flows, self._captures]

    async def _node_checks(self, wave: Wave) -> None:
        jobs = [
            self._check(check, node)
            for check in CHECKS
            for node in self._bench.inventory.nodes
            if check.wave is wave and set(check.roles) & set(self._bench.roles(node))
        ]
        await asyncio.gather(*jobs)

    async def _whole_checks(self) -> None:
        """Checks of the testbed or of the plan as a whole."""
        wanted: dict[str, Callable[[CheckContext], Awaitable[CheckFinding]]] = {
            "store": capacity.store,
            "calibration": feasibility.calibration,
        }
        if self._bench.plan is not None:
            wanted |= {
                "plan.points": feasibility.points,
                "plan.envelope": feasibility.envelope,
                "plan.references": feasibility.references,
                "plan.order": feasibility.order,
                "plan.time": feasibility.time,
            }
        await asyncio.gather(
            *(self._group([(name, None)], self._alone(name, run), WHOLE_S) for name, run in wanted.items())
        )

    def _alone(
        self, name: str, run: Callable[[CheckContext], Awaitable[CheckFinding]]
    ) -> Callable[[], Awaitable[dict[Place, CheckFinding]]]:
        async def work() -> dict[Place, CheckFinding]:
            return {(name, None): await run(self._bench)}

        return work

    async def _cables(self) -> None:
        by_place: dict[Place, list[cabling.Cable]] = {}
        for cable in cabling.cables(self._bench):
            node = cable.near[0] if cable.side == "in" else cable.far[0]
            by_place.setdefault((f"cable.{cable.side}", node), []).append(cable)

        async def work() -> dict[Place, CheckFinding]:
            tried = await cabling.try_cables(self._bench)
            return {place: tried.of(mine) for place, mine in by_place.items()}

        await self._group(list(by_place), work, CABLES_S)

    async def _flows(self) -> None:
        node = self._bench.inventory.uut
        for platform in self._bench.platforms():
            name, title = f"{FLOW}{platform}", f"flow through {platform}"
            await self._bounded(
                name, node, title, functools.partial(flows.judge_platform_flow, self._bench, platform), FLOW_S
            )

    async def _captures(self) -> None:
        if self._bench.plan is None:
            return
        name = "capacity.capture"
        places: list[Place] = [(name, node) for node in dict.fromkeys(s.sink.node for s in self._bench.streams())]

        async def work() -> dict[Place, CheckFinding]:
            return {(name, node): finding for node, finding in (await capacity.capture(self._bench)).items()}

        await self._group(places, work, CAPTURE_S)

    async def _group(
        self, places: list[Place], work: Callable[[], Awaitable[dict[Place, CheckFinding]]], deadline_s: float
    ) -> None:
        """Report what ``work`` finds at several places at once; an error counts as the finding at each of them."""
        begun = time.monotonic()
        found: dict[Place, CheckFinding] = {}

        async def whole() -> CheckFinding:
            found.update(await work())
            return skipped("no result")

        failure = await self._finding(whole, None, places[0][0] if places else "", deadline_s)
        for place in places:
            name, node = place
            self._tell(name, node, TITLES[name], found.get(place, failure), time.monotonic() - begun)

    async def _check(self, check: Check, node: str) -> None:
        if node not in self._bench.links and not check.without_link:
            self._tell(check.id, node, check.title, skipped(f"{node} is not connected"), 0.0)
            return
        await self._bounded(check.id, node, check.title, lambda: check.run(self._bench, node), check.deadline_s)

    async def _bounded(
        self, name: str, node: str | None, title: str, work: Callable[[], Awaitable[CheckFinding]], deadline_s: float
    ) -> None:
        """Report what ``work`` finds."""
        begun = time.monotonic()
        finding = await self._finding(work, node, name, deadline_s)
        self._tell(name, node, title, finding, time.monotonic() - begun)

    @staticmethod
    async def _finding(
        work: Callable[[], Awaitable[CheckFinding]], node: str | None, name: str, deadline_s: float
    ) -> CheckFinding:
        """The finding of ``work``; an error or a timeout is a finding, too."""
        try:
            async with asyncio.timeout(deadline_s):
                return await work()
        except TimeoutError:
            return failed(
                f"no answer within {deadline_s:g} s", "check whether the node is overloaded, then run the check again"
            )
        except NodeError as exc:
            where = "" if exc.node == node else f"{exc.node}: "
            return failed(where + exc.message, "the node could not answer: see above for the reason, then check again")
        except LabError as exc:
            return failed(str(exc), "the check could not run for this reason")
        except Exception as exc:  # a fault in one check must not keep the others from reporting
            log.exception("check %s on %s", name, node)
            return failed(
                f"internal error: {type(exc).__name__}: {exc}",
                "this is a bug in labconsole, not a problem of the testbed; use -v for details",
            )

    def _tell(self, name: str, node: str | None, title: str, finding: CheckFinding, took_s: float) -> None:
        result = CheckResult(
            id=name,
            node=node,
            title=title,
            status=finding.status,
            evidence=_one_line(finding.evidence),
            hint=None if finding.hint is None else _one_line(finding.hint),
            fixable=finding.fixable,
            fixed=finding.fixed,
            took_s=took_s,
            values=finding.values,
        )
        self._results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    async def _let_go(self) -> None:
        """Release every node's lease."""
        await self._bench.close()
        for node in self._bench.leased:
            link = self._bench.links.get(node)
            if link is None:
                continue  # its agent has released the lease by ending
            try:
                await link.ask(ReleaseLease(), timeout_s=5)
            except NodeError as exc:
                log.info("lease.release on %s: %s", node, exc.message)


def _one_line(text: str) -> str:
    """Replace line feeds and other non-printable characters in a text that may be a node's."""
    return "".join(char if char.isprintable() else " " for char in text)
