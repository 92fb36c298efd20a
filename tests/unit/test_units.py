"""What people write and read: rates, targets, counts, ratios."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole import units


@pytest.mark.parametrize(
    ("text", "bps"),
    [("10Mbit", 10**7), ("2.5Gbit", 2_500_000_000), ("900 kbit/s", 900_000), ("7bps", 7), ("1Gb/s", 10**9)],
)
def test_rates_are_read_with_their_units(text: str, bps: int):
    assert units.parse_rate_bps(text) == bps


@pytest.mark.parametrize("text", ["", "10", "10M", "10 Mbyte", "-1Mbit", "0Mbit", "1e3Mbit", "max", "10MBit", "nan"])
def test_what_is_not_a_rate_is_refused(text: str):
    with pytest.raises(ValueError):
        units.parse_rate_bps(text)


@pytest.mark.parametrize(
    ("bps", "text"), [(10**8, "100Mbit"), (435_348_647, "435.348647Mbit"), (1500, "1.5kbit"), (999, "999bit")]
)
def test_a_target_is_written_with_its_largest_unit(bps: int, text: str):
    assert units.format_target(bps) == text


def test_a_target_is_rounded_where_it_has_no_room():
    assert units.format_target_within(90_062_805, 9) == "90.06Mbit"
    assert units.format_target_within(100_000_000, 9) == "100Mbit"
    assert units.format_target_within("max", 2) == "max"


@given(st.integers(min_value=1, max_value=10**13))
def test_a_target_is_written_as_it_is_read(bps: int):
    assert units.parse_rate_bps(units.format_target(bps)) == bps


@pytest.mark.parametrize(
    ("bps", "text"),
    [
        (0, "0 bit/s"),
        (999, "999 bit/s"),
        (1500, "1.5 kbit/s"),
        (10**8, "100 Mbit/s"),
        (10**9, "1 Gbit/s"),
        (2 * 10**12, "2 Tbit/s"),
        (-(10**6), "-1 Mbit/s"),
    ],
)
def test_every_branch_of_the_rate_formatter(bps: int, text: str):
    assert units.format_rate_bps(bps) == text


@pytest.mark.parametrize(("text", "ratio"), [("0", 0.0), ("0.07", 0.07), ("7%", 0.07), ("1", 1.0), ("100 %", 1.0)])
def test_ratios(text: str, ratio: float):
    assert units.parse_ratio(text) == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["", "-0.1", "1.1", "101%", "x", "nan"])
def test_what_is_not_a_ratio_is_refused(text: str):
    with pytest.raises(ValueError):
        units.parse_ratio(text)


def test_what_is_counted_is_one_run_or_several_runs():
    assert [units.counted(number, "run") for number in (0, 1, 2, 1200)] == [
        "0 runs",
        "1 run",
        "2 runs",
        "1\u2009200 runs",
    ]
