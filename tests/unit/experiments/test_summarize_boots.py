"""Starts of guests summed up: with an effect that was put in, and without one."""

from __future__ import annotations

import random

import pytest

from labconsole.experiments.boot.kind import KIND as BOOT_KIND
from labconsole.experiments.boot.summary import summarize_boots
from labconsole.experiments.boot.text import summary_lines
from labconsole.report.trial_text import trial_lines, trial_table
from support.boot_records import MIB, boot_data, boot_record, started
from support.job_records import drawn_at

COUNTS = (1, 2, 5, 10)


def series(per_guest_s: float, per_guest_mib: float, *, start: str = "hot", factor: float = 1.0) -> list:
    draw = random.Random(f"{per_guest_s}{start}")
    return [
        started(
            factor * (1.0 + per_guest_s * guests) * draw.uniform(0.98, 1.02),
            30.0 + per_guest_mib * guests + draw.uniform(-1, 1),
            guests=guests,
            start=start,
            block=block,
        )
        for block in range(1, 7)
        for guests in COUNTS
    ]


def test_what_the_tool_needs_and_what_each_guest_needs_is_found() -> None:
    (found,) = summarize_boots(series(0.5, 90.0)).lines
    assert found.used_bytes is not None
    assert found.startup_s is not None
    for line, constant, slope, unit in ((found.used_bytes, 30.0, 90.0, MIB), (found.startup_s, 1.0, 0.5, 1)):
        assert line.constant.low is not None
        assert line.slope.low is not None
        assert line.constant.low / unit <= constant <= (line.constant.high or 0) / unit
        assert line.slope.low / unit <= slope <= (line.slope.high or 0) / unit
        assert (line.blocks, line.places, line.absent) == (6, 4, None)


def test_guests_that_need_nothing_have_a_slope_whose_interval_holds_none() -> None:
    (found,) = summarize_boots(series(0.0, 0.0)).lines
    assert found.used_bytes is not None
    assert found.used_bytes.slope.mean == pytest.approx(0, abs=MIB / 4)
    assert (found.used_bytes.slope.low or 1) < 0 < (found.used_bytes.slope.high or -1)


def test_two_numbers_of_guests_or_two_blocks_make_no_interval_and_that_is_told() -> None:
    records = series(0.5, 90.0)
    for kept, word in (
        ([each for each in records if each.requested.guests in (1, 10)], "too few numbers of guests"),
        ([each for each in records if each.plan.block < 3], "too few blocks"),
    ):
        summary = summarize_boots(kept)
        line = summary.lines[0].used_bytes
        assert line is not None
        assert line.slope.mean == pytest.approx(90 * MIB, rel=0.05)
        assert (line.slope.low, line.constant.high, line.absent) == (None, None, word)
        assert any(line.endswith(f"blocks, {word}") for line in summary_lines(summary))


def test_starts_that_every_block_took_in_the_same_order_have_no_interval() -> None:
    """A UUT that fills up within each block would be taken for what guests need."""
    records = [
        each.model_copy(update={"started_at": f"2026-11-{each.plan.block:02}T00:{each.requested.guests:02}:05.000Z"})
        for each in series(0.5, 90.0)
    ]
    line = summarize_boots(records).lines[0].used_bytes
    assert line is not None
    assert (line.slope.low, line.absent) == (None, "too many blocks took them in the same order")


def test_cold_is_held_against_hot_block_by_block() -> None:
    summary = summarize_boots([*series(0.5, 90.0), *series(0.5, 90.0, start="cold", factor=1.3)])
    assert len(summary.points) == 2 * len(COUNTS)
    assert [each.guests for each in summary.cold_against_hot] == list(COUNTS)
    for each in summary.cold_against_hot:
        assert each.effect.ci_low is not None
        assert each.effect.ci_low < 0.3 < (each.effect.ci_high or 0)


def test_only_valid_starts_enter_and_the_others_are_counted() -> None:
    records = [started(1.0, 90, block=1), started(9.0, 900, block=2, codes=("unseen_cpu",))]
    (point,) = summarize_boots(records).points
    assert point.startup_s is not None
    assert (point.startup_s.mean, point.startup_s.trials, point.left_out) == (1.0, 1, {"unseen_cpu": 1})
    assert summarize_boots([]).points == ()


def test_what_is_known_is_told_in_lines() -> None:
    lines = summary_lines(summarize_boots([*series(0.5, 90.0), *series(0.5, 90.0, start="cold", factor=1.3)]))
    assert any("a guest, of 6 blocks" in line for line in lines)
    record = boot_record(boot_data())
    assert "all up after 1.500 s ± 0.5 ms by the clock outside" in trial_lines(BOOT_KIND, record)[1]
    missing = boot_record(boot_data((1.0, None)))
    assert "–" in trial_table(BOOT_KIND, [missing])[0]


def test_an_older_trial_of_the_same_does_not_enter() -> None:
    first, again = started(1.0, 90), started(3.0, 90)
    again = again.model_copy(update={"started_at": "2026-11-23T10:00:00.000Z"})
    summary = summarize_boots([again, first])
    (point,) = summary.points
    assert point.startup_s is not None
    assert (point.startup_s.mean, summary.superseded) == (3.0, 1)


def test_starts_that_do_not_differ_are_not_claimed_to() -> None:
    """Two platforms alike: of forty reports at most a few of which say otherwise, by Holm over nine rows each."""
    claimed = 0
    for seed in range(40):
        draw = random.Random(seed)
        records = []
        for platform in ("a", "b", "c"):
            for block in range(1, 6):
                for guests in (1, 2, 5):
                    record = started(draw.gauss(1, 0.05), 90, guests=guests, block=block)
                    asked = record.requested.model_copy(update={"platform": platform})
                    ref = record.plan.model_copy(update={"hash": f"{platform}{block}{guests}"})
                    at = drawn_at(block, platform, guests)
                    records.append(record.model_copy(update={"requested": asked, "plan": ref, "started_at": at}))
        found = summarize_boots(records).between_platforms
        assert len(found) == 9
        claimed += any(each.word != "inconclusive" for each in found)
    assert claimed <= 6  # 2 are expected


def test_starts_under_two_versions_of_a_hypervisor_are_two_series_that_are_told_apart() -> None:
    records = [
        started(1.0, 90, block=block).model_copy(update={"attestation": {"driver": "qemu", "versions": {"qemu": told}}})
        for block, told in enumerate(("7.2.0", "9.1.0"), start=1)
    ]
    summary = summarize_boots(records)
    assert {name.partition(", ")[2] for name in summary.names.values()} == {"qemu qemu 7.2.0", "qemu qemu 9.1.0"}
