"""One run in full, a page at a time, with its series over time; and the box that reads and turns the pages."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message

from labconsole.contracts.ports import Series
from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.measure.comparison import Pair, compare
from labconsole.measure.counts import interpolate_count
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.run import RunRecord
from labconsole.text import rate_panel
from labconsole.text.cells import safe
from labconsole.text.rate_panel import RateSeries
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.charts import tinted
from labconsole.tui.parts.lines import Lines, Span, set_border_titles
from labconsole.tui.screens.runs import run_pages
from labconsole.tui.screens.runs.run_pages import comparison_lines, processors_part, times_page

# -- run series --------------------------------------------------------------------------------------------------------
# The kept time series of a run as rates for a chart. Pure.
#
# A rate is the difference between two samples over the time between them, by the clock of the node that took them. If a
# run's streams were stored with the console's times of arrival, the counters of both NICs are drawn instead.

Sample = tuple[float, float | None, float]
"""(seconds, sent, received), both cumulative. sent is None if unknown."""


def stream_rates(series: Series, record: RunRecord, stream: int) -> tuple[RateSeries | None, str]:
    """Offered and measured rate of one stream, by its index in the record, and the name of their source.

    None if too little was kept.
    """
    table, lost = series.tables.get("streams", {}), record.streams[stream].loss_packets
    if "sink_monotonic_ns" in table:
        return _rates(_select_samples(table, stream), lost), ""
    return _rates(_read_nic_samples(series, record, stream), lost), "by the counters of source's and sink's NIC"


def _rates(samples: Iterable[Sample], lost_packets: int | None) -> RateSeries | None:
    seconds: list[float] = []
    offered: list[float] = []
    measured: list[float] = []
    missing: list[float] = []
    first: tuple[float, float] | None = None
    for (then, sent0, received0), (now, sent1, received1) in itertools.pairwise(samples):
        if now <= then or received1 < received0:
            continue
        seconds.append(now)
        offered.append(math.nan if sent0 is None or sent1 is None else (sent1 - sent0) / (now - then))
        measured.append((received1 - received0) / (now - then))
        if first is None and sent0 is not None:
            first = sent0, received0
        if not missing:
            missing.append(math.nan if first is None else 0.0)
        missing.append(sent1 - first[0] - (received1 - first[1]) if sent1 is not None and first else math.nan)
    return RateSeries(seconds, offered, measured, missing, lost_packets) if len(seconds) > 1 else None


def _select_samples(table: dict[str, list[Any]], stream: int) -> list[Sample]:
    """Select the rows that contain both counts at one instant."""
    columns = [table.get(name, []) for name in ("stream", "seconds", "offered_packets", "measured_packets")]
    return [
        (float(seconds), sent, received)
        for number, seconds, sent, received in zip(*columns, strict=False)
        if number == stream and seconds is not None and received is not None
    ]


def _read_nic_samples(series: Series, record: RunRecord, stream: int) -> list[Sample]:
    """Packets sent by the source's NIC, at the instants of the sink's readings."""
    ledger = {hop.hop: hop for hop in record.streams[stream].ledger}
    if "source_nic" not in ledger or "sink_nic" not in ledger:
        return []
    ends = [
        _counter(series, record, ledger[hop].node, ledger[hop].interface, statistic)
        for hop, statistic in (("source_nic", "tx_packets"), ("sink_nic", "rx_packets"))
    ]
    sent, received = ends
    if not sent or not received:
        return []
    begin_ns = received[0][0]
    return [((at_ns - begin_ns) / 1e9, interpolate_count(sent, at_ns), packets) for at_ns, packets in received]


def _counter(series: Series, record: RunRecord, node: str, interface: str, statistic: str) -> Sequence[tuple[int, int]]:
    """(ns, count) of a NIC, in order: spaced by the node's monotonic clock, shifted as a whole to the console's."""
    names = record.environment.get("series_interfaces")
    table, name = series.tables.get("interfaces", {}), f"{node}/{interface}"
    if not isinstance(names, list) or name not in names:
        return []
    columns = [table.get(each, []) for each in ("interface", "monotonic_ns", "wall_ns", statistic)]
    rows = [row[1:] for row in zip(*columns, strict=False) if row[0] == names.index(name) and None not in row]
    if not rows:
        return []
    ahead_ns = rows[0][0] - (rows[0][1] - _clock_offset_ns(record, node))
    points = [(int(monotonic_ns - ahead_ns), int(value)) for monotonic_ns, _, value in rows]
    return [points[0], *(now for before, now in itertools.pairwise(points) if now[0] > before[0])]


def _clock_offset_ns(record: RunRecord, node: str) -> int:
    """Offset of a node's wall clock, or 0 if the record, which may be foreign, has none."""
    nodes = record.environment.get("nodes")
    said = nodes.get(node) if isinstance(nodes, dict) else None
    offset_ns = said.get("clock_offset_ns") if isinstance(said, dict) else None
    return offset_ns if isinstance(offset_ns, int) else 0


