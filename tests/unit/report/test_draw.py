"""What a figure's axes say: titles in lines, ticks at counts, bars where they belong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.report import figure_drawing


def figure(panels: tuple[Panel, ...], *, kind: str = "curves", names: tuple[str, ...] = ()) -> Figure:
    return Figure(
        name="f", title="A figure", kind=kind, x_label="guests", y_label="s", panels=panels, caption="", x_names=names
    )


def axes_of(drawn: Figure) -> list[Any]:
    from matplotlib import pyplot

    canvas = figure_drawing._canvas(drawn, pyplot)
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


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_a_line_across_is_drawn_with_its_words_and_looks_the_same_in_every_panel(kind: str):
    curves = (curve("lxc", 0, 1),)
    panels = (
        Panel("p", curves, levels=((30.0, "limit"),)),
        Panel("q", curves, levels=((40.0, "link"), (20.0, "limit"))),
    )
    drawn = [
        {
            line.get_label(): (line.get_ydata()[0], line.get_linestyle())
            for line in ax.get_lines()
            if line.get_label() in ("limit", "link")
        }
        for ax in axes_of(figure(panels, kind=kind, names=("a", "b")))
    ]
    assert drawn[0]["limit"] == (30.0, drawn[1]["limit"][1]) and drawn[1]["limit"][0] == 20.0
    assert drawn[1]["link"] == (40.0, drawn[1]["link"][1]) and drawn[1]["link"][1] != drawn[1]["limit"][1]
    assert all(ax.get_ylim()[1] > 30 for ax in axes_of(figure(panels, kind=kind, names=("a", "b"))))


@pytest.mark.parametrize("many", [1, 4, 8])
def test_long_names_of_bars_take_no_room_from_the_bars_and_do_not_overlap(many: int):
    names = tuple(f"qemu-virtio-{place}, 256 MiB, CPU own, payload 1472 B, on wuerzburg" for place in range(many))
    bars = (curve("payload", *range(many)),)
    for ax in axes_of(figure((Panel("from", bars), Panel("to", bars)), kind="bars", names=names)):
        labels = ax.get_xticklabels()
        assert [" ".join(label.get_text().split()) for label in labels] == list(names)
        found = [label.get_window_extent() for label in labels]
        assert all(left.x1 < right.x0 for left, right in zip(found, found[1:], strict=False))
        assert ax.get_window_extent().width > 0.6 * ax.figure.get_window_extent().width / 2


def test_a_number_is_not_parted_from_its_unit():
    title = figure_drawing._wrapped("container, CPU own, for 10 s, in bins of 1 s, no limit, 2 flows to one", 4.2)
    assert "1 s," in title and "10 s," in title and not [line for line in title.splitlines() if line.endswith(" 1")]


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


def test_a_marker_at_zero_is_seen_whole_also_where_it_is_all_that_a_panel_has():
    one, two = axes_of(figure((Panel("one", (curve("a", 0.0),)), Panel("two", (curve("a", 0.0, 1000.0),)))))
    for ax in (one, two):
        low, high = ax.get_xlim()
        assert low < 0 and high >= 1000, "room to the left of it, and the place where the other panel has it"
        assert not ax.get_lines()[1].get_clip_on()
    (above,) = axes_of(figure((Panel("p", (curve("a", 1.0, 4.0),)),)))
    assert above.get_xlim()[0] == 0


def test_a_place_without_a_bar_has_room_as_others_have():
    panels = (Panel("p", (curve("each", 0),)), Panel("q", (curve("each", 1),)))
    for ax in axes_of(figure(panels, kind="bars", names=("container", "lxc"))):
        assert ax.get_xlim() == (-0.5, 1.5)


def test_a_long_legend_takes_no_room_from_the_panels():
    def height(many: int) -> float:
        curves = tuple(curve(f"{place} routes, 256 destinations, 60kpps: sent", 1, 2) for place in range(many))
        ax, _ = axes_of(figure((Panel("p", curves), Panel("q", curves))))
        return float(ax.get_window_extent().height)

    assert height(12) > 0.9 * height(4)


@pytest.mark.parametrize("places", [(1, 2), (1.001, 1.999)], ids=["one load", "loads as offered"])
def test_of_curves_that_agree_the_one_beneath_is_seen(places: tuple[float, float]):
    (ax,) = axes_of(figure((Panel("p", (curve("raw", 1, 2), curve("lxc", *places))),)))
    below, above = (bars.lines[0] for bars in ax.containers)
    assert (below.get_linestyle(), above.get_linestyle()) == ("-", "--")
    assert (below.get_markerfacecolor(), above.get_markerfacecolor()) == ("#000000", "none")


def test_points_that_are_not_joined_stand_side_by_side():
    made = replace(figure((Panel("p", (curve("raw", 10, 100), curve("lxc", 10, 100))),)), joined=False)
    (ax,) = axes_of(made)
    one, other = (bars.lines[0] for bars in ax.containers)
    assert one.get_linestyle() == other.get_linestyle() == "None"
    assert [round(x, 6) for x in one.get_xdata()] == [9.4, 99.4]
    assert [round(x, 6) for x in other.get_xdata()] == [10.6, 100.6]
    assert ax.get_xlim()[0] < 0


def test_a_picture_of_dots_has_a_bounded_number_of_them():
    assert figure_drawing._dpi(8.4, 6.6) == figure_drawing.PNG_DPI
    for wide, high in ((300.0, 200.0), (2000.0, 3.0)):
        dpi = figure_drawing._dpi(wide, high)
        assert wide * high * dpi**2 <= figure_drawing.MOST_PIXELS * 1.0001
        assert max(wide, high) * dpi <= figure_drawing.MOST_SIDE * 1.0001
