"""The window of arrivals and the forwarding rate, against queues that are reckoned by hand."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.measure.counts import build_capture_arrivals, build_counter_arrivals, forwarding_pps, rate_error_ratio
from labconsole.model.record.run import Arrivals
from labconsole.wire.capture import CapturedStream
from support.asking import partly

SECOND_NS = 1_000_000_000


def counted(packets: int, window_s: float, **more: int) -> list[CapturedStream]:
    times = {"first_at_ns": 7, "last_at_ns": 7 + round(window_s * 1e9)}
    return [partly(CapturedStream, {"packets": packets, **times, **more})]


def test_a_queue_that_empties_after_the_sending_does_not_raise_the_rate():
    """Offered for 0.5 s at twice what is forwarded, and everything arrives: at the rate of the link, in 1 s."""
    found = build_capture_arrivals(counted(1000, 0.999, late_packets=499, queued_packets=489), 1000)
    assert found is not None
    assert (found.window_from, found.late_packets, found.queued_packets) == ("capture", 499, 489)
    assert forwarding_pps(found, 0.5) == pytest.approx(1000)


def test_a_unit_that_dies_early_is_not_flattered():
    assert forwarding_pps(build_capture_arrivals(counted(100, 0.0099), 100), 1.0) == pytest.approx(100)


@pytest.mark.parametrize(("packets", "sending_s"), [(1, 1.0), (0, 1.0), (10, None), (10, 0.0)])
def test_without_a_window_or_a_sending_time_there_is_no_rate(packets: int, sending_s: float | None):
    found = build_capture_arrivals(counted(packets, 0.0) if packets else [], packets)
    assert found is not None
    assert forwarding_pps(found, sending_s) is None


def test_a_capture_that_holds_more_than_the_stream_has_no_window_of_it():
    assert build_capture_arrivals(counted(10, 1.0) * 2, 20) is None
    assert build_capture_arrivals(counted(10, 1.0), 9) is None


def samples(*counts: int, apart_s: float = 0.1) -> list[tuple[int, int]]:
    return [(round(place * apart_s * SECOND_NS), 50 + count) for place, count in enumerate(counts)]


def test_samples_tell_the_window_to_their_distance():
    came = samples(0, 0, 100, 200, 300, 400, 400)
    known: dict[str, Any] = {"packets": 400, "window_s": 0.3, "window_from": "counters", "resolution_s": 0.1}
    assert build_counter_arrivals(came, 400, 0.4) == Arrivals(**known, late_packets=0, queued_packets=0)
    # Sent for 0.3 s, the last hundred may have come before or after that.
    assert build_counter_arrivals(came, 400, 0.3) == Arrivals(**known, late_packets=None, queued_packets=None)
    assert build_counter_arrivals(came, 400, None) == Arrivals(**known, late_packets=None, queued_packets=None)


def test_samples_tell_what_surely_came_late():
    """Sent for 0.2 s, came for 0.5 s: the sample at 0.4 s is 0.2 s after the first that shows a packet."""
    found = build_counter_arrivals(samples(0, 0, 100, 200, 300, 400, 500), 500, 0.2)
    assert found is not None
    assert (found.late_packets, found.queued_packets) == (200, 100)


def test_what_an_incomplete_capture_holds_that_came_late_came_late():
    came, sent_s = samples(0, 0, 100, 200, 300, 400, 400), 0.3
    held = [partly(CapturedStream, {"packets": 350, "late_packets": 40, "queued_packets": 0})]
    found = build_counter_arrivals(came, 400, sent_s, held)
    assert found is not None
    assert (found.late_packets, found.queued_packets) == (40, None)
    surely = build_counter_arrivals(samples(0, 0, 100, 200, 300, 400, 500), 500, 0.2, held)
    assert surely is not None
    assert surely.late_packets == 200


def test_samples_that_do_not_add_up_tell_nothing():
    assert build_counter_arrivals(samples(0, 100, 90), 90, 0.1) is None
    assert build_counter_arrivals(samples(0, 100), 90, 0.1) is None
    assert build_counter_arrivals(samples(0, 0), 0, 0.1) is None


def steady(rate_pps: float, sent_s: float, came_s: float, *, apart_s: float, phase_s: float) -> Arrivals:
    """What samples show of packets that came evenly over ``came_s``, the first ``phase_s`` after a sample."""
    packets = round(rate_pps * came_s)
    times = [place * apart_s for place in range(round((came_s + 1) / apart_s) + 4)]
    shown = [min(packets, max(0, int((time_s - apart_s - phase_s) * rate_pps + 1))) for time_s in times]
    found = build_counter_arrivals(samples(*[max(0, each) for each in shown], apart_s=apart_s), packets, sent_s)
    assert found is not None
    return found


@pytest.mark.parametrize("apart_s", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("phase_s", [0.01, 0.05, 0.09])
@pytest.mark.parametrize("sent_s", [0.5, 1.0])
def test_samples_that_do_not_prove_a_longer_window_leave_the_sending_time(
    apart_s: float, phase_s: float, sent_s: float
):
    """Everything came as it was sent: the rate is that, however far apart the samples are."""
    found = steady(1000, sent_s, sent_s, apart_s=apart_s, phase_s=phase_s)
    assert forwarding_pps(found, sent_s) == pytest.approx(1000)


@pytest.mark.parametrize("apart_s", [0.01, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("phase_s", [0.002, 0.05, 0.09, 0.15])
@pytest.mark.parametrize("came_s", [0.5, 0.55, 0.7, 1.0, 2.0])
def test_the_true_rate_lies_within_what_samples_are_said_to_leave_open(apart_s: float, phase_s: float, came_s: float):
    found = steady(1000, 0.5, came_s, apart_s=apart_s, phase_s=phase_s)
    rate_pps, error_ratio = forwarding_pps(found, 0.5), rate_error_ratio(found, 0.5)
    assert rate_pps is not None
    assert abs(1000 - rate_pps) <= (error_ratio or 0.0) * rate_pps + 3


@pytest.mark.parametrize("phase_s", [0.01, 0.05, 0.09])
@pytest.mark.parametrize(("came_s", "within"), [(10.0, True), (10.09, False)])
def test_ten_seconds_by_samples_of_a_tenth_are_known_to_one_percent_where_nothing_came_late(
    phase_s: float, came_s: float, within: bool
):
    """What paper-* takes, at the default sampling; a queue that empties for 0.09 s is not told from 0.2 s."""
    found = steady(1000, 10.0, came_s, apart_s=0.1, phase_s=phase_s)
    error_ratio = rate_error_ratio(found, 10.0)
    assert error_ratio is not None
    assert (error_ratio <= 0.01) == (within or found.window_s < 10.05)
    rate_pps = forwarding_pps(found, 10.0)
    assert rate_pps is not None
    assert abs(1000 / rate_pps - 1) <= error_ratio + 0.001


def test_a_rate_by_the_capture_is_not_left_open():
    assert rate_error_ratio(build_capture_arrivals(counted(1000, 0.999, late_packets=499), 1000), 0.5) is None
    assert rate_error_ratio(None, 0.5) is None


def test_a_clock_that_goes_back_tells_nothing():
    """A node may say so: its clocks are what it says of them."""
    assert build_counter_arrivals([(9, 50), (5, 150)], 100, 1.0) is None
    assert build_counter_arrivals([(0, 50), (9, 60), (5, 150)], 100, 1.0) is None
    back = [partly(CapturedStream, {"packets": 10, "first_at_ns": 9, "last_at_ns": 5})]
    assert build_capture_arrivals(back, 10) is None
