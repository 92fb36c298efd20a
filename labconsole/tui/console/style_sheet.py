"""Textual's style sheet, which reads again only what changed.

Textual parses every sheet anew whenever a screen or a question with a sheet of its own is first opened, and three times
over while the console starts: some 20 to 50 ms each.
"""

from __future__ import annotations

from textual.css.stylesheet import Stylesheet


class StyleSheet(Stylesheet):
    def set_variables(self, variables: dict[str, str]) -> None:
        """The theme's; what was parsed with the same ones stays."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what is new; the rest is kept from before."""
        self.parse()
