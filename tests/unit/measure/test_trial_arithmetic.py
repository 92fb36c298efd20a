"""The arithmetic of a trial, against values worked out by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labconsole.errors import CounterInconsistency
from labconsole.measure import counts, ledger
from labconsole.measure.ledger import HopCount
from labconsole.model.record.run import CaptureCounts


def test_a_negative_loss_stays_negative():
    assert counts.loss_packets(100, 103) == -3
    assert counts.loss_ratio(100, -3) == pytest.approx(-0.03)


def test_unknown_stays_unknown():
    assert counts.loss_packets(None, 5) is None
    assert counts.loss_ratio(0, 0) is None
    assert counts.rate_pps(5, 0) is None
    assert counts.total([1, None]) is None
    assert counts.total([]) is None
    assert counts.total([1.5, 2.5]) == 4.0


def test_an_incomplete_capture_gives_way_to_the_counters():
    complete = CaptureCounts(captured_packets=10, dropped_packets=0, complete=True)
    partial = CaptureCounts(captured_packets=7, dropped_packets=3, complete=False)
    assert counts.choose_measured(complete, 12) == (10, "capture")
    assert counts.choose_measured(partial, 12) == (12, "counters")
    assert counts.choose_measured(partial, None) == (None, None)
    assert counts.choose_measured(None, 12) == (12, "counters")


@pytest.mark.parametrize(
    ("packets", "sides", "together"),
    [
        ((100, 60, 57, 50), (40, 3, 7), []),
        ((100, 130, 100, 100), (0, 0, 0), []),  # foreign frames on the source's NIC
        ((100, 100, 104, 100), (0, -4, 4), []),  # foreign frames that the unit sends, never clamped
        ((100, None, 57, 50), (None, None, 7), [(("source", "uut"), 43)]),
        ((100, 60, None, 50), (40, None, None), [(("uut", "sink"), 10)]),
        ((100, None, None, 50), (None, None, None), [(("source", "uut", "sink"), 50)]),
        ((100, 60, 57, None), (40, 3, None), []),
        ((None, 60, 57, 50), (None, None, 7), []),
    ],
)
def test_loss_is_told_by_the_side_it_was_on_and_as_a_sum_where_no_counter_parts_it(packets, sides, together):
    found = counts.lost_by_side(*packets)
    assert (found.source_packets, found.uut_packets, found.sink_packets) == sides
    assert [(each.sides, each.packets) for each in found.together] == together


def test_offered_is_what_was_on_the_wire():
    assert counts.offered_packets(100, 60) == 60
    assert counts.offered_packets(100, 103) == 100  # foreign frames are not the stream's
    assert counts.offered_packets(100, None) == 100
    assert counts.offered_packets(None, 60) is None


def sample(ns: int, *values: int) -> counts.CounterSample:
    return counts.CounterSample(ns, values)


def test_rates_divide_by_the_measured_interval():
    found = counts.interval_rates(sample(0, 100, 50), sample(250_000_000, 350, 50))
    assert found == {"rx_packets": 1000.0, "tx_packets": 0.0}


def test_a_decrease_is_never_a_number():
    with pytest.raises(CounterInconsistency, match="tx_packets decreased from 50 to 49"):
        counts.interval_rates(sample(0, 100, 50), sample(1, 100, 49))
    with pytest.raises(CounterInconsistency, match="no time passed"):
        counts.interval_rates(sample(5, 1), sample(5, 2))


def hop(name: str, packets: int | None) -> HopCount:
    return HopCount(name, "node", "eth0", packets)


def test_the_ledger_names_the_hop_and_closes():
    hops, unplaced = ledger.build_ledger([hop("generator", 100), hop("uut_in", 100), hop("uut_out", 93)], 90)
    assert [h.lost_packets for h in hops] == [None, 0, 7]
    assert unplaced == 3
    assert 100 - sum(h.lost_packets or 0 for h in hops) - unplaced == 90


def test_a_hop_that_cannot_be_read_does_not_hide_a_loss():
    hops, unplaced = ledger.build_ledger([hop("generator", 100), hop("guest", None), hop("uut_out", 80)], 80)
    assert [h.lost_packets for h in hops] == [None, None, 20]
    assert unplaced == 0


def test_foreign_packets_show_as_a_negative_loss():
    hops, _ = ledger.build_ledger([hop("generator", 100), hop("sink_nic", 104)], 100)
    assert hops[1].lost_packets == -4


@pytest.mark.parametrize("module", ["labconsole.measure.counts", "labconsole.measure.ledger"])
def test_measuring_needs_no_network_library(module: str):
    code = (
        "import sys\n"
        "for name in ('asyncio', 'asyncssh', 'pyroute2', 'textual', 'sqlalchemy'): sys.modules[name] = None\n"
        f"import {module}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
