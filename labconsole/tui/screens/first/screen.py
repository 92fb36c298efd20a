"""The first start: available ways, machines, their cables as found, and the resulting hosts.yaml.

It precedes every session: there is no testbed yet. Nothing stays on a node, however the operator leaves: a cancelled
discovery undoes what it did, and the console waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical, VerticalScroll
from textual.widgets import Button, ContentSwitcher

from labconsole.engine.discovery import discovery
from labconsole.engine.discovery.discovery import DiscoveryRequest, DiscoveryResult, HoldNodes, discover_testbed
from labconsole.engine.discovery.hosts_file import blank_hosts, describe_next_steps, write_new
from labconsole.engine.discovery.probing import ExcludedPort, Port
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError, LeaseHeld
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.dialogs import Confirm, take_over_question
from labconsole.tui.parts.lines import Lines, Span, field, set_border_titles
from labconsole.tui.parts.screen import DocumentedScreen
from labconsole.tui.screens.first.panels import Choices, DiscoveryText, MachinesForm, NodesAtWork

INTRODUCTION = "There is no hosts.yaml here to describe the testbed. What do you have?"
CANCELLED = "cancelled; what was changed on the machines was undone"


@dataclass(frozen=True, slots=True)
class FirstStart:
    """``hosts``: the file to write. ``session``: opens a session on that file, raises LabError. ``demo``: runs in place
    of this console once the operator has left it.
    """

    hosts: Path
    hold: HoldNodes
    session: Callable[[Path], SessionLike]
    demo: Callable[[], int]


class RunningDiscovery:
    """A running discovery. It is cancelled at most once: a second time would disturb the undoing."""

    def __init__(self, work: Coroutine[Any, Any, DiscoveryResult | None]) -> None:
        self._task = asyncio.create_task(work)
        self.cancelled = False

    async def ended(self) -> None:
        """Wait for the end, however it ends. Cancelling the waiting task does not cancel the discovery."""
        await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Cancel the discovery, and wait until everything is undone."""
        if not self.cancelled and not self._task.done():
            self.cancelled = True
            self._task.cancel()
        await self.ended()

    def result(self) -> DiscoveryResult | None:
        """The result, or None if it was cancelled or not agreed to. Raises what the discovery raised."""
        return None if self._task.cancelled() else self._task.result()


class FirstApplication(Protocol):
    """The screen's view of the application that shows it."""

    def start_session(self, session: Callable[[], SessionLike]) -> None:
        """Continue with the new testbed, and check it."""

    def leave_and_run(self, afterwards: Callable[[], int]) -> None:
        """Leave the console, then call ``afterwards``."""


