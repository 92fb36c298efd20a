"""What a trial asks of its nodes at both ends."""

from __future__ import annotations

import asyncio
from typing import Any

from labconsole.engine.trial.window import Readings
from labconsole.errors import NodeError
from labconsole.verdict.observations import TrialObservations
from labconsole.wire.drops import DropCounters
from labconsole.wire.settings import ReadSettings
from support.fake_session import make_inventory


class Silent:
    """A node that says nothing, and keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        self.asked.append(request)
        raise NodeError("node", "says nothing")


def test_of_a_nodes_interfaces_only_those_of_streams_and_of_the_trial_are_asked_how_they_are_set() -> None:
    inventory = make_inventory()
    stream = inventory.streams[0]
    nodes: dict[str, Any] = {inventory.uut: Silent(), stream.sink.node: Silent()}
    own = {inventory.uut: ["tap0", stream.uut_in], stream.sink.node: []}
    readings = Readings(TrialObservations(run_id="x", started_at=""), nodes, own, (), {}, inventory)
    asyncio.run(readings.open())
    asked = {name: [each for each in node.asked if isinstance(each, ReadSettings)] for name, node in nodes.items()}
    (of_uut,), (of_sink,) = asked[inventory.uut], asked[stream.sink.node]
    assert of_uut.ports is not None and {stream.uut_in, stream.uut_out, "tap0"} <= set(of_uut.ports)
    assert len(of_uut.ports) == len(set(of_uut.ports)) and of_sink.ports == [stream.sink.interface]


class Cut(Silent):
    """A node of whose driver statistics not all are kept."""

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        here = {"ip": None, "filters": None, "qdiscs": [], "driver": {"eth1": {}}, "cut": ["eth1"]}
        return DropCounters.parse({"monotonic_ns": 1, "softnet": None, "namespaces": {"": here}})


def test_statistics_of_a_driver_that_were_not_kept_are_not_observed() -> None:
    inventory = make_inventory()
    seen = TrialObservations(run_id="x", started_at="")
    node: Any = Cut()
    readings = Readings(seen, {inventory.uut: node}, {inventory.uut: ["eth1"]}, (), {}, inventory)
    asyncio.run(readings.drops(begin=False))
    assert [(note["node"], note["kind"]) for note in seen.notes] == [(inventory.uut, "not_observed")]
    assert "eth1 has more error statistics" in seen.notes[0]["detail"]
