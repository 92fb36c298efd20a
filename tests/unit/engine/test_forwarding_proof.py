"""How long a session waits for counters of nodes that it does not trust, and what it takes one node to say of another."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import pytest

from labconsole.contracts.driver import Prepared
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial import forwarding_proof
from labconsole.engine.trial.forwarding_proof import ForwardingProof, wait_forwarding
from labconsole.engine.trial.setup import TrialSettings
from labconsole.engine.trial.trial import Trial
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import InterfaceCounters, ReadCounters
from labconsole.wire.generator import PreparedStream, PreparedStreams, PrepareGenerator, Sent, WaitForGenerator
from support.background_records import REQUEST
from support.fake_session import make_inventory
from support.observed_trials import PATH


class Node:
    """A node whose counters rise by ``step`` each time that they are read."""

    def __init__(self, step: int = 0) -> None:
        self.step, self.counted, self.readings = step, 0, 0

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        if isinstance(request, ReadCounters):
            self.readings += 1
            self.counted += self.step if self.readings > 2 else 1
            row = [2, "eth1", [self.counted] + [0] * (len(STAT_NAMES) - 1)]
            return InterfaceCounters(monotonic_ns=self.readings, wall_ns=1, namespaces={"": [row]})
        return Sent(streams=[]) if isinstance(request, WaitForGenerator) else None


async def proved(sink: Node, *, stopping: bool = False) -> ForwardingProof:
    inventory, stops = make_inventory(), [False, stopping]
    links = cast("dict[str, Any]", {"src1": Node(), "snk1": sink})
    streams, prepared = inventory.streams[:1], Prepared(paths={"s1": PATH})
    work = wait_forwarding(
        inventory, links, prepared, streams, generator="afpacket", stopping=lambda: stops.pop(0) if stops else stopping
    )
    return await asyncio.wait_for(work, 20)


def test_a_sink_whose_counters_never_stand_still_is_waited_for_no_longer_than_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarding_proof, "STEADY_S", 0.3)
    busy = Node(step=7)
    proof = asyncio.run(proved(busy))
    assert proof.received_packets > 7 and busy.readings > 5
    quiet = Node()
    assert asyncio.run(proved(quiet)).received_packets == 1 and quiet.readings == 4


def test_an_abort_ends_the_waiting_for_counters() -> None:
    busy = Node(step=7)
    asyncio.run(proved(busy, stopping=True))
    assert busy.readings <= 4


def test_no_node_says_how_another_one_sends() -> None:
    class Source(Node):
        def __init__(self, *streams: str) -> None:
            super().__init__()
            self.streams = streams

        async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
            if not isinstance(request, PrepareGenerator):
                return await super().ask(request, timeout_s=timeout_s)
            await asyncio.sleep(0.05 * len(self.streams))  # whoever says more says it last
            said: dict[str, Any] = {"generator": "afpacket", "interface": "eth1", "burst_packets": None, "cpus": None}
            version = f"of {len(self.streams)}"
            return PreparedStreams(
                streams=[PreparedStream(stream=name, version=version, **said) for name in self.streams]
            )

    async def run() -> list[str | None]:
        inventory, nodes = make_inventory(), {"src1": Source("s1", "s2"), "src2": Source("s2")}
        links = cast("dict[str, Any]", {**nodes, **{name: Node() for name in ("uut", "snk1", "snk2")}})
        trial = Trial(
            run_id="r",
            inventory=inventory,
            request=replace(REQUEST, sources=2),
            links=links,
            prepared=Prepared(paths={"s1": PATH, "s2": PATH}),
            settings=TrialSettings.of(inventory),
            live=LiveStreams(Telemetry(), inventory, {}),
            emit=lambda event: None,
            nodes={},
        )
        async with AsyncExitStack() as stack:
            await trial._prepare_generators(stack)
            stack.pop_all()
        return [seen.prepared.version if seen.prepared else None for seen in trial.seen.flows]

    assert asyncio.run(run()) == ["of 2", "of 1"]
