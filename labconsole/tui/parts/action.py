"""What can be done, each thing said once: key bindings, key bar, help, palette and settings follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from textual.binding import Binding
from textual.keys import format_key

_KEY_WORDS = {
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
    """One thing that can be done. With an ``id`` the settings can change its keys; without keys, the palette has it."""

    keys: str
    does: str
    """The method that does it, as Textual writes it: ``part(1)`` calls ``action_part(1)``."""

    label: str
    """In the key bar."""

    sentence: str = ""
    """In help and palette."""

    _: KW_ONLY
    id: str | None = None
    title: str = ""
    """In the palette, where the label says too little."""

    shown: bool = True
    """In the key bar."""

    priority: bool = False
    """Before whatever has the focus."""

    changes: bool = False
    """A console that only watches refuses it, so that its key bar leaves it out."""

    common: bool = False
    """The same in every table, field or dialog of its kind: help tells of it once, and the palette does not."""

    def binding(self) -> Binding:
        """For Textual."""
        return Binding(self.keys, self.does, self.label, show=self.shown, priority=self.priority, id=self.id)

    def keys_now(self, keymap: Mapping[str, str]) -> list[str]:
        """Its keys after the operator's changes."""
        text = keymap.get(self.id, self.keys) if self.id else self.keys
        return [key.strip() for key in text.split(",") if key.strip()]

    def format_keys(self, keymap: Mapping[str, str], joint: str = " ") -> str:
        """Its keys as people know them."""
        return joint.join(map(display_key, self.keys_now(keymap)))

    def format_palette_entry(self, keymap: Mapping[str, str]) -> tuple[str, str]:
        """Its name in the palette, and what it does with the keys that do it, too."""
        keys = self.format_keys(keymap, ", ")
        return self.title or self.label, f"{self.sentence} ({keys})" if keys else self.sentence


def display_key(key: str) -> str:
    """A key as people know it: ``ctrl+q`` is ^q, ``f1`` is F1, ``equals_sign`` is =."""
    *modifiers, base = key.split("+")
    if base.startswith("upper_"):  # as Textual has it in bindings
        base = base.removeprefix("upper_").upper()
    if base in _KEY_WORDS:
        word = _KEY_WORDS[base]
    elif base[:1] == "f" and base[1:].isdigit():
        word = base.upper()
    else:
        word = format_key(base)
    return "".join("^" if each == "ctrl" else f"{each}+" for each in modifiers) + word


class HasActions:
    """Mixed in before Textual's class: what a class declares as ``ACTIONS`` are its bindings."""

    ACTIONS: ClassVar[Sequence[Action]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        if "ACTIONS" in cls.__dict__:
            cls.BINDINGS = [action.binding() for action in cls.ACTIONS if action.keys]  # type: ignore[attr-defined]
        super().__init_subclass__(**options)

    @classmethod
    def declared_actions(cls) -> list[Action]:
        """Its own, and those of its bases."""
        return [action for each in cls.__mro__ for action in each.__dict__.get("ACTIONS", ())]

    def offered_actions(self) -> Iterable[Action]:
        """What the palette offers: what is declared, and what depends on what there is."""
        return self.declared_actions()
