"""Checks a report's figure before it is drawn, and draws a panel of it as text for a terminal: curves or bars. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.text import charts
from labconsole.text.axis import (
    MOST_CHARACTERS,
    MOST_CURVES,
    MOST_POINTS,
    Undrawable,
    check_count,
    check_number,
    check_span,
    check_text,
)
from labconsole.text.sanitize import single_line

KINDS = ("curves", "bars")
MOST_PANELS, MOST_NAME_CHARACTERS = 400, 300
MOST_NUMBERED = 1e9
"""Largest x that is shown as a number in a row."""

ROUNDING_RATIO = 1e-9
"""An interval's end may miss the value by this share of it."""

FILE_NAME = re.compile(r"\w[\w.-]{0,99}")
"""A name that fits a file, an element of a page and a label in LaTeX."""


def check_figure(figure: Figure) -> Figure:
    """The figure with plain floats. Raises Undrawable naming the first value that no chart can show.

    Values of every numeric type are accepted. Each has to be finite and of a size that an axis can have.
    """
    check_name(figure.name)
    for what in ("title", "x_label", "y_label", "caption", "number"):
        check_text(getattr(figure, what), what, 100 * MOST_CHARACTERS if what == "caption" else MOST_CHARACTERS)
    if figure.kind not in KINDS:
        raise Undrawable(f"kind is {figure.kind!r}; allowed: {', '.join(KINDS)}")
    check_count(figure.panels, "panels", MOST_PANELS)
    check_count(figure.x_names, "x_names", MOST_CURVES)
    for name in figure.x_names:
        check_text(name, "a name of x_names", MOST_NAME_CHARACTERS)
    if not figure.panels or (figure.kind == "bars" and not figure.x_names):
        raise Undrawable(f"{'panels' if not figure.panels else 'x_names'} is empty; allowed: one or more")
    line = figure.reference_line
    line = None if line is None else check_number(line, "reference_line", log=figure.y_log)
    panels = tuple(_checked_panel(figure, panel) for panel in figure.panels)
    marks = [mark for panel in panels for curve in panel.curves for mark in curve.marks]
    if sum(1 + len(mark.dots) for mark in marks) > MOST_POINTS:
        raise Undrawable(f"it has more than {MOST_POINTS} points")
    check_span((mark.x for mark in marks), "x")
    if not figure.y_log:
        check_span((end for mark in marks for end in (mark.y, mark.high or 0.0)), "y")
    return replace(figure, panels=panels, reference_line=line)


def check_name(name: object) -> None:
    """Raises Undrawable for a figure's or a table's name that cannot name a file."""
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise Undrawable(f"name is {str(name)[:40]!r}; allowed: letters, digits, _, - and ., up to 100")


def _checked_panel(figure: Figure, panel: Panel) -> Panel:
    if not isinstance(panel, Panel):
        raise Undrawable(f"a panel is of type {type(panel).__name__}; allowed: Panel")
    check_text(panel.title, "a panel's title")
    for what in ("curves", "changes", "change_names", "levels"):
        check_count(getattr(panel, what), f"{what} of a panel", MOST_CURVES)
    if panel.change_names and len(panel.change_names) != len(panel.changes):
        counts = f"{len(panel.change_names)} names of {len(panel.changes)} changes"
        raise Undrawable(f"panel {panel.title!r} has {counts}; allowed: none, or as many")
    for name in panel.change_names:
        check_text(name, "a change's name")
    levels = []
    for level in panel.levels:
        if len(level) != 2:
            raise Undrawable(f"a level has {len(level)} items; allowed: a height and what it is")
        height, what = level
        check_text(what, "a level's name")
        levels.append((check_number(height, f"level {what!r}", log=figure.y_log), what))
    return replace(
        panel,
        curves=tuple(_checked_curve(figure, curve) for curve in panel.curves),
        levels=tuple(levels),
        changes=tuple(check_number(change, "a change") for change in panel.changes),
    )


def _checked_curve(figure: Figure, curve: PlottedCurve) -> PlottedCurve:
    if not isinstance(curve, PlottedCurve):
        raise Undrawable(f"a curve is of type {type(curve).__name__}; allowed: PlottedCurve")
    check_text(curve.label, "a curve's label")
    check_count(curve.marks, f"marks of curve {curve.label!r}", MOST_POINTS)
    of = f"of curve {curve.label!r}: "
    marks = (_checked_mark(figure, mark, f"point {place} {of}") for place, mark in enumerate(curve.marks, 1))
    return replace(curve, marks=tuple(marks))


