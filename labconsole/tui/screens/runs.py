"""Saved runs, and the one under the cursor in full. The store blocks, so it is asked in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Footer

from labconsole.errors import LabError
from labconsole.tui.screens.base import PAUSE, ConsoleScreen
from labconsole.tui.session import RunSummaryLike
from labconsole.tui.widgets.details import RunDetails
from labconsole.tui.widgets.runs_table import RunsTable
from labconsole.tui.widgets.status import EventLines, PhaseBar
from labconsole.tui.widgets.table import LineTable


class RunsScreen(ConsoleScreen):
    """The list of runs with their verdicts, newest first."""

    WHERE = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "app.switch_mode('bench')", "Bench", show=False, id="runs-back", tooltip="Back to the bench."
        ),
        PAUSE,
        Binding("l", "reload", "Reload", id="runs-reload", tooltip="Read the list from the store again."),
    ]
    AUTO_FOCUS = "#runs"

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield PhaseBar(self.state)
        with Container(id="runs-area"):
            yield RunsTable(id="runs")
            with VerticalScroll(id="details-box") as box:
                box.border_title = "Run"
                yield RunDetails(id="details")
        yield EventLines(self.state)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.show_runs(self.console_app.runs)

    def show_runs(self, runs: Sequence[RunSummaryLike]) -> None:
        """Take the list of saved runs."""
        table = self.query_one("#runs", RunsTable)
        table.show(runs)
        table.border_subtitle = f"{len(runs)} shown, newest first" if runs else ""

    def paint_clock(self) -> None:
        self.query_one(PhaseBar).paint()

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()

    def action_reload(self) -> None:
        self.console_app.load_runs()

    @on(LineTable.Chosen, "#runs")
    def chosen(self, event: LineTable.Chosen) -> None:
        self.load_details(event.key)

    @work(exclusive=True, group="details")
    async def load_details(self, run_id: str) -> None:
        """Fetch one record and show it; a newer choice cancels this one."""
        details = self.query_one(RunDetails)
        try:
            record = await asyncio.to_thread(self.session.store.get, run_id)
        except LabError as exc:
            details.show(None, str(exc))
            return
        details.show(record, "" if record is not None else f"{run_id} is not in the store any more")
        self.query_one("#details-box", VerticalScroll).scroll_home(animate=False)

    def run_id_to_copy(self) -> str | None:
        return self.query_one("#runs", RunsTable).chosen
