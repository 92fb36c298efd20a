"""One question before something that cannot be taken back."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from labconsole.text.cells import safe


class Confirm(ModalScreen[bool]):
    """Dismisses with True for yes. Esc, n and q mean no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes", id="confirm-yes"),
        Binding("n,escape,q", "answer(False)", "No", id="confirm-no"),
    ]

    def __init__(self, question: str, consequence: str) -> None:
        super().__init__()
        self._question, self._consequence = question, consequence

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm-box"):
            yield Static(safe(self._question, 200), id="confirm-question", markup=False)
            yield Static(safe(self._consequence, 400), markup=False)
            yield Static("y or enter: yes      n or esc: no", id="confirm-keys", markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
