"""A view over the whole screen with its own actions and help on them. Dialogs show all their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.screen import ModalScreen

from labconsole.tui.parts.action import Action, HasActions


class Overlay(HasActions, ModalScreen[None]):
    """``title_in_help``: the heading of its keys in help, after "In"."""

    ACTIONS: ClassVar[Sequence[Action]] = (
        Action(
            "question_mark,f1",
            "app.help",
            "Help",
            "Show all keys and explain the terms.",
            id="help",
            shown=False,
            common=True,
        ),
    )
    title_in_help: ClassVar[str] = ""
