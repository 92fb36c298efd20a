"""Another operator's trial: what a holder tells of it, and what a watcher makes of that."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from labconsole.engine.leases import Leases, newest_trial
from labconsole.engine.live.events import Phase, PhaseChanged, TrialStarted
from labconsole.engine.live.observed import ObservedStreams, ObservedTrial
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.telling import TrialTelling, told_of
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from labconsole.wire.lease import LeaseChanged, StatedHolder
from support.fake_session import link, make_inventory

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10_000_000, duration_s=5.0)
STARTED = TrialStarted(run_id="r1", request=REQUEST, repetition=2, repetitions=5)


def seen(phase: Phase = Phase.ARMING, *, run_id: str = "r1", at_ns: int = 10**18) -> ObservedTrial:
    """What a watcher knows after the holder has told of a phase."""
    told = told_of(replace(STARTED, run_id=run_id), PhaseChanged(run_id=run_id, phase=phase)).to_wire()
    trial = {**told, "since_wall_ns": at_ns, "phase_since_wall_ns": at_ns, "phase_until_wall_ns": None}
    holder = {
        "owner": "ben@b", "purpose": "raw", "observe": "", "quiet": False, "since_wall_ns": at_ns, "until_wall_ns": None,
        "trial": trial,
    }  # fmt: skip
    leases = Leases("anna@a")
    leases.seen("src1", LeaseChanged(holder=StatedHolder.parse(holder), quiet=False), 0)
    found = newest_trial(leases.holders)
    assert found is not None
    return found


def test_what_is_told_is_what_is_seen():
    trial = seen(Phase.SENDING)
    assert (trial.request, trial.repetition, trial.repetitions) == (REQUEST, 2, 5)
    assert (trial.operator, trial.phase, trial.plan, trial.block) == ("ben@b", Phase.SENDING, None, None)
    assert newest_trial({}) is None


class Link:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.let = asyncio.Event()

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> None:
        self.asked.append(request)
        await self.let.wait()


def test_a_slow_node_is_told_the_newest_phase_only_and_nothing_after_the_end():
    async def work() -> list[str]:
        slow = Link()
        telling = TrialTelling({"src1": slow}, "src1")  # type: ignore[dict-item]
        telling.hear(PhaseChanged(run_id="r1", phase=Phase.SENDING))  # a check's: no trial of a batch
        telling.hear(STARTED)
        for phase in (Phase.PREPARING, Phase.ARMING, Phase.SENDING):
            telling.hear(PhaseChanged(run_id="r1", phase=phase))
            await asyncio.sleep(0)
        slow.let.set()
        while len(slow.asked) < 2:
            await asyncio.sleep(0)
        await telling.end()
        telling.hear(PhaseChanged(run_id="r1", phase=Phase.DRAINING))
        return [request.trial.phase for request in slow.asked]

    assert asyncio.run(work()) == ["preparing", "sending"]


def sampled(telemetry: Telemetry, streams: ObservedStreams, node: str, at_ns: int, name: str, packets: int) -> None:
    values = [packets if each == name else 0 for each in STAT_NAMES]
    event = CountersSampled(monotonic_ns=at_ns, wall_ns=at_ns, namespaces={"": [[2, values]]}, missed=0, late=False)
    telemetry.add_counters(node, event)
    streams.add_counters(node)


def watch(phase: Phase) -> Telemetry:
    telemetry, inventory = Telemetry(), make_inventory()
    for node in ("src1", "snk1"):
        telemetry.set_links(node, [link("eth1", 2)])
    streams = ObservedStreams(telemetry, inventory, {})
    streams.add_counters("src1")
    streams.follow(seen(phase))
    for second, (sent, received) in enumerate(((1000, 400), (2000, 1300), (3000, 2300)), start=1):
        sampled(telemetry, streams, "src1", second * 10**9, "tx_packets", sent)
        sampled(telemetry, streams, "snk1", second * 10**9, "rx_packets", received)
    return telemetry


def test_the_streams_are_counted_at_the_interfaces_of_source_and_sink():
    (live,) = watch(Phase.ARMING).streams.values()
    assert (live.name, live.offered_packets, live.measured_packets) == ("s1", 2000, 1900)
    assert (list(live.offered_pps), list(live.measured_pps)) == ([1000.0, 1000.0], [900.0, 1000.0])


def test_a_trial_met_in_the_middle_has_rates_and_no_packets():
    (live,) = watch(Phase.SENDING).streams.values()
    assert (live.offered_packets, live.measured_packets) == (None, None)
    assert list(live.measured_pps) == [900.0, 1000.0]
