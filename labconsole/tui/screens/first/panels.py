"""The panels of the first start: the ways to a testbed, the machines, the result of their discovery."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from labconsole.engine.discovery.discovery import DiscoveryRequest
from labconsole.engine.discovery.machines import MachineSpec, parse_machines
from labconsole.engine.discovery.wiring import ProposedStream
from labconsole.errors import ConfigError
from labconsole.model.inventory import NAME, Defaults
from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.units import format_rate_bps

# -- choices -----------------------------------------------------------------------------------------------------------
# The ways to a testbed, to choose one.

CHOICES = (
    (
        "machines",
        "Machines of my own",
        "They are reached over SSH and connected by cables. labconsole discovers how they are wired and proposes a "
        "testbed.",
    ),
    (
        "demo",
        "A demo on this machine",
        "A testbed is made on this machine, with real SSH and real packets, and removed when you leave.",
    ),
    ("blank", "A blank file", "hosts.yaml is written with every section explained, and you fill it in."),
)


class Choices(HasActions, Lines, can_focus=True):
    """The list of ways: up and down, enter."""

    ACTIONS = (
        Action("up,k", "go(-1)", "Up", "Go to the choice above.", id="row-up", shown=False, common=True),
        Action("down,j", "go(1)", "Down", "Go to the choice below.", id="row-down", shown=False, common=True),
        Action("enter", "take", "Choose", "Choose it.", common=True),
    )

    @dataclass
    class Taken(Message):
        """A way was chosen."""

        way: str

    def __init__(self) -> None:
        super().__init__(id="ways")
        self._at = 0

    def lines(self, width: int) -> list[list[Span]]:
        rows: list[list[Span]] = []
        for index, (_, title, description) in enumerate(CHOICES):
            here = index == self._at
            rows.append([(" ▸ " if here else "   ", "accent"), (title, "tab" if here and self.has_focus else "strong")])
            rows += field("", description, width, "muted", label_cells=2)
            rows.append([])
        return rows

    def on_focus(self) -> None:
        self.paint()

    def on_blur(self) -> None:
        self.paint()

    def on_click(self, event: events.Click) -> None:
        """Choose the way under the mouse."""
        rows, last = 0, 0
        for index, (_, _, description) in enumerate(CHOICES):
            if event.y >= rows:
                last = index
            rows += 2 + len(field("", description, self.size.width, "muted", label_cells=2))
        self._at = last
        self.action_take()

    def action_go(self, by: int) -> None:
        self._at = min(len(CHOICES) - 1, max(0, self._at + by))
        self.paint()

    def action_take(self) -> None:
        self.post_message(self.Taken(CHOICES[self._at][0]))


# -- machines ----------------------------------------------------------------------------------------------------------
# The form: a row for each machine with its role and SSH address, and the login for all of them.

ROLES = {
    "uut": "unit under test",
    "source": "source",
    "sink": "sink",
    "source+sink": "source and sink",
    "": "by name and cables",
}
FIRST_ROLES = ("uut", "source", "sink")
_LOGIN = re.compile(r"[^\s'\"`$\\;&<>|(){}?]{0,320}")
_FILE = re.compile(r"[^?]{0,4096}")
_TESTBED = re.compile(r"[A-Za-z0-9_.-]{0,64}")
SSH_CONFIG = str(Defaults().ssh_config)


class TypedField(Field):
    """Any text. Enter moves on at once: text typed after it is for the next field."""

    def __init__(self, value: str, prefix: re.Pattern[str], id: str) -> None:
        super().__init__(value, prefix=prefix, presets=(), id=id)

    async def action_submit(self) -> None:
        await _form(self).go_on(self)

    def action_go(self, by: int) -> None:
        _form(self).go_to_row(self, by)


class FormChoice(Choice):
    """A choice in which up and down stay in its column."""

    def action_go(self, by: int) -> None:
        _form(self).go_to_row(self, by)


def _form(widget: Widget) -> MachinesForm:
    return next(each for each in widget.ancestors if isinstance(each, MachinesForm))


class MachineRow(Horizontal):
    """One machine, or none while its address is empty."""

    def __init__(self, number: int, role: str) -> None:
        super().__init__(classes="first-row")
        self._number, self._role = number, role

    def compose(self) -> ComposeResult:
        yield FormChoice(tuple(ROLES), self._role, id=f"role{self._number}", shown=ROLES)
        yield TypedField("", _LOGIN, f"address{self._number}")

    @property
    def address(self) -> str:
        """The address. Also empty while the row is being made."""
        return "".join(each.value.strip() for each in self.query(Field))

    def word(self) -> str:
        """The machine in the command's notation."""
        role = self.query_one(Choice).value
        return f"{role}={self.address}" if role else self.address


