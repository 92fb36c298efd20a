"""What a figure's axes say: titles in lines, ticks at counts, bars where they belong."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.report import draw


def figure(panels: tuple[Panel, ...], *, kind: str = "curves", names: tuple[str, ...] = ()) -> Figure:
    return Figure(
        name="f", title="A figure", kind=kind, x_label="guests", y_label="s", panels=panels, caption="", x_names=names
    )


def axes_of(drawn: Figure) -> list[Any]:
    from matplotlib import pyplot

    canvas = draw._canvas(drawn, pyplot)
    canvas.canvas.draw()
    pyplot.close(canvas)
    return list(canvas.axes)


def curve(label: str, *places: float) -> PlottedCurve:
    return PlottedCurve(label, tuple(Mark(place, 1.0, None, None, 1) for place in places))


@pytest.mark.parametrize(
    ("places", "whole"), [((1, 2), True), ((1, 2, 4), True), ((0.5, 1.5), False), ((1, 64, 1500), None)]
)
def test_ticks_are_whole_numbers_where_x_counts_something(places: tuple[float, ...], whole: bool | None):
    (ax,) = axes_of(figure((Panel("p", (curve("lxc", *places),)),)))
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    if whole is not None:
        assert all(float(tick).is_integer() for tick in ticks) is whole


def test_a_long_title_of_a_panel_stands_in_lines_no_wider_than_the_panel():
    long = "memory-set (64 MiB) in one guest of 256 MiB each, Linux 6.18.5, on wuerzburg"
    for ax in axes_of(figure((Panel(long, (curve("lxc", 1, 2),)), Panel("short", (curve("lxc", 1),))))):
        lines = ax.get_title().splitlines()
        assert " ".join(lines) in (long, "short")
        assert max(map(len, lines)) <= 42


def test_bars_of_a_panel_stand_around_their_place_whatever_other_panels_have():
    panels = (
        Panel("both", (curve("lxc", 0), curve("uml", 0))),
        Panel("one", (curve("uml", 0),)),
    )
    both, one = axes_of(figure(panels, kind="bars", names=("a",)))
    centres = [bar.get_x() + bar.get_width() / 2 for bar in both.patches]
    assert sum(centres) == pytest.approx(0)
    (bar,) = one.patches
    assert bar.get_x() + bar.get_width() / 2 == pytest.approx(0)
    assert bar.get_facecolor() == both.patches[1].get_facecolor(), "one name, one colour"
