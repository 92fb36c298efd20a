"""Watching the ends of a trial's streams for frames that are not theirs, so that the verdict can name them.

The ends only, never the unit under test: watching it changes what is measured, and what its ports send and receive, the
other ends of its cables do. Counts need none of this, so a node that cannot watch does not end a trial: what it counts
beyond the stream then has no name.
"""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.ports import AgentLink
from labconsole.engine.gather import together
from labconsole.engine.trial.setup import Flow, sink_port
from labconsole.errors import NodeError, NodeLost, NodeUnreachable
from labconsole.verdict.observed import Tapped, TrialObservations
from labconsole.wire.foreign import OwnStream, StartTaps, StopTaps, TappedPort
from labconsole.wire.message import R, Request

EVERY_BELOW_PPS = 50_000
"""Up to this rate on a port, every frame may be looked at: at 0.3 microseconds each, 1.5 % of one processor."""

TIMEOUT_S = 10.0


class ForeignTaps:
    """The taps of one trial; what they counted is in ``seen.foreign`` once they have stopped."""

    def __init__(self, seen: TrialObservations, links: dict[str, AgentLink], flows: Sequence[Flow]) -> None:
        self._seen, self._links = seen, links
        self._ports = ports_to_watch(flows)
        self._watching: list[str] = []

    async def start(self) -> None:
        """Begin to watch, all nodes at once."""
        await together(self._start(node) for node in self._ports)

    async def stop(self) -> None:
        """Take what was counted; once the counters have been read the last time."""
        await together(self._stop(node) for node in self._watching)

    async def _start(self, node: str) -> None:
        self._watching.append(node)
        if await self._ask(node, StartTaps(ports=self._ports[node])) is None:
            self._watching.remove(node)

    async def _stop(self, node: str) -> None:
        reply = await self._ask(node, StopTaps())
        for port in reply.ports if reply is not None else ():
            self._seen.foreign[node, port.interface] = Tapped(port.every, port.received, port.sent)

    async def _ask(self, node: str, request: Request[R]) -> R | None:
        try:
            return await self._links[node].ask(request, timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return None  # the trial hears of that by itself
        except NodeError as exc:
            self._seen.notes.append({"node": node, "kind": "foreign_unnamed", "detail": f"{request.op}: {exc.message}"})
            return None


def ports_to_watch(flows: Sequence[Flow]) -> dict[str, list[TappedPort]]:
    """Per node, each end of a stream once, with all streams that use it."""
    found: dict[tuple[str, str], list[OwnStream]] = {}
    rates_pps: dict[tuple[str, str], float] = {}
    for flow in flows:
        stream, asked_pps = flow.stream, flow.request.intended_pps
        own = OwnStream(source_ip=stream.source_ip, sink_ip=stream.sink_ip, udp_sink_port=sink_port(flow.index))
        for end in (stream.source, stream.sink):
            key = (end.node, end.interface)
            found.setdefault(key, []).append(own)
            rates_pps[key] = rates_pps.get(key, 0.0) + (float("inf") if asked_pps is None else asked_pps)
    ports: dict[str, list[TappedPort]] = {}
    for (node, interface), streams in found.items():
        every = rates_pps[node, interface] <= EVERY_BELOW_PPS
        ports.setdefault(node, []).append(TappedPort(interface=interface, streams=streams, every=every))
    return ports
