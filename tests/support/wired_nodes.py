"""Nodes whose agents answer discovery as if cables joined their ports, and what was done on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from labconsole.engine.discovery.discovery import DiscoveryRequest
from labconsole.engine.discovery.probing import Tell
from labconsole.errors import LabError
from labconsole.wire import changes, generator, links, survey

Cables = Sequence[tuple[str, str]]
"""Pairs of node/interface."""


class WiredNodes:
    """``asked``: what was asked of which node, in order; ``let_go``: how often all of them were.

    ``refusal``: raised once instead of logging in; ``sending``: released, before the frames are sent, by ``go_on``.
    """

    def __init__(self, cables: Cables, *, down: Sequence[str] = ()) -> None:
        self.cables = {one: other for pair in cables for one, other in (pair, pair[::-1])}
        self.down = down
        self.asked: list[tuple[str, str]] = []
        self.requests: list[DiscoveryRequest] = []
        self.let_go = 0
        self.refusal: LabError | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.heard: dict[str, list[Any]] = {}

    @asynccontextmanager
    async def hold(self, request: DiscoveryRequest, tell: Tell) -> AsyncIterator[Mapping[str, Any]]:
        """As labconsole.api.discovery.leased_nodes."""
        self.requests.append(request)
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        for each in request.asked:
            tell(each.name, "is connected")
        try:
            yield {each.name: WiredLink(self, each.name) for each in request.asked}
        finally:
            await asyncio.sleep(0.2)  # as an undoing that takes its time, and must not be cut short
            self.let_go += 1


class WiredLink:
    """One of them."""

    def __init__(self, nodes: WiredNodes, name: str) -> None:
        self._nodes, self.name = nodes, name
        self._sent: Any = None

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        """Answer in what discovery reads of it."""
        nodes = self._nodes
        nodes.asked.append((self.name, type(request).__name__))
        match request:
            case links.ReadLinks():
                return SimpleNamespace(links=[self._link(end) for end in sorted(nodes.cables) if self._own(end)])
            case survey.TakeSurvey():
                return SimpleNamespace(management=SimpleNamespace(interface="mgmt0", addresses={}))
            case changes.ReadNetwork():
                return SimpleNamespace(routes=[])
            case generator.PrepareGenerator(streams=[stream]):
                self._sent = stream
            case generator.StartGenerator():
                await nodes.go_on.wait()
                node, _, interface = nodes.cables[f"{self.name}/{self._sent.interface}"].partition("/")
                row = survey.HeardStream(
                    interface=interface,
                    source_ip=self._sent.source_ip,
                    sink_ip=self._sent.sink_ip,
                    udp_sink_port=self._sent.udp_sink_port,
                    packets=5,
                )
                nodes.heard.setdefault(node, []).append(row)
            case survey.ReadListening():
                return survey.Heard(heard=nodes.heard.get(self.name, []), complete=True)
            case changes.UndoChanges():
                return SimpleNamespace(failed=[])
        return SimpleNamespace()

    def _own(self, end: str) -> bool:
        return end.partition("/")[0] == self.name

    def _link(self, end: str) -> links.NodeLinkState:
        up = end not in self._nodes.down
        return links.NodeLinkState(
            namespace="",
            index=2,
            name=end.partition("/")[2],
            mac="02:00:00:00:00:01",
            mtu=1500,
            kind=None,
            driver="ixgbe",
            up=up,
            carrier=True,
            speed_bps=10**10,
            pause=None,
            master=None,
        )
