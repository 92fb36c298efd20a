"""Statements on nodes' clocks: declared in hosts.yaml, or read from the program that keeps a node's clock."""

from __future__ import annotations

from collections.abc import Mapping

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.errors import NodeError
from labconsole.model.inventory import Inventory
from labconsole.model.record.clocks import ClockStatement
from labconsole.wire.clocks import ReadClockKeeper

TIMEOUT_S = 10.0

Statements = dict[str, ClockStatement]


async def read_clock_statements(inventory: Inventory, links: Mapping[str, AgentLink]) -> Statements:
    """Statements on clocks that hosts.yaml declares or names a keeper for. A missing answer ends nothing."""
    found: Statements = {}

    async def ask(name: str) -> None:
        node = inventory.nodes[name]
        if node.clock_error_ns is not None:
            found[name] = ClockStatement(by="declared", error_ns=node.clock_error_ns)
        elif node.clock_keeper is not None:
            try:
                reply = await links[name].ask(ReadClockKeeper(keeper=node.clock_keeper), timeout_s=TIMEOUT_S)
            except NodeError as exc:
                found[name] = ClockStatement(by=node.clock_keeper, refused=exc.message)
            else:
                found[name] = ClockStatement(
                    by=node.clock_keeper,
                    error_ns=reply.error_ns,
                    reference=reply.reference,
                    is_reference=reply.is_reference,
                )

    await run_concurrently(ask(name) for name in links)
    return found


def worse(before: Statements, after: Statements) -> Statements:
    """The statements before and after a trial combined: none if one is missing or the reference changed."""
    return {name: _worse(statement, after.get(name)) for name, statement in before.items()}


def _worse(before: ClockStatement, after: ClockStatement | None) -> ClockStatement:
    if before.error_ns is None or before.by == "declared":
        return before
    if after is None or after.error_ns is None:
        why = "nothing" if after is None else after.refused
        return ClockStatement(by=before.by, refused=f"after the trial {before.by} reported {why}")
    if after.reference != before.reference:
        changed = f"{before.by} followed {before.reference} before the trial and {after.reference} after it"
        return ClockStatement(by=before.by, refused=changed)
    return max(before, after, key=lambda statement: statement.error_ns or 0)
