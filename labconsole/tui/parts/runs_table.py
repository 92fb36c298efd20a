"""Saved runs with their verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.strip import Strip

from labconsole.model.design_point import format_target_per_source
from labconsole.model.record.summary import SORTS, RunSummary, Sorting
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded, format_short_time, safe
from labconsole.text.sanitize import format_tsv_line
from labconsole.tui.console import clock
from labconsole.tui.console.state import VERDICT_GLYPHS, VERDICT_TONE
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.table import GUTTER, Column, LineTable


class RunsTable(LineTable):
    """Newest first. ``show`` takes a new list, and the cursor stays on its run."""

    EMPTY = "No runs saved yet."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("verdict", "verdict", 9, right=False),
        Column("started", "started UTC", 14, right=False),
        Column("platform", "platform", 9, right=False, grow_to=16),
        Column("size", "B", 5),
        Column("sources", "src", 3),
        Column("target", "target", 9, rank=1),
        Column("background", "backgr.", 7, right=False, rank=4, grow_to=13),
        Column("duration", "s", 6, rank=3),
        Column("offered", "offered pps", 11, rank=1),
        Column("measured", "measured pps", 12),
        Column("loss", "loss %", 8),
        Column("generator", "generator", 9, right=False, rank=5),
        Column("testbed", "testbed", 12, right=False, rank=6, grow_to=24),
        Column("run_id", "run", 12, right=False, rank=2, grow_to=40),
    )

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._runs: Mapping[str, RunSummary] = {}
        self._order: Sequence[str] = ()
        self.border_title = "Runs"

    def show(self, runs: Sequence[RunSummary]) -> None:
        """Take a list, newest first."""
        self._runs = {run.run_id: run for run in runs}
        self._order = list(self._runs)
        self._cells.clear()
        self.paint()
        self.refresh()

    @property
    def chosen(self) -> str | None:
        """The run under the cursor."""
        return self.cursor_key if self.cursor_key in self._runs else None

    def keys(self) -> list[str]:
        return list(self._order)

    def cell_verdict(self, key: str, width: int) -> Span:
        status = self._runs[key].verdict
        return f"{VERDICT_GLYPHS.get(status, '·')} {safe(status, width - 2)}", VERDICT_TONE.get(status, "")

    def cell_started(self, key: str, width: int) -> Span:
        return format_short_time(str(self._runs[key].started_at)), "muted"

    def cell_platform(self, key: str, width: int) -> Span:
        return safe(self._runs[key].platform, width), ""

    def cell_size(self, key: str, width: int) -> Span:
        return format_rounded(self._runs[key].frame_size_bytes), ""

    def cell_sources(self, key: str, width: int) -> Span:
        return str(self._runs[key].sources), ""

    def cell_target(self, key: str, width: int) -> Span:
        run = self._runs[key]
        return format_target_per_source(run.target_bps, run.frame, cells=width), ""

    def cell_background(self, key: str, width: int) -> Span:
        background = self._runs[key].background
        if len(background) > width:  # cut, forwarding-50 and forwarding-95 would be alike
            background = background.replace("forwarding-", "fwd-")
        return safe(background, width), "muted"

    def cell_duration(self, key: str, width: int) -> Span:
        return f"{self._runs[key].duration_s:g}", "muted"

    def cell_offered(self, key: str, width: int) -> Span:
        return format_rounded(self._runs[key].offered_pps), ""

    def cell_measured(self, key: str, width: int) -> Span:
        return format_rounded(self._runs[key].measured_pps), ""

    def cell_loss(self, key: str, width: int) -> Span:
        ratio = self._runs[key].loss_ratio
        return format_percent(ratio), "muted" if ratio is None else "" if ratio == 0 else "warn"

    def cell_generator(self, key: str, width: int) -> Span:
        return safe(self._runs[key].generator or UNKNOWN, width), "muted"

    def cell_testbed(self, key: str, width: int) -> Span:
        run = self._runs[key]
        return safe(f"{run.testbed} (emulated)" if run.emulated else run.testbed, width), "muted"

    def cell_run_id(self, key: str, width: int) -> Span:
        return safe(key, width), "muted"


def describe_column(name: str) -> str:
    """Name a column in a question."""
    return _COLUMN_NAMES.get(name, name)


_COLUMN_NAMES = {
    "size": "frame size",
    "started": "start",
    "offered": "offered rate",
    "measured": "measured rate",
    "run_id": "run",
    "difference": "difference to the baseline",
}

SECONDS_CELLS = 96
"""Minimum width for the seconds of a run's start."""

