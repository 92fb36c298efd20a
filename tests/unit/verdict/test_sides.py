"""What a record says was offered, lost on which side, and forwarded at what rate: from counts made up by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from labconsole.cli.text.runs import run_lines
from labconsole.model.record.run import JointLoss
from labconsole.tui.screens.runs.run_pages import verdict_page
from support.observed_trials import SENT, bent, counted, observe, record, recounted

PERIOD_NS = 70_400


def plainly(lines: Iterable[str]) -> str:
    """With ordinary blanks between the thousands."""
    return re.sub(r"[^\S\n]", " ", "\n".join(lines))


def arrived(seen, packets: int, window_s: float, **late: int) -> None:
    """Bend what the capture says of its stream."""
    last_at_ns = 10**18 + round(window_s * 1e9)
    recounted(seen, bent(counted(packets), first_at_ns=10**18, last_at_ns=last_at_ns, **late))


def test_what_the_source_loses_is_neither_offered_nor_the_unit_s(inventory):
    seen = observe(inventory, nic=SENT - 7000, uut_out=SENT - 7000)
    run = record(inventory, seen)
    stream, total = run.streams[0], run.total
    assert (stream.generator_packets, stream.offered_packets, stream.measured_packets) == (SENT, 7205, 7205)
    assert stream.offered_pps == pytest.approx(7205)
    assert (stream.source_lost_packets, stream.uut_lost_packets, stream.sink_lost_packets) == (7000, 0, 0)
    assert (total.generator_packets, total.source_lost_packets, total.uut_loss_ratio) == (SENT, 7000, 0.0)
    assert (total.loss_packets, stream.lost_together) == (0, ())


def test_loss_behind_the_unit_is_the_sink_s(inventory):
    run = record(inventory, observe(inventory, uut_out=SENT - 10, arrived=SENT - 30))
    assert (run.total.uut_lost_packets, run.total.sink_lost_packets, run.total.loss_packets) == (10, 20, 30)
    assert run.total.uut_loss_ratio == pytest.approx(10 / SENT)


def test_a_counter_that_stood_still_counts_as_not_read(inventory):
    seen = observe(inventory, uut_out=0, arrived=SENT - 30)
    run = record(inventory, seen)
    assert run.streams[0].counters["uut_out_tx_packets"] is None
    assert (run.total.uut_lost_packets, run.total.sink_lost_packets, run.total.uut_loss_ratio) == (None, None, None)
    assert run.streams[0].lost_together == (JointLoss(sides=("uut", "sink"), packets=30),)


def test_foreign_frames_on_the_source_s_nic_do_not_count_as_offered(inventory):
    run = record(inventory, observe(inventory, nic=SENT + 4, uut_out=SENT))
    assert (run.total.offered_packets, run.total.source_lost_packets) == (SENT, 0)


def test_the_forwarding_rate_is_over_the_window_of_arrivals(inventory):
    seen = observe(inventory)
    arrived(seen, SENT, 2.0 * (SENT - 1) / SENT, late_packets=7100, queued_packets=7000)
    run = record(inventory, seen)
    assert run.total.forwarding_pps == pytest.approx(SENT / 2)
    assert run.total.forwarding_bps == pytest.approx(SENT / 2 * 88 * 8)
    assert run.total.measured_pps == pytest.approx(SENT)
    assert (run.total.late_packets, run.total.queued_packets) == (7100, 7000)


def test_where_the_capture_is_incomplete_samples_of_the_sink_s_counter_give_the_window(inventory):
    seen = observe(inventory, captured=SENT - 3, dropped=3)
    for snapshot, at_ns in ((seen.before, 0), (seen.after, 3 * 10**9)):
        key = ("", "eth1")
        snapshot["snk1"][key] = snapshot["snk1"][key]._replace(monotonic_ns=at_ns)
    base = seen.before["snk1"][("", "eth1")].values[0]
    seen.streams[0].sink_samples = [
        (round(t * 1e9), base + n) for t, n in ((0.5, 0), (1.0, 10), (1.5, 7000), (2.0, SENT), (2.5, SENT))
    ]
    stream = record(inventory, seen).streams[0]
    assert stream.arrivals is not None
    assert (stream.arrivals.window_from, stream.arrivals.window_s) == ("counters", 1.0)
    assert (stream.arrivals.resolution_s, stream.arrivals.late_packets) == (0.5, None)
    assert stream.forwarding_pps == pytest.approx(
        SENT
    )  # nothing proves that they came over more than the 1 s of sending


def test_nothing_that_arrived_is_a_known_nothing(inventory):
    seen = observe(inventory, uut_out=0, arrived=0)
    recounted(seen)
    total = record(inventory, seen).total
    assert (total.uut_lost_packets, total.late_packets, total.forwarding_pps) == (SENT, 0, 0.0)


def test_a_reader_sees_whose_loss_it_was_and_what_was_queued(inventory):
    seen = observe(inventory, nic=SENT - 7000, uut_out=SENT - 7005)
    arrived(seen, SENT - 7005, 1.5, late_packets=1200, queued_packets=1100)
    run = record(inventory, seen)
    text = plainly(run_lines(run, saved=True))
    assert "generator 14 205, lost at the source 7 000, the UUT 5 (0.0694 %), the sink 0" in text
    assert "forwarding rate 3.379 Mbit/s; 1 200 packets arrived after sending had ended" in text
    page = plainly("".join(part for part, _ in row) for row in verdict_page(run, None, 100))
    assert "source 7 000, UUT 5 (0.069 %), sink 0" in page
    assert "1 200 packets after the sending time" in page
    old = run.model_copy(update={"total": run.total.model_copy(update={"generator_packets": None})})
    assert "sides" not in "\n".join(run_lines(old, saved=True))
    assert "lost at" not in "\n".join("".join(part for part, _ in row) for row in verdict_page(old, None, 100))
