"""The ways to a testbed, to choose one."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message

from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Lines, Span, field

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
