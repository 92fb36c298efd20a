"""Saved runs with their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from labconsole.tui.session import RunSummaryLike
from labconsole.tui.state import VERDICT_GLYPHS
from labconsole.tui.text import UNKNOWN, count, percent, safe, short_time
from labconsole.tui.widgets.lines import Span
from labconsole.tui.widgets.status import VERDICT_TONE
from labconsole.tui.widgets.table import Column, LineTable
from labconsole.units import format_target


class RunsTable(LineTable):
    """Newest first. ``show`` takes a new list; the cursor stays on its run."""

    EMPTY = "no runs saved yet: F2 leads to the bench, r runs"
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
        self._runs: dict[str, RunSummaryLike] = {}
        self.border_title = "Runs"

    def show(self, runs: Sequence[RunSummaryLike]) -> None:
        """Take a list, newest first."""
        self._runs = {run.run_id: run for run in runs}
        self._cells.clear()
        self.paint()

    @property
    def chosen(self) -> str | None:
        """The run under the cursor."""
        return self.cursor_key if self.cursor_key in self._runs else None

    def keys(self) -> list[str]:
        return list(self._runs)

    def cell_verdict(self, key: str, width: int) -> Span:
        status = self._runs[key].verdict
        return f"{VERDICT_GLYPHS.get(status, '·')} {safe(status, width - 2)}", VERDICT_TONE.get(status, "")

    def cell_started(self, key: str, width: int) -> Span:
        return short_time(str(self._runs[key].started_at)), "muted"

    def cell_platform(self, key: str, width: int) -> Span:
        return safe(self._runs[key].platform, width), ""

    def cell_size(self, key: str, width: int) -> Span:
        return count(self._runs[key].frame_size_bytes), ""

    def cell_sources(self, key: str, width: int) -> Span:
        return str(self._runs[key].sources), ""

    def cell_target(self, key: str, width: int) -> Span:
        target = self._runs[key].target_bps
        return "max" if target is None else format_target(target), ""

    def cell_background(self, key: str, width: int) -> Span:
        return safe(self._runs[key].background, width), "muted"

    def cell_duration(self, key: str, width: int) -> Span:
        return f"{self._runs[key].duration_s:g}", "muted"

    def cell_offered(self, key: str, width: int) -> Span:
        return count(self._runs[key].offered_pps), ""

    def cell_measured(self, key: str, width: int) -> Span:
        return count(self._runs[key].measured_pps), ""

    def cell_loss(self, key: str, width: int) -> Span:
        ratio = self._runs[key].loss_ratio
        return percent(ratio), "muted" if ratio is None else "" if ratio == 0 else "warn"

    def cell_generator(self, key: str, width: int) -> Span:
        return safe(self._runs[key].generator or UNKNOWN, width), "muted"

    def cell_testbed(self, key: str, width: int) -> Span:
        run = self._runs[key]
        return safe(f"{run.testbed} (emulated)" if run.emulated else run.testbed, width), "muted"

    def cell_run_id(self, key: str, width: int) -> Span:
        return safe(key, width), "muted"