class FirstLine(Lines):
    """The first line, and the last message."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._text, self._tone = "", ""

    def say(self, text: str, tone: str = "") -> None:
        self._text, self._tone = text, tone
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        return field("", self._text, width, self._tone, rows=5, label_cells=0) if self._text else []


class FirstScreen(DocumentedScreen):
    """The pages are ways, machines, found."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action(
            "ctrl+r",
            "discover",
            "Discover",
            "Log in to the machines and discover how they are wired.",
            id="first-discover",
            priority=True,
        ),
        Action(
            "w",
            "write",
            "Write",
            "Write hosts.yaml as proposed, after asking, and check the testbed.",
            id="first-write",
        ),
        Action(
            "escape",
            "back",
            "Back",
            "Go back; a discovery that runs is cancelled, and undone on the machines.",
            id="first-back",
        ),
    )
    title_in_help = "First start"

    def __init__(self, app: FirstApplication, means: FirstStart) -> None:
        super().__init__()
        self._app, self._means = app, means
        self._under_way: RunningDiscovery | None = None
        self._finding: DiscoveryResult | None = None
        self._leaving = False

    def compose(self) -> ComposeResult:
        yield FirstLine(id="first-line")
        with ContentSwitcher(initial="ways-page"):
            with Vertical(id="ways-page"):
                yield FirstLine(id="introduction")
                yield Choices()
            yield MachinesForm()
            with Container(id="found"):
                with VerticalScroll(id="work-box", can_focus=True):
                    yield NodesAtWork()
                with VerticalScroll(id="cables-box", can_focus=True):
                    yield DiscoveryText("cables")
                with VerticalScroll(id="file-box", can_focus=True) as file:
                    set_border_titles(file, "hosts.yaml, as it would be written")
                    yield DiscoveryText("file")
        yield FirstLine(id="first-said")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#first-line", FirstLine).say("labconsole   first start", "accent")
        self.query_one("#introduction", FirstLine).say(INTRODUCTION)
        self.set_focus(self.query_one(Choices))

    @property
    def page(self) -> str:
        """The visible page."""
        return self.query_one(ContentSwitcher).current or ""

    def _go(self, page: str, said: str = "", tone: str = "") -> None:
        self.query_one(ContentSwitcher).current = page
        self._say(said, tone)
        to = {"ways-page": self.query_one(Choices), "machines": self.query_one(MachinesForm).first_field()}
        self.set_focus(to.get(page, self.query_one("#cables-box")))
        self.refresh_bindings()

    def _say(self, text: str, tone: str = "") -> None:
        self.query_one("#first-said", FirstLine).say(text, tone)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.is_mounted:
            return False
        pages = {"discover": self.page == "machines", "write": self._finding is not None, "back": True}
        return pages.get(action, True) and not (action == "back" and self.page == "ways-page")

    @on(Choices.Taken)
    def take(self, event: Choices.Taken) -> None:
        if event.way == "machines":
            self._go("machines")
        elif event.way == "demo":
            self._app.leave_and_run(self._means.demo)
        else:
            self._blank()

    @work(group="first-file")
    async def _blank(self) -> None:
        hosts = self._means.hosts
        try:
            await asyncio.to_thread(write_new, hosts, blank_hosts())
        except LabError as exc:
            self._say(str(exc), "bad")
            return

        def say_next() -> int:
            print(*describe_next_steps(hosts), sep="\n")
            return 0

        self._app.leave_and_run(say_next)

    @on(Button.Pressed, "#discover")
    def action_discover(self) -> None:
        try:
            request = self.query_one(MachinesForm).request()
        except LabError as exc:
            self._say(str(exc), "bad")
            return
        self._discover(request)

    @work(group="discover")
    async def _discover(self, request: DiscoveryRequest) -> None:
        """Run a discovery. Only its own end or cancel() ends it, not a cancelled waiting task."""
        if self._under_way is not None:
            return
        self._finding = None
        nodes = self.query_one(NodesAtWork)
        nodes.begin(request.asked)
        self._show([], [])
        self._go("found", "logging in …")
        run = self._under_way = RunningDiscovery(discover_testbed(request, self._means.hold, self._agreed, nodes.tell))
        await run.ended()
        self._under_way = None
        if self._leaving:
            return
        try:
            finding = run.result()
        except LeaseHeld as exc:
            if not request.take_over and await self.app.push_screen_wait(take_over_question(exc)):
                self._discover(self.query_one(MachinesForm).request(take_over=True))
            else:
                self._say(str(exc), "bad")
            return
        except LabError as exc:
            self._say(str(exc), "bad")
            return
        if finding is None:
            self._go("machines", CANCELLED if run.cancelled else "nothing was sent")
        else:
            self._show_finding(finding)

    async def _agreed(self, ports: Sequence[Port], alone: Sequence[ExcludedPort]) -> bool:
        self._show(discovery.describe_ports(ports, alone), [])
        if not ports:
            return False
        consequence = "Ports that are down are set up for that, and down again. Nothing stays on the machines."
        if not await self.app.push_screen_wait(Confirm(discovery.format_question(ports), consequence)):
            return False
        self._say("trying the ports …")
        return True

    def _show(self, cables: Sequence[str], file: Sequence[str], finding: DiscoveryResult | None = None) -> None:
        streams = () if finding is None else finding.proposal.streams
        self.query_one("#cables", DiscoveryText).show(cables, streams)
        self.query_one("#file", DiscoveryText).show(file)
        set_border_titles(self.query_one("#cables-box"), "Ports" if finding is None else "Cables")
        self.query_one("#found").set_class(finding is not None, "-found")

    def _show_finding(self, finding: DiscoveryResult) -> None:
        said, tone = "found, and everything is undone; this file can be written now", ""
        try:
            text = finding.hosts_text(self.query_one(MachinesForm).testbed)
            self._finding = finding
        except LabError as exc:
            text, said, tone = "", str(exc), "bad"
        if finding.not_undone:
            said, tone = f"not restored: {'; '.join(finding.not_undone)}", "bad"
        self._show(discovery.describe_findings(finding.wiring, finding.proposal), text.splitlines(), finding)
        self._say(said, tone)
        self.refresh_bindings()

    @work(group="first-file", exclusive=True)
    async def action_write(self) -> None:
        """Ask for the file's name, write it, and continue with it."""
        finding, hosts = self._finding, self._means.hosts
        if finding is None:
            return
        question = Confirm(f"Write {hosts}?", "The testbed is checked then, and the console opens on it.")
        if not await self.app.push_screen_wait(question):
            return
        try:
            await asyncio.to_thread(write_new, hosts, finding.hosts_text(self.query_one(MachinesForm).testbed))
            session = await asyncio.to_thread(self._means.session, hosts)
        except LabError as exc:
            self._say(str(exc), "bad")
            return
        self._app.start_session(lambda: session)

    @work(group="first-back")
    async def action_back(self) -> None:
        if self._under_way is not None:
            self._say("cancelling, and undoing what was changed …", "warn")
            await self._under_way.cancel()
        elif self.page == "found":
            self._finding = None
            self._go("machines")
        else:
            self._go("ways-page")

    async def give_up(self) -> None:
        """Undo everything first: the operator is leaving the console."""
        self._leaving = True
        if self._under_way is not None:
            self._say("undoing what was changed on the machines …", "warn")
            await self._under_way.cancel()
