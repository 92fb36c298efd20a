"""What reports and summaries print of guests that share a link, where Student's interval would say what nobody knows."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from labconsole.cli.main import main
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord, WeightsRecord, WeightStepRecord
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.text import summary_lines
from labconsole.measure.statistics.set_ups import mean_over_set_ups
from labconsole.model.flow_scenarios import WeightSteps
from labconsole.report.formatting import format_mean
from labconsole.store.open import open_store
from support.flow_records import flow_record, ring_record

SET_UPS = 5


def sending(*, dominated: tuple[int, ...] = (), guests: int = 2, limits: tuple[int, ...] = ()) -> list[FlowRecord]:
    """Of each set-up a trial of ten bins; in those named, one guest has a bin for itself."""
    draw = np.random.default_rng(4)
    found = []
    for block in range(1, SET_UPS + 1):
        packets = ((900 if limits else 4000) + draw.integers(-40, 40, (guests, 10))).tolist()
        if block in dominated:
            packets[0][3], packets[1][3] = 7990, 10
        made = flow_record(packets, block=block, limits_bps=limits, flow_id=f"20260101T0000{block:02d}000000Z-0001")
        wanted = tuple(each.model_copy(update={"offered_bps": 50e6}) for each in made.senders)
        found.append(made.model_copy(update={"senders": wanted}) if limits else made)
    return found


def tables_of(tmp_path: Path, records: list[FlowRecord]) -> Path:
    store = f"sqlite:///{tmp_path / 'flows.sqlite'}"
    with open_store(store) as opened:
        for record in records:
            opened.save_experiment(FLOW, record)
    assert main(["report", "--store", store, "--out", str(tmp_path / "out"), "--formats", "csv,md"]) == 0
    return tmp_path / "out"


def row_of(path: Path) -> dict[str, str]:
    (row,) = csv.DictReader(path.read_text().splitlines())
    return row


def test_dominance_that_was_not_seen_is_at_most_something(tmp_path: Path) -> None:
    out = tables_of(tmp_path, sending())
    row = row_of(out / "flow-sharing.csv")
    assert (float(row["dominant_ratio"]), float(row["dominant_ratio_ci_low"])) == (0, 0)
    assert float(row["dominant_ratio_ci_high"]) == pytest.approx(1 - 0.025 ** (1 / 50), rel=1e-3)
    assert float(row["starved_ratio_ci_high"]) == pytest.approx(1 - 0.0125 ** (1 / 50), rel=1e-3), "of two guests"
    assert row["longest_dominance_s_ci_low"] == ""
    text = (out / "flow-sharing.md").read_text()
    assert "0.0 (at most 7.1, in at most 45 % of set-ups)" in text
    assert "0.0 ± 0.0" not in text
    assert "0.0 (trials 0.0 to 0.0)" in text


def test_dominance_that_was_seen_has_no_lower_end_below_zero() -> None:
    (point,) = summarize_flows(sending(dominated=(2,))).points
    found = point.dominant_ratio
    assert found is not None and found.ci_low is not None and found.ci_high is not None
    assert (found.mean, point.dominant_s and point.dominant_s.maximum) == (1 / 50, 1.0)
    assert 0 <= found.ci_low < 0.02 < found.ci_high < 0.2
    (line,) = [line for line in summary_lines(summarize_flows(sending(dominated=(2,)))) if "dominance" in line]
    assert "dominance 2.0 (0.0 to 16.8) % of the bins" in line
    assert "longest dominance 0.2 (trials 0.0 to 1.0) s" in line


def test_jain_of_equal_guests_has_no_upper_end_above_1(tmp_path: Path) -> None:
    row = row_of(tables_of(tmp_path, sending()) / "flow-sharing.csv")
    assert float(row["jain_ci_low"]) < float(row["jain"]) <= 1
    assert row["jain_ci_high"] == ""
    assert "(at least 0.9999" in (tmp_path / "out" / "flow-sharing.md").read_text()


def test_the_least_attained_is_of_all_guests_at_once(tmp_path: Path) -> None:
    out = tables_of(tmp_path, sending(guests=8, limits=(11_000_000,)))
    row = row_of(out / "flow-sharing.csv")
    (point,) = summarize_flows(sending(guests=8, limits=(11_000_000,))).points
    plain = min((each.attained_ratio for each in point.guests if each.attained_ratio), key=lambda each: each.mean)
    assert float(row["least_attained_ratio"]) == pytest.approx(plain.mean)
    assert plain.ci_high is not None
    assert float(row["least_attained_ratio_ci_high"]) > plain.ci_high


def test_the_least_and_most_of_a_ring_are_of_all_guests_at_once(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    rings = [
        ring_record((1e9 + 1e7 * draw.standard_normal(6)).tolist(), block=block, flow_id=f"20260101T0000{block:02d}Z-1")
        for block in range(1, SET_UPS + 1)
    ]
    row = row_of(tables_of(tmp_path, rings) / "flow-ring.csv")
    assert float(row["least_bps_ci_low"]) < 1e9 < float(row["least_bps_ci_high"])
    assert float(row["most_bps_ci_low"]) < 1e9 < float(row["most_bps_ci_high"])


def test_exact_weights_are_not_said_to_be_missed(tmp_path: Path) -> None:
    """31 packets of 1:30 in each trial, and the last guest one packet off in some: as near as whole packets come."""
    records = []
    for block in range(1, SET_UPS + 1):
        first = [[1, 30], [1, 30], [1, 30], [1, 30]]
        packets = [list(column) for column in zip(*first, strict=True)]
        made = flow_record(packets, block=block, flow_id=f"20260101T0000{block:02d}000000Z-0001")
        steps = WeightSteps(every_s=4.0, steps=((1, 31),))
        seen = WeightStepRecord(
            weights=(1, 31),
            due_s=0.0,
            taken_s=0.0,
            rates_bps=(1, 31),
            first_bin=0,
            stop_bin=4,
            share_ratios=(1 / 31, 30 / 31),
            error_ratio=abs(1 / 31 - 1 / 32),
        )
        weights = WeightsRecord(
            interface="ifb", link_bps=10**8, looked_ns=0, begun_ns=0, steps=(seen,), mean_error_ratio=seen.error_ratio
        )
        asked = made.requested.model_copy(update={"weights": steps})
        valid = made.verdict.model_copy(update={"status": "valid", "reasons": ()})
        records.append(
            made.model_copy(update={"requested": asked, "weights": weights, "verdict": valid, "status": "done"})
        )
    out = tables_of(tmp_path, records)
    row = row_of(out / "flow-weights.csv")
    assert (row["fewest_packets"], row["farthest_guest"]) == ("124", "g1")
    assert float(row["deviation_ratio"]) == pytest.approx(1 / 31 - 1 / 32)
    assert float(row["deviation_ratio_ci_low"]) < 0 < float(row["deviation_ratio_ci_high"])
    assert "error_ratio_ci_low" not in row
    assert "0.0081" in (out / "flow-weights.md").read_text(), "one packet of 124"


def test_an_interval_of_one_set_up_speaks_for_no_other() -> None:
    assert format_mean(mean_over_set_ups({1: [1.0, 2.0, 3.0]}), 1, 1) == "2.0"
    assert format_mean(None) == "–"
