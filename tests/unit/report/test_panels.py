"""Figures as lines of text: names of bars that are long, and lines across."""

from __future__ import annotations

from dataclasses import replace

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.report.panels import build_legend_names, collect_labels, describe_marks, draw_panel

LONG = tuple(f"{name}, 256 MiB, CPU own, payload 1472 B" for name in ("container", "lxc", "qemu-virtio", "uml"))


def figure(*levels: tuple[float, str], names: tuple[str, ...] = (), kind: str = "bars") -> Figure:
    marks = tuple(Mark(float(place), 50.0, 49.0, 51.0, 3, 3) for place in range(len(names) or 4))
    panel = Panel("p", (PlottedCurve("payload", marks),), levels=levels)
    return Figure(
        name="f", title="t", kind=kind, x_label="", y_label="y", panels=(panel,), caption="", x_names=names, ideal=False
    )


def lines(of: Figure, width: int, height: int) -> list[str]:
    rows = draw_panel(of, of.panels[0], collect_labels(of), width, height)
    assert len(rows) == height
    found = ["".join(text for text, _ in row) for row in rows]
    assert max(map(len, found)) <= width
    return found


def test_names_of_bars_are_not_cut_where_the_terminal_is_narrow():
    found = lines(figure(names=LONG), 120, 17)
    below = found[[place for place, line in enumerate(found) if "└" in line][-1] + 1 :]
    quarter = 120 // len(LONG)
    for place, name in enumerate(LONG):
        own = " ".join(line.ljust(120)[place * quarter : (place + 1) * quarter + 4].strip() for line in below)
        assert set(name.replace(",", "").split()) <= set(own.replace(",", "").split()), found


def test_below_a_bar_no_number_is_parted_from_its_unit():
    found = lines(figure(names=("container, for 5 s", "lxc, for 5 s", "lxc, for 4 s", "uml, for 5 s")), 80, 17)
    assert sum(line.count("5 s") for line in found) == 3 and "4 s" in "".join(found), found


def test_short_names_take_one_line():
    found = [line for line in lines(figure(names=("a", "b")), 80, 17) if line.strip()]
    assert found[-1].split() == ["a", "b"] and "└" in found[-2]


def test_a_line_across_is_drawn_though_it_lies_above_all_and_is_told():
    for kind in ("bars", "curves"):
        of = figure((95.7, "what the link carries"), names=("a", "b"), kind=kind)
        assert any(line.count("┄") > 30 for line in lines(of, 80, 17)), kind
        assert describe_marks(of) == "┄ what the link carries"
        assert not any("┄" in line for line in lines(figure(names=("a", "b"), kind=kind), 80, 17))


def test_names_that_are_too_long_for_a_legend_differ_where_they_are_cut():
    long = ["sent 60kpps, 256 destinations", "sent 60kpps, 256 destinations, 20 filter rules", "sent max"]
    found = build_legend_names(long, 28)
    assert len(set(found)) == 3 and max(map(len, found)) <= 28 and found[2] == "sent max"
    assert found[0].endswith("256 destinations") and found[1].endswith("20 filter rules")
    middle = [f"in the one and in the {each} and in the very same other" for each in ("left", "right")]
    assert len(set(build_legend_names(middle, 28))) == 2


def test_a_panel_of_one_point_at_zero_goes_as_far_as_the_others():
    near, far = (
        PlottedCurve("a", tuple(Mark(x, 60.0, None, None, 1) for x in places)) for places in ((0.0,), (0.0, 1e4))
    )
    of = replace(figure(kind="curves"), panels=(Panel("one", (near,)), Panel("two", (far,))))
    one, two = (
        [line.split() for line in lines(replace(of, panels=order), 80, 17) if line.strip()][-1]
        for order in (of.panels, of.panels[::-1])
    )
    assert one == two and one[-1] == "10000"
