"""The box with one run in full: reads the record, its series or a second run from the store, and turns pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from labconsole.engine.protocol import RunsStore
from labconsole.errors import LabError
from labconsole.measure.comparison import compare
from labconsole.model.record.note import RunNote
from labconsole.model.record.run import RunRecord
from labconsole.text.cells import safe
from labconsole.tui.parts.lines import set_border_titles
from labconsole.tui.screens.runs.details import DetailsScroll, PageName, PageTabs, RunComparison, RunDetails, RunView
from labconsole.tui.screens.runs.run_pages import comparison_lines


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
