"""What screens that list stored records have in common: filtering, reading again, copying and exporting them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.screen import Screen
from textual.widget import Widget

from labconsole.text.cells import safe
from labconsole.tui.parts import dialogs
from labconsole.tui.parts.action import Action, display_key
from labconsole.tui.parts.filter_line import FilterFinished, FilterLine, QuickFilter
from labconsole.tui.parts.screen import Application

CLIPBOARD_BYTES = 74_000
"""Limit of terminals for a copy through OSC 52 (xterm: 100 000 characters of base64)."""


def reload_runs_action(screen: str) -> Action:
    """The action of a screen that reads all runs from the store again."""
    sentence = "Read all runs from the store again."
    return Action("l", "reload", "Reload", sentence, id=f"{screen}-reload", title="Reload runs", shown=False)


def reload_store_action(view: str, *, shown: bool) -> Action:
    """The action of a view over the whole screen that reads the store again."""
    sentence = "Read the store again."
    return Action("r", "reload", "Reload", sentence, id=f"{view}-reload", shown=shown, common=True)


if TYPE_CHECKING:
    _Screen = Screen[None]
else:
    _Screen = object  # Textual inherits bindings and styles by the first base that is a widget: the screen's own


class RecordsView(_Screen):
    """Mixed into a screen before its base. ``RECORD``: what a row is. ``FILTER``: the line that filters the list.

    A screen defines what raises NotImplementedError here: Textual's screens have a metaclass of their own, so that this
    class cannot be abstract.
    """

    console_app: Application
    RECORD: ClassVar = "record"
    FILTER: ClassVar[type[FilterLine | QuickFilter]] = FilterLine

    @property
    def record_list(self) -> Widget:
        """The list, which gets the focus when the filter is left."""
        raise NotImplementedError

    def reload_records(self) -> object:
        """Read everything from the store again."""
        raise NotImplementedError

    def record_to_copy(self) -> tuple[Any, str] | None:
        """The record under the cursor for JSON, and its name after "Copied"."""
        raise NotImplementedError

    def action_reload(self) -> None:
        self.reload_records()

    def action_filter(self) -> None:
        self.query_one(self.FILTER).open()

    def on_filter_finished(self, event: FilterFinished) -> None:
        """Go back to the list."""
        self.set_focus(self.record_list)

    def action_copy_record(self) -> None:
        """Copy the record under the cursor as JSON."""
        record = self.record_to_copy()
        if record is None:
            self.console_app.tell(f"There is no {self.RECORD} to copy.", "warning")
        else:
            self.copy_text(json.dumps(record[0]), record[1])

    def copy_text(self, text: str, what: str) -> None:
        """Copy a text, and warn if it is longer than many terminals take."""
        self.app.copy_to_clipboard(text)
        size, doubt = len(text.encode()), ""
        if size > CLIPBOARD_BYTES:
            key = next(key for key, bound in self.active_bindings.items() if bound.binding.action == "export")
            doubt = f"; {size} bytes, more than many terminals take. {display_key(key)} exports instead."
        self.notify(f"Copied {safe(what, 80)}{doubt}", markup=False)

    def ask_new_file(self, what: str, name: str, explanation: str, texts: Mapping[str, Callable[[], str]]) -> None:
        """Ask for the name of a new file, and write one of the texts, by its suffix."""
        self.app.push_screen(dialogs.ask_new_file(what, name, explanation, texts, self.console_app.tell))
