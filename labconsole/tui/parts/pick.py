"""Choosing one of many by typing a part of its name: nodes to jump to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.key_bar import dialog_keys
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable
from labconsole.tui.parts.typed_text import TypedText


class _Rows(LineTable, can_focus=False):
    EMPTY = "no name matches"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "name", 16, right=False, grow_to=32),
        Column("text", "", 10, right=False, grow_to=60),
    )

    def __init__(self, choices: Mapping[str, str]) -> None:
        super().__init__(id="pick-rows")
        self._choices = choices
        self.wanted = ""

    def keys(self) -> list[str]:
        wanted = self.wanted.casefold().split()
        rows = [(key, f"{key} {description}".casefold()) for key, description in self._choices.items()]
        return [key for key, text in rows if all(word in text for word in wanted)]

    def cell_name(self, key: str, width: int) -> Span:
        return safe(key, width), ""

    def cell_text(self, key: str, width: int) -> Span:
        return safe(self._choices[key], width), "muted"


class Pick(HasActions, ModalScreen[str | None]):
    """Dismisses with a key of ``choices``, or None."""

    CSS_PATH = "pick.tcss"
    ACTIONS = (
        Action("escape", "dismiss(None)", "Cancel", "Choose nothing.", id="pick-cancel", common=True),
        Action("up", "move(-1)", "Up", "Go one line up.", id="pick-up", shown=False, common=True),
        Action("down", "move(1)", "Down", "Go one line down.", id="pick-down", shown=False, common=True),
    )

    def __init__(self, title: str, choices: Mapping[str, str]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        with Vertical(id="pick-box") as box:
            set_border_titles(box, safe(self._title, 80))
            box.border_subtitle = f"type to filter · enter: choose · {dialog_keys(self)}"
            yield TypedText(compact=True, id="pick-text", max_length=100)
            yield _Rows(self._choices)

    def on_mount(self) -> None:
        self.call_after_refresh(self.query_one(_Rows).paint)

    def action_move(self, by: int) -> None:
        self.query_one(_Rows).action_cursor(by)

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        event.stop()
        rows = self.query_one(_Rows)
        rows.wanted = event.value
        rows.paint()

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        event.stop()
        rows = self.query_one(_Rows)
        if rows.cursor_key in list(rows.keys()):
            self.dismiss(rows.cursor_key)
