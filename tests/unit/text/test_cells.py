"""Numbers and foreign words as cells; sparklines and scales."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from labconsole.text.cells import (
    fit_ends,
    fit_parts,
    format_decimal,
    format_duration,
    format_percent,
    format_rounded,
    safe,
    scale_top,
    sparkline,
)


@given(st.text(max_size=300), st.integers(min_value=1, max_value=40))
def test_any_text_becomes_printable_and_never_wider_than_asked(text: str, width: int) -> None:
    for shown in (safe(text, width), fit_parts(text, width), fit_ends((text,), width)):
        assert cell_len(shown) <= width
        assert "\x1b" not in shown
        assert all(c.isprintable() or c == "\u2009" for c in shown)


def test_an_escape_sequence_in_a_name_is_shown_harmlessly() -> None:
    assert safe("eth\x1b[31m0\n", 20) == "eth·[31m0·"


def test_a_ten_kilobyte_name_is_cut_and_marked() -> None:
    assert safe("x" * 10_000, 8) == "xxxxxxx…"


def test_wide_characters_are_cut_by_cells() -> None:
    assert cell_len(safe("測定測定測定", 7)) <= 7


def test_thousands_are_set_apart_by_thin_spaces_one_cell_wide() -> None:
    assert format_rounded(14_880_952) == "14\u2009880\u2009952"
    assert cell_len(format_rounded(14_880_952)) == 10
    assert format_decimal(1234.5, 2) == "1\u2009234.50"


def test_what_is_not_known_is_a_dash_and_not_a_zero() -> None:
    assert format_rounded(None) == format_decimal(None, 2) == format_percent(None) == "–"


def test_a_small_loss_never_reads_as_none() -> None:
    assert format_percent(0.0) == "0.000"
    assert format_percent(1e-7) == "<0.001"
    assert format_percent(0.07) == "7.000"


def test_lengths_of_time_read_naturally() -> None:
    assert [format_duration(s) for s in (0, 4.2, 65, 3700)] == ["0 s", "5 s", "1 min 05 s", "1 h 01 min"]


def test_scales_are_round_and_do_not_fall_below_the_data() -> None:
    assert scale_top([142_045]) == 200_000
    assert scale_top([100]) == 100
    assert scale_top([]) == 1


def test_only_zero_has_the_lowest_bar_and_a_missing_sample_has_none() -> None:
    assert sparkline([None, 0, 1, 50, 100], 100) == " ▁▂▅█"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "95.71 Mbit/s, g1 47.86; Jain 0.9999"),
        (35, "95.71 Mbit/s, g1 47.86; Jain 0.9999"),
        (34, "95.71 Mbit/s, g1 47.86 …"),
        (24, "95.71 Mbit/s, g1 47.86 …"),
        (23, "95.71 Mbit/s …"),
        (13, "95.71 Mbit/s"),
        (12, "95.71 Mbit/s"),
        (11, "95.71 Mbit…"),
        (0, ""),
    ],
)
def test_parts_stand_whole_as_long_as_one_does(width: int, shown: str) -> None:
    assert fit_parts("95.71 Mbit/s, g1 47.86; Jain 0.9999", width) == shown


def test_of_a_long_sentence_begin_and_end_are_shown_as_its_reason_comes_last() -> None:
    words = "snk3 failed: the SSH configuration /home/lab/.ssh/config cannot be read: permission denied"
    assert fit_ends((words, "snk3 failed: permission denied"), 60) == "snk3 failed: permission denied"
    shown = fit_ends((words,), 60)
    assert shown.startswith("snk3 failed: the SSH ") and shown.endswith("read: permission denied")
    assert cell_len(shown) <= 60 and "…" in shown
