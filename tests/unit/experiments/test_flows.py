"""Flows out of guests: what follows from packets in bins, the verdict, what is computed again, and what it comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labconsole.experiments.flow.figures import HEADER_BYTES, line_bps
from labconsole.experiments.flow.limiters import limit_of, read_limiters
from labconsole.experiments.flow.quantities import quantities
from labconsole.experiments.flow.script import SenderAnswer, Sending, read_answer
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.verify import recompute_flow
from support.flow_records import PAYLOAD_BYTES, flow_record

MBIT_PACKETS = 10**6 / 8 / PAYLOAD_BYTES
"""Packets a second that make 1 Mbit/s of payload."""


def packets(*mbps: float) -> list[int]:
    return [round(each * MBIT_PACKETS) for each in mbps]


def test_a_line_of_100_mbit_carries_95_7_of_full_payload():
    assert line_bps(100_000_000, 1472) == pytest.approx(95.709e6, rel=1e-4)
    assert line_bps(10**9, 1472) == pytest.approx(957.1e6, rel=1e-4), "not 969: preamble and gap are on the wire"


def test_what_is_sent_is_told_in_one_line_and_read_back():
    told = Sending(2, "198.18.64.3", 3, 50_000_000, 1472, 7.5, after_s=2.5, neighbour="02:00:00:00:00:09")
    line = told.line()
    assert "iperf -c 198.18.127.1 -p 5001 -u -l 1472 -b 50000000 -t 7.5 -B 198.18.64.3:20064 -P 3" in line
    assert line.startswith("busybox arp -s 198.18.127.1 02:00:00:00:00:09; sleep 2.5; ")
    assert list(told.ports) == [20064, 20065, 20066]
    assert "arp" not in Sending(0, "10.0.0.1", 1, 1, 64, 1.0).line(), "the UUT is told otherwise, and takes it back"
    assert read_answer("LCFLOW sent |connect failed| ST 1\n") == SenderAnswer(1, "sent |connect failed")
    assert read_answer("nothing of the kind") == SenderAnswer()


def test_rates_are_those_of_the_bins_in_which_all_send():
    record = flow_record([packets(60, 60, 60, 60), packets(30, 30)], begin_bins=[0, 2], second_after_s=2.0)
    assert (record.shared_from, record.shared_to) == (2, 4)
    assert record.sum_bps == pytest.approx(90e6, rel=1e-3)
    assert [sender.shared_bps for sender in record.senders] == [pytest.approx(60e6, 1e-3), pytest.approx(30e6, 1e-3)]
    found = quantities(record)
    assert found.interference_ratio == pytest.approx(0.0, abs=1e-9)
    assert found.first_share_ratio == pytest.approx(2 / 3, rel=1e-3)
    assert recompute_flow(record) == []


def test_interference_is_what_the_first_guest_loses():
    record = flow_record([packets(80, 80, 40, 40), packets(40, 40)], begin_bins=[0, 2], second_after_s=2.0)
    assert quantities(record).interference_ratio == pytest.approx(0.5, rel=1e-3)


def test_attained_is_of_the_limit_in_whole_frames():
    frames = 30e6 * PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES) / 1e6
    record = flow_record([packets(*[frames] * 5)], limits_bps=(30_000_000,))
    assert quantities(record).attained["g1"] == pytest.approx(1.0, rel=1e-3)


def test_dominance_of_ten_seconds_is_found_as_such():
    one = packets(*[48] * 10, *[94] * 10, *[48] * 10)
    two = packets(*[48] * 10, *[1] * 10, *[48] * 10)
    found = quantities(flow_record([one, two]))
    assert found.dominant_s == 10.0
    assert found.dominant_ratio == pytest.approx(1 / 3)


@pytest.mark.parametrize("found", [None, 25_000_000])
def test_a_limit_that_is_not_there_when_read_back_voids_the_trial(found: int | None):
    record = flow_record([packets(30, 30, 30)], limits_bps=(30_000_000,), found_limits=[found])
    assert [reason.code for reason in record.verdict.reasons] == ["limiter_missing"]
    assert record.status == "failed"
    assert recompute_flow(record) == []


def test_a_guest_of_which_nothing_came_voids_the_trial():
    record = flow_record([packets(30, 30, 30), [0, 0, 0]])
    assert [reason.code for reason in record.verdict.reasons] == ["no_packets"]
    assert record.sum_bps is None, "there is no time in which all sent"


def test_what_does_not_follow_is_found():
    record = flow_record([packets(30, 30, 30), packets(40, 40, 40)])
    assert recompute_flow(record) == []
    wrong: dict[str, Any] = {
        "sum_bps": {"sum_bps": 1.0},
        "jain": {"jain": 0.5},
        "line_ratio": {"line_ratio": 2.0},
        "sink.captured_packets": {"sink": record.sink.model_copy(update={"captured_packets": 7})},  # type: ignore[union-attr]
        "flows[0].packets": {"flows": (record.flows[0].model_copy(update={"packets": 9}), record.flows[1])},
        "senders[1].packets": {"senders": (record.senders[0], record.senders[1].model_copy(update={"packets": 9}))},
    }
    for where, changes in wrong.items():
        assert where in {each.where for each in recompute_flow(record.model_copy(update=changes))}, where


def test_a_limiter_is_read_back_as_tc_says_it():
    said = [
        {"kind": "noqueue", "dev": "lo"},
        {"kind": "tbf", "dev": "lcq1", "options": {"rate": 3750000, "burst": 3753}, "packets": 11, "drops": 2},
        {"kind": "tbf", "dev": "lcq2", "options": {"rate": "much"}, "packets": -1, "drops": True},
    ]

    class Uut:
        async def ask(self, request: Any, timeout_s: float = 0) -> Any:
            return type("Said", (), {"stdout": json.dumps(said)})

    import asyncio

    found = asyncio.run(read_limiters(Uut(), {"g1": "lcq1", "g2": "lcq2", "g3": "lcq3"}))  # type: ignore[arg-type]
    assert (found["g1"].rate_bps, found["g1"].passed_packets, found["g1"].dropped_packets) == (30_000_000, 11, 2)
    assert (found["g2"].rate_bps, found["g2"].passed_packets, found["g2"].dropped_packets) == (None, None, None)
    assert found["g3"].rate_bps is None
    assert limit_of("lcg1", 1, 30_000_000).to_wire()["burst_bytes"] == 3750


def test_points_have_means_over_set_ups():
    records = [
        flow_record([packets(47 + block, 47 + block, 47 + block)], block=block, flow_id=f"id-{block}")
        for block in (1, 2, 3)
    ]
    (point,) = summarize_flows(records).points
    assert point.sum_bps is not None
    assert point.sum_bps.mean == pytest.approx(49e6, rel=1e-3)
    assert (point.sum_bps.set_ups, point.sum_bps.scope) == (3, "set-ups")
    assert len(point.guests[0].bins_bps) == 3
    assert point.median_id is None, "one guest dominates nobody"
