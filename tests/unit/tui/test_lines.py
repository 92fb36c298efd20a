"""A field's text is cut after the rows that it has, with one ellipsis."""

from __future__ import annotations

import pytest

from labconsole.tui.parts.lines import field


@pytest.mark.parametrize(
    ("second", "shown"),
    [("two", "two …"), ("t" * 8, "t" * 8 + " …"), ("t" * 9, "t" * 9 + "…"), ("t" * 10, "t" * 9 + "…")],
)
def test_what_is_cut_ends_in_one_ellipsis(second: str, shown: str) -> None:
    rows = field("a", f"{'o' * 10} {second}\nmore", 20, rows=2, label_cells=9)
    assert [row[1][0] for row in rows] == ["o" * 10, shown]
