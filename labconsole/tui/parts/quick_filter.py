"""The line that `/` opens: the typed text narrows a table at once. Enter keeps it, esc drops it."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.typed_text import TypedText

MOST_CHARACTERS = 100


class _Typed(HasActions, TypedText):
    """Enter and the arrows keep what was typed."""

    ACTIONS = (
        Action("escape", "leave(False)", "Drop the filter", shown=False),
        Action("enter,up,down", "leave(True)", "Keep the filter", shown=False),
    )

    @dataclass
    class Left(Message):
        """The operator has finished typing."""

        keep: bool

    def action_leave(self, keep: bool) -> None:
        self.post_message(self.Left(keep))


class QuickFilter(Horizontal):
    """Hidden until opened. Sends Changed with every key and Left at the end."""

    @dataclass
    class Changed(Message):
        """The text changed."""

        text: str

    class Left(Message):
        """The table has the focus again."""

    def compose(self) -> ComposeResult:
        yield Static(" / ", markup=False)
        yield _Typed(compact=True, max_length=MOST_CHARACTERS, select_on_focus=False)
        yield Static("show rows that contain these words · enter: keep, esc: clear", classes="quick-help", markup=False)

    def on_mount(self) -> None:
        self.display = False

    def open(self) -> None:
        """Open the line for typing."""
        self.display = True
        self.screen.set_focus(self.query_one(_Typed))

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(_Typed.Left)
    def leave(self, event: _Typed.Left) -> None:
        event.stop()
        if not event.keep:
            self.query_one(_Typed).value = ""
        self.display = event.keep and bool(self.query_one(_Typed).value)
        self.post_message(self.Left())
