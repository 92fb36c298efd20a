"""Another operator's trial: what a holder tells of it, and what a watcher makes of that."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.leases import Leases, TrialAnnouncer, build_announcement, newest_trial
from labconsole.engine.live.events import GuestTrialStarted, Phase, PhaseChanged, TrialStarted
from labconsole.engine.live.observed_trial import ObservedStreams, ObservedTrial
from labconsole.engine.live.telemetry import Telemetry
from labconsole.errors import NodeLost
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.wire.codec import STAT_NAMES, WireError
from labconsole.wire.counters import CountersSampled
from labconsole.wire.lease import LeaseChanged, StatedHolder, TrialTold
from support.fake_session import link, make_inventory

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10_000_000, duration_s=5.0)
STARTED = TrialStarted(run_id="r1", request=REQUEST, repetition=2, repetitions=5)


def seen(phase: Phase = Phase.ARMING, *, run_id: str = "r1", at_ns: int = 10**18, **odd: Any) -> ObservedTrial:
    """What a watcher knows after the holder has told of a phase, with ``odd`` values in its words."""
    told = build_announcement(replace(STARTED, run_id=run_id), PhaseChanged(run_id=run_id, phase=phase)).to_wire()
    trial = {**told, **odd, "since_wall_ns": at_ns, "phase_since_wall_ns": at_ns, "phase_until_wall_ns": None}
    holder = {
        "owner": "ben@b",
        "purpose": "raw",
        "observe": "",
        "quiet": False,
        "since_wall_ns": at_ns,
        "until_wall_ns": None,
        "trial": trial,
    }
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
        telling = TrialAnnouncer({"src1": slow}, "src1")  # type: ignore[dict-item]
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
    """``at_ns``: by the node's own clock."""
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


@pytest.mark.parametrize("loss_ratio", [0.0, 0.02, 0.5])
def test_loss_between_nodes_whose_clocks_are_apart_is_the_true_one(loss_ratio: float) -> None:
    """14 200 packets a second for four seconds, after three address requests, by clocks that are hours apart."""
    telemetry, inventory, chance = Telemetry(), make_inventory(), random.Random(3)
    offsets_ns = {"src1": 7_000_000_000_000, "snk1": -900_000_000}
    links: Any = {node: SimpleNamespace(monotonic_offset_ns=offset) for node, offset in offsets_ns.items()}
    for node in offsets_ns:
        telemetry.set_links(node, [link("eth1", 2)])
    streams = ObservedStreams(telemetry, inventory, links)
    streams.follow(seen(Phase.ARMING))
    begun_ns = 1_000_000_000_000

    def sent(at_ns: int) -> float:
        return min(max(0, at_ns - begun_ns), 4 * 10**9) / 1e6 * 14.2 + (3 if at_ns > begun_ns - 2 * 10**9 else 0)

    for tenth in range(-40, 60):
        for node, name in (("src1", "tx_packets"), ("snk1", "rx_packets")):
            at_ns = begun_ns + tenth * 100_000_000 + chance.randrange(60_000_000)
            passed = sent(at_ns) if node == "src1" else 50 + sent(at_ns) * (1 - loss_ratio)
            sampled(telemetry, streams, node, at_ns + offsets_ns[node], name, round(passed))
    (live,) = telemetry.streams.values()
    assert live.offered_packets is not None
    assert abs(live.offered_packets - 56_803) <= 2
    assert live.loss_ratio is not None
    assert math.isclose(live.loss_ratio, loss_ratio, abs_tol=1e-4)
    assert 1.8 < live.seconds[-1] - 4 < 2.2, "time begins with the stream, not with the requests before it"
    sending = [index for index, second in enumerate(live.seconds) if 0.5 < second < 3.5]
    assert all(abs(live.offered_pps[index] - 14_200) < 40 for index in sending)
    assert all(abs(live.measured_pps[index] - 14_200 * (1 - loss_ratio)) < 40 for index in sending)


class Refusing(Link):
    """Fails, once the test lets it."""

    def __init__(self, problem: Exception) -> None:
        super().__init__()
        self.problem = problem

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> None:
        await super().ask(request)
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "asked"),
    [
        (NodeLost("src1", "gone"), ["preparing", "arming"]),
        (RuntimeError("a fault of ours"), ["preparing"]),
    ],
)
@pytest.mark.parametrize("answered", [True, False])
def test_whatever_becomes_of_telling_its_end_is_in_order(problem: Exception, asked: list[str], answered: bool) -> None:
    async def work() -> list[str]:
        node = Refusing(problem)
        telling = TrialAnnouncer({"src1": node}, "src1")  # type: ignore[dict-item]
        telling.hear(STARTED)
        telling.hear(PhaseChanged(run_id="r1", phase=Phase.PREPARING))
        await asyncio.sleep(0)
        telling.hear(PhaseChanged(run_id="r1", phase=Phase.ARMING))
        if answered:
            node.let.set()
            for _ in range(10):
                await asyncio.sleep(0)
        await telling.end()
        await telling.end()
        told = [request.trial.phase for request in node.asked]
        node.let.set()
        telling.hear(PhaseChanged(run_id="r1", phase=Phase.SENDING))
        assert len(node.asked) == len(told), "the lease may be given back: nothing is told any more"
        return told

    assert asyncio.run(work()) == (asked if answered else ["preparing"])


def test_a_block_is_told_with_their_number_only() -> None:
    told = build_announcement(STARTED, PhaseChanged(run_id="r1", phase=Phase.ARMING)).to_wire()
    assert TrialTold.parse({**told, "block": 2, "set_ups": 3}).block == 2
    with pytest.raises(WireError, match="without set_ups"):
        TrialTold.parse({**told, "block": 2})