class MachinesForm(VerticalScroll, can_focus=False):
    """The form's rows, always with an empty one at the end."""

    def __init__(self) -> None:
        super().__init__(id="machines")
        self._made = 0
        self._growing = asyncio.Lock()

    def _row(self) -> MachineRow:
        role = FIRST_ROLES[self._made] if self._made < len(FIRST_ROLES) else ""
        self._made += 1
        return MachineRow(self._made, role)

    def compose(self) -> ComposeResult:
        yield Static(
            "One row for each machine: an SSH destination, or user@host:port. Log in to each once with `ssh` "
            "before, so that its host key is known.",
            classes="first-words",
            markup=False,
        )
        with Horizontal(classes="first-row"):
            yield Static("Role", classes="first-head")
            yield Static("Machine", classes="first-head")
        with Vertical(id="rows"):
            for _ in FIRST_ROLES:
                yield self._row()
        yield Static("All of them", classes="first-head first-gap")
        with Horizontal(classes="first-row"):
            yield Static("Log in as", classes="first-label")
            yield FormChoice(("root", "sudo"), "root", id="become", shown={"sudo": "a user with sudo"})
        for label, value, prefix, id in (
            ("SSH configuration", SSH_CONFIG, _FILE, "ssh-config"),
            ("Name of testbed", "testbed", _TESTBED, "testbed"),
        ):
            with Horizontal(classes="first-row"):
                yield Static(label, classes="first-label")
                yield TypedField(value, prefix, id)
        with Horizontal(classes="first-row first-gap"):
            yield Button(Content("Discover"), id="discover", compact=True)

    def rows(self) -> Iterator[MachineRow]:
        """The rows from the top."""
        yield from self.query(MachineRow).results(MachineRow)

    @on(Input.Changed)
    async def changed(self, event: Input.Changed) -> None:
        """Add another empty row as soon as the last one is not empty."""
        event.stop()
        await self._grow()

    async def _grow(self) -> None:
        async with self._growing:  # once it is made, and not twice
            *_, last = self.rows()
            if last.address:
                await self.query_one("#rows").mount(self._row())

    async def go_on(self, field: TypedField) -> None:
        """Go to the next machine, or from an empty row to the start of the discovery."""
        await self._grow()  # text typed next is for that row, and may arrive before the change event
        fields = [row.query_one(Field) for row in self.rows()]
        here = next((at for at, each in enumerate(fields) if each is field), None)
        if here is None:
            self.screen.focus_next()
        elif here + 1 < len(fields) and field.value.strip():
            self.screen.set_focus(fields[here + 1])
        else:
            self.screen.set_focus(self.query_one("#discover"))

    def go_to_row(self, widget: Widget, by: int) -> None:
        """Go to the row above or below, in the same column if it has one."""
        machines: list[list[Widget]] = [[*row.query(Choice), *row.query(Field)] for row in self.rows()]
        others = [[self.query_one(name)] for name in ("#become", "#ssh-config", "#testbed", "#discover")]
        grid: list[list[Widget]] = [row for row in (*machines, *others) if row]
        here = next(at for at, row in enumerate(grid) if widget in row)
        to = here + by
        if 0 <= to < len(grid):
            column = grid[here].index(widget) if len(grid[here]) > 1 else -1
            self.screen.set_focus(grid[to][min(column, len(grid[to]) - 1)])

    def first_field(self) -> Field:
        """The field to start typing in."""
        return next(self.rows()).query_one(Field)

    @property
    def testbed(self) -> str:
        return self.query_one("#testbed", Field).value

    def request(self, *, take_over: bool = False) -> DiscoveryRequest:
        """Build the request for a discovery. Raises ConfigError."""
        machines = [row.word() for row in self.rows() if row.address]
        if not machines:
            raise ConfigError("type the name or address of each machine first")
        if NAME.match(self.testbed) is None:
            raise ConfigError(
                "is not a name", key="name of testbed", value=self.testbed, allowed="letters, digits, '.', '_', '-'"
            )
        config = self.query_one("#ssh-config", Field).value.strip()
        return DiscoveryRequest(
            parse_machines(machines),
            None if config in ("", SSH_CONFIG) else config,
            self.query_one("#become", Choice).value == "sudo",
            take_over,
        )


