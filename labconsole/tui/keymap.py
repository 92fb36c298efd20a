"""Keys of all actions with the operator's changes, and checks of these changes.

A scope is a screen with what works everywhere, and a table or field on it; or a dialog, which hides the screen's keys.
Two actions of one scope must not share a key, actions of two screens may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual.keys import Keys, key_to_character
from textual.theme import BUILTIN_THEMES

from labconsole.tui.console import theme
from labconsole.tui.console.settings import Settings
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.away_notifier import SinceYouLeft
from labconsole.tui.parts.dialogs import AskSearch, AskText, Confirm, Pick
from labconsole.tui.parts.fields import Choice, Field
from labconsole.tui.parts.overlay import Help
from labconsole.tui.parts.step_screen import StepScreen
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens import ScreenEntry

UNDELIVERED = re.compile(r"ctrl\+(m|i|j|h|b|\[|left_square_bracket)$|alt\+|ctrl\+enter|shift\+enter|ctrl\+shift\+")
"""Keys that terminals send as something else, or that tmux keeps for itself."""

_NAMED = {key.value for key in Keys}
EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class KeyScopes:
    """Actions with keys, by where they work: screens by their title, parts of screens, dialogs."""

    everywhere: Sequence[Action]
    screens: Mapping[str, Sequence[Action]]
    parts: Mapping[str, Sequence[Action]]
    dialogs: Mapping[str, Sequence[Action]]

    def listed(self) -> dict[str, Sequence[Action]]:
        """All actions, by the names of their scopes."""
        return {EVERYWHERE: self.everywhere, **self.screens, **self.parts, **self.dialogs}

    def together(self) -> Iterator[tuple[str, list[Action]]]:
        """The actions that can be triggered at the same time, with the name of the scope."""
        for screen, actions in self.screens.items():
            for part, more in self.parts.items():
                yield f"{screen}, in {part}", [*actions, *self.everywhere, *more]
        always = [action for action in self.everywhere if action.priority]
        for dialog, actions in self.dialogs.items():
            yield dialog, [*actions, *always]


PARTS: dict[str, type[HasActions]] = {"tables": LineTable, "fields": Field, "choices": Choice}
DIALOGS: dict[str, type[HasActions]] = {
    "questions": Confirm,
    "texts": AskText,
    "lists": Pick,
    "help": Help,
    "since": SinceYouLeft,
    "searches": StepScreen,
    "search": AskSearch,
}


def collect_key_scopes(everywhere: type[HasActions], screens: Sequence[ScreenEntry]) -> KeyScopes:
    """Collect all scopes. ``everywhere``: the application. Imports every screen."""
    from labconsole.tui.screens.first.screen import FirstScreen

    def keyed(owner: type[HasActions]) -> list[Action]:
        return [action for action in owner.declared_actions() if action.keys]

    return KeyScopes(
        everywhere=keyed(everywhere),
        screens={
            **{entry.title: keyed(entry.load()) for entry in screens},
            FirstScreen.title_in_help: keyed(FirstScreen),
        },
        parts={place: keyed(owner) for place, owner in PARTS.items()},
        dialogs={place: keyed(owner) for place, owner in DIALOGS.items()},
    )


def themes() -> list[str]:
    """Names of all themes."""
    return [*(each.name for each in theme.THEMES), *BUILTIN_THEMES]


def check_settings(settings: Settings, places: Callable[[], KeyScopes]) -> None:
    """Raises ConfigError for an unknown theme, or a keymap that is ambiguous anywhere.

    ``places`` is called only if there is a keymap: it imports every screen.
    """
    if settings.theme not in themes():
        raise settings.complaint(("theme",), "unknown theme", settings.theme, ", ".join(themes()))
    if not settings.keymap:
        return
    found = places()
    known = {action.id for actions in found.listed().values() for action in actions if action.id}
    for name, keys in settings.keymap.items():
        if name not in known:
            raise settings.complaint(("keymap", name), "unknown action", name, ", ".join(sorted(known)))
        wanted = [key.strip() for key in keys.split(",")]
        for key in wanted:
            if not _is_key(key):
                allowed = "a character, or a name such as f9, space, enter, ctrl+t; several separated by commas"
                raise settings.complaint(("keymap", name), "is not a key", key, allowed)
            if UNDELIVERED.search(key):
                problem = "is not delivered by every terminal"
                raise settings.complaint(
                    ("keymap", name), problem, key, "letters, digits, f1 to f12, ctrl with a letter"
                )
    for place, actions in found.together():
        taken: dict[str, str] = {}
        for action in actions:
            for key in action.keys_now(settings.keymap):
                other = taken.setdefault(key, action.id or action.does)
                if other != (action.id or action.does):
                    name = action.id if action.id in settings.keymap else other
                    problem = f"means {other} and {action.id} at once ({place})"
                    raise settings.complaint(("keymap", name), problem, key, "a key that is not in use there")


def _is_key(key: str) -> bool:
    base = key.removeprefix("ctrl+").removeprefix("shift+")
    return (
        key in _NAMED or base in _NAMED or (len(base) == 1 and base.isprintable()) or key_to_character(base) is not None
    )
