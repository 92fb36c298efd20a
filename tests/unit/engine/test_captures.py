"""What a trial asks of a sink for a capture with the stamps of its NIC."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from labconsole.contracts.driver import Prepared
from labconsole.engine.trial.setup import Flow, TrialSettings
from labconsole.engine.trial.traffic import TrialCaptures
from labconsole.engine.trial.trial import Trial
from labconsole.errors import AgentError, NodeError
from labconsole.network.nic_features import NicStamps
from labconsole.verdict.observations import StreamObservations, TrialObservations
from labconsole.wire.capture import CaptureDied
from labconsole.wire.clocks import NicClock
from labconsole.wire.session import Undone
from support.background_records import REQUEST
from support.fake_session import make_inventory
from support.observed_trials import PATH


class Sink:
    """``refuses``: the operation that it cannot do."""

    def __init__(self, refuses: str = "") -> None:
        self.asked: list[Any] = []
        self.refuses = refuses

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        self.asked.append(request)
        if request.op == self.refuses:
            raise AgentError("snk1", "the NIC of eth1 stamps no frames", code="not_supported", operation=request.op)
        return NicClock(at_ns=5, ahead_ns=1, error_ns=2) if request.op == "clock.nic" else None


def settings(nodes: frozenset[str]) -> TrialSettings:
    return TrialSettings(drain_s=1, sample_interval_s=1, capture_buffer_kib=64, nic_stamps=nodes)


def captured(sink: Sink, nodes: frozenset[str]) -> StreamObservations:
    stream = make_inventory().streams[0]
    seen = TrialObservations(run_id="r", started_at="", streams=[StreamObservations(stream, PATH)])

    async def let_go(node: str, request: Any) -> None:
        sink.asked.append(request)

    async def run() -> None:
        captures = TrialCaptures(seen, [Flow(stream, REQUEST, 0)], {"snk1": cast(Any, sink)}, settings(nodes), let_go)
        async with AsyncExitStack() as stack:
            await captures.start(stack)
            await captures.stop()

    asyncio.run(run())
    return seen.streams[0]


def test_a_capture_dies_once_and_only_one_of_the_trial_s() -> None:
    stream = make_inventory().streams[0]
    seen = TrialObservations(run_id="r", started_at="", streams=[StreamObservations(stream, PATH)])
    captures = TrialCaptures(seen, [Flow(stream, REQUEST, 0)], {}, settings(frozenset()), cast(Any, None))
    for node, name in [("snk1", "s1"), ("snk1", "s1"), ("snk1", "s2"), ("src1", "s1"), ("snk1", "s1")]:
        captures.note_death(node, CaptureDied(capture=name, message="no space"))
    assert seen.notes == [{"node": "snk1", "kind": "capture_died", "detail": "no space"}]


def test_the_nic_stamps_from_before_the_capture_until_after_it_and_its_clock_is_read_outside_of_it() -> None:
    sink = Sink()
    seen = captured(sink, frozenset({"snk1"}))
    assert [each.op for each in sink.asked] == [
        "net.apply",
        "clock.nic",
        "capture.start",
        "capture.stop",
        "clock.nic",
        "capture.stop",
        "net.undo",
    ]
    assert sink.asked[0].changes == [NicStamps(interface="eth1")]
    assert sink.asked[0].token == sink.asked[-1].token
    assert sink.asked[2].nic_stamps is True
    assert seen.nic_clock is not None and len(seen.nic_clock.readings) == 2


@pytest.mark.parametrize("failed", [[], ["cannot undo nic_stamps eth1: Device or resource busy"]])
def test_a_nic_that_cannot_be_put_back_is_noted_for_the_record(failed: list[str]) -> None:
    class Stuck(Sink):
        async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
            told = await super().ask(request, timeout_s=timeout_s)
            return Undone(failed=failed) if request.op == "net.undo" else told

    inventory = make_inventory()

    async def run() -> Trial:
        trial = Trial(
            run_id="r",
            inventory=inventory,
            request=REQUEST,
            links={name: cast(Any, Stuck()) for name in inventory.nodes},
            prepared=Prepared(paths=dict.fromkeys((stream.name for stream in inventory.streams), PATH)),
            settings=settings(frozenset({"snk1"})),
            live=cast(Any, None),
            emit=lambda event: None,
            nodes={},
        )
        async with AsyncExitStack() as stack:
            await trial._captures.start(stack)
        return trial

    expected = [{"node": "snk1", "kind": "cleanup", "detail": f"net.undo: {what}"} for what in failed]
    assert asyncio.run(run()).seen.notes == expected


def test_where_the_kernel_stamps_nothing_of_it_is_asked() -> None:
    sink = Sink()
    assert captured(sink, frozenset({"src1"})).nic_clock is None
    assert [each.op for each in sink.asked] == ["capture.start", "capture.stop", "capture.stop"]
    assert sink.asked[0].nic_stamps is None


def test_a_nic_that_stamps_nothing_ends_the_trial_before_it_begins() -> None:
    sink = Sink("net.apply")
    with pytest.raises(NodeError, match=r"stamps no frames; .* remove capture_stamps: nic from snk1"):
        captured(sink, frozenset({"snk1"}))
    assert [each.op for each in sink.asked] == ["net.apply", "net.undo"]


def test_a_clock_that_cannot_be_read_ends_nothing() -> None:
    seen = captured(Sink("clock.nic"), frozenset({"snk1"}))
    assert seen.nic_clock is not None
    assert (seen.nic_clock.readings, seen.nic_clock.refused) == ([], "the NIC of eth1 stamps no frames")
