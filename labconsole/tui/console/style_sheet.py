"""Textual's style sheet, parsing only what changed.

Textual parses every sheet again whenever a screen or a dialog with its own sheet is first opened, and three times while
the console starts: some 20 to 50 ms each.
"""

from __future__ import annotations

from textual.css.stylesheet import Stylesheet


class StyleSheet(Stylesheet):
    def set_variables(self, variables: dict[str, str]) -> None:
        """Set the theme's variables. Rules parsed with the same ones are kept."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse new sheets. The rest is kept."""
        self.parse()
