"""Widgets made of plain spans of text: no markup is ever parsed, and only changed lines are repainted."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from types import MappingProxyType

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from labconsole.text.cells import THIN_SPACE, safe

# -- lines -------------------------------------------------------------------------------------------------------------
# A span is (text, tone). Tones are classes coloured by the style sheet, so a theme decides and no colour is in code.
# Every segment has its background (Textual 6 and later leave that to line widgets).

Span = tuple[str, str]
LABEL_CELLS = 10
"""Width of the labels of ``field``, after a blank."""

CHARACTERS = 4000
"""Maximum length of one text: foreign nodes and records may send anything."""

TONES = frozenset(
    ("muted", "good", "warn", "bad", "accent", "second", "head", "cursor", "strong", "tab", "key"),
)


def measure_cells(spans: list[Span]) -> int:
    """Measure the width of spans."""
    return sum(cell_len(text) for text, _ in spans)


def justify(left: list[Span], right: list[Span], width: int) -> list[Span]:
    """Put spans at the left and right end of a line."""
    return [*left, (" " * max(1, width - measure_cells(left) - measure_cells(right)), ""), *right]


def field(
    label: str,
    text: str,
    width: int,
    tone: str = "",
    rows: int = 4,
    *,
    label_cells: int = LABEL_CELLS,
    margin: str = " ",
) -> list[list[Span]]:
    """Format a label and a text, continued in its own column. Text beyond ``rows`` is cut, with a mark."""
    room = max(8, width - label_cells - len(margin))
    parts = text[:CHARACTERS].splitlines() or [""]
    wrapped = [row for part in parts for row in textwrap.wrap(safe(part, CHARACTERS), room) or [""]]
    if len(wrapped) > rows:
        wrapped = [*wrapped[: rows - 1], safe(wrapped[rows - 1] + " …", room)]
    return [
        [(f"{margin}{label if i == 0 else '':<{label_cells}}", "head"), (row, tone)] for i, row in enumerate(wrapped)
    ]


def whole_field(label: str, text: str, width: int, tone: str = "") -> list[list[Span]]:
    """Format like ``field``, with the whole text over as many rows as it takes."""
    room = max(8, width - LABEL_CELLS - 1)
    rows = [
        row
        for part in text.splitlines() or [""]
        for wrapped in textwrap.wrap(safe(part, 2 * len(part)), room) or [""]
        for row in chop_cells(wrapped, room) or [""]  # textwrap counts characters, some two cells wide
    ]
    return [[(f" {label if i == 0 else '':<{LABEL_CELLS}}", "head"), (row, tone)] for i, row in enumerate(rows)]


def set_border_titles(widget: Widget, title: str | None, subtitle: str | None = None) -> None:
    """Set border titles as plain text. Textual would parse them as markup and repaint everything each time."""
    for name, text in (("border_title", title), ("border_subtitle", subtitle)):
        if text is not None and widget.__dict__.get(f"entitled_{name}") != text:
            widget.__dict__[f"entitled_{name}"] = text
            setattr(widget, name, Content(safe(text, CHARACTERS)))


class Tones(Widget):
    """Turns spans into strips with the styles of tones (``.lc--*`` in the style sheet).

    A style is looked up when it is first painted. As component classes, Textual would look up all of them whenever it
    styles a widget, painted or not: four fifths of its work at the start.
    """

    _own_style: Style | None = None
    _tones: Mapping[str, Style] = MappingProxyType({})
    _toned_by: Mapping[str, str] | None = None  # the theme's variables of the last lookup

    def notify_style_update(self) -> None:
        """Look styles up again: the theme, the focus or an ancestor changed."""
        super().notify_style_update()
        self._own_style = None
        self._tones = {}
        if self._toned_by is not None and self._toned_by is not self.app.theme_variables:
            self.refresh()  # perhaps only tones changed, which Textual does not see

    def own_style(self) -> Style:
        """A cached ``rich_style``: computing it for every line was a tenth of the console's time."""
        if self._own_style is None:
            self._own_style = self.rich_style
        return self._own_style

    def tone(self, name: str) -> Style:
        """The style of a tone; "" is the widget's own."""
        if not name:
            return self.own_style()
        if name not in self._tones:
            self._tones, self._toned_by = {**self._tones, name: self._look_up(name)}, self.app.theme_variables
        return self._tones[name]

    def _look_up(self, name: str) -> Style:
        if name not in TONES:
            raise KeyError(name)
        inside = DOMNode(classes=f"lc--{name}")
        inside._attach(self)
        self.app.stylesheet.apply(inside)
        return inside.rich_style

    def cursor_style(self) -> Style:
        """The background of the cursor in a focused widget. The text keeps its own colour."""
        return Style(bgcolor=self.tone("cursor").bgcolor)

    def build_strip(self, spans: list[Span], width: int, *, under: Style | None = None) -> Strip:
        """Build one strip of exactly ``width`` cells, over an optional style (the cursor's background)."""
        segments: list[Segment] = []
        used, last = 0, None
        for text, name in spans:
            if not (text.isprintable() or text.replace(THIN_SPACE, " ").isprintable()):
                text = safe(
                    text, 2 * len(text)
                )  # its maker should have cleaned it, but the terminal obeys what comes here
            used += len(text) if text.isascii() else cell_len(text)
            if name == last:  # a change of colour is forty bytes on the line, more than most cells
                segments[-1] = Segment(segments[-1].text + text, segments[-1].style)
                continue
            style = self.tone(name)
            segments.append(Segment(text, style + under if under is not None else style))
            last = name
        base = self.own_style() + under if under is not None else self.own_style()
        return Strip(segments, used).adjust_cell_length(width, base)


class Lines(Tones):
    """A few lines of spans. Subclasses implement ``lines(width)``. ``paint`` repaints those that changed."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: list[list[Span]] = []
        self._painted_width = -1

    def lines(self, width: int) -> list[list[Span]]:
        """The lines to show in ``width`` cells. Each subclass implements it."""
        raise NotImplementedError

    def paint(self) -> None:
        """Compute the lines and repaint those that changed."""
        width = self.size.width
        if not width or not self.is_mounted:
            return
        new = self.lines(width)
        old, self._painted, self._painted_width = self._painted, new, width
        if len(new) != len(old):
            self.refresh(layout=self.styles.is_auto_height)
            return
        for y, (now, before) in enumerate(zip(new, old, strict=True)):
            if now != before:
                self.refresh(Region(0, y, width, 1))

    def repaint(self) -> None:
        """Lay out and paint everything now, or once it becomes visible."""
        self._painted_width = -1
        self.refresh(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Return the number of lines, for an automatic height."""
        return len(self.lines(width))

    def render_line(self, y: int) -> Strip:
        """Render one line. Computes it only if the width changed under a painted picture."""
        width = self.size.width
        if self._painted_width != width:
            self._painted, self._painted_width = self.lines(width), width
        return self.build_strip(self._painted[y] if y < len(self._painted) else [], width)


# -- wrapped lines -----------------------------------------------------------------------------------------------------
# Lines of text as they are, wrapped if too long for the room.


class WrappedLines(Lines):
    """``say`` replaces the text."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.text_lines: list[str] = []

    def say(self, text_lines: list[str]) -> None:
        """Show these lines."""
        self.text_lines = text_lines
        self.paint()
        self.refresh(layout=True)

    def lines(self, width: int) -> list[list[Span]]:
        room = max(8, width - 1)
        return [
            [(safe(row, room), "")]
            for line in self.text_lines
            for row in textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
        ]
