"""The actions, each declared once, and the last line with the keys that work now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding
from textual.keys import format_key
from textual.screen import Screen

from labconsole.tui.parts.lines import Lines, Span

# -- actions -----------------------------------------------------------------------------------------------------------
# The actions, each declared once: key bindings, key bar, help, palette and settings follow from them.

_KEY_NAMES = {
    "escape": "esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "space": "space",
    "enter": "enter",
    "tab": "tab",
}


@dataclass(frozen=True, slots=True)
class Action:
    """An action. With an ``id`` the settings can change its keys. Without keys it is only in the palette."""

    keys: str
    does: str
    """The method that does it, in Textual's notation: ``part(1)`` calls ``action_part(1)``."""

    label: str
    """Text in the key bar."""

    sentence: str = ""
    """Text in help and palette."""

    _: KW_ONLY
    id: str | None = None
    title: str = ""
    """Name in the palette, if the label says too little."""

    shown: bool = True
    """Whether it is in the key bar."""

    priority: bool = False
    """Whether it takes precedence over the focused widget."""

    changes: bool = False
    """Whether it changes something: a console that only watches refuses it, so its key bar leaves it out."""

    common: bool = False
    """Whether every table, field or dialog of its kind has it: help lists it once, and the palette does not."""

    def binding(self) -> Binding:
        """Build Textual's binding."""
        return Binding(self.keys, self.does, self.label, show=self.shown, priority=self.priority, id=self.id)

    def keys_now(self, keymap: Mapping[str, str]) -> list[str]:
        """Its keys after the operator's changes."""
        text = keymap.get(self.id, self.keys) if self.id else self.keys
        return [key.strip() for key in text.split(",") if key.strip()]

    def format_keys(self, keymap: Mapping[str, str], joint: str = " ") -> str:
        """Format its keys as printed on a keyboard."""
        return joint.join(map(display_key, self.keys_now(keymap)))

    def format_palette_entry(self, keymap: Mapping[str, str]) -> tuple[str, str]:
        """Format its name in the palette, and its description with its keys."""
        keys = self.format_keys(keymap, ", ")
        return self.title or self.label, f"{self.sentence} ({keys})" if keys else self.sentence


def display_key(key: str) -> str:
    """Format a key as printed on a keyboard: ``ctrl+q`` is ^q, ``f1`` is F1, ``equals_sign`` is =."""
    *modifiers, base = key.split("+")
    if base.startswith("upper_"):  # as Textual has it in bindings
        base = base.removeprefix("upper_").upper()
    if base in _KEY_NAMES:
        word = _KEY_NAMES[base]
    elif base[:1] == "f" and base[1:].isdigit():
        word = base.upper()
    else:
        word = format_key(base)
    return "".join("^" if each == "ctrl" else f"{each}+" for each in modifiers) + word


class HasActions:
    """Mixed in before Textual's class: turns the ``ACTIONS`` that a class declares into its bindings."""

    ACTIONS: ClassVar[Sequence[Action]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        if "ACTIONS" in cls.__dict__:
            cls.BINDINGS = [action.binding() for action in cls.ACTIONS if action.keys]  # type: ignore[attr-defined]
        super().__init_subclass__(**options)

    @classmethod
    def declared_actions(cls) -> list[Action]:
        """The class's own actions, and those of its bases."""
        return [action for each in cls.__mro__ for action in each.__dict__.get("ACTIONS", ())]

    def offered_actions(self) -> Iterable[Action]:
        """The actions in the palette: the declared ones, and those that depend on the present data."""
        return self.declared_actions()


# -- key bar -----------------------------------------------------------------------------------------------------------
# The last line: the keys that work now. Keys that do not fit are left out by rank, never cut, and listed under ``?``.
#
# Textual's Footer scrolls sideways if it is too narrow, which hid Help and Quit at 80 columns, and mounts a widget per
# key at every change of the focus. This is one line of text that a mouse can click.

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
