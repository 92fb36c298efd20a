"""The sink's end of trials that count packets there: its MAC address, and counters before and after, when steady.

Shared by guests that send and guests that forward.
"""

from __future__ import annotations

import asyncio

from labconsole.contracts.crew import StandingCrew
from labconsole.errors import NodeError
from labconsole.verdict.observations import Snapshot, TrialObservations, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.links import ReadLinks

MOST_DRAIN_S = 10.0
"""Maximum time that packets may wait in queues after the last was sent."""

_RX = STAT_NAMES.index("rx_packets")


async def find_sink_mac(crew: StandingCrew) -> str:
    """The MAC address of the sink's NIC. Raises NodeError if the node does not report it."""
    links = {link.name: link.mac for link in (await crew.timekeeper.ask(ReadLinks())).links if not link.namespace}
    if not (mac := links.get(crew.stream.sink.interface)):
        raise NodeError(crew.timekeeper.name, f"does not say the MAC address of {crew.stream.sink.interface}")
    return mac.lower()


async def read_counters(crew: StandingCrew) -> tuple[Snapshot, Snapshot]:
    """Counters of the UUT and of the sink. Raises NodeError."""
    replies = await asyncio.gather(crew.uut.ask(ReadCounters()), crew.timekeeper.ask(ReadCounters()))
    uut, sink = map(parse_snapshot, replies)
    return uut, sink


async def read_counters_after_drain(
    crew: StandingCrew, drain_s: float, seen: TrialObservations
) -> tuple[Snapshot, Snapshot]:
    """Counters once no packet arrives at the sink any more, so that packets queued on the path are not counted as lost.

    If packets never stop arriving, ``seen`` gets a doubt. Raises NodeError.
    """
    port, found = ("", crew.stream.sink.interface), await read_counters(crew)
    for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
        await asyncio.sleep(drain_s)
        former, found = found, await read_counters(crew)
        if port in found[1] and port in former[1] and found[1][port].values[_RX] == former[1][port].values[_RX]:
            return found
    detail = f"packets still arrived at the sink {MOST_DRAIN_S:g} s after the last was sent"
    seen.doubts.append(reason("not_drained", detail))
    return found
