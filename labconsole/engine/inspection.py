"""A look at one node on an operator's demand: facts, settings of its interfaces, what else goes on there, who holds it.

Never while a trial is under way: it costs the node milliseconds of work that the trial would measure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a node said of itself. A part is None where the node could not say it; ``refused`` says why, by part.

    ``surroundings["window"]`` covers the time since the look before, if there was one.
    """

    at_wall_s: float
    facts: dict[str, Any] | None
    settings: dict[str, Any] | None
    surroundings: dict[str, Any] | None
    holder: dict[str, Any] | None
    refused: dict[str, str] = field(default_factory=dict)


async def inspect(link: AgentLink, guests: Sequence[str]) -> Inspection:
    """Ask for everything. Raises NodeLost when the link goes away meanwhile. ``guests``: see DriverInfo.processes."""
    refused: dict[str, str] = {}

    async def ask(op: str, args: dict[str, Any] | None = None) -> dict[str, Any] | None:
        try:
            return await link.request(op, args)
        except AgentError as exc:
            refused[op] = exc.message
            return None

    await link.measure_clock()
    facts = await ask("facts")
    settings = await ask("settings")
    surroundings = await ask("surroundings", {"begin": False, "guests": list(guests)})
    await ask("surroundings", {"begin": True})  # so that the next look can say who used the processors since
    lease = await ask("lease.read")
    return Inspection(
        at_wall_s=time.time(),
        facts=facts,
        settings=settings,
        surroundings=surroundings,
        holder=lease.get("holder") if lease else None,
        refused=refused,
    )
