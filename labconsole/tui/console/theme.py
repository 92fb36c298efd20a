"""The console's two themes: one accent on a calm ground. The only place with colours; widgets use theme variables."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="labconsole-dark",
    primary="#5fb3b3",
    secondary="#8fa1b3",
    accent="#5fb3b3",
    foreground="#d5dae0",
    background="#14181d",
    surface="#14181d",
    panel="#232a32",
    success="#8fbf7f",
    warning="#e0b050",
    error="#e5786d",
    dark=True,
    variables={"lc-line": "#39434e", "footer-key-foreground": "#5fb3b3", "input-selection-background": "#5fb3b3 35%"},
)

LIGHT = Theme(
    name="labconsole-light",
    primary="#0b6e6e",
    secondary="#4a5a6a",
    accent="#0b6e6e",
    foreground="#1d242b",
    background="#f7f7f4",
    surface="#f7f7f4",
    panel="#e6e8e6",
    success="#2f6f2a",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={"lc-line": "#b9c0c6", "footer-key-foreground": "#0b6e6e", "input-selection-background": "#0b6e6e 25%"},
)