def test_the_streams_are_counted_at_the_interfaces_of_source_and_sink():
    (live,) = watch(Phase.ARMING).streams.values()
    assert (live.name, live.offered_packets, live.measured_packets) == ("s1", 2000, 1900)
    assert (list(live.offered_pps), list(live.measured_pps)) == ([1000.0, 1000.0], [900.0, 1000.0])


def test_a_pace_that_nobody_can_keep_is_followed_as_none():
    """Any user of a node may write it into a lease of their own."""
    trial = seen(frame_bytes=1, target_bps=2**62)
    assert (trial.request.intended_pps, trial.request.intended_packets) == (None, None)
    telemetry = Telemetry()
    ObservedStreams(telemetry, make_inventory(), {}).follow(trial)
    assert telemetry.streams["s1"].intended_pps is None


def test_a_trial_met_in_the_middle_has_rates_and_no_packets():
    (live,) = watch(Phase.SENDING).streams.values()
    assert (live.offered_packets, live.measured_packets) == (None, None)
    assert list(live.measured_pps) == [900.0, 1000.0]


@pytest.mark.parametrize("loss_ratio", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_watcher_sees_the_true_loss_although_the_nodes_clocks_differ(loss_ratio: float, seed: int):
    """50 000 packets a second for ten; clocks hours apart; samples when they come, those of one node in their order."""
    what, offsets_ns = random.Random(seed), {"src1": 5 * 10**15, "snk1": -(10**12)}
    telemetry, inventory = Telemetry(), make_inventory()
    for node in offsets_ns:
        telemetry.set_links(node, [link("eth1", 2)])
    links: Any = {node: SimpleNamespace(monotonic_offset_ns=offset_ns) for node, offset_ns in offsets_ns.items()}
    streams = ObservedStreams(telemetry, inventory, links)
    streams.follow(seen(Phase.ARMING))
    begun_ns, end_ns = 10**18, 10**18 + 10 * 10**9

    def sent(at_ns: int) -> int:
        return max(0, (min(at_ns, end_ns) - begun_ns) * 50_000 // 10**9)

    arrivals = []
    for node in offsets_ns:
        at_ns = arrived_ns = begun_ns - 300_000_000
        while at_ns < end_ns + 500_000_000:
            arrived_ns = max(arrived_ns + 1, at_ns + what.randrange(80_000_000))
            arrivals.append((arrived_ns, node, at_ns))
            at_ns += 100_000_000 + what.randrange(-15_000_000, 15_000_000)
    for _, node, at_ns in sorted(arrivals):
        packets = 4711 + sent(at_ns) if node == "src1" else 17 + round(sent(at_ns - 300_000) * (1 - loss_ratio))
        statistic = "tx_packets" if node == "src1" else "rx_packets"
        sampled(telemetry, streams, node, at_ns + offsets_ns[node], statistic, packets)
        live = telemetry.streams["s1"]
        # When the last packet was sent, two samples of a NIC say to a tenth of a second; what the source says, nobody hears.
        if live.seconds and 1.5 < live.seconds[-1] < 9.8:
            assert live.loss_ratio == pytest.approx(loss_ratio, abs=0.001)
    assert live.offered_packets == 500_000
    assert live.loss_packets == round(500_000 * loss_ratio)
    assert max(live.offered_pps) < 55_000
    missing = zip(live.seconds, list(live.missing_packets)[1:], strict=True)
    assert all(packets >= -1 for seconds, packets in missing if 0.2 < seconds < 9.8)


def test_a_trial_of_guests_is_announced_in_its_own_words_and_has_no_streams():
    started = GuestTrialStarted(run_id="g1", request=REQUEST, words="container: 2 guests offer 10Mbit", plan=None)

    async def work() -> list[Any]:
        link = Link()
        link.let.set()
        telling = TrialAnnouncer({"src1": link}, "src1")  # type: ignore[dict-item]
        telling.hear(started)
        await asyncio.sleep(0)
        telling.hear(PhaseChanged(run_id="", phase=Phase.MEASURING))
        await asyncio.sleep(0)
        await telling.end()
        return [request.trial for request in link.asked]

    told = asyncio.run(work())
    assert [(each.phase, each.words) for each in told] == [
        ("preparing", "container: 2 guests offer 10Mbit"),
        ("measuring", "container: 2 guests offer 10Mbit"),
    ]
    at = {"since_wall_ns": 1, "phase_since_wall_ns": 1, "phase_until_wall_ns": None}
    holder = {
        "owner": "ben@b",
        "purpose": "flows out of guests",
        "observe": "",
        "quiet": False,
        "since_wall_ns": 1,
        "until_wall_ns": None,
        "trial": {**told[1].to_wire(), **at},
    }
    leases = Leases("anna@a")
    leases.seen("src1", LeaseChanged(holder=StatedHolder.parse(holder), quiet=False), 0)
    trial = newest_trial(leases.holders)
    assert trial is not None
    assert (trial.guest_words, trial.phase) == ("container: 2 guests offer 10Mbit", Phase.MEASURING)
    telemetry = Telemetry()
    ObservedStreams(telemetry, make_inventory(), {}).follow(trial)
    assert not telemetry.streams


def test_a_run_is_announced_as_agents_of_earlier_versions_read_it():
    """They refuse a key that they do not know."""
    told = build_announcement(STARTED, PhaseChanged(run_id="r1", phase=Phase.SENDING))
    assert "words" not in told.to_wire()
