"""The repetitions of the point under way: per stream and in total, mean and 95 % interval, one mark per run."""

from __future__ import annotations

from typing import ClassVar

from textual.geometry import Size

from labconsole.measure.statistics.repetitions import Summary
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, format_decimal, format_percent, format_rounded, safe, scale_top, sparkline
from labconsole.tui.console.repetition_figures import TOTAL, Quantities
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable


class RepetitionsTable(LineTable):
    """The repetitions so far, with a new run at a time."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "stream", 7, right=False, grow_to=12),
        Column("n", "n", 4),
        Column("offered", "offered pps", 11, rank=2),
        Column("offered_ci", "±", 8, rank=3),
        Column("measured", "measured pps", 12),
        Column("measured_ci", "±", 8),
        Column("loss", "loss %", 8),
        Column("loss_ci", "±", 7, rank=1),
        Column("p50", "delay p50", 9, rank=5),
        Column("p99", "p99 µs", 9, rank=5),
        Column("runs", "per run", 8, right=False, rank=4, grow_to=40),
    )

    def __init__(self, inventory: Inventory, state: ConsoleState) -> None:
        super().__init__(id="repeated")
        self._inventory, self._state = inventory, state
        self._top = 1.0
        self.border_title = "Repetitions"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the header, the streams that take part, and the totals."""
        return len(self.keys()) + 1

    def keys(self) -> list[str]:
        request = self._state.repetitions.request
        used = self._inventory.streams[: request.sources] if request is not None else ()
        return [*(stream.name for stream in used), TOTAL]

    def prepare(self) -> None:
        reps = self._state.repetitions
        self._top = scale_top(
            v for name, q in reps.quantities.items() if name != TOTAL for v in (*q.offered_pps, *q.measured_pps)
        )
        left_out = f" · {reps.invalid} invalid excluded" if reps.invalid else ""
        set_border_titles(self, f"Repetitions {reps.done} of {reps.planned}{left_out}")
        few = ", needs 3 runs" if reps.done - reps.invalid < 3 else ""
        self.border_subtitle = f"mean ± 95 % interval (Student's t{few})"

    def header_title(self, column: Column, width: int) -> str:
        """Return a column's title. If the clocks are not shown to agree, the delays are their variation (PDV)."""
        one_way = self._state.repetitions.one_way
        return "PDV p50" if column.name == "p50" and not one_way else super().header_title(column, width)

    def _of(self, key: str) -> Quantities:
        return self._state.repetitions.quantities.get(key) or Quantities()

    def cell_name(self, key: str, width: int) -> Span:
        return ("total", "strong") if key == TOTAL else (safe(key, width), "")

    def cell_n(self, key: str, width: int) -> Span:
        summary = self._of(key).measured
        return str(summary.n if summary is not None else 0), "muted"

    def _mean(self, summary: Summary | None) -> Span:
        return (UNKNOWN, "muted") if summary is None else (format_rounded(summary.mean), "strong")

    def _half(self, summary: Summary | None) -> Span:
        half = summary.half_width if summary is not None else None
        # Half a packet per second matters if the mean is a few, so small intervals keep a digit.
        return (UNKNOWN, "muted") if half is None else (f"{half:.1f}" if 0 < half < 10 else format_rounded(half), "")

    def cell_offered(self, key: str, width: int) -> Span:
        return self._mean(self._of(key).offered)

    def cell_offered_ci(self, key: str, width: int) -> Span:
        return self._half(self._of(key).offered)

    def cell_measured(self, key: str, width: int) -> Span:
        return self._mean(self._of(key).measured)

    def cell_measured_ci(self, key: str, width: int) -> Span:
        return self._half(self._of(key).measured)

    def cell_loss(self, key: str, width: int) -> Span:
        summary = self._of(key).loss
        if summary is None:
            return UNKNOWN, "muted"
        return format_percent(summary.mean), "warn" if summary.mean else ""

    def cell_loss_ci(self, key: str, width: int) -> Span:
        summary = self._of(key).loss
        half = summary.half_width if summary is not None else None
        return (UNKNOWN, "muted") if half is None else (format_percent(half), "")

    def _delay(self, key: str, which: int) -> Span:
        delay_ns = self._of(key).delay_ns(one_way=self._state.repetitions.one_way)
        return (UNKNOWN, "muted") if delay_ns is None else (format_decimal(delay_ns[which] / 1e3, 1), "")

    def cell_p50(self, key: str, width: int) -> Span:
        return self._delay(key, 0)

    def cell_p99(self, key: str, width: int) -> Span:
        return self._delay(key, 1)

    def cell_runs(self, key: str, width: int) -> Span:
        if key == TOTAL:
            return "", ""
        return sparkline(self._of(key).measured_pps[-width:], self._top), "accent"
