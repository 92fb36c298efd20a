"""The bench: set up, run, watch. Everything that a trial is, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Button, Footer

from labconsole.tui.screens.base import PAUSE, ConsoleScreen
from labconsole.tui.session import RunSummaryLike, SessionLike, ViewName
from labconsole.tui.state import ConsoleState
from labconsole.tui.widgets.interfaces import InterfacesTable
from labconsole.tui.widgets.nodes import NodesTable
from labconsole.tui.widgets.rate_chart import RateChart
from labconsole.tui.widgets.runs_table import RunsTable
from labconsole.tui.widgets.setup import LABELS, SetupPanel
from labconsole.tui.widgets.status import EventLines, PhaseBar
from labconsole.tui.widgets.streams import StreamsTable
from labconsole.tui.widgets.table import LineTable

VIEWS: tuple[ViewName, ...] = ("interfaces", "chart", "nodes")


class BenchScreen(ConsoleScreen):
    """Set-up, streams, chart, nodes, interfaces; the last runs where there is room."""

    WHERE = "Bench"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Run", id="run", tooltip="Start what the set-up says, with all its repetitions."),
        Binding(
            "a,escape", "abort", "Abort", id="abort", key_display="a",
            tooltip="Stop traffic, after one question; what was measured is kept. Without a trial, esc leaves a field.",
        ),
        PAUSE,
        Binding("e", "edit", "Set-up", id="edit", tooltip="Go to the set-up panel; arrows step through usual values."),
        Binding("n", "stream(1)", "Stream", show=False, id="stream-next", tooltip="Chart the next stream."),
        Binding("N", "stream(-1)", "Stream back", show=False, id="stream-back", tooltip="Chart the one before."),
        Binding("v", "view", "View", id="view", tooltip="On a small terminal: interfaces, chart, nodes in turn."),
        Binding("i", "interfaces", "Interfaces", show=False, id="interfaces", tooltip="Go to the table of interfaces."),
    ]  # fmt: skip
    AUTO_FOCUS = "#streams"

    def __init__(self, session: SessionLike, state: ConsoleState) -> None:
        super().__init__(session, state)
        self.view: ViewName = "interfaces"
        self.add_class("-view-interfaces")  # before mounting: a class set later costs a restyling of everything

    def compose(self) -> ComposeResult:
        inventory, telemetry = self.session.inventory, self.session.telemetry
        yield self.top_bar()
        yield PhaseBar(self.state)
        with Container(id="upper"):
            with Container(id="left"):
                yield SetupPanel(inventory)
                yield NodesTable(inventory, telemetry)
            with Container(id="right"):
                yield StreamsTable(inventory, telemetry, self.state)
                yield RateChart(telemetry, self.state)
        with Container(id="lower"):
            yield InterfacesTable(inventory, telemetry)
            yield RunsTable(id="recent-runs")
        yield EventLines(self.state)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#recent-runs", RunsTable).border_title = "Last runs"
        self.show_runs(self.console_app.runs)
        self.call_after_refresh(self.console_app.bench_is_painted)

    def show_runs(self, runs: Sequence[RunSummaryLike]) -> None:
        """Take the list of saved runs."""
        self.query_one("#recent-runs", RunsTable).show(runs[:50])

    def set_view(self, view: ViewName) -> None:
        """Which of the lower parts a small terminal shows."""
        self.view = view
        for name in VIEWS:
            self.set_class(name == view, f"-view-{name}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Views are for small terminals: larger ones show all parts at once."""
        return action != "view" or self.has_class("-narrow")

    def on_resize(self) -> None:
        self.refresh_bindings()

    def paint_clock(self) -> None:
        self.query_one(PhaseBar).paint()

    def paint_data(self) -> None:
        self.set_class(self.state.asked or self.state.trial is not None, "-running")
        chart, streams = self.query_one(RateChart), self.query_one(StreamsTable)
        chart.stream = streams.chosen
        for part in (streams, chart, self.query_one(InterfacesTable), self.query_one(NodesTable)):
            part.paint()
        self.query_one(EventLines).paint()
        self.query_one("#abort", Button).disabled = not (self.state.asked or self.session.running)

    @on(LineTable.Chosen, "#streams")
    def follow_stream(self) -> None:
        chart = self.query_one(RateChart)
        chart.stream = self.query_one(StreamsTable).chosen
        chart.paint()

    @on(Button.Pressed, "#run")
    def action_run(self) -> None:
        reading = self.query_one(SetupPanel).reading
        if reading.request is None:
            field, problem = next(iter(reading.problems.items()))
            self.query_one(f"#{field}" if field in LABELS else "#platform").focus()
            self.console_app.tell(problem.sentence, "error")
            return
        self.console_app.start_run(reading.request, reading.repetitions)

    @on(Button.Pressed, "#abort")
    def press_abort(self) -> None:
        self.console_app.ask_abort()

    def action_abort(self) -> None:
        """Ask, if something runs; else leave the field."""
        if self.state.asked or self.session.running:
            self.console_app.ask_abort()
        else:
            self.query_one(StreamsTable).focus()

    def action_edit(self) -> None:
        if self.has_class("-narrow"):
            if self.has_class("-running"):
                self.console_app.tell("On a small terminal the set-up is hidden while a trial runs.")
                return
            self.set_view("interfaces")
        self.query_one("#platform").focus()

    def action_interfaces(self) -> None:
        self.set_view("interfaces")
        self.query_one(InterfacesTable).focus()

    def action_stream(self, by: int) -> None:
        self.query_one(StreamsTable).choose_next(by)

    def action_view(self) -> None:
        self.set_view(VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)])
        self._seen = ()
        self.call_after_refresh(self.tick)

    def commands(self) -> Iterable[tuple[str, str, Callable[[], object]]]:
        yield "Run", "Start what the set-up says (r)", self.action_run
        yield "Abort", "Stop traffic, keep what was measured (a)", self.console_app.ask_abort
        yield "Edit the set-up", "Go to the set-up panel (e)", self.action_edit
        yield "Next stream", "Chart the next stream (n)", lambda: self.action_stream(1)
        yield "Change view", "Interfaces, chart, nodes on a small terminal (v)", self.action_view
        yield "Interfaces", "Go to the table of interfaces (i)", self.action_interfaces

    def run_id_to_copy(self) -> str | None:
        if self.state.trial is not None:
            return self.state.trial.run_id
        if self.focused is not None and self.focused.id == "recent-runs":
            return self.query_one("#recent-runs", RunsTable).chosen
        return self.state.last.run_id if self.state.last is not None else None
