"""Runs the checks: all nodes side by side, each check bounded and on its own. No failure stops another check."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from labconsole.engine.preflight import access
from labconsole.engine.preflight.bench import Bench, Check
from labconsole.engine.preflight.result import CheckResult, Finding, OnResult, failed, skipped
from labconsole.errors import LabError, NodeError
from labconsole.model.plan import Plan

if TYPE_CHECKING:
    from labconsole.engine.session import Session

log = logging.getLogger("labconsole.engine")

WITHOUT_LINK = {"ssh.login", "ssh.host_key"}
"""Checks that have something to say of a node that is not connected."""

NODE_CHECKS: tuple[Check, ...] = (*access.CHECKS,)


async def preflight(
    session: Session[Any], *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
) -> list[CheckResult]:
    """Check the testbed, with ``plan`` also whether it can be carried out. Each result is told as it comes.

    ``fix`` puts right what can be put right safely, and undoes it at the end except where the result says otherwise.
    Raises MeasurementError when a run is under way: a check would spoil it.
    """
    return await Preflight(session, plan, fix=fix, on_result=on_result).run()


class Preflight:
    """One check of a testbed."""

    def __init__(self, session: Session[Any], plan: Plan | None, *, fix: bool, on_result: OnResult | None) -> None:
        self._bench = Bench(session, plan, fix=fix)
        self._session, self._on_result = session, on_result
        self._results: list[CheckResult] = []

    async def run(self) -> list[CheckResult]:
        """All results, in the order in which they came."""
        await self._session.connect()
        async with self._session.exclusive():
            try:
                await self._node_checks(NODE_CHECKS)
            finally:
                await self._let_go()
        return self._results

    async def _node_checks(self, checks: Iterable[Check]) -> None:
        jobs = [
            self._check(check, node)
            for check in checks
            for node in self._bench.inventory.nodes
            if set(check.roles) & set(self._bench.roles(node))
        ]
        await asyncio.gather(*jobs)

    async def _check(self, check: Check, node: str) -> None:
        if node not in self._bench.links and check.id not in WITHOUT_LINK:
            self._tell(check.id, node, check.title, skipped(f"{node} is not connected"), 0.0)
            return
        await self._bounded(check.id, node, check.title, lambda: check.run(self._bench, node), check.deadline_s)

    async def _bounded(
        self, name: str, node: str | None, title: str, work: Callable[[], Awaitable[Finding]], deadline_s: float
    ) -> None:
        """Tell what ``work`` finds; its error or its lateness is a finding too."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(deadline_s):
                finding = await work()
        except TimeoutError:
            finding = failed(
                f"no answer within {deadline_s:g} s", "see whether the node is overloaded, then check again"
            )
        except NodeError as exc:
            where = "" if exc.node == node else f"{exc.node}: "
            finding = failed(where + exc.message, "the node could not answer: see what it says above, then check again")
        except LabError as exc:
            finding = failed(str(exc), "the check could not be carried out for this reason")
        except Exception as exc:  # a fault in one check must not keep the others from reporting
            log.exception("check %s on %s", name, node)
            finding = failed(
                f"internal error: {type(exc).__name__}: {exc}",
                "this is a fault of the program, not of the testbed; -v shows where",
            )
        self._tell(name, node, title, finding, time.monotonic() - begun)

    def _tell(self, name: str, node: str | None, title: str, finding: Finding, took_s: float) -> None:
        result = CheckResult(
            id=name,
            node=node,
            title=title,
            status=finding.status,
            evidence=finding.evidence,
            hint=finding.hint,
            fixable=finding.fixable,
            fixed=finding.fixed,
            took_s=took_s,
            values=finding.values,
        )
        self._results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    async def _let_go(self) -> None:
        """Give every node back."""
        await self._bench.close()
        for node in self._bench.leased:
            link = self._bench.links.get(node)
            if link is None:
                continue  # its agent has let go with it
            try:
                await link.request("lease.release", timeout_s=5)
            except NodeError as exc:
                log.info("lease.release on %s: %s", node, exc.message)
