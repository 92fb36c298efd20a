"""A look at one node on an operator's demand: facts, settings of its interfaces, what else goes on there, who holds it.

Never while a trial is under way: it costs the node milliseconds of work that the trial would measure.
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
    """What a node said of itself. A part is None where the node could not say it; ``refused`` says why, by part.

    The window of ``surroundings`` covers the time since the look before, if there was one.
    """

    at_wall_s: float
    facts: NodeFacts | None = None
    settings: NodeSettings | None = None
    surroundings: NodeSurroundings | None = None
    holder: StatedNodeHolder | None = None
    refused: dict[str, str] = field(default_factory=dict)


async def inspect(link: AgentLink, guests: Sequence[str], *, only_watch: bool = False) -> Inspection:
    """Ask for everything, or with ``only_watch`` for what costs the node nothing.

    Raises NodeLost when the link goes away meanwhile. ``guests``: see DriverInfo.processes.
    """
    refused: dict[str, str] = {}

    async def ask(request: Request[R]) -> R | None:
        if only_watch and not request.watches:
            refused[request.op] = "not asked: this console only watches"
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
    await ask(ReadSurroundings(begin=True))  # so that the next look can say who used the processors since
    lease = await ask(ReadLease())
    return Inspection(
        at_wall_s=time.time(),
        facts=facts,
        settings=settings,
        surroundings=surroundings,
        holder=lease.holder if lease is not None else None,
        refused=refused,
    )
