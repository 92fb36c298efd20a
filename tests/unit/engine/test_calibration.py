"""Calibration without a lab: bounds out of trials, what an envelope covers, what is doubted, and what voids it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.cli.text.calibration import envelope_lines
from labconsole.engine.calibration import _proof
from labconsole.engine.observer_effect import ObserverRun, compare
from labconsole.errors import MeasurementError, StoreError
from labconsole.measure.counts import CounterSample
from labconsole.measure.groups import SIDES
from labconsole.measure.maximum import LossTrial, loss_bounds, unverified
from labconsole.model.design_point import FrameSize
from labconsole.model.record.envelope import (
    parse_envelope,
)
from labconsole.model.record.run import Reason, Verdict
from labconsole.verdict.calibration_check import doubted
from support.envelopes import FLAT_OUT, REQUEST, VERSIONS, envelope, point, reasons

# Bounds


def trials(*taken: tuple[float, bool]) -> list[LossTrial]:
    return [LossTrial(pps, float(pps), clean) for pps, clean in taken]


def test_bounds_are_the_highest_clean_rate_below_the_lowest_lossy_one():
    found = loss_bounds(trials((10, True), (50, True), (70, False), (70, False), (90, False)))
    assert (found.clean_pps, found.lossy_pps) == (50, 70)
    assert loss_bounds(trials((10, True), (90, True))).lossy_pps is None
    assert loss_bounds(trials((10, False))).clean_pps is None
    assert loss_bounds([]).next_pps is None


def test_a_loss_that_the_second_trial_does_not_have_is_not_believed():
    found = loss_bounds(trials((10, True), (50, False), (50, True), (90, False)))
    assert (found.clean_pps, found.lossy_pps) == (50, 90)


def test_only_the_loss_that_sets_the_bound_is_verified():
    assert unverified(trials((10, True), (50, False), (90, False))) == 50
    assert unverified(trials((10, True), (50, False), (50, False), (90, False))) is None
    assert unverified(trials((10, True))) is None


@given(st.floats(1e3, 1e6), st.floats(0.05, 0.95))
def test_a_search_by_bounds_closes_in_on_a_sharp_limit(top, share):
    limit, taken = share * top, []

    def trial(pps):
        taken.append(LossTrial(pps, pps, pps <= limit))

    trial(top)
    trial(top)
    for _ in range(40):
        found = loss_bounds(taken)
        if (target := unverified(taken) or found.next_pps) is None:
            break
        trial(target)
    found = loss_bounds(taken)
    assert not found.wide
    assert found.clean_pps <= limit < found.lossy_pps


# Envelopes


def test_an_envelope_survives_the_store_and_a_newer_one_is_refused():
    found = envelope()
    assert parse_envelope(found.to_json()) == found
    with pytest.raises(StoreError, match="format 9.*up to 1"):
        parse_envelope({**found.to_json(), "format": 9})
    with pytest.raises(StoreError, match="points.0.sources"):
        parse_envelope({**found.to_json(), "points": [{**point().model_dump(), "sources": "many"}]})


def test_between_calibrated_sizes_and_numbers_the_next_larger_counts():
    found = envelope(point(64, 1), point(64, 3), point(500, 1), point(500, 3))
    assert (found.point_for(64, 1).frame_size_bytes, found.point_for(64, 1).sources) == (64, 1)
    assert (found.point_for(65, 2).frame_size_bytes, found.point_for(65, 2).sources) == (500, 3)
    assert found.point_for(501, 1) is None
    assert found.point_for(64, 4) is None


def test_without_an_envelope_nothing_is_doubted():
    assert reasons(None) == ()


def test_a_rate_above_the_generators_maximum_is_doubted_with_both_figures():
    (reason,) = reasons(envelope(point(maximum=100_000.0)))
    assert reason.code == "instrument_limited"
    assert "142045 packets/s" in reason.detail
    assert "src1/eth1" in reason.detail
    assert reason.evidence["calibrated_pps"] == 100_000.0
    assert reason.evidence["calibration"] == "20261121T024501Z-7f3a9c"
    assert reasons(envelope(point(maximum=150_000.0))) == ()


def test_a_rate_above_the_captures_bound_is_doubted_and_a_bound_not_reached_is_none():
    assert len(reasons(envelope(point(maximum=1e6, capture=(50_000.0, 60_000.0))))) == 1
    assert reasons(envelope(point(maximum=1e6, capture=(50_000.0, None)))) == ()
    assert "up to 0 " in reasons(envelope(point(maximum=1e6, capture=(None, 60_000.0))))[0].detail


@pytest.mark.parametrize("target_bps", [10**8, "max"])
@pytest.mark.parametrize("clean_pps", [50_000.0, 500_000.0])
def test_what_the_unit_under_test_lost_does_not_choose_among_repetitions(target_bps, clean_pps):
    """Nine trials of one load of which five lose 1 %: beyond the sink's bound all are marked, below it none is."""
    bounded = envelope(point(maximum=1e6, most_pps=140_000.0, counters=(clean_pps, 1.2 * clean_pps)))
    lost_packets = [0, 7000, 7000, 0, 7000, 0, 7000, 7000, 0]
    marked = [
        [
            each.code
            for each in reasons(
                bounded,
                replace(REQUEST, target=target_bps),
                offered_pps=140_000.0,
                loss_packets=lost,
                measured_packets=700_000 - lost,
                measured_pps=140_000.0 - lost / 5,
                uut_lost_packets=lost,
                sink_lost_packets=0,
            )
        ]
        for lost in lost_packets
    ]
    assert marked == [["instrument_limited"] if clean_pps < 140_000 else []] * 9


