"""Views over the whole screen: those with actions of their own, those that only scroll, and the help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from labconsole.text.cells import safe
from labconsole.tui.parts.action import Action, HasActions, dialog_keys
from labconsole.tui.parts.lines import Lines, Span, set_border_titles


def close_action(view: str, sentence: str) -> Action:
    """The action that closes a view over the whole screen."""
    return Action("escape,q", "dismiss", "Close", sentence, id=f"{view}-close", common=True)


# -- overlay -----------------------------------------------------------------------------------------------------------
# A view over the whole screen with its own actions and help on them. Dialogs show all their keys.


class Overlay(HasActions, ModalScreen[None]):
    """``title_in_help``: the heading of its keys in help, after "In"."""

    ACTIONS: ClassVar[Sequence[Action]] = (
        Action(
            "question_mark,f1",
            "app.help",
            "Help",
            "Show all keys and explain the terms.",
            id="help",
            shown=False,
            common=True,
        ),
    )
    title_in_help: ClassVar[str] = ""


# -- scroll overlay ----------------------------------------------------------------------------------------------------
# A text over the screen that only scrolls and closes: the help, the digest of an absence.


class ScrollOverlay(HasActions, ModalScreen[None]):
    """Closes with esc or q. Subclasses add the key that opened them."""

    ACTIONS: ClassVar[Sequence[Action]] = (
        close_action("help", "Close it."),
        Action("down,j", "scroll_by(1)", "Down", "Scroll down.", id="row-down", shown=False, common=True),
        Action("up,k", "scroll_by(-1)", "Up", "Scroll up.", id="row-up", shown=False, common=True),
        Action(
            "pagedown,ctrl+d",
            "scroll_page(1)",
            "Page down",
            "Scroll a page down.",
            id="page-down",
            shown=False,
            common=True,
        ),
        Action(
            "pageup,ctrl+u", "scroll_page(-1)", "Page up", "Scroll a page up.", id="page-up", shown=False, common=True
        ),
        Action("home", "scroll_by(-10000)", "Top", "Scroll to the top.", id="row-first", shown=False, common=True),
        Action("end,G", "scroll_by(10000)", "End", "Scroll to the end.", id="row-last", shown=False, common=True),
    )

    def __init__(self, title: str, text: Lines) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="scrolled-box") as box:
            set_border_titles(box, self._title, f"{dialog_keys(self)} · arrows: scroll")
            yield self._text

    def action_scroll_by(self, lines: int) -> None:
        self.query_one("#scrolled-box").scroll_relative(y=lines, animate=False)

    def action_scroll_page(self, pages: int) -> None:
        box = self.query_one("#scrolled-box")
        box.scroll_relative(y=pages * max(1, box.size.height - 1), animate=False)


# -- help --------------------------------------------------------------------------------------------------------------
# Every key and every convention on one screen.

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
