"""A stream's way, live: counts of clocks that disagree brought to one instant, against simulated traffic."""

from __future__ import annotations

import pytest

from labconsole.engine.live.telemetry import NodeLive, Telemetry, follow, hops_now
from labconsole.verdict.observations import CountingPoint
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled
from support.fake_session import link

PLACES = [
    CountingPoint("source_nic", "src1", "", "eth1", "tx_packets"),
    CountingPoint("uut_in", "uut", "", "eth1", "rx_packets"),
    CountingPoint("uut_out", "uut", "", "eth5", "tx_packets"),
    CountingPoint("sink_nic", "snk1", "", "eth1", "rx_packets"),
]
OFFSETS_NS = {"src1": 5_000_000_000, "uut": -3_000_000_000, "snk1": 77_000_000}
PPS, DROPPED = 100_000, 0.05


def sampled(telemetry: Telemetry, place: CountingPoint, at_s: float, *, noise: int = 10**6) -> None:
    """A sample of this place when it is ``at_s`` on the console: 5 % are dropped between the UUT's two ports."""
    passed = round(PPS * at_s * ((1 - DROPPED) if place.hop in ("uut_out", "sink_nic") else 1))
    values = [noise] * len(STAT_NAMES)
    values[STAT_NAMES.index(place.statistic)] += passed
    if place.hop == "uut_out":
        values[STAT_NAMES.index("tx_dropped")] += round(PPS * at_s * DROPPED)
    at_ns = round(at_s * 1e9) + OFFSETS_NS[place.node]
    index = 2 if place.interface == "eth1" else 6
    telemetry.add_counters(
        place.node,
        CountersSampled(monotonic_ns=at_ns, wall_ns=at_ns, namespaces={"": [[index, values]]}, missed=0, late=False),
    )


@pytest.fixture
def telemetry() -> Telemetry:
    telemetry = Telemetry()
    for name, role in (("src1", "source"), ("uut", "uut"), ("snk1", "sink")):
        telemetry.nodes[name] = NodeLive(name, (role,))
        telemetry.set_links(name, [link("eth1", 2), link("eth5", 6)])
    return telemetry


def test_what_is_missing_is_where_it_was_dropped_although_the_samples_are_of_other_instants(
    telemetry: Telemetry,
) -> None:
    for place in PLACES:
        sampled(telemetry, place, 0.0)
    hops = follow(PLACES, telemetry, OFFSETS_NS)
    for at_s in (4.9, 5.0):
        for place, late_s in zip(PLACES, (0.0, 0.03, 0.03, 0.08), strict=True):
            sampled(telemetry, place, at_s + late_s)
    now = hops_now(hops, telemetry)
    assert [round(hop.pps or 0) for hop in now] == pytest.approx([PPS, PPS, PPS * 0.95, PPS * 0.95], rel=1e-3)
    assert [hop.packets for hop in now] == pytest.approx([500_000, 500_000, 475_000, 475_000], abs=5)
    assert now[0].lost_packets is None
    assert [hop.lost_packets for hop in now[1:]] == pytest.approx([0, 25_000, 0], abs=5)
    assert now[2].drops == {"tx_dropped": round(PPS * 5.03 * DROPPED)}
    assert not now[1].drops


def test_a_quiet_node_says_nothing_and_the_next_one_is_held_against_the_last_that_did(telemetry: Telemetry) -> None:
    for place in PLACES:
        sampled(telemetry, place, 0.0)
    hops = follow(PLACES, telemetry, OFFSETS_NS)
    telemetry.nodes["uut"].quiet = True
    for at_s in (4.9, 5.0):
        sampled(telemetry, PLACES[0], at_s)
        sampled(telemetry, PLACES[3], at_s)
    now = hops_now(hops, telemetry)
    assert [hop.quiet for hop in now] == [False, True, True, False]
    assert now[1].packets is None
    assert now[3].lost_packets == pytest.approx(25_000, abs=5)


def test_a_counter_that_was_not_there_before_gives_no_count(telemetry: Telemetry) -> None:
    hops = follow(PLACES, telemetry, OFFSETS_NS)
    for at_s in (4.9, 5.0):
        sampled(telemetry, PLACES[0], at_s)
    assert [hop.packets for hop in hops_now(hops, telemetry)] == [None] * 4