@pytest.mark.parametrize(("most_pps", "marked"), [(105_000.0, True), (100_900.0, False)])
def test_at_target_max_the_calibrated_generator_decides_and_not_what_this_run_offered(most_pps: float, marked: bool):
    """A sink that missed nothing up to 100 000 packets/s; nine trials offer from 92 000 to 110 000."""
    known = envelope(point(maximum=90_000.0, most_pps=most_pps, counters=(100_000.0, 104_000.0)))
    offered = (92e3, 95e3, 99e3, 1e5, 101e3, 101.5e3, 103e3, 11e4, None)
    found, *others = (reasons(known, FLAT_OUT, offered_pps=offered_pps) for offered_pps in offered)
    assert others == [found] * 8
    assert [each.code for each in found] == (["instrument_limited"] if marked else [])
    if marked:
        assert (found[0].evidence["rate_pps"], found[0].evidence["calibrated_pps"]) == (105_000.0, 100_000.0)
        assert "at target max its generator offers up to 105000 packets/s" in found[0].detail


def test_at_target_max_a_sink_that_missed_nothing_has_no_bound_and_the_generator_is_no_limit():
    assert reasons(envelope(point(maximum=1.0, most_pps=2.0)), FLAT_OUT, offered_pps=90_000.0) == ()
    assert reasons(envelope(point(maximum=1.0)), FLAT_OUT, offered_pps=90_000.0) == ()


@pytest.mark.parametrize(
    ("calibrated", "codes"),
    [
        ({}, ["not_calibrated"]),  # no trial at target max counted anything
        ({"size": 128, "most_pps": 45_000.0}, ["not_calibrated"]),  # 64 B: more packets than that
        ({"sources": 3, "most_pps": 45_000.0}, ["not_calibrated"]),  # alone: more than beside two others
        ({"size": 128, "most_pps": 60_000.0}, ["instrument_limited"]),
        ({"most_pps": 45_000.0}, []),
    ],
)
def test_at_target_max_what_cannot_be_told_from_the_calibration_is_said_whatever_the_run_offered(calibrated, codes):
    known = envelope(point(maximum=1e6, capture=(50_000.0, 60_000.0), **calibrated))
    for offered_pps in (40_000.0, 90_000.0):
        assert [each.code for each in reasons(known, FLAT_OUT, offered_pps=offered_pps)] == codes


def test_what_was_not_calibrated_at_all_is_doubted_by_a_code_of_its_own_and_enters_means():
    unknown = (
        reasons(envelope(), replace(REQUEST, frame=FrameSize(1500))),
        reasons(envelope(point(generator="pktgen"))),
        reasons(envelope(point(name="s9"))),
    )
    assert [each.code for (each,) in unknown] == ["not_calibrated"] * 3
    assert "not calibrated" in unknown[0][0].detail
    assert "pktgen" in unknown[1][0].detail
    assert "not calibrated" in unknown[2][0].detail
    assert "not_calibrated" not in SIDES
    assert doubted(Verdict(status="valid"), unknown[0]).status == "suspect"


