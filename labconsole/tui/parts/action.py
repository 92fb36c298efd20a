"""The actions, each declared once: key bindings, key bar, help, palette and settings follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from textual.binding import Binding
from textual.keys import format_key

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
