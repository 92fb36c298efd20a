"""Every key and every convention on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Lines, Span

KEY_NAMES = {
    "question_mark": "?",
    "escape": "esc",
    "slash": "/",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
}

TABLES_AND_FIELDS = [
    ("↑ ↓ PgUp PgDn", "move the cursor; in the streams it chooses what the chart shows"),
    ("tab", "next part or field; enter does the same in a field"),
    ("↑ ↓", "in the set-up: step through usual values (← → too where words are chosen)"),
    ("^p", "command palette: everything by name, themes"),
]

CONVENTIONS = (
    ("pps", "packets per second, the number that is free of conventions"),
    (
        "Frame size",
        "bytes without the frame check sequence, as pktgen counts, unless the inventory says RFC 2544 (with it)",
    ),
    ("Target", "bandwidth on the wire per source: frame + FCS 4 + preamble 8 + gap 12 bytes"),
    ("offered", "what the generator really sent, over the time in which it sent it"),
    ("measured", "what the sink received: from the capture, or from counters where the record says so"),
    ("lost", "offered - measured, never estimated; while a trial runs the difference also holds what is under way (≈)"),
    ("rx/tx Mbit/s", "of an interface: its own bytes, without preamble, gap and FCS"),
    ("drops, errors", "as the kernel has counted since the interface exists; ▲ while they rise"),
    ("quiet", "the node samples into its own memory during the counted window, so that watching costs it nothing"),
    ("– ", "not known; never zero in disguise"),
    ("Verdicts", "✓ valid   ? suspect: stands, with a doubt that is named   ✗ invalid: enters no mean"),
)


def key_rows(bindings: list[Binding], keymap: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(keys, words) of bindings, the tooltip where there is one; keys as the operator's keymap has them."""
    rows = []
    for binding in bindings:
        effective = (keymap or {}).get(binding.id or "", binding.key)
        keys = " ".join(
            KEY_NAMES.get(k, k.upper() if k.startswith("f") and k[1:].isdigit() else k) for k in effective.split(",")
        )
        rows.append((keys.replace("ctrl+", "^"), binding.tooltip or binding.description))
    return rows


class HelpText(Lines):
    """The sections as lines."""

    def __init__(self, sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
        super().__init__()
        self._sections = sections

    def lines(self, width: int) -> list[list[Span]]:
        rows: list[list[Span]] = []
        for title, entries in self._sections:
            rows.append([(title, "head")])
            label = min(16, max(len(name) for name, _ in entries) + 2)
            for name, words in entries:
                room = max(10, width - label - 2)
                while words:
                    cut = words if len(words) <= room else words[: words.rfind(" ", 0, room + 1)] or words[:room]
                    rows.append([("  " + safe(name, label).ljust(label), "accent"), (cut, "")])
                    name, words = "", words[len(cut) :].lstrip()
            rows.append([("", "")])
        return rows


class Help(ModalScreen[None]):
    """Leave with the key that opened it, esc or q."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Close", id="help-close"),
    ]

    def __init__(self, sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
        super().__init__()
        self._sections = sections

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box") as box:
            box.border_title = "Help"
            box.border_subtitle = "esc closes, arrows scroll"
            yield HelpText([*self._sections, ("What the words mean", list(CONVENTIONS))])