_SAVED_CHANGES = {
    "started": Column("started", "start UTC", 11, right=False, grow_to=19),
    "sources": Column("sources", "src", 4),
    "background": Column("background", "backgr.", 8, right=False, rank=4, grow_to=13),
    "testbed": Column("testbed", "testbed", 12, right=False, rank=7, grow_to=24),
}


def current_year() -> str:
    """The current year, which dates in the table omit."""
    return str(datetime.fromtimestamp(clock.wall_s(), UTC).year)


class SavedRunsTable(RunsTable):
    """The whole list: tens of thousands of rows. Only the visible ones are ever made into cells."""

    ACTIONS = (
        Action("enter", "screen.open", "Details", "Go to the details.", shown=False),
        Action("right", "screen.part(1)", "Next page", shown=False),
        Action("left", "screen.part(-1)", "Previous page", shown=False),
        Action("backspace", "screen.back", "Back", shown=False),
    )
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("mark", "", 1),
        *(_SAVED_CHANGES.get(c.name, c) for c in RunsTable.COLUMNS[:-1]),
        Column("difference", "Δ baseline", 10),
        Column("note", "note", 8, right=False, rank=2, grow_to=48),
        replace(RunsTable.COLUMNS[-1], rank=6, grow_to=23),
    )
    CELLS_KEPT = 1000
    ROWS_AHEAD = 200
    """Number of rows before the last at which more are requested."""

    @dataclass
    class HeaderClicked(Message):
        """The header of this column was clicked, to sort by it."""

        column: str

    @dataclass
    class NearEnd(Message):
        """Few rows are left below. ``to_end``: the last one is requested, from the row ``run_id``."""

        to_end: bool = False
        run_id: str | None = None

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.marked: dict[str, None] = {}
        self.sorting = Sorting()
        self.by_id: Mapping[str, RunSummary] = {}
        self.empty = self.EMPTY
        self.hidden: frozenset[str] = frozenset()
        self.baseline: RunSummary | None = None
        self._chosen_columns, self._with_seconds = self._wanted_columns()

    def _wanted_columns(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """The shown columns of a narrow list, and of one with room for the seconds of a start."""
        absent = self.hidden if self.baseline is not None else self.hidden | {"difference"}
        narrow = tuple(column for column in self.COLUMNS if column.name not in absent)
        return narrow, tuple(replace(each, width=14) if each.name == "started" else each for each in narrow)

    def columns(self) -> tuple[Column, ...]:
        return self._with_seconds if self.size.width >= SECONDS_CELLS else self._chosen_columns

    def hide(self, names: frozenset[str]) -> None:
        """Show all columns but these."""
        self.hidden = names & {column.name for column in self.COLUMNS if column.title}
        self._show_columns()

    def pin(self, baseline: RunSummary | None) -> None:
        """Show every run's difference from this one, or no differences if ``baseline`` is None."""
        self.baseline = baseline
        self._show_columns()

    def _show_columns(self) -> None:
        self._chosen_columns, self._with_seconds = self._wanted_columns()
        self._cells.clear()
        self.paint()
        self.refresh()

    @property
    def order(self) -> Sequence[str]:
        """Run ids in the order shown."""
        return self._order

    @property
    def selected_run_id(self) -> str | None:
        """The run that the operator moved the cursor to, or None."""
        return self.chosen if self._steered else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > old_value and new_value + self.size.height + self.ROWS_AHEAD > len(self._order):
            self.post_message(self.NearEnd())

    def action_cursor_edge(self, side: int) -> None:
        super().action_cursor_edge(side)
        if side > 0:
            self.post_message(self.NearEnd(to_end=True, run_id=self.chosen))

    def list_displayed_runs(self) -> list[RunSummary]:
        """The runs in the order shown."""
        return [self.by_id[run_id] for run_id in self._order]

    def note_of(self, run_id: str) -> str | None:
        """The note on a run of the list."""
        run = self.by_id.get(run_id)
        return run.note if run is not None else None

    def show_saved(self, by_id: Mapping[str, RunSummary], order: Sequence[str]) -> None:
        """Take runs and their order. Both are made in a thread and not changed afterwards."""
        self._runs, self.by_id, self._order = by_id, by_id, order
        self._cells.clear()
        self.paint()
        self.refresh()

    def mark(self) -> None:
        """Mark the row under the cursor, or remove its mark, and move to the next row."""
        run_id = self.chosen
        if run_id is None:
            return
        if run_id in self.marked:
            del self.marked[run_id]
        else:
            self.marked[run_id] = None
        self._cells.pop(run_id, None)
        self.refresh()
        self.action_cursor(1)

    def unmark_all(self) -> None:
        """Remove all marks."""
        self.marked.clear()
        self._cells.clear()
        self.refresh()

    def read_row_texts(self, run_id: str) -> list[tuple[str, str]]:
        """(title, text) of every column but the mark, uncut, for copying."""
        return [
            (column.title, getattr(self, "cell_" + column.name)(run_id, 200)[0].replace("\u2009", ""))
            for column in self.columns()[1:]
        ]

    def rows_text(self, run_ids: Sequence[str]) -> str:
        """These rows under their titles, with tabs between the columns."""
        rows = [self.read_row_texts(run_id) for run_id in run_ids]
        lines = [[title for title, _ in rows[0]], *([text for _, text in row] for row in rows)]
        return "\n".join(map(format_tsv_line, lines))

    def header_title(self, column: Column, width: int) -> str:
        if column.name != self.sorting.column:
            return column.title
        # If the mark leaves no room for the unit, the unit is left out.
        title = column.title if len(column.title) < width else column.title.split()[0]
        return safe(title, width - 1) + ("▼" if self.sorting.descending else "▲")

    def render_line(self, y: int) -> Strip:
        if len(self._cells) > self.CELLS_KEPT:
            self._cells.clear()
        if y == 1 and not self._keys:
            return self.build_strip(
                [(" " * GUTTER + safe(self.empty, max(1, self.size.width - GUTTER)), "muted")], self.size.width
            )
        return super().render_line(y)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose header was clicked."""
        at = event.get_content_offset(self)
        if at is None or at.y > 0:
            super().on_click(event)
            return
        left = GUTTER
        for column, width in self._layout:
            if left <= at.x < left + width and column.name in SORTS:
                self.post_message(self.HeaderClicked(column.name))
            left += width + 1

    def cell_started(self, key: str, width: int) -> Span:
        stamp = self.by_id[key].started_at
        if stamp[:4] == current_year():
            text = format_short_time(stamp)
            return text if len(text) <= width else text[:11], "muted"  # without seconds if there is no room
        text = safe(stamp[:19].replace("T", " "), 19)
        return text[: next((cells for cells in (19, 16) if cells <= width), 10)], "muted"

    def cell_difference(self, key: str, width: int) -> Span:
        base, run = self.baseline, self.by_id[key]
        if base is None or key == base.run_id:
            return "baseline", "accent"
        if not base.measured_pps or run.measured_pps is None:
            return UNKNOWN, "muted"
        return f"{100 * (run.measured_pps / base.measured_pps - 1):+.2f} %", ""

    def cell_mark(self, key: str, width: int) -> Span:
        return ("●", "accent") if key in self.marked else (" ", "")

    def cell_note(self, key: str, width: int) -> Span:
        note = getattr(self._runs[key], "note", None)
        return safe(" ".join((note or "").split()), width), ""
