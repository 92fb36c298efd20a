"""A field's text is cut after the rows that it has, with one ellipsis; a command is never cut."""

from __future__ import annotations

import pytest

from labconsole.tui.parts.lines import field, measure_cells, whole_field


@pytest.mark.parametrize(
    ("second", "shown"),
    [("two", "two …"), ("t" * 8, "t" * 8 + " …"), ("t" * 9, "t" * 9 + "…"), ("t" * 10, "t" * 9 + "…")],
)
def test_what_is_cut_ends_in_one_ellipsis(second: str, shown: str) -> None:
    rows = field("a", f"{'o' * 10} {second}\nmore", 20, rows=2, label_cells=9)
    assert [row[1][0] for row in rows] == ["o" * 10, shown]


@pytest.mark.parametrize("word", ["phrase", "広" * 40, "x" * 9000, "a\nb", "\x1b[2J"])
def test_a_command_is_shown_to_its_last_character(word: str) -> None:
    command = " ".join([word] * 30 + ["echo TAIL"])
    rows = whole_field("pre", command, 40, "warn")
    shown = "".join(row[1][0] for row in rows)
    assert shown.replace(" ", "") == "".join(command.split()).replace("\x1b", "·")
    assert all(measure_cells(row) <= 40 for row in rows)
