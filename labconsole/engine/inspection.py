"""Inspects one node on demand: facts, interface settings, activity and lease holder.

Never during a trial: an inspection costs the node milliseconds of work, which the trial would measure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError
from labconsole.wire.facts import NodeFacts, ReadFacts
from labconsole.wire.host_activity import NodeSurroundings, ReadSurroundings
from labconsole.wire.lease import ReadLease, StatedNodeHolder
from labconsole.wire.message import R, Request
from labconsole.wire.settings import NodeSettings, ReadSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A node's answers. A part is None if the node could not give it; ``refused`` contains the reasons, by part.

    The window of ``surroundings`` covers the time since the previous inspection, if there was one.
    """

    at_wall_s: float
    facts: NodeFacts | None = None
    settings: NodeSettings | None = None
    surroundings: NodeSurroundings | None = None
    holder: StatedNodeHolder | None = None
    refused: dict[str, str] = field(default_factory=dict)


async def inspect(link: AgentLink, guests: Sequence[str], *, only_watch: bool = False) -> Inspection:
    """Request all parts, or with ``only_watch`` only those that cost the node nothing.

    Raises NodeLost if the link goes away meanwhile. ``guests``: see DriverInfo.processes.
    """
    refused: dict[str, str] = {}

    async def ask(request: Request[R]) -> R | None:
        if only_watch and not request.watches:
            refused[request.op] = "not requested: this console only watches"
            return None
        try:
            return await link.ask(request)
        except AgentError as exc:
            refused[request.op] = exc.message
            return None

    await link.measure_clock()
    facts = await ask(ReadFacts())
    settings = await ask(ReadSettings())
    surroundings = await ask(ReadSurroundings(begin=False, guests=list(guests)))
    await ask(ReadSurroundings(begin=True))  # so that the next inspection can say who has used the processors since
    lease = await ask(ReadLease())
    return Inspection(
        at_wall_s=time.time(),
        facts=facts,
        settings=settings,
        surroundings=surroundings,
        holder=lease.holder if lease is not None else None,
        refused=refused,
    )
