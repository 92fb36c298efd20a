"""One line of text asked for: a note, a file's name. It stays open, saying why, until the text is taken."""

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
"""Does what the text is for; the result is why it could not, "" when it could."""


class AskText(HasActions, ModalScreen[None]):
    """Closes once ``take`` took the text. Esc leaves without."""

    CSS_PATH = "ask_text.tcss"
    ACTIONS = (Action("escape", "dismiss", "Cancel", "Close it without a change.", id="ask-cancel", common=True),)

    def __init__(self, question: str, value: str, words: str, take: Take) -> None:
        super().__init__()
        self._question, self._value, self._words, self._take = question, value, words, take

    def compose(self) -> ComposeResult:
        with Vertical(id="ask-box"):
            yield Static(safe(self._question, 200), id="ask-question", markup=False)
            yield TypedText(self._value, compact=True, id="ask-text", select_on_focus=False)
            yield Static(safe(self._words, 400), id="ask-words", markup=False)
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
