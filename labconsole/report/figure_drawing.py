"""Figures as SVG, PDF and PNG by matplotlib, which is an extra (text/extras.py).

Colour-blind readers can distinguish Okabe and Ito's eight colours. Markers, line styles and hatches also distinguish
the curves in grey. No file contains its creation time: the same runs give the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.errors import ConfigError
from labconsole.report.panels import check_figure, reach_beyond_zero
from labconsole.text.cells import wrap_text
from labconsole.text.extras import build_install_command
from labconsole.text.sanitize import escape_figure_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999")
BARS = ("#BBBBBB", *COLOURS[1:])
"""The same colours for the same platforms, except black, which would hide hatches and error bars."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
HIDING_DASHES = (0, (4, 4))
"""Dashes of a line that hides another, which shows in its gaps."""

SIDE_BY_SIDE_RATIO = 0.012
"""Distance along x between points side by side, as a share of the panel's range."""

LEVEL_DASHES = ("--", "-.", (0, (6, 1)), (0, (1, 3)))
COVERED_RATIO = 0.02
"""Marks closer than this hide each other, as a share of the range of a panel's curves."""

HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "***")
FORMATS = ("svg", "pdf", "png")
PNG_DPI, MOST_PIXELS, MOST_SIDE = 150, 64_000_000, 60_000
TITLE_CHARACTERS_PER_INCH = 10
LEGEND_GLYPH_INCHES, LEGEND_INCHES_PER_CHARACTER = 0.5, 0.075
LEGEND_ROWS, LEGEND_ROW_INCHES = 2, 0.2
"""Legend rows that fit into a figure; each further one makes it higher by these inches."""

BARS_MARGIN_INCHES, SIDE_BY_SIDE_INCHES = 0.9, 7.0
NAME_CHARACTERS_PER_INCH, MOST_NAME_LINES, MOST_SLANTED = 11, 4, 16
MARGIN_RATIO = 0.05
MOST_COUNTED = 20
"""Up to here whole numbers along x are counts, such as sources and guests, with a tick for each."""


def require_matplotlib() -> Any:
    """matplotlib with a canvas that needs no screen. Raises ConfigError naming what to install."""
    try:
        import matplotlib
    except ImportError:
        raise ConfigError(
            f"figures in files need matplotlib: {build_install_command('report')}; figures and tables in the "
            "terminal do not (labconsole report without --out)"
        ) from None
    matplotlib.use("agg")
    return matplotlib


