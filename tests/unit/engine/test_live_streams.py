"""Live rates and loss on traffic whose truth is known: two clocks that differ, reports that come when they come."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.measure.counts import EndCounts, StreamAlignment, interpolate_count
from labconsole.wire.generator import GeneratorProgress, StreamProgress
from support.background_records import REQUEST
from support.fake_session import link, make_inventory
from support.live_traffic import BEGUN_NS, OFFSETS_NS, KnownTraffic


def begun(*, request=REQUEST):
    inventory, telemetry = make_inventory(), Telemetry()
    for name in inventory.nodes:
        telemetry.nodes[name] = NodeLive(name, ())
        telemetry.set_links(name, [link("eth1", 3)])
    live = LiveStreams(telemetry, inventory, OFFSETS_NS)
    live.begin(inventory.streams[0], replace(request, duration_s=10), "afpacket")
    live.begin_sending(BEGUN_NS)
    return inventory, telemetry, live


@pytest.mark.parametrize("loss_ratio", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_live_loss_is_true_to_a_tenth_of_a_point_or_not_shown(loss_ratio, seed):
    inventory, telemetry, live = begun()
    traffic = KnownTraffic(
        telemetry, live, inventory.streams[0], pps=50_000, loss_ratio=loss_ratio, seconds=10, seed=seed
    )
    shown = 0
    for now_s in traffic.reports():
        stream = telemetry.streams["s1"]
        lost = stream.loss_packets
        if now_s < 1:
            assert lost is None
        if now_s > 1.5:
            assert lost is not None
            assert 0 <= lost / stream.offered_packets == pytest.approx(loss_ratio, abs=0.001)
            shown += 1
    assert shown > 100


def test_rates_are_over_the_nodes_own_intervals_whenever_their_reports_come():
    inventory, telemetry, live = begun()
    traffic = KnownTraffic(
        telemetry, live, inventory.streams[0], pps=50_000, loss_ratio=0.02, seconds=10, jitter_ns=2_000_000_000
    )
    for _ in traffic.reports():
        pass
    stream = telemetry.streams["s1"]
    sending = [
        rates
        for s, *rates in zip(stream.seconds, stream.offered_pps, stream.measured_pps, strict=True)
        if 0.2 < s < 9.9
    ]
    assert len(sending) > 90
    for offered, measured in sending:
        assert offered == pytest.approx(50_000, rel=0.01)
        assert measured == pytest.approx(49_000, rel=0.01)
    assert list(stream.seconds) == sorted(stream.seconds)
    assert (stream.offered_packets, stream.measured_packets) == (500_000, 490_000)


def test_the_kept_series_has_the_sinks_own_clock_and_both_counts_of_one_instant():
    inventory, telemetry, live = begun()
    for _ in KnownTraffic(
        telemetry, live, inventory.streams[0], pps=50_000, loss_ratio=0.02, seconds=3, clock_error_ns=0
    ).reports():
        pass
    table = live.series().tables["streams"]
    rows = list(zip(*table.values(), strict=True))
    assert list(table) == ["seconds", "stream", "offered_packets", "measured_packets", "sink_monotonic_ns"]
    for seconds, number, offered, measured, sink_ns in rows:
        assert number == 0
        assert sink_ns == BEGUN_NS + OFFSETS_NS["snk1"] + round(seconds * 1e9)
        assert offered == pytest.approx(min(3, max(0, seconds)) * 50_000, abs=2)
        assert measured == pytest.approx(offered * 0.98, abs=0.98 * 50_000 * 0.0003 + 2)
    assert rows[0][0] <= 0 < rows[1][0], "the last sample before the first packet is what all others are counted from"


def test_a_source_that_says_nothing_leaves_offered_and_loss_unknown_and_measured_known():
    inventory, telemetry, live = begun()
    traffic = KnownTraffic(telemetry, live, inventory.streams[0], pps=1000, loss_ratio=0, seconds=4)
    for second in range(50):
        traffic._sample(BEGUN_NS + second * 100_000_000)
    stream = telemetry.streams["s1"]
    assert stream.measured_packets > 2000
    assert stream.offered_packets is None
    assert stream.loss_packets is None
    assert math.isnan(stream.offered_pps[-1])
    assert stream.measured_pps[-1] == pytest.approx(1000, rel=0.01)


def test_a_node_speaks_for_its_own_streams_only():
    _, telemetry, live = begun()
    said = StreamProgress(stream="s1", sent_packets=9, errors=0, monotonic_ns=5)
    live.add_progress("src2", GeneratorProgress(monotonic_ns=5, streams=[said]))
    live.add_progress("nobody", GeneratorProgress(monotonic_ns=5, streams=[said]))
    assert telemetry.streams["s1"].offered_packets is None


def test_a_sender_that_has_not_sent_yet_may_say_so():
    """It has no stamp of a frame then; refusing the report would end the link."""
    inventory, telemetry, live = begun()
    said = StreamProgress.parse({"stream": "s1", "sent_packets": 0, "errors": 0, "monotonic_ns": None}, "streams")
    at_ns = BEGUN_NS + 20_000_000 + OFFSETS_NS["src1"]
    live.add_progress("src1", GeneratorProgress(monotonic_ns=at_ns, streams=[said]))
    traffic = KnownTraffic(telemetry, live, inventory.streams[0], pps=1000, loss_ratio=0, seconds=4)
    for tick in (-1, 1, 2):
        traffic._sample(BEGUN_NS + tick * 9_000_000)
    assert telemetry.streams["s1"].offered_packets == 0


def test_a_sender_that_pauses_has_sent_nothing_until_its_next_report():
    alignment = StreamAlignment()
    alignment.begin(0)
    alignment.received(-5, 100)
    alignment.received(150, 107)
    assert alignment.sent(100, 10)
    assert not alignment.sent(100, 10), "its own stamp has not moved"
    assert alignment.sent(200, 10), "but at the time of the report it was the same count"
    assert list(alignment.ready()) == [EndCounts(-5, 0.0, 100), EndCounts(150, 10.0, 107)]


def test_reports_that_go_back_are_none():
    alignment = StreamAlignment()
    alignment.begin(0)
    assert alignment.sent(100, 10)
    assert not alignment.sent(90, 11)
    assert not alignment.sent(110, 9)
    alignment.end(200, 20)
    assert not alignment.sent(300, 30)
    for at_ns in (-1, 50, 40, 250):
        alignment.received(at_ns, 0)
    assert [(each.at_ns, each.sent) for each in alignment.ready()] == [(-1, 0.0), (50, 5.0), (250, 20.0)]


def test_a_count_is_interpolated_between_two_reports_and_never_beyond():
    points = [(10, 100), (20, 200)]
    assert [interpolate_count(points, at) for at in (9, 10, 15, 20, 21)] == [None, 100, 150, 200, None]
    assert interpolate_count([], 5) is None
