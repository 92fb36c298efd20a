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
from labconsole.wire.facts import ReadFacts
from labconsole.wire.lease import ReadLease
from labconsole.wire.message import Message, R, Request
from labconsole.wire.settings import ReadSettings
from labconsole.wire.surroundings import ReadSurroundings


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


def _said(message: Message | None) -> dict[str, Any] | None:
    return message.to_wire() if message is not None else None


async def inspect(link: AgentLink, guests: Sequence[str]) -> Inspection:
    """Ask for everything. Raises NodeLost when the link goes away meanwhile. ``guests``: see DriverInfo.processes."""
    refused: dict[str, str] = {}

    async def ask(request: Request[R]) -> R | None:
        try:
            return await link.ask(request)
        except AgentError as exc:
            refused[request.op] = exc.message
            return None

    await link.measure_clock()
    facts = await ask(ReadFacts())
    settings = await ask(ReadSettings())
    surroundings = await ask(ReadSurroundings(begin=False, guests=list(guests)))
    await ask(ReadSurroundings(begin=True))  # so that the next look can say who used the processors since
    lease = await ask(ReadLease())
    return Inspection(
        at_wall_s=time.time(),
        facts=_said(facts),
        settings=_said(settings),
        surroundings=_said(surroundings),
        holder=_said(lease.holder) if lease is not None else None,
        refused=refused,
    )
