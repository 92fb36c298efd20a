"""A console's screen as an SVG whose columns hold wherever it is shown.

Textual's own export names a web font and leaves the widths to ``textLength``, which librsvg does not know: every glyph
that the font at hand lacks, or has wider, pushes the rest of its line. Here each word, and each glyph that may come
from another font, stands at the place of its own cell. Cells are as high as the font's box drawing, so lines join.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.app import App

FONT = "DejaVu Sans Mono"
SIZE = 15.0
CELL, LINE, BASELINE = SIZE * 1233 / 2048, SIZE * 2384 / 2048, SIZE * 1901 / 2048
"""As this font has them: advance, ascent + descent, ascent."""

MARGIN = 10.0
WORDS = re.compile(r"[!-~\u2500-\u259f]+|[^ !-~\u2500-\u259f]")
"""What surely has the font's own advance stays together; anything else is a glyph by itself."""

THEME = TerminalTheme((18, 20, 24), (224, 226, 230), [(0, 0, 0)] * 8)


def _hex(color: Color | None, default: str, *, foreground: bool) -> str:
    return default if color is None else color.get_truecolor(THEME, foreground=foreground).hex


def _looks(style: Style, ink: str, paper: str) -> tuple[str, str, str]:
    """Ink, paper and attributes of a style."""
    front, back = _hex(style.color, ink, foreground=True), _hex(style.bgcolor, paper, foreground=False)
    if style.reverse:
        front, back = back, front
    more = ' font-weight="bold"' if style.bold else ""
    more += ' font-style="italic"' if style.italic else ""
    more += ' text-decoration="underline"' if style.underline else ""
    more += ' opacity="0.6"' if style.dim else ""
    return front, back, more


def screen_lines(app: App[object]) -> list[list[Segment]]:
    """What stands on the screen, questions in front of it included."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    segments = list(Segment.filter_control(console._record_buffer))
    return list(Segment.split_and_crop_lines(segments, width, include_new_lines=False))[:height]


def svg(app: App[Any]) -> str:
    """The picture."""
    width, height = app.size
    ink, paper = app.screen.styles.color.hex6, app.screen.styles.background.hex6
    papers, inks = [], []
    for row, segments in enumerate(screen_lines(app)):
        column, top = 0, MARGIN + row * LINE
        for segment in segments:
            front, back, more = _looks(segment.style or Style.null(), ink, paper)
            cells = segment.cell_length
            left = MARGIN + column * CELL
            if back != paper:
                papers.append(
                    f'<rect x="{left:.2f}" y="{top:.2f}" width="{cells * CELL:.2f}" height="{LINE + 0.1:.2f}" fill="{back}"/>'
                )
            for word in WORDS.finditer(segment.text):
                inks.append(
                    f'<text x="{left + word.start() * CELL:.2f}" y="{top + BASELINE:.2f}" fill="{front}"{more}>'
                    f"{escape(word.group())}</text>"
                )
            column += cells
    w, h = 2 * MARGIN + width * CELL, 2 * MARGIN + height * LINE
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" viewBox="0 0 {w:.2f} {h:.2f}">',
            f'<rect width="100%" height="100%" rx="7" fill="{paper}"/>',
            '<g shape-rendering="crispEdges">',
            *papers,
            "</g>",
            f'<g font-family="\'{FONT}\', monospace" font-size="{SIZE:g}">',
            *inks,
            "</g>",
            "</svg>",
            "",
        )
    )
