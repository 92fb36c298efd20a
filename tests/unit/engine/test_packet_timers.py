"""What a trial asks its sinks for, where their kernels time packets and where they do not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from labconsole.engine.trial import kernel_probes
from labconsole.engine.trial.forwarding_proof import ForwardingProof
from labconsole.engine.trial.kernel_probes import PacketTimers
from labconsole.engine.trial.setup import Flow
from labconsole.errors import Aborted, AgentError, NodeError, NodeSilent
from labconsole.model.inventory import PacketTiming
from labconsole.verdict.observations import StreamObservations, TimedStream, UntimedStream
from labconsole.wire.packet_times import (
    LINK_S,
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

    def __init__(self, *, counts: bool = False, xdp: XdpChanges | None = None, silent: tuple[str, ...] = ()) -> None:
        self.by: str | None = None
        self.silent, self.waited_s = silent, dict[str, float]()
        self._xdp = xdp
        self.asked: list[str] = []
        self._counts = counts

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        self.asked.append(request.op)
        self.waited_s[request.op] = timeout_s
        if request.op in self.silent:
            raise NodeSilent("snk1", "no answer", operation=request.op)
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


def timers_of(sink: Sink, wanted: PacketTiming) -> tuple[PacketTimers, StreamObservations]:
    stream = make_inventory().streams[0]
    seen = StreamObservations(stream, PATH)
    links = {"snk1": cast(Any, sink)}
    return PacketTimers([seen], [Flow(stream, REQUEST, 0)], links, wanted=wanted), seen


def timed(sink: Sink, wanted: PacketTiming = "on") -> StreamObservations:
    timers, seen = timers_of(sink, wanted)

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


def test_a_sink_that_does_not_answer_is_ended_before_anything_is_sent() -> None:
    sink = Sink(silent=("packet_times.start",))
    timers, seen = timers_of(sink, "xdp-native")
    asyncio.run(timers.start())
    assert sink.asked == ["packet_times.start", "packet_times.stop"], "which waits for its links"
    assert sink.waited_s["packet_times.start"] > 2 * LINK_S and sink.waited_s["packet_times.stop"] > LINK_S
    assert seen.times == UntimedStream("failed", "no answer")
    asyncio.run(timers.stop())
    assert sink.asked == ["packet_times.start", "packet_times.stop"] and seen.times.code == "failed"
    dead, _ = timers_of(Sink(silent=("packet_times.start", "packet_times.stop")), "xdp-native")
    with pytest.raises(NodeSilent):
        asyncio.run(dead.start())


@pytest.mark.parametrize("wanted", ["on", "xdp-generic", "xdp-native"])
def test_what_may_have_reset_links_has_the_platform_forward_once_more(
    monkeypatch: pytest.MonkeyPatch, wanted: PacketTiming
) -> None:
    """By frames that nobody counts as the stream's."""
    asked: list[tuple[list[str], bool]] = []

    async def forwards(inventory: Any, links: Any, prepared: Any, streams: Any, **how: Any) -> ForwardingProof:
        asked.append(([stream.name for stream in streams], how["apart"]))
        if how["stopping"]():
            raise Aborted("aborted")
        if links["snk1"].silent:
            raise NodeError("uut", "no test frame of stream s1 reached its sink")
        return ForwardingProof(duration_s=0.25, sent_packets=20, received_packets=10)

    monkeypatch.setattr(kernel_probes, "wait_forwarding", forwards)

    async def proved(sink: Sink, *, interrupted: bool = False) -> Any:
        timers, _ = timers_of(sink, wanted)
        interrupt = asyncio.get_running_loop().create_future()
        if interrupted:
            interrupt.set_result("the operator")
        return await timers.prove(make_inventory(), cast(Any, None), REQUEST, interrupt)

    told = asyncio.run(proved(Sink()))
    if wanted != "xdp-native":
        assert told == [] and asked == []
        return
    assert asked == [(["s1"], True)]
    ((node, kind, detail), figures) = list(told[0].values())[:3], list(told[0].values())[3:]
    assert (node, kind, figures) == ("uut", "learning", [0.25, 20, 10])
    assert (
        detail == "native XDP may have reset the links of sinks: 20 frames were sent until it forwarded again, 0.25 s"
    )
    assert asyncio.run(proved(Sink(), interrupted=True)) == [], "the trial says why it ends"
    with pytest.raises(NodeError, match="no test frame"):
        asyncio.run(proved(Sink(silent=("all",))))
