"""The last line: the keys that work now. Keys that do not fit are left out by rank, never cut, and listed under ``?``.

Textual's Footer scrolls sideways if it is too narrow, which hid Help and Quit at 80 columns, and mounts a widget per
key at every change of the focus. This is one line of text that a mouse can click.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.screen import Screen

from labconsole.tui.parts.action import HasActions, display_key
from labconsole.tui.parts.lines import Lines, Span

LEAVE_FIRST = ("copy", "pause")
"""Binding ids that leave first if room is short, then each screen's own from the last on."""
STAY = ("help", "quit")


@dataclass(frozen=True, slots=True)
class KeyHint:
    """One key."""

    id: str
    key: str
    label: str
    pressed: str
    enabled: bool

    @property
    def cells(self) -> int:
        return cell_len(self.key) + 1 + cell_len(self.label)


def fitting(hints: list[KeyHint], width: int) -> tuple[list[KeyHint], int]:
    """The keys that fit, and the blanks between two of them."""
    kept = list(hints)
    leaving = [hint for name in LEAVE_FIRST for hint in hints if hint.id == name]
    leaving += [hint for hint in reversed(hints) if hint.id not in (*LEAVE_FIRST, *STAY)]
    for hint in [None, *leaving]:
        if hint is not None:
            kept.remove(hint)
        for gap in (2, 1):
            if sum(each.cells + gap for each in kept) <= width - 1:
                return kept, gap
    return kept, 1


def dialog_keys(dialog: Screen[Any]) -> str:
    """The shown keys of a dialog, all keys of each answer, with the operator's changes."""
    found: dict[str, list[str]] = {}
    for node, binding, _enabled, _tooltip in dialog.active_bindings.values():
        if node is dialog and binding.show:
            found.setdefault(binding.description.lower(), []).append(display_key(binding.key))
    return "      ".join(f"{', '.join(keys)}: {answer}" for answer, keys in found.items())


class KeyBar(Lines):
    """The keys of the active screen."""

    def __init__(self) -> None:
        super().__init__(classes="key-bar")

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self.call_after_refresh(self.paint)

    def _changed(self, screen: Screen[object]) -> None:
        if screen is self.screen and self.is_attached:
            self.call_after_refresh(self.paint)

    def hints(self) -> list[KeyHint]:
        """Every shown key, each action once."""
        found: dict[str, KeyHint] = {}
        screen: Any = self.screen
        only_watches = isinstance(screen, HasActions) and getattr(getattr(screen, "session", None), "read_only", False)
        refused = {each.id for each in screen.declared_actions() if each.changes} if only_watches else set()
        for _, binding, enabled, _tooltip in self.screen.active_bindings.values():
            if binding.show and binding.action not in found and binding.id not in refused:
                key = display_key(binding.key)
                found[binding.action] = KeyHint(binding.id or "", key, binding.description, binding.key, enabled)
        return list(found.values())

    def lines(self, width: int) -> list[list[Span]]:
        kept, gap = fitting(self.hints(), width)
        spans: list[Span] = [(" ", "")]
        for hint in kept:
            spans += [(hint.key, "key"), (f" {hint.label}{' ' * gap}", "" if hint.enabled else "muted")]
        return [spans]

    def on_click(self, event: events.Click) -> None:
        """Do the action of the key under the mouse."""
        kept, gap = fitting(self.hints(), self.size.width)
        at = 1
        for hint in kept:
            if at <= event.x < at + hint.cells:
                self.app.simulate_key(hint.pressed)
                return
            at += hint.cells + gap
