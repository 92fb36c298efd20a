"""Fields to type in, and the two kinds of field of the set-up panel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from labconsole.text.cells import safe
from labconsole.text.sanitize import single_line
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Tones

# -- typed text --------------------------------------------------------------------------------------------------------
# A field for one line of text that is typed, pasted or edited.


class TypedText(Input):
    """Keeps only what a terminal shows as text: Textual paints a value unchanged, and a note may be foreign."""

    def validate_value(self, value: str) -> str:
        """Clean the value, without a change of its length. Textual calls this before every change."""
        return single_line(value).replace("\t", " ")


# -- fields ------------------------------------------------------------------------------------------------------------
# The two kinds of field of the set-up panel.
#
# A key that a field does not accept goes on to the console: ``r`` runs and ``?`` helps from anywhere, even with the
# cursor in a number. Up and down move between fields and change nothing. + and − step through the usual values.

BETWEEN_FIELDS = (
    Action("up", "go(-1)", "Field above", "Go to the field above.", id="field-up", shown=False, common=True),
    Action("down", "go(1)", "Field below", "Go to the field below.", id="field-down", shown=False, common=True),
)


class _InForm(Widget):
    """One of the fields of a form."""

    def action_go(self, by: int) -> None:
        """Go to a neighbouring field. Does nothing at the first or last one."""
        fields = [widget for widget in self.screen.focus_chain if isinstance(widget, _InForm)]
        to = fields.index(self) + by
        if 0 <= to < len(fields):
            self.screen.set_focus(fields[to])


class Field(HasActions, TypedText, _InForm):
    """A short text of which every prefix matches ``prefix``; ``presets`` are offered by + and −."""

    ACTIONS = (
        Action("plus", "step(1)", "More", "Take the next common value.", id="value-more", common=True),
        Action("minus", "step(-1)", "Less", "Take the previous common value.", id="value-less", common=True),
        *BETWEEN_FIELDS,
    )

    def __init__(self, value: str, *, prefix: re.Pattern[str], presets: Sequence[str], id: str) -> None:
        super().__init__(value, id=id, compact=True, restrict=prefix.pattern, select_on_focus=True)
        self._prefix, self._presets = prefix, tuple(presets)

    def _accepts(self, character: str | None) -> bool:
        if character is None or not character.isprintable():
            return False
        start, end = sorted(self.selection)
        return self._prefix.fullmatch(self.value[:start] + character + self.value[end:]) is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable steps if there are no usual values."""
        return action != "step" or bool(self._presets)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether the field takes the key: only if the value stays possible."""
        return self._accepts(character)

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable and not self._accepts(event.character):
            # Neither stopped nor inserted: the key bubbles to the console's bindings.
            event.prevent_default()
            return
        await super()._on_key(event)
        event.prevent_default()

    def action_step(self, by: int) -> None:
        """Take the next or previous usual value."""
        try:
            index = self._presets.index(self.value) + by
        except ValueError:
            index = 0
        self.value = self._presets[min(len(self._presets) - 1, max(0, index))]
        self.cursor_position = len(self.value)


class Choice(HasActions, Tones, _InForm, can_focus=True):
    """One of a few options on one line, stepped through with the arrow keys or the mouse."""

    ACTIONS = (
        Action("right,plus", "step(1)", "Next", "Take the next choice.", id="choice-next", common=True),
        Action("left,minus", "step(-1)", "Previous", "Take the previous choice.", id="choice-back", common=True),
        Action("home", "step(-10000)", "First", "Take the first choice.", id="choice-first", shown=False, common=True),
        Action("end", "step(10000)", "Last", "Take the last choice.", id="choice-last", shown=False, common=True),
        *BETWEEN_FIELDS,
    )
    value: reactive[str] = reactive("")

    @dataclass
    class Changed(Message):
        """Another option was chosen."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, options: Sequence[str], value: str, *, id: str, shown: Mapping[str, str] | None = None) -> None:
        """``shown``: the text on screen of an option, if different."""
        super().__init__(id=id)
        self.options, self._shown = tuple(options), shown or {}
        self.set_reactive(Choice.value, value)

    def watch_value(self, value: str) -> None:
        self.post_message(self.Changed(self, value))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        index = self.options.index(self.value)
        back, forth = ("‹" if index else " "), ("›" if index < len(self.options) - 1 else " ")
        word = safe(self._shown.get(self.value, self.value), width - 2)
        pad = " " * max(0, width - 2 - cell_len(word))
        under = self.cursor_style() if self.has_focus else None
        tone = "strong" if self.has_focus else ""
        return self.build_strip([(back, "accent"), (word + pad, tone), (forth, "accent")], width, under=under)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Step back on the left half, forward on the right half."""
        self.action_step(1 if event.x * 2 >= self.size.width else -1)

    def action_step(self, by: int) -> None:
        """Choose a neighbouring option."""
        index = self.options.index(self.value) + by
        self.value = self.options[min(len(self.options) - 1, max(0, index))]
