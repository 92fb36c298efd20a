"""Numbers of flows as they are told: over which time each is, and only where it is one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from labconsole.experiments.flow.kind import KIND as FLOW_KIND
from labconsole.experiments.flow.limiters import CREDIT
from labconsole.experiments.flow.live_view import build_picture_guests, format_brief
from labconsole.experiments.flow.procedure import describe_result
from labconsole.experiments.flow.quantities import sent_bps
from labconsole.experiments.flow.script import reported_sent_s
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.report.trial_text import trial_lines
from support.flow_records import PAYLOAD_BYTES, flow_record, inward_record

SAID = (
    "[ ID] Interval       Transfer     Bandwidth|[  1] 0.0000-5.0002 sec  59.6 MBytes   100 Mbits/sec|[  1] Sent 42464"
)
SENT = 42_463
"""Datagrams of 1472 bytes: 100 Mbit/s in five seconds."""


def uneven(output: str = SAID) -> Any:
    """Two guests that fill a link of 100 Mbit/s for longer than they send; the first begins to bring it alone."""
    record = flow_record([[8000, 4000, 4000, 4000, 4000, 4000], [4000, 4000, 4000, 4000, 4000]], begin_bins=(0, 1))
    senders = [each.model_copy(update={"host_packets": SENT, "output": output}) for each in record.senders]
    return record.model_copy(update={"senders": tuple(senders)})


@pytest.mark.parametrize(
    ("output", "sent_s"),
    [
        (SAID, 5.0002),
        ("[  3]  0.0- 5.0 sec  59.6 MBytes   100 Mbits/sec", 5.0),
        ("[  1] 0.0000-5.0001 sec  1 MBytes|[SUM] 0.0000-5.0003 sec   179 MBytes   300 Mbits/sec", 5.0003),
        ("[  1] 0.0000-0.0000 sec  1 MBytes", None),
        ("connect failed", None),
    ],
)
def test_how_long_iperf_sent_is_read_of_its_own_word(output: str, sent_s: float | None):
    assert reported_sent_s(output) == sent_s


def test_what_a_guest_sent_is_told_over_the_time_in_which_it_sent():
    """The queue of a full link stretches what comes to the sink."""
    record = uneven()
    assert sent_bps(record.senders[0], PAYLOAD_BYTES) == pytest.approx(100e6, rel=1e-4)
    assert f"it sent {SENT}, 100 Mbit/s for 5.0 s by its own clock, of which" in "\n".join(
        trial_lines(FLOW_KIND, record)
    )
    assert dict(build_picture_guests(record)[0].found)["Mbit/s sent"] == "100.00"


def test_no_rate_is_told_where_iperf_does_not_say_how_long_it_sent():
    record = uneven("")
    assert f"it sent {SENT}, of which" in "\n".join(trial_lines(FLOW_KIND, record))
    assert dict(build_picture_guests(record)[0].found)["Mbit/s sent"] == "–"


def test_what_a_guest_on_credit_was_let_through_is_over_the_time_at_the_sink():
    held: Any = flow_record([[2000] * 5], limits_bps=(30_000_000,)).senders[0]
    waits = held.model_copy(update={"limiter": held.limiter.model_copy(update={"kind": CREDIT}), "output": SAID})
    assert sent_bps(waits, PAYLOAD_BYTES) == waits.offered_bps


def test_guests_rates_are_of_the_time_that_their_sum_is_of():
    record = uneven()
    assert "g1     47.1 Mbit/s of payload; 54.95 Mbit/s from its first to its last" in "\n".join(
        trial_lines(FLOW_KIND, record)
    )
    assert format_brief(record).startswith("94.21, g1 47.10, g2 47.10, ")
    assert "g1: 47.1 Mbit/s" in describe_result(record)


def test_rates_over_different_times_are_no_share_of_the_line():
    """They add up to more than it carries."""
    record = inward_record([40_000, 40_000])
    late = record.receivers[1].model_copy(update={"sent_s": 2.2})
    apart = record.model_copy(update={"receivers": (record.receivers[0], late)})
    for told in (partial(trial_lines, FLOW_KIND), describe_result, lambda each: [format_brief(each)]):
        assert "% of the line" in "\n".join(told(record))
        assert "% of the line" not in "\n".join(told(apart))
        assert "each over its own time, 2.000 to 2.200 s" in "\n".join(told(apart))
    assert summarize_flows([record]).points[0].line_ratio is not None
    other = inward_record([40_000, 40_000], block=2, flow_id="another")
    (point,) = summarize_flows([other, apart]).points
    assert point.line_ratio is None and len(point.flow_ids) == 2, "one trial of it cannot be added up"
