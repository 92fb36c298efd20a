"""Text from nodes loses everything that could act on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.wire.clean import clean, last_line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("grüße 測試 µs", "grüße 測試 µs"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("a\r\nb\tc\x0bd", "a b c d"),
        ("a\x00\x08\x7fb", "ab"),
        ("\u202eabc\u2066\u200b", "abc"),
        ("half \ud800 pair", "half pair"),
        ("cut \x1b[", "cut"),
        (b"bytes \xff", "bytes \ufffd"),
        (None, "None"),
    ],
)
def test_what_acts_on_a_terminal_is_removed(text: object, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert clean("x" * 50, 10) == "x" * 9 + "…"
    assert clean("x" * 10, 10) == "x" * 10


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 50))
def test_cleaned_text_is_one_bounded_printable_line_that_can_be_encoded(text: str, limit: int) -> None:
    line = clean(text, limit)
    assert len(line) <= limit
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in line)
    line.encode("utf-8")
    assert clean(line, limit) == line


def test_the_last_line_that_says_something_is_found() -> None:
    assert last_line(b"Traceback:\n  File\nValueError: no\n\x1b[0m\n\n") == "ValueError: no"
    assert last_line(b"\n \n") == ""
