"""Derived numbers follow from raw counts; a changed one is named. 31 250 packets fit 2.2 s at 70 400 ns exactly.

Of format 1 by the formulas that it was written with; of format 2 more is in test_contradictions.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.measure.recompute.counts import contradicting_counts
from labconsole.measure.recompute.derived import recompute
from labconsole.measure.recompute.record import unjudged
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import RunRecord
from support.consistent_runs import by_id, consistent
from support.fake_session import make_record


def record(**changes: Any) -> dict[str, Any]:
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=2, target=10_000_000, duration_s=2.2)
    made = make_record(request, "20261121T000000Z-000001", loss=0.25)
    data = made.model_copy(update={"format": 1, "method": 1}).to_json()
    data.update(changes)
    return data


def discrepancies(data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {d.where: (d.stored, d.recomputed) for d in recompute(RunRecord.model_validate(data))}


def test_a_whole_record_holds() -> None:
    assert discrepancies(record()) == {}


@pytest.mark.parametrize(
    "name", ["offered_pps", "offered_bps", "measured_pps", "measured_bps", "loss_ratio", "loss_packets"]
)
def test_a_changed_number_of_a_stream_is_named(name: str) -> None:
    data = record()
    right = data["streams"][0][name]
    data["streams"][0][name] = right + 1
    found = discrepancies(data)
    assert found[f"streams[0].{name}"] == (right + 1, pytest.approx(right))


def test_a_changed_total_is_named() -> None:
    data = record()
    data["total"]["loss_packets"] = 0
    lost = data["streams"][0]["loss_packets"]
    assert discrepancies(data) == {"total.loss_packets": (0, lost)}


def test_a_raw_count_that_was_changed_shows_in_what_follows_from_it() -> None:
    data = record()
    data["streams"][1]["offered_packets"] += 10
    found = discrepancies(data)
    assert {"streams[1].loss_packets", "streams[1].offered_pps", "total.offered_packets"} <= set(found)


def test_an_unknown_number_is_not_filled_in() -> None:
    data = record()
    data["streams"][0]["capture"]["complete"] = False
    found = discrepancies(data)
    assert found["streams[0].measured_packets"][1] is None
    assert found["streams[0].measured_from"] == ("capture", None)


def test_a_negative_loss_may_not_be_called_valid() -> None:
    data = record()
    data["total"]["loss_packets"] = -3
    assert discrepancies(data)["verdict.status"] == ("valid", "invalid")


def test_a_hop_whose_loss_does_not_follow_from_its_counts_is_named() -> None:
    data = record()
    data["streams"][0]["ledger"][2]["lost_packets"] = 1
    assert "streams[0].ledger[2].lost_packets" in discrepancies(data)


# Format 2


def two(**stream: Any) -> dict[str, Any]:
    """A consistent record of format 2, with changes to its only stream."""
    data = by_id(consistent())["block-1-raw"]
    for name, value in stream.items():
        data["streams"][0][name] = value
    return data


def test_a_whole_record_of_format_2_holds() -> None:
    assert discrepancies(two()) == {}


def test_offered_is_the_smaller_of_generator_and_wire() -> None:
    data = two(generator_packets=700_000)
    assert discrepancies(data)["streams[0].offered_packets"] == (710_227, 700_000)
    data = two()
    data["streams"][0]["counters"]["source_tx_packets"] = 700_001
    assert discrepancies(data)["streams[0].offered_packets"] == (710_227, 700_001)


def test_sides_whose_counter_was_not_read_are_told_as_one_sum() -> None:
    data = two()
    lost = data["streams"][0]["uut_lost_packets"]
    data["streams"][0]["counters"]["uut_out_tx_packets"] = None
    found = discrepancies(data)
    assert found["streams[0].uut_lost_packets"] == (lost, None)
    assert found["streams[0].sink_lost_packets"] == (0, None)
    assert found["streams[0].lost_together[0].sides"] == (None, "uut+sink")
    assert found["streams[0].lost_together[0].packets"] == (None, lost)


@pytest.mark.parametrize(
    ("window_s", "longest_s"), [(4.0, 5.000118), (8.0, 8.0 * 660_497 / 660_496)], ids=["died early", "queued"]
)
def test_the_forwarding_rate_is_over_the_longer_of_sending_and_arriving(window_s: float, longest_s: float) -> None:
    data = two()
    stored = data["streams"][0]["forwarding_pps"]
    data["streams"][0]["arrivals"]["window_s"] = window_s
    packets = data["streams"][0]["arrivals"]["packets"]
    assert packets == 660_497
    found = discrepancies(data).get("streams[0].forwarding_pps", (stored, stored))
    assert found[1] == pytest.approx(packets / longest_s, rel=1e-6)


@pytest.mark.parametrize(("witness", "named"), [("counters", False), ("capture", True)])
def test_samples_may_show_late_packets_and_not_whether_they_were_queued(witness: str, named: bool) -> None:
    """Some came after the end of sending, and the next sample is later than a queue is told by."""
    data = two()
    data["streams"][0]["arrivals"] |= {"window_from": witness, "late_packets": 414, "queued_packets": None}
    found = {each.where for each in contradicting_counts(RunRecord.model_validate(data))}
    assert ("streams[0].arrivals" in found) is named


def test_of_a_mix_of_sizes_only_what_needs_no_size_is_judged() -> None:
    data = two(delay_ns=1, offered_bps=1.0, forwarding_bps=None, loss_packets=3)
    data["requested"]["frame_size_bytes"] = None
    record = RunRecord.model_validate(data)
    assert {d.where for d in recompute(record)} == {
        "streams[0].loss_packets",
        "total.offered_bps",
        "total.forwarding_bps",
    }
    assert list(unjudged(record)) == ["what follows from the frame size, which is a mix"]


def test_what_this_version_does_not_know_is_said_to_be_unjudged() -> None:
    data = two(extensions={"flows": {"version": 1}})
    data["extensions"] = {"witness": {"version": 3}}
    assert list(unjudged(RunRecord.model_validate(data))) == ["the extension flows", "the extension witness"]
