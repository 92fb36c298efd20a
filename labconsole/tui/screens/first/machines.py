"""The form: a row for each machine with its role and SSH address, and the login for all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from labconsole.engine.discovery.discovery import DiscoveryRequest
from labconsole.engine.discovery.machines import parse_machines
from labconsole.errors import ConfigError
from labconsole.model.inventory import NAME, Defaults
from labconsole.tui.parts.fields import Choice, Field

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