def _checked_mark(figure: Figure, mark: Mark, where: str) -> Mark:
    if not isinstance(mark, Mark):
        raise Undrawable(f"{where}of type {type(mark).__name__}; allowed: Mark")
    log = figure.y_log
    x, y = check_number(mark.x, f"{where}x"), check_number(mark.y, f"{where}y", log=log)
    lowest, highest = (0, len(figure.x_names) - 1) if figure.kind == "bars" else (0, MOST_NUMBERED)
    if (figure.kind == "bars" or figure.x_numbered) and not lowest <= x <= highest:
        raise Undrawable(f"{where}x is {x:g}; allowed: {lowest} to {highest:g}")
    if x < 0:
        raise Undrawable(f"{where}x is {x:g}; allowed: 0 or more, where the axis begins")
    low, high = (
        None if end is None else check_number(end, f"{where}{name}", log=log)
        for end, name in ((mark.low, "low"), (mark.high, "high"))
    )
    near = ROUNDING_RATIO * abs(y)
    if (low is not None and low > y + near) or (high is not None and high < y - near):
        raise Undrawable(f"{where}interval {mark.low} to {mark.high} is not around y {y:g}")
    check_count(mark.dots, f"{where}dots", MOST_POINTS)
    check_text(mark.word, f"{where}word")
    return replace(
        mark,
        x=x,
        y=y,
        low=None if low is None else min(low, y),
        high=None if high is None else max(high, y),
        dots=tuple(check_number(dot, f"{where}a dot", log=log) for dot in mark.dots),
    )


def collect_labels(figure: Figure) -> list[str]:
    """The curves of all panels in the order of their numbers: each panel's own order, also if one lacks some."""
    found: list[str] = []
    for panel in figure.panels:
        labels = list(dict.fromkeys(curve.label for curve in panel.curves))
        for place, label in enumerate(labels):
            if label not in found:
                after = next((each for each in labels[place + 1 :] if each in found), None)
                found.insert(len(found) if after is None else found.index(after), label)
    return found


def build_legend_names(labels: Sequence[str], cells: int) -> list[str]:
    """The curves' names in this number of cells each. Longer ones keep both ends, enough to tell them apart."""
    for end in (cells * 2 // 3, *range(cells - 1, 0, -1)):
        begin = max(0, cells - 1 - end)
        names = [
            each if len(each) <= cells else f"{each[:begin].rstrip()}…{each[len(each) - end :]}" for each in labels
        ]
        if len(set(names)) == len(set(labels)):
            return names
    return list(labels)


def glyph(figure: Figure, number: int) -> str:
    """The glyph of a curve's points or bars."""
    return charts.marker(number) if figure.kind == "curves" else charts.FILLS[number % len(charts.FILLS)]


def describe_marks(figure: Figure) -> str:
    """What stands in its panels beside curves, with its glyph; "" where there is nothing."""
    words = list(dict.fromkeys(what for panel in figure.panels for _, what in panel.levels))
    found = [f"{charts.ACROSS} {', '.join(map(single_line, words))}"] if words else []
    found += [f"{charts.UPRIGHT} change"] if any(panel.changes for panel in figure.panels) else []
    return "   ".join(found)


def reach_beyond_zero(figure: Figure, panel: Panel) -> float:
    """How far along x a panel reaches that has marks at 0 alone: as far as the others; 0 if it has further marks."""
    if any(mark.x > 0 for curve in panel.curves for mark in curve.marks):
        return 0.0
    return max((mark.x for each in figure.panels for curve in each.curves for mark in curve.marks), default=0.0)


def format_panel_heading(figure: Figure, panel: Panel) -> str:
    """The name of the panel and its axes."""
    over = f" over {figure.x_label}" if figure.x_label else ""
    return single_line(f"{panel.title}: {figure.y_label}{over}")


def draw_panel(figure: Figure, panel: Panel, labels: Sequence[str], width: int, height: int) -> list[charts.CurveRow]:
    """The panel as ``height`` lines of at most ``width`` cells, or a sentence if the figure cannot be drawn."""
    try:
        check_figure(figure)
    except Undrawable as exc:
        return charts.sentence_rows(f"not drawn: {exc}", width, height)
    scale = math.log10 if figure.y_log else float
    by_label = {curve.label: curve for curve in panel.curves}
    series = [[_point(mark, scale) for mark in by_label[label].marks] if label in by_label else [] for label in labels]
    names = (*map(single_line, panel.change_names), *[""] * len(panel.changes))
    levels = [scale(height) for height, _ in panel.levels]
    levels += [] if figure.reference_line is None else [scale(figure.reference_line)]
    axes = charts.CurveAxes(
        x_ticks=[mark.x for curve in panel.curves for mark in curve.marks] if figure.x_numbered else (),
        x_words=_axis,
        y_words=_decade if figure.y_log else _axis,
        ideal=figure.kind == "curves" and figure.ideal,
        y_least_step=1.0 if figure.y_log else 0.0,
        moments=list(zip(panel.changes, names, strict=False)),
        levels=levels,
        y_top=max(levels, default=-math.inf),
        x_right=reach_beyond_zero(figure, panel),
        joined=figure.joined,
    )
    if figure.kind == "curves":
        return charts.draw_curves(series, axes, width, height)
    return charts.draw_bars(series, [single_line(name) for name in figure.x_names], axes, width, height)


def _point(mark: Mark, scale: Callable[[float], float]) -> charts.CurvePointMark:
    low, high = (None if bound is None else scale(bound) for bound in (mark.low, mark.high))
    return charts.CurvePointMark(mark.x, scale(mark.y), low, high)


def _decade(value: float) -> str:
    return f"{10**value:g}"


def _axis(value: float) -> str:
    return f"{value:g}"
