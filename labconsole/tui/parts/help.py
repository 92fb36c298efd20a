"""Every key and every convention on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.scroll_overlay import ScrollOverlay

OTHER_KEYS = [
    ("tab", "Go to the next part or field; in a field, enter does the same."),
    ("^p", "Command palette: find any command by name, and themes."),
]

CONVENTIONS = (
    ("pps", "packets per second; does not depend on how bytes are counted"),
    (
        "Frame size",
        "bytes without the FCS, as pktgen counts, unless hosts.yaml asks for RFC 2544 sizes, which include it",
    ),
    ("Target", "bandwidth on the wire per source: frame + FCS 4 + preamble 8 + gap 12 bytes"),
    ("offered", "packets actually sent, over the sending time"),
    ("measured", "packets that arrived at the sink: from the capture, or from counters if the record says so"),
    ("lost", "offered minus measured, never estimated; during a trial it includes packets still on their way (≈)"),
    ("rx/tx Mbit/s", "of an interface: without preamble, gap and FCS"),
    ("drops, errors", "kernel counters since the interface was created; ▲ while they rise"),
    ("quiet", "the node keeps samples in memory during the counted window, so that watching costs it nothing"),
    ("– ", "unknown; never shown as zero"),
    ("Verdicts", "✓ valid   ? suspect: the numbers count, with a named doubt   ✗ invalid: enters no mean"),
)


def key_sections(
    sections: Mapping[str, Iterable[Action]], keymap: Mapping[str, str]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """A title, and (keys, description) of the actions with keys. Keys are those of the operator's keymap."""
    rows = {
        title: [(action.format_keys(keymap), action.sentence) for action in actions if action.keys]
        for title, actions in sections.items()
    }
    return [*rows.items(), ("In all of them", OTHER_KEYS)]


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
            for name, description in entries:
                room = max(10, width - label - 2)
                while description:
                    cut = (
                        description
                        if len(description) <= room
                        else description[: description.rfind(" ", 0, room + 1)] or description[:room]
                    )
                    rows.append([("  " + safe(name, label).ljust(label), "accent"), (cut, "")])
                    name, description = "", description[len(cut) :].lstrip()
            rows.append([("", "")])
        return rows


class Help(ScrollOverlay):
    """Closes with the key that opened it, too."""

    ACTIONS = (Action("question_mark,f1", "dismiss", "Close", "Close it.", id="help", shown=False, common=True),)

    def __init__(self, sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
        super().__init__("Help", HelpText([*sections, ("Terms", list(CONVENTIONS))]))
