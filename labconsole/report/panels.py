"""One panel of a report's figure as lines of text, for a terminal: curves, or bars in groups. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.report import Figure, Panel
from labconsole.text import charts
from labconsole.text.harmless import harmless


def labels_of(figure: Figure) -> list[str]:
    """The curves of all panels, in the order in which they are numbered."""
    return list(dict.fromkeys(curve.label for panel in figure.panels for curve in panel.curves))


def glyph(figure: Figure, number: int) -> str:
    """What a curve's points, or bars, are drawn with."""
    return charts.marker(number) if figure.kind == "curves" else charts.FILLS[number % len(charts.FILLS)]


def panel_heading(figure: Figure, panel: Panel) -> str:
    """Which panel it is, and what its axes are."""
    over = f" over {figure.x_label}" if figure.x_label else ""
    return harmless(f"{panel.title}: {figure.y_label}{over}")


def panel_rows(figure: Figure, panel: Panel, labels: Sequence[str], width: int, height: int) -> list[charts.CurveRow]:
    """Its lines, ``height`` of at most ``width`` cells."""
    by_label = {curve.label: curve for curve in panel.curves}
    series = [
        [charts.CurvePointMark(m.x, m.y, m.low, m.high) for m in by_label[label].marks] if label in by_label else []
        for label in labels
    ]
    axes = charts.CurveAxes(x_words=_axis, y_words=_axis, ideal=figure.kind == "curves" and figure.ideal)
    if figure.kind == "curves":
        return charts.draw_curves(series, axes, width, height)
    return charts.draw_bars(series, [harmless(name) for name in figure.x_names], axes, width, height)


def _axis(value: float) -> str:
    return f"{value:g}"
