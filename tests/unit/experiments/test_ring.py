"""Guests in a ring: what each is told, what follows from bytes, the verdict, what is computed again, the report."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.experiments.flow.kind import KIND as FLOW_KIND
from labconsole.experiments.flow.plan import FlowFactors, PlannedFlows, flow_points
from labconsole.experiments.flow.rates import sum_rates
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.ring import RingGuest, RingWindow, build_ring
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.measure.counts import CounterSample
from labconsole.model.plan.crews import CrewTrial
from labconsole.report.trial_text import trial_lines
from labconsole.store.open import open_store
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.guests import AskedGuest, AskedGuests
from support.flow_records import ring_record
from support.guest_plans import hash_of

RX, TX = STAT_NAMES.index("rx_bytes"), STAT_NAMES.index("tx_bytes")


def guest(number: int, of: int) -> RingGuest:
    after = number % of + 1
    return RingGuest(
        name=f"g{number}",
        to=f"g{after}",
        address=f"198.18.64.{number}",
        next_address=f"198.18.64.{after}",
        mac=f"02:6c:77:00:00:{number:02x}",
        host_interface=f"lcg{number}",
    )


def sample(at_ns: int, rx: int, tx: int) -> CounterSample:
    values = [0] * len(STAT_NAMES)
    values[RX], values[TX] = rx, tx
    return CounterSample(at_ns, tuple(values))


def test_a_guest_listens_before_it_waits_and_sends_to_the_next():
    line = guest(2, 2).line(4.0)
    assert (
        line.index("iperf -s -p 5002 -B 198.18.64.2 ")
        < line.index("LABCONSOLE''-WAITS")
        < line.index("iperf -c 198.18.64.1")
    )
    assert line.endswith("kill $s 2>/dev/null; wait $s 2>/dev/null")
    assert "\n" not in line
    subprocess.run(["sh", "-n", "-c", line], check=True)


def test_rates_are_those_of_the_interfaces_in_the_window():
    guests = [guest(1, 2), guest(2, 2)]
    before = {("", "lcg1"): sample(10**9, 1000, 500), ("", "lcg2"): sample(10**9, 0, 0)}
    after = {
        ("", "lcg1"): sample(3 * 10**9, 2_001_000, 1_000_500),
        ("", "lcg2"): sample(3 * 10**9, 1_000_000, 2_000_000),
    }
    said = "LCFLOW 20261124190000,198.18.64.1,4000,198.18.64.2,5002,3,0.0-10.0,2000000,7654321| ST 0\n"
    answered = AskedGuests(
        guests=[
            AskedGuest(guest="g1", asked_ns=1, answered_ns=2, printed=said, code=None, message=None),
            AskedGuest(
                guest="g2",
                asked_ns=1,
                answered_ns=2,
                printed="LCFLOW connect failed: x| ST 1\n",
                code=None,
                message=None,
            ),
        ],
        waited_s=1.0,
        waited_cpu_s=0.0,
        cpu_s=0.0,
    )
    window = RingWindow(answered=answered, before=before, after=after, limiters={})
    first, second = build_ring(guests, window)
    assert window.window_s(guests) == 2.0
    assert (first.out_bytes, first.in_bytes, first.out_bps) == (2_000_000, 1_000_000, 8e6)
    assert (first.said_bps, first.exit_status) == (7654321.0, 0)
    assert (second.said_bps, second.exit_status, second.to) == (None, 1, "g1")
    sum_bps, jain = sum_rates([first.out_bps, second.out_bps])
    assert (sum_bps, round(jain or 0, 6)) == (12e6, 0.9)


def test_a_sound_ring_is_valid_and_computed_again():
    record = ring_record([100e6, 90e6, 95e6])
    assert record.verdict.status == "valid"
    assert recompute_flow(record) == []
    words = "\n".join(trial_lines(FLOW_KIND, record))
    assert "3 guests in a ring" in words and "g3 → g1" in words and "for 4.0 s" in words


@pytest.mark.parametrize(
    ("how", "code", "pair"),
    [
        ({"out_bps": [100e6, 0.0, 90e6]}, "no_packets", "g2 → g3"),
        ({"out_bps": [100e6, 90e6, 90e6], "exits": [0, 0, 1]}, "generator_failed", "g3 → g1"),
        ({"out_bps": [100e6, 90e6, 90e6], "exits": [None, 0, 0]}, "guests_missing", "g1 → g2"),
        ({"out_bps": [None, None], "window_s": None}, "not_measured", "no window"),
        ({"out_bps": [100e6, 90e6], "lost_ratio": 0.08}, "witnesses_disagree", "came out"),
    ],
)
def test_what_is_broken_is_named_with_its_pair_and_voids_the_trial(how: dict[str, Any], code: str, pair: str):
    record = ring_record(**how)
    assert record.status == "failed"
    assert any(each.code == code and pair in each.detail for each in record.verdict.reasons), record.verdict
    assert recompute_flow(record) == []


def test_a_limit_that_is_not_there_is_told():
    record = ring_record([60e6, 60e6], limits_bps=(64_000_000,))
    changed = record.ring[1].model_copy(update={"limiter": None})
    told = recompute_flow(record.model_copy(update={"ring": (record.ring[0], changed)}))
    assert any("limiter_missing" in str(each) for each in told)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"out_bps": 1.0}, "ring[0].out_bps"),
        ({"to": "g1"}, "ring[0].to"),
        ({"out_bytes": 5}, "ring[0].out_bps"),
    ],
)
def test_a_ring_that_was_changed_by_hand_is_found(change: dict[str, Any], where: str):
    record = ring_record([100e6, 90e6])
    changed = record.model_copy(update={"ring": (record.ring[0].model_copy(update=change), record.ring[1])})
    assert where in {each.where for each in recompute_flow(changed)}


def test_of_a_ring_only_guests_processors_and_limits_are_varied():
    factors = FlowFactors.model_validate(
        {"pattern": ["out", "ring"], "guests": [1, 2], "offered": ["10Mbit", "20Mbit"], "limits": ["none", "30Mbit"]}
    )
    points = flow_points(factors, ["lxc"])
    assert [point.index for point in points] == list(range(len(points)))
    rings = [point for point in points if point.pattern == "ring"]
    assert [(point.guests, point.limits) for point in rings] == [(2, ()), (2, (30_000_000,))]
    assert rings[1].words() == "lxc: 2 guests in a ring, each sends to the next over TCP, limit 30Mbit"
    assert len(
        {hash_of(PlannedFlows, factors, CrewTrial(point=point, block=1, repetition=1, position=1)) for point in points}
    ) == len(points)
    with pytest.raises(ValueError, match="ring has too few guests"):
        FlowFactors.model_validate({"pattern": ["ring"], "guests": [1]})


def test_a_report_draws_rings_beside_the_paper_and_apart_from_flows_out(tmp_path: Path):
    store = tmp_path / "s.sqlite"
    with open_store(str(store)) as opened:
        for block in range(1, 4):
            record = ring_record(
                [(100 + block) * 8e6, 98 * 8e6],
                platform="uml",
                block=block,
                flow_id=f"20260101T000000000000Z-000{block}",
            )
            opened.save_experiment(FLOW, record)
    out = tmp_path / "out"
    assert (
        main(["report", "--store", str(store), "--out", str(out), "--reference", "quetier", "--formats", "svg,md,csv"])
        == 0
    )
    assert "Guests that send to each other" in (out / "quetier-15.svg").read_text()
    assert "| uml | 2 |" in (out / "flow-ring.md").read_text()
    beside = (out / "quetier-15-beside.md").read_text()
    assert "18" in beside and "uml" in beside
    assert not (out / "flow-sharing.md").exists() and not (out / "mattos-4a.svg").exists()
    summary = summarize_flows([ring_record([8e6, 8e6])])
    assert summary.points[0].key.scenario == "in a ring"