def draw_figure(figure: Figure, formats: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """Draw one figure as the contents of files, by format. Raises Undrawable if it has a value that cannot be drawn."""
    figure = _escape_figure(check_figure(figure))
    matplotlib = require_matplotlib()
    from matplotlib import pyplot

    style = {
        "svg.hashsalt": "labconsole",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "hatch.linewidth": 0.5,
    }
    with matplotlib.rc_context(style):
        canvas = _canvas(figure, pyplot)
        drawn = {}
        for suffix in formats:
            out = io.BytesIO()
            canvas.savefig(out, format=suffix, dpi=_dpi(*canvas.get_size_inches()), metadata=_no_date(suffix))
            drawn[suffix] = out.getvalue()
        pyplot.close(canvas)
    return drawn


def _dpi(wide_inches: float, high_inches: float) -> float:
    """PNG_DPI, or less for a figure that would be too large for the memory."""
    return min(PNG_DPI, math.sqrt(MOST_PIXELS / (wide_inches * high_inches)), MOST_SIDE / max(wide_inches, high_inches))


def _escape_figure(figure: Figure) -> Figure:
    """The figure with every text escaped so that matplotlib shows it literally.

    No text is a formula, has a character forbidden in SVG, or is a label that a legend leaves out.
    """
    plain = escape_figure_text
    panels = tuple(
        Panel(
            plain(panel.title),
            tuple(
                PlottedCurve(plain(curve.label), tuple(replace(mark, word=plain(mark.word)) for mark in curve.marks))
                for curve in panel.curves
            ),
            panel.changes,
            tuple(map(plain, panel.change_names)),
            tuple((height, plain(what)) for height, what in panel.levels),
        )
        for panel in figure.panels
    )
    return replace(
        figure,
        title=plain(figure.title),
        x_label=plain(figure.x_label),
        y_label=plain(figure.y_label),
        panels=panels,
        x_names=tuple(map(plain, figure.x_names)),
    )


def _canvas(figure: Figure, pyplot: Any) -> Any:
    wide = 4.2 if figure.kind == "curves" else _bars_inches(figure.x_names)
    columns = min(2 if wide <= SIDE_BY_SIDE_INCHES else 1, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    wide = wide if columns > 1 else max(5.6, wide)
    high = 3.0 * rows + 0.6
    canvas, grid = pyplot.subplots(rows, columns, figsize=(wide * columns, high), squeeze=False, layout="constrained")
    axes = list(grid.flat)
    for panel, ax in zip(figure.panels, axes, strict=False):
        (_curves if figure.kind == "curves" else _bars)(figure, panel, ax)
        if figure.kind == "bars":
            _name_bars(figure.x_names, ax, wide)
        ax.set_title(_wrapped(panel.title, wide))
    for ax in axes[len(figure.panels) :]:
        ax.remove()
    handles: dict[str, Any] = dict.fromkeys(_labels(figure))  # curves before lines to compare them with
    for ax in axes[: len(figure.panels)]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles[label] = handles.get(label) or handle
    handles = {label: handle for label, handle in handles.items() if handle}
    longest = max(map(len, handles), default=0)
    fit = int(wide * columns / (LEGEND_GLYPH_INCHES + LEGEND_INCHES_PER_CHARACTER * longest))
    legend_columns = max(1, min(3, len(handles), fit))
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=legend_columns)
    further = max(0, -(-len(handles) // legend_columns) - LEGEND_ROWS)
    canvas.set_figheight(high + further * LEGEND_ROW_INCHES)  # a long legend takes no room from the panels
    canvas.suptitle(_wrapped(figure.title, wide * columns))
    return canvas


def _wrapped(title: str, inches: float) -> str:
    """Wrap a title to the width of its panel."""
    return "\n".join(wrap_text(title, max(30, round(TITLE_CHARACTERS_PER_INCH * inches))))


def _no_date(suffix: str) -> dict[str, None]:
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix, {})


def _labels(figure: Figure) -> list[str]:
    """Labels in the figure's own order, so that a platform looks the same in every panel."""
    return list(dict.fromkeys(curve.label for panel in figure.panels for curve in panel.curves))


def _errors(marks: tuple[Mark, ...]) -> list[list[float]] | None:
    if all(mark.low is None for mark in marks):
        return None
    low = [math.nan if m.low is None else m.y - m.low for m in marks]  # a bar of no length would be an interval
    high = [math.nan if m.high is None else m.high - m.y for m in marks]
    return [low, high]


def _hides(panel: Panel, curve: PlottedCurve) -> bool:
    """Whether this curve's marks would cover those of a curve that is drawn before it."""
    marks = [mark for each in panel.curves for mark in each.marks]
    near_x = COVERED_RATIO * max((abs(mark.x) for mark in marks), default=0.0)
    near_y = COVERED_RATIO * max((abs(mark.y) for mark in marks), default=0.0)
    under = [mark for each in panel.curves[: panel.curves.index(curve)] for mark in each.marks]
    return any(abs(mark.x - m.x) <= near_x and abs(mark.y - m.y) <= near_y for mark in curve.marks for m in under)


def _curves(figure: Figure, panel: Panel, ax: Axes) -> None:
    labels = _labels(figure)
    reach = max((mark.x for curve in panel.curves for mark in curve.marks), default=0.0)
    if figure.ideal:
        top = max((mark.x for curve in panel.curves for mark in curve.marks), default=1.0)
        ax.plot([0, top], [0, top], color="0.7", linewidth=0.8, zorder=0)  # no loss
    for curve in panel.curves:
        place = labels.index(curve.label)
        hides, dash = _hides(panel, curve), DASHES[place // len(COLOURS) % len(DASHES)]
        shift = 0.0 if figure.joined else (place - (len(labels) - 1) / 2) * SIDE_BY_SIDE_RATIO * reach
        drawn = ax.errorbar(
            [mark.x + shift for mark in curve.marks],
            [mark.y for mark in curve.marks],
            yerr=_errors(curve.marks),
            label=curve.label,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            linestyle="none" if not figure.joined else HIDING_DASHES if hides and dash == "-" else dash,
            markersize=4,
            markerfacecolor="none" if hides and figure.joined else None,
            linewidth=1,
            capsize=2,
        )
        if all(mark.y >= 0 for mark in curve.marks):
            drawn[0].set_clip_on(False)  # a marker at 0 shows whole, though the axis begins there
        _dots(ax, [(mark.x + shift, mark.dots) for mark in curve.marks], COLOURS[place % len(COLOURS)])
        for mark in curve.marks:
            if mark.word:
                ax.annotate(
                    mark.word,
                    (mark.x, mark.y),
                    xytext=(3, -7),
                    textcoords="offset points",
                    fontsize="x-small",
                    color=COLOURS[place % len(COLOURS)],
                )
    for number, change in enumerate(panel.changes):
        ax.axvline(change, color="0.35", linewidth=1, linestyle=":", zorder=0, label="" if number else "change")
    for change, name in zip(panel.changes, panel.change_names, strict=False):
        ax.annotate(
            name,
            (change, 0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 2),
            textcoords="offset points",
            fontsize="x-small",
            color="0.2",
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.5},
        )
    _levels(figure, panel, ax)
    ax.set(xlabel=figure.x_label, ylabel=figure.y_label)
    places = [mark.x for curve in panel.curves for mark in curve.marks]
    counted = all(float(place).is_integer() for place in places) and max(places, default=0) <= MOST_COUNTED
    if counted or figure.x_numbered:
        ax.locator_params(axis="x", integer=True)
    if not figure.x_numbered:
        ax.set_xlim(*_derive_x_limits(figure, panel))
    if figure.y_log:
        ax.set_yscale("log")
    elif figure.from_zero:
        _set_y_limits(ax)


def _derive_x_limits(figure: Figure, panel: Panel) -> tuple[float, float | None]:
    """Limits along x: from zero, with room to the left of the marks. The right one is None to let the marks set it. A
    panel with marks at zero alone reaches as far as the other panels.
    """
    places = [mark.x for curve in panel.curves for mark in curve.marks]
    alone = max(places, default=0.0) <= 0
    reach = reach_beyond_zero(figure, panel) or 1.0 if alone else max(places)
    return (-MARGIN_RATIO * reach if 0 in places or not figure.joined else 0.0), (
        (1 + MARGIN_RATIO) * reach if alone else None
    )


def _levels(figure: Figure, panel: Panel, ax: Axes) -> None:
    """Draw the levels; each looks the same in every panel."""
    known = list(dict.fromkeys(what for each in figure.panels for _, what in each.levels))
    for height, what in panel.levels:
        dashes = LEVEL_DASHES[known.index(what) % len(LEVEL_DASHES)]
        ax.axhline(height, color="0.35", linewidth=0.9, linestyle=dashes, zorder=1.5, label=what)


def _set_y_limits(ax: Axes) -> None:
    """Add room above in proportion to the range of the values, which may be small compared with the values."""
    top = max(ax.get_ylim()[1], (1 + MARGIN_RATIO) * ax.dataLim.y1)
    ax.set_ylim(0, top if math.isfinite(top) and top > 0 else None)


def _dots(ax: Axes, found: Sequence[tuple[float, tuple[float, ...]]], colour: str) -> None:
    """Draw the set-ups' means behind a mean."""
    places = [(x, y) for x, dots in found for y in dots]
    if places:
        x, y = zip(*places, strict=True)
        ax.plot(x, y, linestyle="none", marker=".", markersize=2.5, color=colour, alpha=0.45, zorder=3)


def _bars(figure: Figure, panel: Panel, ax: Axes) -> None:
    labels, present = _labels(figure), {curve.label for curve in panel.curves}
    side_by_side = [label for label in labels if label in present]
    width = 0.8 / max(1, len(side_by_side))
    for curve in panel.curves:
        place = labels.index(curve.label)
        shift = (side_by_side.index(curve.label) - (len(side_by_side) - 1) / 2) * width
        ax.bar(
            [mark.x + shift for mark in curve.marks],
            [mark.y for mark in curve.marks],
            width,
            yerr=_errors(curve.marks),
            label=curve.label,
            color=BARS[place % len(BARS)],
            hatch=HATCHES[place % len(HATCHES)],
            edgecolor="black",
            linewidth=0.5,
            capsize=2,
        )
        _dots(ax, [(mark.x + shift, mark.dots) for mark in curve.marks], "black")
    _levels(figure, panel, ax)
    if figure.reference_line is not None:
        ax.axhline(figure.reference_line, color="black", linewidth=0.8)
    ax.set(xlabel=figure.x_label, ylabel=figure.y_label)
    ax.set_xlim(-0.5, max(1, len(figure.x_names)) - 0.5)  # room for each name, also if this panel has no bar of it
    _set_y_limits(ax)


def _bars_inches(names: Sequence[str]) -> float:
    """Width of a panel; names that are too long to be slanted get room below their bars."""
    inches = max(4.2, BARS_MARGIN_INCHES + 0.55 * len(names))
    longest = max(map(len, names), default=0)
    if longest <= MOST_SLANTED:
        return inches
    room = next(room for room in range(1, longest + 1) if _wrap_names(names, room))
    return max(inches, BARS_MARGIN_INCHES + len(names) * (room + 1) / NAME_CHARACTERS_PER_INCH)


def _wrap_names(names: Sequence[str], room: int) -> list[str]:
    """Wrap each name to a few lines of ``room`` characters; empty if that would break a word."""
    lines = [wrap_text(name, room, break_long_words=False, break_on_hyphens=False) for name in names]
    fit = all(len(of) <= MOST_NAME_LINES and max(map(len, of), default=0) <= room for of in lines)
    return ["\n".join(of) for of in lines] if fit else []


def _name_bars(names: Sequence[str], ax: Axes, inches: float) -> None:
    """Put the names in lines below the bars, or slanted."""
    room = int((inches - BARS_MARGIN_INCHES) / max(1, len(names)) * NAME_CHARACTERS_PER_INCH)
    if lines := _wrap_names(names, max(1, room)):
        ax.set_xticks(range(len(names)), lines)
        return
    ax.set_xticks(range(len(names)), names)
    ax.tick_params(axis="x", labelrotation=20)
    for label in ax.get_xticklabels():
        label.set(horizontalalignment="right", rotation_mode="anchor")  # a name ends at its bars