# -- discovery result --------------------------------------------------------------------------------------------------
# Progress at the nodes, and the result: the cables drawn, and the proposed hosts.yaml.

NAME_CELLS = 24
SHORTEST, LONGEST = 4, 16
"""Limits of a cable's length, in cells."""


class NodesAtWork(Lines):
    """A line for each node with its present activity."""

    def __init__(self) -> None:
        super().__init__(id="at-work")
        self._machines: Sequence[MachineSpec] = ()
        self._doing: dict[str, str] = {}

    def begin(self, machines: Sequence[MachineSpec]) -> None:
        self._machines, self._doing = machines, {}
        self.repaint()

    def tell(self, node: str, activity: str) -> None:
        """Show the activity of ``node``, which is one of those requested."""
        self._doing[node] = activity
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        longest = min(NAME_CELLS, max((cell_len(each.name) for each in self._machines), default=0))
        rows: list[list[Span]] = []
        for each in self._machines:
            name = safe(each.name, longest)
            rows += field(name, self._doing.get(each.name, ""), width, rows=6, label_cells=longest + 2)
        return rows


class DiscoveryText(Lines):
    """Lines that wrap. ``head``: draws the lines above them, for a width."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._streams: Sequence[ProposedStream] = ()
        self._text: Sequence[str] = ()

    def show(self, text: Sequence[str], streams: Sequence[ProposedStream] = ()) -> None:
        self._text, self._streams = text, streams
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        rows = draw_streams(self._streams, width)
        for line in self._text:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            wrapped = textwrap.wrap(
                safe(line, 4000),
                max(20, width - 2),
                subsequent_indent=indent,
                replace_whitespace=False,
                drop_whitespace=True,
                break_on_hyphens=False,
            )
            tone = "muted" if line.lstrip().startswith("#") else ""
            rows += [[(f" {row}", tone)] for row in wrapped] or [[]]
        return rows


def draw_streams(streams: Sequence[ProposedStream], width: int) -> list[list[Span]]:
    """Draw every stream from its source through the UUT to its sink, with the speeds that the ports reported."""
    if not streams:
        return []
    sources = [safe(str(each.source), NAME_CELLS) for each in streams]
    sinks = [safe(str(each.sink), NAME_CELLS) for each in streams]
    inner = [(safe(each.uut_in.interface, 15), safe(each.uut_out.interface, 15)) for each in streams]
    uut = safe(streams[0].uut_in.node, NAME_CELLS)
    left, right = max(map(cell_len, sources)), max(map(cell_len, sinks))
    box = max(cell_len(uut) + 2, max(cell_len(a) + cell_len(b) for a, b in inner) + 5)
    cable = min(LONGEST, max(SHORTEST, (width - left - right - box - 12) // 2))
    margin = " " * (1 + left + 1 + cable)
    top = "─" * (box - 1 - cell_len(uut))
    rows: list[list[Span]] = [[], [(f"{margin}┌─", "muted"), (uut, "strong"), (f"{top}┐", "muted")]]
    for number, (stream, source, sink, (near, far)) in enumerate(zip(streams, sources, sinks, inner, strict=True), 1):
        gap = " " * (box - 2 - cell_len(near) - cell_len(far))
        rows.append(
            [
                (f" {' ' * (left - cell_len(source))}{source} ", ""),
                (_cable(stream.source.speed_bps, cable), "accent"),
                ("┤", "muted"),
                (f" {near}{gap}{far} ", ""),
                ("├", "muted"),
                (_cable(stream.sink.speed_bps, cable), "accent"),
                (f" {sink}{' ' * (right - cell_len(sink))}", ""),
                (f"  s{number}", "muted"),
            ]
        )
    return [*rows, [(f"{margin}└{'─' * box}┘", "muted")], []]


def _cable(speed_bps: int | None, cells: int) -> str:
    """Draw a line, with the speed on it if there is room."""
    speed = "" if speed_bps is None else f" {format_rate_bps(speed_bps)} "
    if not speed or cell_len(speed) + 2 > cells:
        return "─" * cells
    before = (cells - cell_len(speed)) // 2
    return "─" * before + speed + "─" * (cells - before - cell_len(speed))
