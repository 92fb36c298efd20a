"""Textual's field for a line of text, for all that is typed, pasted or given to be edited."""

from __future__ import annotations

from textual.widgets import Input

from labconsole.text.sanitize import single_line


class TypedText(Input):
    """Keeps only what a terminal shows as text: Textual paints a value as it is, and a note may be somebody else's."""

    def validate_value(self, value: str) -> str:
        """The same, in as many characters. Textual calls it before every change."""
        return single_line(value).replace("\t", " ")
