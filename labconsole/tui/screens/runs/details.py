"""One run in full, a page at a time: verdict, packets, over time, nodes; and a comparison once two are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from textual import events
from textual.containers import VerticalScroll
from textual.message import Message

from labconsole.contracts.ports import Series
from labconsole.measure.comparison import Pair
from labconsole.model.record.note import RunNote
from labconsole.model.record.run import RunRecord
from labconsole.text import rate_panel
from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.rate_chart import tinted
from labconsole.tui.screens.runs import run_pages
from labconsole.tui.screens.runs.processors_page import processors_part
from labconsole.tui.screens.runs.run_series import stream_rates
from labconsole.tui.screens.runs.times_page import times_page

PageName = Literal["verdict", "packets", "times", "chart", "nodes", "compare"]
PAGES: dict[PageName, str] = {
    "verdict": "Verdict",
    "packets": "Packets",
    "times": "Times",
    "chart": "Over time",
    "nodes": "Nodes",
    "compare": "Compare",
}
CHART_ROWS = 9
"""Minimum height of a readable chart with axes, in lines."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two whole runs and their comparison."""

    left: RunRecord
    right: RunRecord
    pairs: list[Pair]


@dataclass(frozen=True, slots=True)
class RunView:
    """The data of the chosen run. ``problem`` says why there is no record. ``series`` is None until read."""

    record: RunRecord | None = None
    note: RunNote | None = None
    series: Series | None = None
    series_text: str = "reading …"
    problem: str = "no run selected"
    comparison: RunComparison | None = field(default=None)


class PageTabs(Lines):
    """The pages by name, with the visible one highlighted."""

    @dataclass
    class Clicked(Message):
        """A page was chosen with the mouse."""

        page: PageName

    def __init__(self) -> None:
        super().__init__(classes="page-tabs")
        self.page: PageName = "verdict"
        self.comparing = False

    @property
    def offered(self) -> list[PageName]:
        """The pages available now."""
        return [name for name in PAGES if name != "compare" or self.comparing]

    def lines(self, width: int) -> list[list[Span]]:
        row: list[Span] = []
        for name in self.offered:
            row.append((f" {PAGES[name]} ", "tab" if name == self.page else "muted"))
        return [[*row, ("  ← →" if width >= 60 else "", "muted")]]

    def on_click(self, event: events.Click) -> None:
        """Go to the page under the mouse."""
        left = 0
        for name in self.offered:
            left += len(PAGES[name]) + 2
            if event.x < left:
                self.post_message(self.Clicked(name))
                return


class DetailsScroll(HasActions, VerticalScroll):
    """The scrolling area of a page. Left and right turn pages instead of scrolling sideways."""

    ACTIONS = (
        Action("right", "screen.part(1)", "Next page", shown=False),
        Action("left", "screen.part(-1)", "Previous page", shown=False),
    )


class RunDetails(Lines):
    """The page itself. Lines are made once per content and width, also for the height."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.view = RunView()
        self.page: PageName = "verdict"
        self._made: tuple[tuple[object, ...], list[list[Span]]] | None = None

    def show(self, view: RunView, page: PageName) -> None:
        """Show a page of a run."""
        if view is self.view and page == self.page:
            return
        self.view, self.page = view, page
        self._painted_width = -1
        self.refresh(layout=True)

    def on_resize(self) -> None:
        """Make the lines: the chart follows the height available."""
        if self.page == "chart":
            self._painted_width = -1
            self.refresh(layout=True)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painted_width = -1

    def lines(self, width: int) -> list[list[Span]]:
        room = self.parent.size.height if isinstance(self.parent, DetailsScroll) else 0
        wanted = (self.view, self.page, width, room if self.page == "chart" else 0)
        if self._made is None or self._made[0][1:] != wanted[1:] or self._made[0][0] is not self.view:
            self._made = (wanted, self._page_rows(width, room))
        return self._made[1]

    def _page_rows(self, width: int, room: int) -> list[list[Span]]:
        view = self.view
        if self.page == "compare" and view.comparison is not None:
            both = view.comparison
            return run_pages.compare_page(both.left, both.right, both.pairs, width)
        record = view.record
        if record is None:
            return [[(text, "muted")] for text in _wrapped(view.problem, width)]
        if self.page == "packets":
            return run_pages.packets_page(record, width)
        if self.page == "times":
            return times_page(record, width)
        if self.page == "chart":
            return _chart_rows(record, view, width, room)
        if self.page == "nodes":
            return processors_part(record, width) + run_pages.nodes_page(record, width)
        return run_pages.verdict_page(record, view.note, width)


def _wrapped(text: str, width: int) -> list[str]:
    return [row[1][0] for row in run_pages.field("", text, width + run_pages.LABEL_CELLS)] or [""]


def _chart_rows(record: RunRecord, view: RunView, width: int, room: int) -> list[list[Span]]:
    """A chart per stream, as high as there is room for all of them, but never too low to read."""
    if view.series is None:
        return [[(text, "muted")] for text in _wrapped(view.series_text, width)]
    rows: list[list[Span]] = []
    height = max(CHART_ROWS, room // max(1, len(record.streams)) - 1)
    for index, stream in enumerate(record.streams):
        rates, how = stream_rates(view.series, record, index)
        rows.append(
            [
                (f"Stream {safe(stream.name, 16)}  ", "strong"),
                *tinted([(f"{w}  ", k) for w, k in rate_panel.LEGEND]),
                ("packets/s, % of the second before, over s", "muted"),
            ]
        )
        if rates is None:
            rows.append([("  too few samples of this stream for a chart", "muted")])
            continue
        if how:
            rows.append([(f"  {how}: this run's streams were kept without the nodes' times", "muted")])
        (lines,) = rate_panel.draw_panels([rates], range(1), width, height - bool(how), across=1, span_s=None)
        rows += [tinted(line) for line in lines]
    return rows
