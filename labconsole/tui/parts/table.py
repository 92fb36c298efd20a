"""The instrument's table: fixed column widths, a cursor that stays on its row's key, only changed lines repainted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Span, Tones

# -- table -------------------------------------------------------------------------------------------------------------
# A ScrollView over the line API, because Textual's DataTable invalidates every visible cell when one changes: at 55
# rows and 10 Hz this costs a tenth of it (measured 6.5 ms a frame against 70). Columns leave by rank if room is short.
# Spare room goes to the columns that can grow (sparklines).

GUTTER = 2
"""Cells left of the first column, for the cursor's mark, so that the cursor does not depend on colour."""


@dataclass(frozen=True, slots=True)
class Column:
    """``name`` picks the method ``cell_<name>(key, width)``. Rank 0 always stays, the highest rank leaves first."""

    name: str
    title: str
    width: int
    right: bool = True
    rank: int = 0
    grow_to: int = 0


def fit_columns(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit in ``width`` with one cell between them, and how wide each is."""
    kept = list(columns)

    def needed() -> int:
        return sum(c.width + 1 for c in kept)

    while needed() > width and any(c.rank for c in kept):
        worst = max(c.rank for c in kept)
        kept.remove(next(c for c in reversed(kept) if c.rank == worst))
    widths = {c.name: c.width for c in kept}
    spare = width - needed()
    growing = [c for c in kept if c.grow_to > c.width]
    while spare > 0 and growing:
        share = max(1, spare // len(growing))
        for column in list(growing):
            more = min(share, spare, column.grow_to - widths[column.name])
            widths[column.name] += more
            spare -= more
            if widths[column.name] >= column.grow_to:
                growing.remove(column)
    return [(c, widths[c.name]) for c in kept]


class LineTable(HasActions, ScrollView, Tones, can_focus=True):
    """A table of keys. Subclasses provide COLUMNS, ``keys()`` and one ``cell_`` method per column."""

    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    EMPTY: ClassVar[str] = ""
    ACTIONS: ClassVar[Sequence[Action]] = (
        Action(
            "up,k",
            "cursor(-1)",
            "Row up",
            "Go one row up; among streams, the chart follows.",
            id="row-up",
            shown=False,
            common=True,
        ),
        Action("down,j", "cursor(1)", "Row down", "Go one row down.", id="row-down", shown=False, common=True),
        Action("pageup,ctrl+u", "cursor_page(-1)", "Page up", "Go a page up.", id="page-up", shown=False, common=True),
        Action(
            "pagedown,ctrl+d",
            "cursor_page(1)",
            "Page down",
            "Go a page down.",
            id="page-down",
            shown=False,
            common=True,
        ),
        Action(
            "home", "cursor_edge(-1)", "First row", "Go to the first row.", id="row-first", shown=False, common=True
        ),
        Action("end,G", "cursor_edge(1)", "Last row", "Go to the last row.", id="row-last", shown=False, common=True),
    )

    @dataclass
    class Chosen(Message):
        """The cursor moved to another row."""

        table: LineTable
        key: Any

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineTable.Chosen) and message.table is self.table

        @property
        def control(self) -> LineTable:
            return self.table

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._keys: list[Any] = []
        self._layout: list[tuple[Column, int]] = []
        self._edges: list[int] = [GUTTER]  # where each column begins, and where the last one ends
        self._cells: dict[Any, list[Span]] = {}
        self._painted_header: list[Span] = []
        self._room = 0
        self._rows_painted = 0  # rows that the last picture had room for
        self._steered = False  # until the operator moves it, the cursor stays on the first row
        self._columns: tuple[Column, ...] = ()
        self.cursor_key: Any = None

    def keys(self) -> Sequence[Hashable]:
        """The rows, in order."""
        raise NotImplementedError

    def columns(self) -> tuple[Column, ...]:
        """The present columns, always the same object for the same columns."""
        return self.COLUMNS

    def prepare(self) -> None:
        """Prepare data that all rows share, such as the scale. Called once before cells are computed."""

    def header_title(self, column: Column, width: int) -> str:
        """A column's title. Subclasses may add a present property (a scale)."""
        return column.title

    @property
    def cursor_index(self) -> int:
        """The row of the cursor, or 0 if its row has gone."""
        try:
            return self._keys.index(self.cursor_key)
        except ValueError:
            return 0

    @property
    def allow_horizontal_scroll(self) -> bool:
        """Never: columns are chosen for the room. Textual finds them too wide for a moment while a bar appears.

        In that moment the table would take a press of the right key from the screen that binds it.
        """
        return False

    def paint(self) -> None:
        """Compute the rows and repaint the lines that changed."""
        if not self.is_mounted:
            return
        keys = list(self.keys())
        if not self.size.width or not self.display:
            # Textual may draw the first picture before ``paint``: no row may be one that has gone.
            self._keys, self._room, self._rows_painted = keys, 0, 0
            self._cells.clear()
            return
        resized = self._keys != keys or self._room != self._measure_room(len(keys))
        resized = resized or self._columns is not self.columns() or self._rows_painted != self.size.height - 1
        if resized:
            line = self._cursor_line()
            self._keys = keys
            if keys and (self.cursor_key not in keys or not self._steered):
                self._put_cursor(keys[0])
            self._choose_columns()
            if line is not None and self.cursor_key in keys and self._steered:
                # Rows moved: the one under the cursor stays where the eye is, the others move around it.
                self.scroll_to(y=max(0, self.cursor_index - line), animate=False, force=True)
                self._bring_into_view()  # the room may have become smaller
        self._rows_painted = self.size.height - 1
        self.prepare()
        header = self._header()
        dirty: list[tuple[int, int, int]] = [(0, 0, self.size.width)] if header != self._painted_header else []
        self._painted_header = header
        for y in range(1, self.size.height):
            key = self._key_at(y)
            if key is None:
                break
            cells, before = self._row(key), self._cells.get(key)
            if before != cells:
                self._cells[key] = cells
                dirty.append((y, *self._changed_part(before, cells)))
        if resized:
            self.refresh()
        elif len(dirty) * 2 > self.size.height:
            # One rectangle around all changes: cheaper than many, and names, states and totals stay outside it.
            left, right = min(d[1] for d in dirty), max(d[2] for d in dirty)
            self.refresh(Region(left, dirty[0][0], right - left, dirty[-1][0] - dirty[0][0] + 1))
        else:
            for y, left, right in dirty:
                self.refresh(Region(left, y, right - left, 1))

    def _changed_part(self, before: list[Span] | None, cells: list[Span]) -> tuple[int, int]:
        """The range in which a row differs from what was painted."""
        if before is None or len(before) != len(cells):
            return 0, self.size.width
        first = next(i for i, (old, new) in enumerate(zip(before, cells, strict=True)) if old != new)
        last = next(i for i in range(len(cells) - 1, -1, -1) if before[i] != cells[i])
        return self._edges[first], self._edges[last + 1]

    def _cursor_line(self) -> int | None:
        """The line of the cursor's row below the header in the last picture, or None if it was out of sight."""
        if self.cursor_key not in self._keys:
            return None
        line = self.cursor_index - self.scroll_offset.y
        return line if 0 <= line < self._rows_painted else None

    def _key_at(self, y: int) -> Any:
        index = y - 1 + self.scroll_offset.y
        return self._keys[index] if 0 <= index < len(self._keys) else None

    def cell_of(self, column: Column, key: Any, width: int) -> Span:
        """One cell. Subclasses may have columns without a method of their name."""
        span: Span = getattr(self, "cell_" + column.name)(key, width)
        return span

    def _row(self, key: Any) -> list[Span]:
        row: list[Span] = []
        for column, width in self._layout:
            text, tone = self.cell_of(column, key, width)
            room = width - (len(text) if text.isascii() else cell_len(text))
            if room < 0:
                text, room = safe(text, width), 0
            row.append((" " * room + text + " " if column.right else text + " " * (room + 1), tone))
        return row

    def _header(self) -> list[Span]:
        spans: list[Span] = [(" " * GUTTER, "head")]
        for column, width in self._layout:
            title = safe(self.header_title(column, width), width)
            pad = " " * (width - cell_len(title))
            spans.append((pad + title + " " if column.right else title + pad + " ", "head"))
        return spans

    @property
    def empty_text(self) -> str:
        """Text for a table without rows."""
        return self.EMPTY

    def render_line(self, y: int) -> Strip:
        """Render a line. The header stays at the top, and rows scroll below it."""
        width = self.size.width
        if y == 0:
            return self.build_strip(self._header(), width)
        key = self._key_at(y)
        if key is None:
            empty = self.empty_text if y == 1 and not self._keys else ""
            return self.build_strip([(" " * GUTTER + empty, "muted")], width)
        cells = self._cells.get(key)
        if cells is None:
            cells = self._cells[key] = self._row(key)
        here = key == self.cursor_key
        mark = "▌ " if here and self.has_focus else "› " if here else " " * GUTTER
        under = self.cursor_style() if here and self.has_focus else None
        return self.build_strip([(mark, "accent"), *cells], width, under=under)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Choose columns for the new size."""
        self._room = 0
        self.paint()
        self.refresh()

    def _measure_room(self, rows: int) -> int:
        """Cells for columns. Predicts the scroll bar, which Textual shows only after the picture that needs it."""
        scrolls = rows + 1 > self.size.height
        return self.size.width - (self.styles.scrollbar_size_vertical if scrolls else 0)

    def _choose_columns(self) -> None:
        self._room = self._measure_room(len(self._keys))
        self._columns = self.columns()
        self._layout = fit_columns(self._columns, self._room - GUTTER)
        self._edges = list(accumulate((width + 1 for _, width in self._layout), initial=GUTTER))
        self._cells.clear()
        self.virtual_size = Size(self._room, len(self._keys) + 1)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row under the mouse."""
        at = event.get_content_offset(self)  # the event counts from the border
        key = self._key_at(at.y) if at is not None and at.y > 0 else None
        if key is not None:
            self.move_to(key)

    def move_to_top(self) -> None:
        """Start over: put the cursor on the first row, whichever row that becomes."""
        self._steered = False
        if self._keys:
            self._put_cursor(self._keys[0])
        self.scroll_to(y=0, animate=False, force=True)

    def show_cursor(self) -> None:
        """Bring the cursor's row into view."""
        self.call_after_refresh(self._bring_into_view)

    def move_to(self, key: Any) -> None:
        """Put the cursor on a row, which it then follows, and bring it into view."""
        self._steered = True
        self._put_cursor(key)

    def _put_cursor(self, key: Any) -> None:
        if key == self.cursor_key:
            return
        self.cursor_key = key
        self.post_message(self.Chosen(self, key))
        self._bring_into_view()
        self.refresh()

    def _bring_into_view(self) -> None:
        """Scroll to the cursor. Forced, since Textual scrolls only with its bar laid out, and rows may be new."""
        room = max(1, self.size.height - 1)
        top, index = self.scroll_offset.y, self.cursor_index
        if not top <= index < top + room:
            self.scroll_to(y=index if index < top else index - room + 1, animate=False, force=True)

    def action_cursor(self, by: int) -> None:
        if self._keys:
            self.move_to(self._keys[min(len(self._keys) - 1, max(0, self.cursor_index + by))])

    def action_cursor_page(self, by: int) -> None:
        self.action_cursor(by * max(1, self.size.height - 2))

    def action_cursor_edge(self, side: int) -> None:
        self.action_cursor(side * len(self._keys))


# -- factor table ------------------------------------------------------------------------------------------------------
# A table whose rows differ by factors, each with a column as wide as its values.
#
# If room is short, columns of factors that all rows share leave first.

MOST_CELLS, TIGHT = 24, 12
DIFFERING, SHARED = 1, 3
"""Ranks of columns: those that distinguish rows stay as long as any other column can leave."""

PREFIX = "factor "


def factor_columns(rows: Sequence[Mapping[str, str]]) -> tuple[Column, ...]:
    """Build a column for each factor that any row has a value of, in their order."""
    columns = []
    for heading in dict.fromkeys(heading for row in rows for heading in row):
        values = {row.get(heading, "") for row in rows}
        if values != {""}:
            width = min(MOST_CELLS, max(map(cell_len, (heading, *values))))
            columns.append(
                Column(
                    PREFIX + heading,
                    heading,
                    width,
                    right=all(word.isdigit() for word in values),
                    rank=DIFFERING if len(values) > 1 else SHARED,
                )
            )
    return tuple(columns)


class FactorTable(LineTable):
    """``factors``: those of every row, by headings. ``wide``: its columns.

    A column that grows gives way, down to TIGHT, to columns that distinguish rows, and then to no others. Columns that
    all rows share give way to it, as far as it needs the room.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.factors: Mapping[Any, Mapping[str, str]] = {}
        self.wide: tuple[Column, ...] = ()
        self._tight: tuple[Column, ...] = ()
        self._wanted_cells = 0
        self._fitted: tuple[int, tuple[Column, ...]] | None = None

    def take_columns(self, columns: Sequence[Column], wanted_cells: int = 0) -> None:
        """Take these columns, with those of factors among them.

        ``wanted_cells``: width of a growing column that takes precedence over the columns that all rows share.
        """
        self.wide, self._wanted_cells, self._fitted = tuple(columns), wanted_cells, None
        self._tight = tuple(
            replace(each, width=min(each.width, TIGHT)) if each.grow_to else each
            for each in columns
            if each.rank != SHARED
        )

    def columns(self) -> tuple[Column, ...]:
        room = self._measure_room(len(self.keys())) - GUTTER
        if self._fitted is None or self._fitted[0] != room:
            self._fitted = room, self._fit(room)
        return self._fitted[1]

    def _fit(self, room: int) -> tuple[Column, ...]:
        free = room - sum(each.width + 1 for each in self.wide if each.rank != SHARED)
        columns = tuple(
            replace(each, width=max(each.width, min(self._wanted_cells, each.width + free))) if each.grow_to else each
            for each in self.wide
        )
        kept = {column.name for column, _ in fit_columns(columns, room)}
        return columns if all(each.name in kept for each in columns if each.rank == DIFFERING) else self._tight

    def cell_of(self, column: Column, key: Any, width: int) -> Span:
        if column.name.startswith(PREFIX):
            return safe(self.factors[key].get(column.title, ""), width), ""
        return super().cell_of(column, key, width)
