"""One panel of a report's figure as lines of text, for a terminal: curves, or bars in groups. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from labconsole.contracts.report import Figure, Mark, Panel
from labconsole.text import charts
from labconsole.text.harmless import harmless


def labels_of(figure: Figure) -> list[str]:
    """The curves of all panels, in the order in which they are numbered: each panel's, also where one lacks some."""
    found: list[str] = []
    for panel in figure.panels:
        labels = list(dict.fromkeys(curve.label for curve in panel.curves))
        for place, label in enumerate(labels):
            if label not in found:
                after = next((each for each in labels[place + 1 :] if each in found), None)
                found.insert(len(found) if after is None else found.index(after), label)
    return found


def legend_names(labels: Sequence[str], cells: int) -> list[str]:
    """The curves' names in so many cells each: of longer ones begin and end, as much of both as tells them apart."""
    for end in (cells * 2 // 3, *range(cells - 1, 0, -1)):
        begin = max(0, cells - 1 - end)
        names = [
            each if len(each) <= cells else f"{each[:begin].rstrip()}…{each[len(each) - end :]}" for each in labels
        ]
        if len(set(names)) == len(set(labels)):
            return names
    return list(labels)


def glyph(figure: Figure, number: int) -> str:
    """What a curve's points, or bars, are drawn with."""
    return charts.marker(number) if figure.kind == "curves" else charts.FILLS[number % len(charts.FILLS)]


def marked(figure: Figure) -> str:
    """What stands in its panels beside curves, with its glyph; "" where there is nothing."""
    words = list(dict.fromkeys(what for panel in figure.panels for _, what in panel.levels))
    found = [f"{charts.ACROSS} {', '.join(map(harmless, words))}"] if words else []
    found += [f"{charts.UPRIGHT} change"] if any(panel.changes for panel in figure.panels) else []
    return "   ".join(found)


def reach_beyond_zero(figure: Figure, panel: Panel) -> float:
    """How far along x a panel goes that has marks at 0 alone: as far as the others do; 0: it has further marks."""
    if any(mark.x > 0 for curve in panel.curves for mark in curve.marks):
        return 0.0
    return max((mark.x for each in figure.panels for curve in each.curves for mark in curve.marks), default=0.0)


def panel_heading(figure: Figure, panel: Panel) -> str:
    """Which panel it is, and what its axes are."""
    over = f" over {figure.x_label}" if figure.x_label else ""
    return harmless(f"{panel.title}: {figure.y_label}{over}")


def panel_rows(figure: Figure, panel: Panel, labels: Sequence[str], width: int, height: int) -> list[charts.CurveRow]:
    """Its lines, ``height`` of at most ``width`` cells."""
    scale = math.log10 if figure.y_log else float
    by_label = {curve.label: curve for curve in panel.curves}
    series = [[_point(mark, scale) for mark in by_label[label].marks] if label in by_label else [] for label in labels]
    names = (*map(harmless, panel.change_names), *[""] * len(panel.changes))
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
    )
    if figure.kind == "curves":
        return charts.draw_curves(series, axes, width, height)
    return charts.draw_bars(series, [harmless(name) for name in figure.x_names], axes, width, height)


def _point(mark: Mark, scale: Callable[[float], float]) -> charts.CurvePointMark:
    low, high = (None if bound is None else scale(bound) for bound in (mark.low, mark.high))
    return charts.CurvePointMark(mark.x, scale(mark.y), low, high)


def _decade(value: float) -> str:
    return f"{10**value:g}"


def _axis(value: float) -> str:
    return f"{value:g}"
