"""The line in which one types which runs are meant: how many it finds beside it, what is wrong with it beneath."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from labconsole.model.query import Query, parse_query, parse_typing
from labconsole.text.cells import fit_parts, safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.typed_text import TypedText

EXAMPLE = "no filter: all runs. Press / and type, e.g. platform=raw verdict!=valid loss>1%"

LEAST_TEXT_CELLS, LEAST_FOUND_CELLS = 24, 44
"""Of the text, and of what it finds where both cannot be shown whole."""


class _MatchCount(Lines):
    """What the filter finds."""

    def __init__(self) -> None:
        super().__init__(classes="filter-found")
        self.words = ""

    def lines(self, width: int) -> list[list[Span]]:
        words = fit_parts(self.words, width)
        return [[(" " * (width - cell_len(words)), ""), (words, "muted")]]


class _Problems(Lines):
    """Why it cannot be understood, and what else must be known of the runs; no line while there is nothing to say."""

    def __init__(self) -> None:
        super().__init__(classes="filter-problem")
        self.words = ""
        self.trouble = ""
        self.trouble_tone = "bad"

    def lines(self, width: int) -> list[list[Span]]:
        told = [(self.words, "bad"), (self.trouble, self.trouble_tone)]
        marks = {"bad": "✗", "warn": "!"}
        return [[(f"  {marks[tone]} ", tone), (safe(text, width - 4), tone)] for text, tone in told if text]

    def tell(self) -> None:
        """Show what there is to say."""
        self.display = bool(self.words or self.trouble)
        self.refresh(layout=True)
        self.paint()


class FilterInput(HasActions, TypedText):
    """The text. Up, down, enter and esc leave it."""

    ACTIONS = (Action("escape,up,down", "leave", "Leave the filter", shown=False),)

    class Left(Message):
        """The operator is done typing."""

    def action_leave(self) -> None:
        self.post_message(self.Left())


class FilterLine(Vertical):
    """``meant`` is the last text that made sense."""

    DEFAULT_CSS = """
    FilterLine { height: auto; background: $background; }
    FilterLine .filter-row { height: 1; }
    FilterLine FilterInput { width: 1fr; background: $panel; height: 1; border: none; padding: 0 2; }
    FilterLine FilterInput:focus { background: $panel; border: none; text-style: bold; }
    FilterLine .filter-found { height: 1; width: auto; margin: 0 1; }
    FilterLine .filter-problem { height: auto; }
    """

    @dataclass
    class Changed(Message):
        """Other runs are meant."""

        query: Query

    def __init__(self) -> None:
        super().__init__(classes="filter-line")
        self.meant = parse_query("")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="filter-row"):
            yield FilterInput(placeholder=EXAMPLE, compact=True, id="filter")
            yield _MatchCount()
        problems = _Problems()
        problems.display = False
        yield problems

    @property
    def text(self) -> str:
        return self.query_one(FilterInput).value

    def clear_text(self) -> None:
        """Mean all runs again."""
        self.query_one(FilterInput).value = ""

    def put(self, text: str) -> None:
        """Mean other runs, as if it had been typed."""
        field = self.query_one(FilterInput)
        with field.prevent(Input.Changed):
            field.value = text
        self.done_typing()

    def set_trouble(self, words: str, tone: str = "bad") -> None:
        """Say beneath what must be known of these runs ("bad": a store that cannot be read; "warn": a doubt)."""
        problems = self.query_one(_Problems)
        if (problems.trouble, problems.trouble_tone) != (words, tone):
            problems.trouble, problems.trouble_tone = words, tone
            problems.tell()

    def show_match_count(self, words: str) -> None:
        """Say what is found."""
        self.query_one(_MatchCount).words = words
        self._fit()

    def _fit(self) -> None:
        """Give what is found as many cells as its words take and the text leaves."""
        found, width = self.query_one(_MatchCount), self.size.width
        room = width - max(LEAST_TEXT_CELLS, cell_len(self.text) + 6)
        found.styles.width = min(max(LEAST_FOUND_CELLS, room), cell_len(found.words) + 2)
        found.paint()

    def on_resize(self) -> None:
        self._fit()

    @on(Input.Changed, "#filter")
    def understand(self, event: Input.Changed) -> None:
        """Understand what is typed at every key. A word that makes no sense is told, and the others count."""
        event.stop()
        self._fit()
        query, words = parse_typing(event.value)
        self._take(query, words)

    def _take(self, query: Query, words: str) -> None:
        problems = self.query_one(_Problems)
        if problems.words != words:
            problems.words = words
            problems.tell()
        self.meant = query
        self.post_message(self.Changed(query))

    def done_typing(self) -> None:
        """The last word is not the beginning of anything longer: look for it as it is."""
        query, words = parse_typing(f"{self.text} ")
        self._take(query, words)

    @on(FilterInput.Left)
    def left(self) -> None:
        self.done_typing()

    @on(Input.Submitted, "#filter")
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(FilterInput.Left())