def test_a_doubt_makes_a_valid_run_suspect_and_leaves_an_invalid_one_invalid():
    found = reasons(envelope())
    assert doubted(Verdict(status="valid"), found).status == "suspect"
    aborted = Reason(code="aborted", detail="the operator stopped the run")
    both = doubted(Verdict(status="invalid", reasons=(aborted,)), found)
    assert (both.status, [each.code for each in both.reasons]) == ("invalid", ["aborted", "instrument_limited"])
    assert doubted(Verdict(status="valid"), ()) == Verdict(status="valid")


def test_another_fingerprint_kernel_driver_or_buffer_voids_a_calibration():
    found = envelope()
    assert found.void_reason("f", {"src1": VERSIONS}, 65536) is None
    assert "fingerprint" in found.void_reason("g", {})
    assert "kernel of src1" in found.void_reason("f", {"src1": VERSIONS.model_copy(update={"kernel": "6.2"})})
    other = VERSIONS.model_copy(update={"drivers": {"eth1": "e1000"}})
    assert "driver of src1/eth1" in found.void_reason("f", {"src1": other})
    assert "64 KiB" in found.void_reason("f", {}, 64)


def test_the_report_says_bounds_bursts_and_errors_in_words():
    text = "\n".join(envelope_lines(envelope(point(capture=(50_000.0, 60_000.0)))))
    for words in (
        "100\u2009000 packets/s",
        "no loss up to 50\u2009000",
        "but 150\u2009000 packets/s in another trial",
        "microbursts up to 40 packets",
        "-320 ppm",
    ):
        assert words in text


# The observer effect


def runs(quiet: list[float], live: list[float], status: str = "valid") -> list[ObserverRun]:
    made = []
    for kind, losses in (("quiet", quiet), ("live", live)):
        for pair, loss in enumerate(losses, start=1):
            made.append(
                ObserverRun(
                    pair=pair, observe=kind, status=status, reasons=(), loss_ratio=loss, measured_pps=1e5 * (1 - loss)
                )
            )
    return made


def test_an_effect_that_is_there_is_told_with_its_interval():
    effect = compare(runs([0.01, 0.011, 0.009, 0.01], [0.05, 0.051, 0.049, 0.05]), request="r", seed=1)
    assert effect.loss_ratio.detectable
    assert effect.loss_ratio.mean == pytest.approx(0.04)
    assert effect.sentence.startswith("live observation changes loss and the measured rate (4 quiet and 4 live runs)")
    assert "95% CI" in effect.sentence


def test_no_effect_is_no_detectable_difference():
    effect = compare(runs([0.01, 0.02, 0.03], [0.02, 0.01, 0.031]), request="r", seed=1)
    assert effect.sentence.startswith("no detectable difference between 3 quiet and 3 live runs")
    nothing = compare(runs([0.0] * 3, [0.0] * 3), request="r", seed=1)
    assert nothing.sentence.startswith("no detectable difference")


def test_invalid_runs_enter_no_mean_and_too_few_are_no_answer():
    effect = compare(runs([0.0] * 3, [0.5] * 3, status="invalid"), request="r", seed=1)
    assert (effect.left_out, effect.loss_ratio) == (6, None)
    assert effect.sentence.startswith("too few valid runs")


# The bypass


def snapshot(**interfaces: tuple[int, int]) -> dict:
    return {("", name): CounterSample(1, values) for name, values in interfaces.items()}


STREAM: Any = SimpleNamespace(name="s1", uut_in="eth1", uut_out="eth5")


def test_a_proof_counts_what_the_uuts_nics_saw():
    found = _proof("uut", STREAM, 50, snapshot(eth1=(5, 1), eth5=(2, 2)), snapshot(eth1=(7, 1), eth5=(2, 3)))
    assert (found.captured_packets, found.uut_rx_packets, found.uut_tx_packets) == (50, 2, 1)


@pytest.mark.parametrize("missing", ["before", "after"])
def test_a_nic_that_cannot_be_read_proves_nothing(missing: str):
    whole, part = snapshot(eth1=(5, 1), eth5=(2, 2)), snapshot(eth1=(5, 1))
    before, after = (part, whole) if missing == "before" else (whole, part)
    with pytest.raises(MeasurementError, match="is unknown: uut has no eth5"):
        _proof("uut", STREAM, 50, before, after)
    with pytest.raises(MeasurementError, match="decreased"):
        _proof("uut", STREAM, 50, whole, snapshot(eth1=(4, 1), eth5=(2, 2)))
