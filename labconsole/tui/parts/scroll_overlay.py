"""A text over the screen that only scrolls and closes: the help, the digest of an absence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import dialog_keys
from labconsole.tui.parts.lines import Lines, set_border_titles


class ScrollOverlay(HasActions, ModalScreen[None]):
    """Closes with esc or q. Subclasses add the key that opened them."""

    ACTIONS: ClassVar[Sequence[Action]] = (
        Action("escape,q", "dismiss", "Close", "Close it.", id="help-close", common=True),
        Action("down,j", "scroll_by(1)", "Down", "Scroll down.", id="row-down", shown=False, common=True),
        Action("up,k", "scroll_by(-1)", "Up", "Scroll up.", id="row-up", shown=False, common=True),
        Action(
            "pagedown,ctrl+d",
            "scroll_page(1)",
            "Page down",
            "Scroll a page down.",
            id="page-down",
            shown=False,
            common=True,
        ),
        Action(
            "pageup,ctrl+u", "scroll_page(-1)", "Page up", "Scroll a page up.", id="page-up", shown=False, common=True
        ),
        Action("home", "scroll_by(-10000)", "Top", "Scroll to the top.", id="row-first", shown=False, common=True),
        Action("end,G", "scroll_by(10000)", "End", "Scroll to the end.", id="row-last", shown=False, common=True),
    )

    def __init__(self, title: str, text: Lines) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="scrolled-box") as box:
            set_border_titles(box, self._title, f"{dialog_keys(self)} · arrows: scroll")
            yield self._text

    def action_scroll_by(self, lines: int) -> None:
        self.query_one("#scrolled-box").scroll_relative(y=lines, animate=False)

    def action_scroll_page(self, pages: int) -> None:
        box = self.query_one("#scrolled-box")
        box.scroll_relative(y=pages * max(1, box.size.height - 1), animate=False)
