"""Discovering how machines are wired: connects, leases, probes and releases them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from labconsole.api.testbed import connect
from labconsole.contracts.ports import AgentLink
from labconsole.engine.discovery.discovery import DiscoveryRequest
from labconsole.engine.discovery.probing import Tell
from labconsole.engine.leases import Leases
from labconsole.errors import LabError, NodeError
from labconsole.model.identity import operator_name
from labconsole.model.inventory import Defaults, Inventory


@asynccontextmanager
async def leased_nodes(request: DiscoveryRequest, tell: Tell) -> AsyncIterator[dict[str, AgentLink]]:
    """Links to all of the nodes, by name, with their leases; everything is undone on them afterwards.

    Raises NodeError, and LeaseHeld if another session is measuring.
    """
    nodes = {each.name: each.node(request.become) for each in request.asked}
    defaults = Defaults() if request.ssh_config is None else Defaults(ssh_config=request.ssh_config)
    inventory = Inventory.model_construct(
        testbed="discover", emulated=False, injected=None, nodes=nodes, streams=(), platforms={}, defaults=defaults
    )
    links: dict[str, AgentLink] = {}
    leases = Leases(operator_name())

    async def dial(name: str) -> None:
        tell(name, "is being connected")
        try:
            links[name] = await connect(name, inventory, lambda node, event: None)
        except LabError as exc:
            tell(name, str(exc).removeprefix(f"{name}: "))
            raise
        tell(name, "is connected")

    try:
        results = await asyncio.gather(*(dial(name) for name in nodes), return_exceptions=True)
        problems = [each for each in results if isinstance(each, BaseException)]
        for problem in problems:
            if not isinstance(problem, LabError):
                raise problem
        failed = [each for each in problems if isinstance(each, NodeError)]
        if len(failed) > 1:
            more = "; ".join(map(str, failed[1:]))
            raise NodeError(failed[0].node, f"{failed[0].message}; {more}", operation=failed[0].operation)
        if problems:
            raise problems[0]
        ordered = {name: links[name] for name in nodes}
        await leases.take(ordered, purpose="discover", observe={}, left_s=60.0, take_over=request.take_over)
        yield ordered
    finally:
        await leases.release()
        await asyncio.gather(*(link.close() for link in links.values()), return_exceptions=True)
