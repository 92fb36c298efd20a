"""Dialog for one line of text: a note, a file's name. It stays open, showing why, until the text is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import dialog_keys
from labconsole.tui.parts.typed_text import TypedText

Take = Callable[[str], Awaitable[str]]
"""Uses the text. Returns why it could not, or ""."""


class AskText(HasActions, ModalScreen[None]):
    """Closes once ``take`` accepted the text. Esc leaves without."""

    CSS_PATH = "ask_text.tcss"
    ACTIONS = (Action("escape", "dismiss", "Cancel", "Close it without a change.", id="ask-cancel", common=True),)

    def __init__(self, question: str, value: str, explanation: str, take: Take) -> None:
        super().__init__()
        self._question, self._value, self._explanation, self._take = question, value, explanation, take

    def compose(self) -> ComposeResult:
        with Vertical(id="ask-box"):
            yield Static(safe(self._question, 200), id="ask-question", markup=False)
            yield TypedText(self._value, compact=True, id="ask-text", select_on_focus=False)
            yield Static(safe(self._explanation, 400), id="ask-words", markup=False)
            yield Static("", id="ask-problem", markup=False)
            yield Static(f"enter: accept      {dialog_keys(self)}", id="ask-keys", markup=False)

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._try(event.value)

    @work(exclusive=True)
    async def _try(self, text: str) -> None:
        problem = await self._take(text)
        if not problem:
            self.dismiss()
            return
        self.query_one("#ask-problem", Static).update(f"✗ {safe(problem, 400)}")
