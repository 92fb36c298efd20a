"""What a trial asks its sinks for, where their kernels time packets and where they do not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from labconsole.engine.trial.packet_times import PacketTimers
from labconsole.engine.trial.setup import Flow
from labconsole.errors import AgentError
from labconsole.model.inventory import PacketTiming
from labconsole.verdict.observed import StreamObservations, TimedStream, UntimedStream
from labconsole.wire.packet_times import (
    CountedPackets,
    PacketTimesStarted,
    PortCount,
    PortTimes,
    TimedPackets,
    XdpChanges,
)
from support.background_records import REQUEST
from support.fake_session import make_inventory
from support.observed_trials import PATH
from support.timed_packets import stream_times


class Sink:
    """A node whose kernel takes no program."""

    def __init__(self, *, counts: bool = False, xdp: XdpChanges | None = None) -> None:
        self.by: str | None = None
        self._xdp = xdp
        self.asked: list[str] = []
        self._counts = counts

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        self.asked.append(request.op)
        if request.op == "packet_times.start" and self._xdp is not None:
            self.by = request.by
            return PacketTimesStarted(instructions=290, memory_bytes=1)
        if request.op == "packet_times.stop" and self._xdp is not None:
            port = PortTimes(interface="eth1", streams=[stream_times({20_000: 5})], xdp=self._xdp)
            return TimedPackets(ports=[port], clock_moved_ns=0)
        if request.op == "packet_count.start" and self._counts:
            return None
        if request.op == "packet_count.stop" and self._counts:
            return CountedPackets(ports=[PortCount(interface="eth1", packets=[1234])])
        code = "not_counting" if request.op.endswith(".stop") else "no_permission"
        raise AgentError("snk1", "for root only", code=code, operation=request.op)


def timed(sink: Sink, wanted: PacketTiming = "on") -> StreamObservations:
    stream = make_inventory().streams[0]
    seen = StreamObservations(stream, PATH)
    timers = PacketTimers([seen], [Flow(stream, REQUEST, 0)], {"snk1": cast(Any, sink)}, wanted=wanted)

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


def test_a_sink_is_asked_for_what_is_wanted_and_what_it_changed_is_kept() -> None:
    changes = XdpChanges(features=["rx-gro-hw off"], left_features=[], link_changes=0)
    for wanted, by in (("xdp-generic", "generic XDP"), ("xdp-native", "native XDP"), ("on", "socket filter")):
        sink = Sink(xdp=changes)
        times = timed(sink, cast(PacketTiming, wanted)).times
        assert isinstance(times, TimedStream)
        assert (sink.by, times.by, times.xdp, times.counted.packets) == (by, by, changes, 5)
    assert timed(Sink(xdp=changes), "off").times is None
