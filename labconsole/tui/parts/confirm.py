"""One question before something irreversible. The default is no: only one key says yes."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import dialog_keys


class Confirm(HasActions, ModalScreen[bool]):
    """Dismisses with True for yes. Enter, too, means no: an operator may press it before reading the question."""

    ACTIONS = (
        Action("y", "answer(True)", "Yes", "Do it.", id="answer-yes", common=True),
        Action("n,escape,enter,q", "answer(False)", "No", "Do not do it.", id="answer-no", common=True),
    )

    def __init__(self, question: str, consequence: str) -> None:
        super().__init__()
        self._question, self._consequence = question, consequence

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm-box"):
            yield Static(safe(self._question, 200), id="confirm-question", markup=False)
            yield Static(safe(self._consequence, 400), markup=False)
            yield Static(dialog_keys(self), id="confirm-keys", markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


def take_over_question(refusal: object) -> Confirm:
    """Build the question before taking another operator's lease. ``refusal`` says whose it is."""
    return Confirm("The testbed is in use. Take it over?", f"{refusal}. Their run is aborted and recorded so.")
