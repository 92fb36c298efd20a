"""Texts of all actions, for the help of the active screen and for the command palette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from textual.actions import parse
from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.markup import escape
from textual.screen import Screen

from labconsole.tui.keymap import PARTS
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.help import key_sections
from labconsole.tui.parts.overlay import Overlay
from labconsole.tui.parts.screen import DocumentedScreen

Sections = list[tuple[str, list[tuple[str, str]]]]


def help_sections(everywhere: Sequence[Action], screen: Screen[Any], keymap: Mapping[str, str]) -> Sections:
    """Keys by where they work, those of the active screen first. An overlay hides what works everywhere else."""
    sections = {}
    if isinstance(screen, Overlay):
        sections = {f"In {screen.title_in_help}": screen.declared_actions()}
        everywhere = [action for action in everywhere if action.priority]
    if isinstance(screen, DocumentedScreen):
        sections = {f"On the {screen.title_in_help} screen": [each for _, each in screen.documented_actions()]}
    parts = {f"In {place}": owner.ACTIONS for place, owner in PARTS.items()}
    return key_sections({**sections, "Everywhere": everywhere, **parts}, keymap)


def list_palette_commands(
    app: App[Any], everywhere: Iterable[Action], screen: Screen[Any], keymap: Mapping[str, str]
) -> Iterable[SystemCommand]:
    """Everything that is possible now, each once."""
    documented: list[tuple[DOMNode, Action]] = [(app, action) for action in everywhere]
    if isinstance(screen, DocumentedScreen):
        documented += screen.documented_actions()
    offered: set[tuple[DOMNode, str, tuple[object, ...]]] = set()
    for node, action in documented:
        place, name, parameters = parse(action.does)
        does = ({"app": app, "screen": screen}.get(place, node), name, parameters)
        if does not in offered and does[0].check_action(name, parameters):
            offered.add(does)
            title, description = action.format_palette_entry(keymap)
            yield SystemCommand(escape(title), escape(description), partial(app.run_action, action.does, node))
