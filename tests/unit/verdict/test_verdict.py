"""The verdict and the record, from observations made up by hand: each reason appears when, and only when, it should."""

from __future__ import annotations

from typing import Literal

import pytest

from labconsole.measure.recompute.verdict import rejudge
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Arrivals, Failure, RunRecord, Verdict
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.influences import influences
from labconsole.verdict.verdict import judge
from support.observed_trials import SENT, codes, counters, observe, record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=10**7, duration_s=1.0)


def test_a_clean_trial_is_valid_and_adds_up(inventory):
    run = record(inventory, observe(inventory, sent=14205), "10Mbit")
    assert run.streams[0].intended_packets == 14205
    assert (run.verdict.status, codes(run)) == ("valid", set())
    stream = run.streams[0]
    assert (stream.offered_packets, stream.measured_packets, stream.loss_packets) == (14205, 14205, 0)
    assert stream.offered_bps == pytest.approx(14205 * 8 * 88)
    assert stream.measured_from == "capture"
    assert [hop.lost_packets for hop in stream.ledger] == [None, 0, 0, 0, 0, 0]
    assert stream.unplaced_packets == 0
    assert RunRecord.model_validate(run.to_json()) == run


def test_loss_at_the_uut_is_named_there(inventory):
    run = record(inventory, observe(inventory, uut_out=SENT - 1000))
    assert run.verdict.status == "valid"
    assert {hop.hop: hop.lost_packets for hop in run.streams[0].ledger}["uut_out"] == 1000
    assert run.total.loss_ratio == pytest.approx(1000 / SENT)


@pytest.mark.parametrize(
    ("bend", "status", "code"),
    [
        ({"sent": SENT - 500}, "suspect", "offered_short"),
        ({"sent": SENT + 500}, "suspect", "offered_over"),
        ({"sent": 0}, "invalid", "no_packets"),
        ({"elapsed_ns": 1_700_000_000}, "suspect", "duration_stretched"),
        ({"error_text": "the interface went down"}, "invalid", "generator_failed"),
        ({"captured": SENT - 3, "dropped": 3}, "suspect", "capture_incomplete"),
        ({"arrived": SENT + 5, "captured": SENT}, "suspect", "foreign_frames"),
        ({"captured": SENT, "arrived": SENT - 1}, "invalid", "witnesses_disagree"),
        ({"nic": SENT - 1, "uut_out": SENT - 1}, "invalid", "witnesses_disagree"),
        ({"uut_out": SENT + 2}, "invalid", "negative_loss"),
    ],
)
def test_each_doubt_has_its_code(inventory, bend: dict, status: str, code: str):
    run = record(inventory, observe(inventory, **bend))
    assert code in codes(run)
    assert run.verdict.status == status


def test_an_incomplete_capture_does_not_become_loss(inventory):
    run = record(inventory, observe(inventory, captured=SENT - 3, dropped=3))
    assert (run.streams[0].measured_from, run.streams[0].loss_packets) == ("counters", 0)


def test_without_any_witness_nothing_is_measured(inventory):
    seen = observe(inventory)
    seen.streams[0].capture, seen.after = None, {}
    run = record(inventory, seen)
    assert (run.streams[0].measured_packets, run.total.loss_ratio) == (None, None)
    assert (run.verdict.status, "not_measured" in codes(run)) == ("invalid", True)


def test_a_decreased_counter_voids_the_run_and_leaves_a_gap(inventory):
    seen = observe(inventory)
    seen.after["uut"][("", "eth1")] = counters(rx=0, tx=2)
    run = record(inventory, seen)
    assert run.verdict.status == "invalid"
    assert "counter_decreased" in codes(run)
    assert run.streams[0].counters["uut_in_rx_packets"] is None


def test_target_max_has_no_shortfall(inventory):
    run = record(inventory, observe(inventory, sent=3), "max")
    assert run.streams[0].intended_packets is None
    assert run.verdict.status == "valid"


def test_an_abort_and_a_lost_link_keep_what_was_counted(inventory):
    seen = observe(inventory, sent=100)
    seen.aborted = True
    run = record(inventory, seen)
    assert (run.verdict.status, codes(run)) == ("invalid", {"aborted"})
    assert run.streams[0].offered_packets == 100
    seen = observe(inventory)
    seen.failure = Failure(failure="node_lost", operation="drain", node="snk1", message="snk1: gone")
    assert "link_lost" in codes(record(inventory, seen))


def test_sources_that_start_apart_are_doubted(inventory):
    seen = observe(inventory)
    seen.start_skew_s = 0.25
    assert "sources_apart" in codes(record(inventory, seen))


