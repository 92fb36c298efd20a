"""Every key and every convention on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Lines, Span

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


def key_rows(actions: Iterable[Action], keymap: Mapping[str, str]) -> list[tuple[str, str]]:
    """(keys, what they do) of the actions that have keys; keys as the operator's keymap has them."""
    return [(action.key_words(keymap), action.sentence) for action in actions if action.keys]


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


class Help(HasActions, ModalScreen[None]):
    """Leave with the key that opened it, esc or q."""

    ACTIONS = (Action("escape,q,question_mark,f1", "dismiss", "Close"),)

    def __init__(self, sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
        super().__init__()
        self._sections = sections

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box") as box:
            box.border_title = "Help"
            box.border_subtitle = "esc closes, arrows scroll"
            yield HelpText([*self._sections, ("What the words mean", list(CONVENTIONS))])