# -- pages -------------------------------------------------------------------------------------------------------------
# One run in full, a page at a time: verdict, packets, over time, nodes; and a comparison once two are chosen.

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
        (lines,) = rate_panel.draw_panels([rates], range(1), width, height - bool(how))
        rows += [tinted(line) for line in lines]
    return rows


# -- details pane ------------------------------------------------------------------------------------------------------
# The box with one run in full: reads the record, its series or a second run from the store, and turns pages.


class DetailsPane(Vertical):
    """``choose`` takes the run under the cursor. The store blocks, so threads query it. ``tell`` reports problems."""

    class Compared(Message):
        """Two runs are shown side by side now."""

    def __init__(self, store: RunsStore, tell: Callable[[str, str], None]) -> None:
        super().__init__(id="details-box")
        self._store, self._tell = store, tell
        self.border_title = "Run"

    def compose(self) -> ComposeResult:
        yield PageTabs()
        with DetailsScroll(id="details-scroll"):
            yield RunDetails(id="details")

    @property
    def view(self) -> RunView:
        """The data shown."""
        return self.query_one(RunDetails).view

    @property
    def differences(self) -> str | None:
        """The differences of the compared runs, a line each, or None without a comparison."""
        two = self.view.comparison
        return "\n".join(comparison_lines(two.left, two.right, two.pairs)) + "\n" if two is not None else None

    def choose(self, run_id: str) -> None:
        """Show another run."""
        if self.query_one(PageTabs).page == "compare":
            self._turn_to("verdict")
        self.load(run_id)

    @work(exclusive=True, group="details")
    async def load(self, run_id: str) -> None:
        """Load one record and show it. A newer choice cancels this one."""
        comparison = self.view.comparison
        try:
            record, note = await asyncio.to_thread(self._read, run_id)
        except LabError as exc:
            self.show(RunView(problem=str(exc), comparison=comparison))
            return
        gone = "" if record is not None else f"{run_id} is no longer in the store"
        self.show(RunView(record, note, problem=gone, comparison=comparison))
        await self._load_series()

    def _read(self, run_id: str) -> tuple[RunRecord | None, RunNote | None]:
        record = self._store.get(run_id)
        return record, self._store.note(run_id) if record is not None else None

    async def _load_series(self) -> None:
        """Load the time series when their page is first shown."""
        view = self.view
        if self.query_one(PageTabs).page != "chart" or view.record is None or view.series is not None:
            return
        text = "this run has no time series"
        series = None
        try:
            series = await asyncio.to_thread(self._store.series, view.record.run_id)
        except LabError as exc:
            text = str(exc)
        self.show(RunView(view.record, view.note, series, text, view.problem, view.comparison), scroll=False)

    @work(exclusive=True, group="series")
    async def load_series(self) -> None:
        await self._load_series()

    def show(self, view: RunView, *, scroll: bool = True) -> None:
        """Show this on the current page."""
        tabs = self.query_one(PageTabs)
        tabs.comparing = view.comparison is not None
        tabs.paint()
        self.query_one(RunDetails).show(view, tabs.page)
        title = f"Run {safe(view.record.run_id, 60)}" if view.record is not None else "Run"
        set_border_titles(self, "Two runs" if tabs.page == "compare" else title)
        if scroll:
            self.query_one(DetailsScroll).scroll_home(animate=False)

    def _turn_to(self, page: PageName) -> None:
        self.query_one(PageTabs).page = page
        self.show(self.view)
        if page == "chart":
            self.load_series()

    def turn(self, by: int) -> None:
        """Turn by this many pages."""
        tabs = self.query_one(PageTabs)
        offered = tabs.offered
        self._turn_to(offered[(offered.index(tabs.page) + by) % len(offered)])

    @on(PageTabs.Clicked)
    def page_clicked(self, event: PageTabs.Clicked) -> None:
        self._turn_to(event.page)

    @work(exclusive=True, group="details")
    async def compare(self, first: str, second: str) -> None:
        """Read both and show them side by side."""
        view = self.view

        def read() -> RunComparison:
            left, right = self._store.get(first), self._store.get(second)
            if left is None or right is None:
                raise LabError(f"{first if left is None else second} is no longer in the store")
            return RunComparison(left, right, compare(left, right))

        try:
            comparison = await asyncio.to_thread(read)
        except LabError as exc:
            self._tell(str(exc), "error")
            return
        details = self.query_one(RunDetails)
        details.view = RunView(view.record, view.note, view.series, view.series_text, view.problem, comparison)
        self.query_one(PageTabs).comparing = True
        self._turn_to("compare")
        details.refresh(layout=True)
        self.post_message(self.Compared())
