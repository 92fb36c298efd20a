"""Intervals on an axis of cells."""

from __future__ import annotations

from labconsole.text.axis import Axis, draw_intervals


def test_of_five_intervals_every_one_is_drawn() -> None:
    axis = Axis(0.0, 10.0, 10, 6)
    bounds = [(20.0 * n, 20.0 * n + 10, True) for n in range(5)]
    row = draw_intervals(axis, bounds, 99.0, "●")
    assert [row.count(end) for end in "├╞┝╟┤╡┥╢●"] == [2, 1, 1, 1, 2, 1, 1, 1, 1]
