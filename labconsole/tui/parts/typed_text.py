"""A field for one line of text that is typed, pasted or edited."""

from __future__ import annotations

from textual.widgets import Input

from labconsole.text.sanitize import single_line


class TypedText(Input):
    """Keeps only what a terminal shows as text: Textual paints a value unchanged, and a note may be foreign."""

    def validate_value(self, value: str) -> str:
        """Clean the value, without a change of its length. Textual calls this before every change."""
        return single_line(value).replace("\t", " ")
