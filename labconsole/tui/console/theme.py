"""The console's own themes: one accent on a calm ground. The only place with colours; widgets use theme variables."""

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

HIGH_CONTRAST = Theme(
    name="labconsole-high-contrast",
    primary="#ffff00",
    secondary="#ffffff",
    accent="#ffff00",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#262626",
    success="#5fff5f",
    warning="#ffd75f",
    error="#ffa0a0",
    dark=True,
    variables={
        "lc-line": "#ffffff",
        "text-muted": "#e4e4e4",
        "footer-key-foreground": "#ffff00",
        "input-selection-background": "#5f5fff",
    },
)
"""All text has a contrast of at least 7 to 1 with its background (WCAG 2.2, success criterion 1.4.6)."""

THEMES = (DARK, LIGHT, HIGH_CONTRAST)
