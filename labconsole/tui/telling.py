"""What can be done, told: the help of the screen in front, and the command palette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from textual.actions import parse
from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.screen import Screen

from labconsole.tui.keymap import PARTS
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.help import OTHER_KEYS, key_rows
from labconsole.tui.parts.screen import ConsoleScreen

Sections = list[tuple[str, list[tuple[str, str]]]]


def help_sections(everywhere: Sequence[Action], screen: Screen[Any], keymap: Mapping[str, str]) -> Sections:
    """Keys by where they work, those of the screen in front first."""
    keys = [("Everywhere", [*key_rows(everywhere, keymap), *OTHER_KEYS])]
    keys += [(f"In {place}", key_rows(owner.ACTIONS, keymap)) for place, owner in PARTS.items()]
    if not isinstance(screen, ConsoleScreen):
        return keys
    own = [action for _, action in screen.told_actions()]
    return [(f"On the {screen.tab.title} screen", key_rows(own, keymap)), *keys]


def palette(
    app: App[Any], everywhere: Iterable[Action], screen: Screen[Any], keymap: Mapping[str, str]
) -> Iterable[SystemCommand]:
    """Everything that can be done now, each thing once."""
    told: list[tuple[DOMNode, Action]] = [(app, action) for action in everywhere]
    if isinstance(screen, ConsoleScreen):
        told += screen.told_actions()
    offered: set[tuple[DOMNode, str, tuple[object, ...]]] = set()
    for node, action in told:
        place, name, parameters = parse(action.does)
        does = ({"app": app, "screen": screen}.get(place, node), name, parameters)
        if does not in offered and does[0].check_action(name, parameters):
            offered.add(does)
            title, words = action.palette_words(keymap)
            yield SystemCommand(title, words, partial(app.run_action, action.does, node))
