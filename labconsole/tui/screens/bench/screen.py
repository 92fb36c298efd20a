"""The bench: set up, run, watch. A whole trial on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Button

from labconsole.engine.execution.progress import StepState
from labconsole.engine.live.events import Event, NodeState, TrialStarted
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError
from labconsole.model.design_point import DesignPoint
from labconsole.model.record.summary import RunSummary
from labconsole.text.cells import safe
from labconsole.tui.console import clock
from labconsole.tui.console.form import FormValues, find_source_limit
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.charts import OverTimeChart, RateChart
from labconsole.tui.parts.dialogs import Pick
from labconsole.tui.parts.filter_line import FilterFinished, QuickFilter
from labconsole.tui.parts.lines import set_border_titles
from labconsole.tui.parts.runs_table import RunsTable
from labconsole.tui.parts.screen import PAUSE, Application, abort_action
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.parts.step_screen import GuestsTable
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.bench.interfaces import SORTS, InterfacesTable
from labconsole.tui.screens.bench.nodes import NodesTable, UutView
from labconsole.tui.screens.bench.search_actions import BenchSearchScreen
from labconsole.tui.screens.bench.setup import LABELS, MeasurementPanel, SetupPanel, UutNow
from labconsole.tui.screens.bench.streams import RepetitionsTable, StreamsTable
from labconsole.tui.screens.bench.topology import Topology

ViewName = Literal["interfaces", "topology", "chart", "nodes", "repetitions"]
VIEWS: tuple[ViewName, ...] = ("interfaces", "topology", "chart", "nodes", "repetitions")

LOOK_S = 10.0
"""Interval for looking at the unit under test while nothing runs: each look costs it some milliseconds."""


class BenchScreen(BenchSearchScreen):
    """Set-up, streams, chart, nodes, interfaces. The last runs if there is room."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "r",
            "run",
            "Run",
            "Measure the design point in the set-up panel, with all its repetitions.",
            id="run",
            changes=True,
        ),
        abort_action("abort", "Abort the trial, after asking. What was measured is kept."),
        Action(
            "f",
            "search",
            "Find load",
            "Find the highest load of the set-up (NDR, PDR, RFC 2544), or show the search that runs.",
            id="search",
            changes=True,
            title="Search for the highest load",
            shown=False,
        ),
        Action(
            "F",
            "earlier",
            "Searches",
            "Show the searches that are stored of this testbed, the newest first.",
            id="earlier-searches",
            title="Show stored searches",
            shown=False,
        ),
        Action(
            "escape",
            "leave_field",
            "Leave",
            "Leave the field, or the interfaces. Aborts nothing.",
            id="bench-back",
            title="Leave the field",
            shown=False,
        ),
        PAUSE,
        Action("e", "edit", "Set-up", "Go to the set-up panel.", id="edit", title="Edit the set-up"),
        Action(
            "n",
            "stream(1)",
            "Stream",
            "Show the next stream in the chart.",
            id="stream-next",
            title="Next stream",
            shown=False,
        ),
        Action(
            "N",
            "stream(-1)",
            "Stream back",
            "Show the previous stream in the chart.",
            id="stream-back",
            title="Previous stream",
            shown=False,
        ),
        Action(
            "c",
            "chart",
            "All streams",
            "Chart one stream, or all of them on one scale.",
            id="chart-all",
            title="Chart one stream or all",
            shown=False,
        ),
        Action(
            "v",
            "view",
            "View",
            "On a small terminal: switch between interfaces, topology, chart, nodes, …",
            id="view",
            title="Change the view",
        ),
        Action(
            "t",
            "topology",
            "Topology",
            "Show the streams' way through the testbed, or the interfaces again.",
            id="topology",
        ),
        Action("i", "interfaces", "Interfaces", "Go to the table of interfaces.", id="interfaces", shown=False),
        Action(
            "slash",
            "filter",
            "Filter",
            "Show only interfaces that match what you type.",
            id="interfaces-filter",
            title="Filter interfaces",
        ),
        Action(
            "s",
            "sort",
            "Sort",
            "Choose what the interfaces are sorted by.",
            id="interfaces-sort",
            title="Sort interfaces",
            shown=False,
        ),
        Action(
            "S",
            "reverse",
            "Reverse",
            "Reverse the sort order of the interfaces.",
            id="interfaces-reverse",
            title="Reverse interfaces",
            shown=False,
        ),
        Action(
            "g",
            "go_to_node",
            "Go to node",
            "Find a node by part of its name and go to its interfaces.",
            id="go-to-node",
            title="Go to a node",
            shown=False,
        ),
        Action("", "reload", "Reload runs", "Read the latest runs from the store again."),
    )
    AUTO_FOCUS = "#streams"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-normal"), (198, "-wide")]  # noqa: RUF012

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self.view: ViewName = "interfaces"
        self.uut = UutView()
        self._looked_s: float | None = None
        self._requested: tuple[DesignPoint, FormValues] | None = None
        self.add_class("-view-interfaces")  # before mounting: a class set later costs a restyling of everything

    def compose(self) -> ComposeResult:
        inventory, telemetry = self.session.inventory, self.session.telemetry
        yield self.top_bar()
        yield self.measuring_line()
        with Container(id="upper"):
            with Container(id="left"):
                remembered = self.console_app.memory.recall(inventory.testbed)
                run_key, abort_key = self.key_of("run"), self.key_of("abort")
                check, stored = self.session.check_now, self.session.check_stored
                yield SetupPanel(
                    inventory,
                    remembered,
                    check,
                    stored,
                    beyond=self._beyond_sources,
                    run_key=run_key,
                    abort_key=abort_key,
                    may_run=not self.session.read_only,
                )
                yield MeasurementPanel(self.state)
                yield NodesTable(inventory, telemetry)
            with Container(id="right"):
                yield StreamsTable(inventory, telemetry, self.state)
                yield RateChart(telemetry, self.state, inventory.uut)
                yield OverTimeChart(id="over-time")
                yield GuestsTable(id="guests")
        yield RepetitionsTable(inventory, self.state)  # wide: eight quantities in a row, at any size
        with Container(id="lower"):
            yield InterfacesTable(inventory, telemetry)
            yield Topology(inventory, telemetry, self.state)
            yield RunsTable(id="recent-runs")
        yield QuickFilter()
        yield EventLines(self.state)
        yield KeyBar()

    def format_start_hint(self) -> str:
        return f"press {self.key_of('run')} to start a trial"

    def begin(self) -> None:
        self.query_one("#recent-runs", RunsTable).border_title = "Last runs"
        settings = self.console_app.settings
        self.query_one(InterfacesTable).set_sort(settings.sort, reverse=settings.sort_reversed)
        self.show_runs(self.console_app.runs)
        self.call_after_refresh(self.console_app.bench_is_painted)

    def show_runs(self, runs: Sequence[RunSummary]) -> None:
        """Take the list of saved runs."""
        self.query_one("#recent-runs", RunsTable).show(runs[:50])
        self.query_one(SetupPanel).requery_store()

    def _beyond_sources(self, request: DesignPoint) -> tuple[str, ...]:
        """Warnings that a source does not reach the target, by the calibration or past runs."""
        limit = find_source_limit(request, self.session.envelope, self.console_app.runs)
        return limit.wordings(request.intended_pps) if limit is not None else ()

    def set_view(self, view: ViewName) -> None:
        """Choose which of the lower parts a small terminal shows."""
        self.view = view
        for name in VIEWS:
            self.set_class(name == view, f"-view-{name}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable views except on small terminals: larger ones show all parts at once."""
        return action != "view" or self.has_class("-narrow")

    def on_resize(self) -> None:
        self.refresh_bindings()

    def paint_clock(self) -> None:
        self._look_if_due()
        setup = self.query_one(SetupPanel)
        self.set_class(self._measuring and setup.has_focus_within, "-editing")
        set_border_titles(setup, "Set-up of the next run" if self._measuring else "Set-up")
        self.query_one(MeasurementPanel).paint()
        self._paint_guests()
        wordings, tone = self.uut.describe(self.session.lease_holders(), self.session.inventory.uut)
        self.query_one(UutNow).show(wordings, tone)

    def _paint_guests(self) -> None:
        """Show the guests of a step in place of the streams, since no stream is sent then."""
        execution = self.state.execution
        running = execution is not None and execution.running
        step = execution.steps.current if execution is not None and running else None
        if execution is not None and running and step is None and self.has_class("-crew"):
            # Between steps, or while the guests end: show the last finished one.
            taken = (StepState.DONE, StepState.FAILED)
            ended = (each for each in reversed(execution.steps.seen) if each.record and each.state in taken)
            if (last := next(ended, None)) is not None and last.picture.guests:
                self.query_one(GuestsTable).show(last.picture)
            return
        picture = step.picture if step is not None else None
        has_crew = picture is not None and bool(picture.guests)
        crew, streams = self.query_one(GuestsTable), self.query_one(StreamsTable)
        if self.has_class("-crew") != has_crew:
            shown, other = (crew, streams) if has_crew else (streams, crew)
            focused = self.focused is other
            self.set_class(has_crew, "-crew")
            if focused:
                self.set_focus(shown)
        self.set_class(has_crew and picture is not None and picture.over_time is not None, "-over-time")
        self.query_one(OverTimeChart).show(picture)
        crew.show(picture)

    @property
    def _measuring(self) -> bool:
        return self.state.measures

    def engine_event(self, event: Event) -> None:
        if isinstance(event, TrialStarted):
            self._looked_s = None  # look again right after it
            if self._requested is not None and event.request == self._requested[0]:
                self._remember(self._requested[1])  # accepted, and it runs: only such a set-up is worth remembering
                self._requested = None
            if event.repetitions > 1 and self.has_class("-narrow"):
                self.set_view("repetitions")

    def _look_if_due(self) -> None:
        """Look at the unit under test now and then, but never if that could disturb a measurement."""
        uut = self.session.telemetry.nodes[self.session.inventory.uut]
        now_s = clock.monotonic_s()
        if self._looked_s is not None and now_s - self._looked_s < LOOK_S:
            return
        if uut.state is not NodeState.CONNECTED:
            self.uut = UutView(why_not=f"{safe(uut.name, 20)} is {uut.state.value}")
        elif uut.quiet or self.state.requested or self.session.running or self.session.lease_holders():
            return
        else:
            self._looked_s = now_s
            self._look()

    @work(exclusive=True, group="uut")
    async def _look(self) -> None:
        try:
            self.uut = UutView(await self.session.inspect(self.session.inventory.uut))
        except LabError as exc:
            self.uut = UutView(why_not=safe(str(exc), 200))

    def paint_data(self) -> None:
        self.set_class(self._measuring, "-running")
        repeating = self.state.repetitions.is_worth_showing
        self.set_class(repeating, "-repeating")
        if not repeating and self.view == "repetitions":
            self.set_view("interfaces")
        streams = self.query_one(StreamsTable)
        self._follow_cursor()
        for part in (
            streams,
            self.query_one(RateChart),
            self.query_one(RepetitionsTable),
            self.query_one(InterfacesTable),
            self.query_one(Topology),
            self.query_one(NodesTable),
        ):
            part.paint()
        self.query_one(EventLines).paint()
        self.query_one("#abort", Button).disabled = not (self.state.requested or self.session.running)

    def _follow_cursor(self) -> None:
        """Chart the stream under the cursor, or the interface while the focus is in the table of interfaces."""
        chart, interfaces = self.query_one(RateChart), self.query_one(InterfacesTable)
        chart.stream = self.query_one(StreamsTable).chosen
        chart.interface = interfaces.chosen if interfaces.has_focus else None

    @on(LineTable.Chosen, "#streams, #interfaces")
    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def follow_cursor(self) -> None:
        if self.is_up:
            self._follow_cursor()
            self.query_one(RateChart).paint()

    @on(Button.Pressed, "#run")
    def action_run(self) -> None:
        if self.only_watches():
            return
        panel = self.query_one(SetupPanel)
        reading, request = panel.reading, self.requested()
        if request is None:
            return
        self.action_leave_field()  # typing during the run must not change the next request
        self._requested = (request, panel.values())
        self.console_app.start_run(request, reading.repetitions)

    def requested(self) -> DesignPoint | None:
        """The design point of the set-up, or None if a field is wrong. Then a message says so and the field gets the
        focus.
        """
        reading = self.query_one(SetupPanel).reading
        if reading.request is None:
            field, problem = next(iter(reading.problems.items()))
            self.set_focus(self.query_one(f"#{field}" if field in LABELS else "#platform"))
            self.console_app.tell(problem.sentence, "error")
        return reading.request

    @work(thread=True, exclusive=True, group="memory")
    def _remember(self, values: FormValues) -> None:
        self.console_app.memory.keep(self.session.inventory.testbed, values)

    @on(Button.Pressed, "#abort")
    def press_abort(self) -> None:
        self.action_abort()

    def action_leave_field(self) -> None:
        self.set_focus(self.query_one(StreamsTable))

    def action_edit(self) -> None:
        if self.has_class("-narrow"):
            if self.has_class("-running"):
                self.console_app.tell("On a small terminal, the set-up is hidden while a trial is running.")
                return
            self.set_view("interfaces")
        self.add_class("-editing")  # hidden during another measurement until the operator wants it
        self.set_focus(self.query_one("#platform"))

    def action_interfaces(self) -> None:
        self.set_view("interfaces")
        self.set_focus(self.query_one(InterfacesTable))

    def action_topology(self) -> None:
        self.set_view("interfaces" if self.view == "topology" else "topology")
        self._seen = ()
        self.call_after_refresh(self.tick)

    def action_filter(self) -> None:
        self.set_view("interfaces")
        self.query_one(QuickFilter).open()

    @on(QuickFilter.Changed)
    def narrow(self, event: QuickFilter.Changed) -> None:
        self.query_one(InterfacesTable).set_filter(event.text)

    @on(FilterFinished)
    def filtered(self) -> None:
        self.set_focus(self.query_one(InterfacesTable))

    def action_sort(self) -> None:
        """Ask for the quantity to sort by, in the dialog used for nodes."""
        self.set_view("interfaces")
        names = {label: name for name, label in SORTS.items()}

        def take(label: str | None) -> None:
            if label is not None:
                self.action_sort_by(names[label])

        self.app.push_screen(Pick("Sort the interfaces by", dict.fromkeys(names, "")), take)

    def action_sort_by(self, name: str) -> None:
        self.query_one(InterfacesTable).set_sort(name, reverse=False)

    def action_reverse(self) -> None:
        table = self.query_one(InterfacesTable)
        table.set_sort(table.sort, reverse=not table.reverse)

    @work(exclusive=True, group="ask")
    async def action_go_to_node(self) -> None:
        nodes, live = self.session.inventory.nodes, self.session.telemetry.nodes
        choices = {name: f"{'+'.join(node.roles)}, {live[name].state.value}" for name, node in nodes.items()}
        chosen = await self.app.push_screen_wait(Pick("Go to a node's interfaces", choices))
        if chosen is not None:
            self.action_show_node(chosen)

    def action_show_node(self, node: str) -> None:
        """Put the cursor on a node's interfaces."""
        self.set_view("interfaces")
        table = self.query_one(InterfacesTable)
        if table.go_to_node(node):
            self.set_focus(table)
        else:
            self.console_app.tell(f"{node} has no interface here: not connected, or hidden by the filter.", "warning")

    def action_stream(self, by: int) -> None:
        self.query_one(StreamsTable).choose_next(by)

    def action_chart(self) -> None:
        chart = self.query_one(RateChart)
        chart.every = not chart.every
        self.set_view("chart")
        self._seen = ()
        self.call_after_refresh(self.tick)

    def action_view(self) -> None:
        views = VIEWS if self.state.repetitions.is_worth_showing else VIEWS[:-1]
        self.set_view(views[(views.index(self.view) + 1) % len(views)])
        self._seen = ()
        self.call_after_refresh(self.tick)

    def action_reload(self) -> None:
        self.console_app.load_runs()

    def offered_actions(self) -> Iterable[Action]:
        yield from super().offered_actions()
        for name in self.session.inventory.nodes:
            yield Action("", f"show_node({name!r})", f"Go to {name}", "Go to its interfaces.")
        for name, label in SORTS.items():
            yield Action("", f"sort_by({name!r})", f"Sort interfaces by {label}", "The largest first; names in order.")

    def lines_to_copy(self) -> list[str]:
        run_id = None
        if self.state.trial is not None:
            run_id = self.state.trial.run_id
        elif self.focused is not None and self.focused.id == "recent-runs":
            run_id = self.query_one("#recent-runs", RunsTable).chosen
        elif self.state.last is not None:
            run_id = self.state.last.run_id
        return [run_id] if run_id else []
