"""What a trial asks its sinks for, where their kernels time packets and where they do not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from labconsole.engine.trial.packet_times import PacketTimers
from labconsole.engine.trial.setup import Flow
from labconsole.errors import AgentError
from labconsole.verdict.observed import StreamObservations, UntimedStream
from labconsole.wire.packet_times import CountedPackets, PortCount
from support.background_records import REQUEST
from support.fake_session import make_inventory
from support.observed_trials import PATH


class Sink:
    """A node whose kernel takes no program."""

    def __init__(self, *, counts: bool) -> None:
        self.asked: list[str] = []
        self._counts = counts

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        self.asked.append(request.op)
        if request.op == "packet_count.start" and self._counts:
            return None
        if request.op == "packet_count.stop" and self._counts:
            return CountedPackets(ports=[PortCount(interface="eth1", packets=[1234])])
        code = "not_counting" if request.op.endswith(".stop") else "no_permission"
        raise AgentError("snk1", "for root only", code=code, operation=request.op)


def timed(sink: Sink) -> StreamObservations:
    stream = make_inventory().streams[0]
    seen = StreamObservations(stream, PATH)
    timers = PacketTimers([seen], [Flow(stream, REQUEST, 0)], {"snk1": cast(Any, sink)}, wanted=True)

    async def run() -> None:
        await timers.start()
        await timers.stop()
        await timers.stop()

    asyncio.run(run())
    return seen


def test_a_sink_whose_kernel_times_none_counts_them() -> None:
    sink = Sink(counts=True)
    assert timed(sink).times == UntimedStream("no_permission", "for root only", 1234)
    assert sink.asked == ["packet_times.start", "packet_count.start", "packet_count.stop"]


def test_a_sink_that_may_do_neither_says_why_it_times_none() -> None:
    assert timed(Sink(counts=False)).times == UntimedStream("no_permission", "for root only")