def sides(inventory, **bend) -> RunRecord:
    return record(inventory, observe(inventory, **bend))


def test_a_loss_behind_the_unit_under_test_is_the_instruments_beyond_the_tolerance(inventory):
    assert codes(sides(inventory, arrived=SENT - 1)) == set()  # 0.7 of 10 000
    run = sides(inventory, arrived=SENT - 50)
    assert codes(run) == {"lost_at_sink"}
    assert run.verdict.reasons[0].evidence["lost_packets"] == 50
    assert "no counter says why" in run.verdict.reasons[0].detail


def test_foreign_frames_that_the_unit_sends_are_no_loss_at_the_sink(inventory):
    run = sides(inventory, uut_out=SENT + 30, arrived=SENT + 30, captured=SENT)
    assert "lost_at_sink" not in codes(run)


def with_arrivals(
    inventory,
    *,
    late: int | None,
    window_s: float,
    window_from: Literal["capture", "counters"],
    resolution_s: float = 1e-9,
) -> RunRecord:
    seen = observe(inventory)
    run = record(inventory, seen)
    stream = run.streams[0].model_copy(
        update={
            "arrivals": Arrivals(
                packets=SENT, window_s=window_s, window_from=window_from, resolution_s=resolution_s, late_packets=late
            )
        }
    )
    verdict = judge(seen, (stream,), REQUEST, Tolerances(), inventory=inventory, frozen_hops={})
    notes = [entry for entry in influences(seen, (stream,), inventory.uut) if entry["kind"] == "buffered"]
    return run.model_copy(update={"streams": (stream,), "verdict": verdict, "influences": tuple(notes)})


@pytest.mark.parametrize(
    ("late", "window_s", "window_from", "note", "doubt"),
    [
        (200, 1.5, "capture", True, False),
        (200, 1.5, "counters", True, True),
        (140, 1.5, "counters", False, False),  # less than 1 % of 14205
        (200, 1.009, "counters", False, False),
        (None, 1.5, "counters", False, False),
    ],
)
def test_packets_that_a_buffer_held_are_a_note_and_a_doubt_where_samples_alone_tell(
    inventory, late, window_s, window_from, note, doubt
):
    run = with_arrivals(inventory, late=late, window_s=window_s, window_from=window_from)
    assert codes(run) == ({"buffered"} if doubt else set())
    figures = {"late_packets": late, "packets": SENT, "buffer_s": pytest.approx(0.5), "window_from": window_from}
    assert [{key: entry[key] for key in figures} for entry in run.influences] == ([figures] if note else [])
    if doubt:
        assert run.verdict.reasons[0].evidence == {"stream": "s1", **figures}


@pytest.mark.parametrize(
    ("late", "window_s", "resolution_s", "error_ratio"),
    [
        (0, 0.9, 0.2, None),  # nothing came late: the sending time of 1 s holds
        (None, 0.9, 0.2, 1 - 1 / 1.1),
        (None, 0.9, 0.009, None),
        (None, 1.0, 0.01, None),  # as it was sent, by a hundred samples: at most 0.99 % of the rate is open
        (None, 1.009, 0.01, 1 - (SENT - 1) / SENT / 1.019),  # no further apart, and nearly twice that is open
        (None, 1.009, 0.0001, None),
        (100, 1.1, 0.2, 1 - 1 / 1.3),  # a capture that missed others saw these come late
        (100, 1.5, 0.2, 0.2 / 1.3),
    ],
)
def test_a_rate_that_distant_samples_leave_open_is_doubted_with_how_far(
    inventory, late, window_s, resolution_s, error_ratio
):
    told = {"late": late, "window_s": window_s, "resolution_s": resolution_s}
    run = with_arrivals(inventory, window_from="counters", **told)
    assert codes(run) == (set() if error_ratio is None else {"rate_uncertain"})
    assert [each for each in rejudge(run, WEIGHT) if "rate_uncertain" in each.sentence] == []
    untold = run.model_copy(update={"verdict": Verdict(status="valid")})
    assert any("rate_uncertain" in each.sentence for each in rejudge(untold, WEIGHT)) == (error_ratio is not None)
    if error_ratio is not None:
        (doubt,) = run.verdict.reasons
        assert doubt.evidence == {
            "stream": "s1",
            "rate_error_ratio": pytest.approx(error_ratio, rel=1e-3),
            "resolution_s": resolution_s,
        }
        assert f"known to \u00b1 {error_ratio:.1%}" in doubt.detail
    assert codes(with_arrivals(inventory, window_from="capture", **told)) == set()
