"""Derived numbers follow from raw counts; a changed one is named. 31 250 packets fit 2.2 s at 70 400 ns exactly."""

from __future__ import annotations

from typing import Any

import pytest
from tui_fake import make_record

from labconsole.measure.recompute import recompute
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest


def record(**changes: Any) -> dict[str, Any]:
    request = TrialRequest(platform="raw", frame_size_bytes=64, sources=2, target_bps=10_000_000, duration_s=2.2)
    data = make_record(request, "20261121T000000Z-000001", loss=0.25).to_json()
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
