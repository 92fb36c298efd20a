"""Which key does what where, with the operator's changes; and whether those changes can be.

A place is a screen with what works everywhere: two actions of one place must not share a key, actions of two screens
may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from textual.keys import Keys, key_to_character
from textual.theme import BUILTIN_THEMES

from labconsole.tui.console import theme
from labconsole.tui.console.settings import Settings
from labconsole.tui.parts.action import Action

UNDELIVERED = re.compile(r"ctrl\+(m|i|j|h|b|\[|left_square_bracket)$|alt\+|ctrl\+enter|shift\+enter|ctrl\+shift\+")
"""Keys that terminals send as something else, or that tmux keeps for itself."""

_NAMED = {key.value for key in Keys}
EVERYWHERE = "everywhere"

Places = Mapping[str, Sequence[Action]]
"""Actions that have keys, by where they work: EVERYWHERE, and each screen by its title."""


def themes() -> list[str]:
    """Names of all themes."""
    return [theme.DARK.name, theme.LIGHT.name, *BUILTIN_THEMES]


def check_settings(settings: Settings, places: Callable[[], Places]) -> None:
    """Raises ConfigError for a theme that does not exist, or a keymap that is not unambiguous everywhere.

    ``places`` is asked only where there is a keymap: the answer takes importing every screen.
    """
    if settings.theme not in themes():
        raise settings.complaint(("theme",), "unknown theme", settings.theme, ", ".join(themes()))
    if not settings.keymap:
        return
    found = places()
    known = {action.id for actions in found.values() for action in actions if action.id}
    for name, keys in settings.keymap.items():
        if name not in known:
            raise settings.complaint(("keymap", name), "unknown action", name, ", ".join(sorted(known)))
        wanted = [key.strip() for key in keys.split(",")]
        for key in wanted:
            if not _is_key(key):
                allowed = "a character, or a name such as f9, space, enter, ctrl+t; several separated by commas"
                raise settings.complaint(("keymap", name), "is not a key", key, allowed)
            if UNDELIVERED.search(key):
                words = "is not delivered by every terminal"
                raise settings.complaint(("keymap", name), words, key, "letters, digits, f1 to f12, ctrl with a letter")
    for place, actions in found.items():
        taken: dict[str, str] = {}
        for action in [*actions, *(found[EVERYWHERE] if place != EVERYWHERE else ())]:
            for key in action.keys_now(settings.keymap):
                other = taken.setdefault(key, action.id or action.does)
                if other != (action.id or action.does):
                    name = action.id if action.id in settings.keymap else other
                    words = f"means {other} and {action.id} at once on the screen {place}"
                    raise settings.complaint(("keymap", name), words, key, "a key that is not in use there")


def _is_key(key: str) -> bool:
    base = key.removeprefix("ctrl+").removeprefix("shift+")
    return (
        key in _NAMED or base in _NAMED or (len(base) == 1 and base.isprintable()) or key_to_character(base) is not None
    )
