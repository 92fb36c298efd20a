"""Nodes: connections, states and commands. Reconnect one, look at it, open a shell on it.

A look happens on request (``l``, and once for a node under the cursor while nothing runs), never on a timer: it costs
the node work.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from textual import on, work
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Container, VerticalScroll

from labconsole.engine.live.events import NodeState
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError
from labconsole.tui.console import clock
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.lines import set_border_titles
from labconsole.tui.parts.screen import PAUSE, Application, ConsoleScreen, back_to_bench_action
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.nodes.node_panels import CommandTable, NodeDetails, NodeList

PARTS = ("details", "commands")


class NodesScreen(ConsoleScreen):
    """The nodes above, the details of the one under the cursor and its commands below."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "l",
            "look",
            "Look",
            "Read the node's settings and what else is running on it.",
            id="node-look",
            title="Look at the node",
        ),
        Action(
            "c",
            "reconnect",
            "Connect",
            "Try to reconnect a lost node now instead of waiting.",
            id="node-connect",
            title="Reconnect the node now",
        ),
        Action(
            "o",
            "shell",
            "Shell",
            "Open a shell on the node with ssh, by the console's own route.",
            id="node-shell",
            changes=True,
            title="Open a shell on the node",
        ),
        Action(
            "v",
            "part",
            "View",
            "On a small terminal: switch between the node and its commands.",
            id="node-view",
            title="Change the view",
        ),
        back_to_bench_action("node"),
        PAUSE,
    )
    AUTO_FOCUS = "#node-list"

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._looked_at: set[str] = set()
        self._part = PARTS[0]
        self._second = -1
        self.add_class("-part-details")

    def compose(self) -> ComposeResult:
        nodes = NodeList(self.session.inventory, self.session.telemetry)
        yield self.top_bar()
        yield self.measuring_line()
        with Container(id="nodes-area"):
            yield nodes
            with Container(id="nodes-lower"):
                with VerticalScroll(id="node-box") as box:
                    box.border_title = "Node"
                    yield NodeDetails(self.session.inventory, nodes.live, self.session.lease_holders)
                yield CommandTable()
        yield EventLines(self.state)
        yield KeyBar()

    def offered_actions(self) -> Iterable[Action]:
        yield from super().offered_actions()
        for name in self.session.inventory.nodes:
            yield Action("", f"show_node({name!r})", f"Go to node {name}", "Move the cursor to it.")

    def action_show_node(self, name: str) -> None:
        self.query_one(NodeList).move_to(name)

    @property
    def _chosen(self) -> str | None:
        key = self.query_one(NodeList).cursor_key
        return key if isinstance(key, str) else None

    def paint_clock(self) -> None:
        name = self._chosen
        if name is not None:
            self.query_one(CommandTable).show(self.query_one(NodeList).live(name).history)
        second = int(clock.monotonic_s())
        if second != self._second:  # ages and back-offs change without an event
            self._second = second
            self.query_one(NodeList).paint()
            self.query_one(NodeDetails).paint()

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()
        self.query_one(NodeList).paint()
        self.query_one(NodeDetails).paint()
        name = self._chosen
        self._look_once(name)

    def _look_once(self, name: str | None) -> None:
        if name is not None and name not in self._looked_at and self._can_look(name):
            self._looked_at.add(name)
            self._look(name)

    def _can_look(self, name: str) -> bool:
        live = self.query_one(NodeList).live(name)
        busy = self.state.requested or self.session.running or name in self.session.lease_holders()
        return live.state is NodeState.CONNECTED and not busy

    @on(LineTable.Chosen, "#node-list")
    def show_node(self) -> None:
        name = self._chosen
        self.query_one(NodeDetails).show(name)
        self.query_one("#node-box", VerticalScroll).scroll_home(animate=False)
        if name is not None:
            set_border_titles(self.query_one("#node-box"), name)
            self.query_one(CommandTable).show(self.query_one(NodeList).live(name).history)
            self._look_once(name)

    def action_look(self) -> None:
        name = self._chosen
        if name is not None:
            self._look(name, report_failure=True)

    @work(group="look")
    async def _look(self, name: str, *, report_failure: bool = False) -> None:
        self._looked_at.add(name)
        details = self.query_one(NodeDetails)
        try:
            inspection = await self.session.inspect(name)
        except LabError as exc:
            details.refused(name, str(exc))
            if report_failure:
                self.console_app.tell(str(exc), "warning", note=False)
            return
        details.looked(name, inspection)

    def action_reconnect(self) -> None:
        name = self._chosen
        if name is None:
            return
        live = self.query_one(NodeList).live(name)
        if live.state is NodeState.CONNECTED:
            self.console_app.tell(f"{name} is already connected.")
        elif self.session.reconnect(name):
            self.console_app.tell(f"{name} is being reconnected.")
        else:
            self.console_app.tell(f"{name} is already being reconnected.")

    @work(group="shell", exclusive=True)
    async def action_shell(self) -> None:
        """Hand the terminal to ssh. A running measurement goes on, without painting."""
        if self.only_watches():
            return
        name = self._chosen
        if name is None:
            return
        try:
            argv = await asyncio.to_thread(self.session.shell_argv, name)
        except LabError as exc:
            self.console_app.tell(str(exc), "error")
            return
        self.state.note(clock.wall_s(), f"shell: {' '.join(argv)}", node=name)
        try:
            status = await self._run_in_terminal(name, argv)
        except SuspendNotSupported:
            self.console_app.tell("This terminal cannot be handed over. The ssh command is in the log (7).", "warning")
        except OSError as exc:
            self.console_app.tell(f"{argv[0]}: {exc.strerror or exc}", "error")
        else:
            severity = "warning" if status == SSH_FAILED else "information"
            self.state.note(clock.wall_s(), f"shell ended with status {status}", severity, node=name)
        self.refresh()

    async def _run_in_terminal(self, name: str, argv: list[str]) -> int:
        """Run a program on the terminal. The console lives on, unseen: agents end if they hear nothing."""
        with self.app.batch_update(), self.app.suspend(), interrupts_ignored():
            print(f"labconsole: a shell on {name}; exit it to return. A running trial continues.\n", flush=True)
            process = await asyncio.create_subprocess_exec(*argv)
            return await process.wait()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable views except on small terminals: larger ones show both at once."""
        return action != "part" or self.has_class("-narrow")

    def on_resize(self) -> None:
        self.refresh_bindings()

    def action_part(self) -> None:
        self._part = PARTS[1 - PARTS.index(self._part)]
        for part in PARTS:
            self.set_class(part == self._part, f"-part-{part}")
        self._seen = ()
        self.call_after_refresh(self.tick)

    def lines_to_copy(self) -> list[str]:
        """The command under the cursor, else the node's name."""
        if self.focused is not None and self.focused.id == "commands":
            command = self.query_one(CommandTable).chosen
            if command is None:
                return []
            return [command.words if command.argv else f"{command.op} {command.words}"]
        return [self._chosen] if self._chosen else []


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C, which belongs to the program on the terminal: it reaches us too until ssh sets raw mode."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, lambda: None)
    except (NotImplementedError, ValueError, RuntimeError):  # as in ConsoleApp.on_mount
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


SSH_FAILED = 255
"""ssh's own exit status for a failed connection."""
