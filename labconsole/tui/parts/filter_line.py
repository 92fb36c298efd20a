"""The lines that filter: saved runs by a typed filter, and a table by a part of its text."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from labconsole.model.query import Query, parse_query, parse_typing
from labconsole.text.cells import fit_parts, safe
from labconsole.tui.parts.action import Action, HasActions
from labconsole.tui.parts.fields import TypedText
from labconsole.tui.parts.lines import Lines, Span


class FilterFinished(Message):
    """The operator has finished typing a filter."""


# -- quick filter ------------------------------------------------------------------------------------------------------
# The line that `/` opens: the typed text narrows a table at once. Enter keeps it, esc drops it.

MOST_CHARACTERS = 100


class _Typed(HasActions, TypedText):
    """Enter and the arrows keep what was typed."""

    ACTIONS = (
        Action("escape", "leave(False)", "Drop the filter", shown=False),
        Action("enter,up,down", "leave(True)", "Keep the filter", shown=False),
    )

    @dataclass
    class Left(Message):
        """The operator has finished typing."""

        keep: bool

    def action_leave(self, keep: bool) -> None:
        self.post_message(self.Left(keep))


class QuickFilter(Horizontal):
    """Hidden until opened. Sends Changed with every key and FilterFinished at the end."""

    @dataclass
    class Changed(Message):
        """The text changed."""

        text: str

    def compose(self) -> ComposeResult:
        yield Static(" / ", markup=False)
        yield _Typed(compact=True, max_length=MOST_CHARACTERS, select_on_focus=False)
        yield Static("show rows that contain these words · enter: keep, esc: clear", classes="quick-help", markup=False)

    def on_mount(self) -> None:
        self.display = False

    def open(self) -> None:
        """Open the line for typing."""
        self.display = True
        self.screen.set_focus(self.query_one(_Typed))

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(_Typed.Left)
    def leave(self, event: _Typed.Left) -> None:
        event.stop()
        if not event.keep:
            self.query_one(_Typed).value = ""
        self.display = event.keep and bool(self.query_one(_Typed).value)
        self.post_message(FilterFinished())


# -- filter line -------------------------------------------------------------------------------------------------------
# The line for the filter of runs, with the number of matches next to it and its errors below.

EXAMPLE = "no filter: all runs. Press / and type, e.g. platform=raw verdict!=valid loss>1%"

LEAST_TEXT_CELLS, LEAST_FOUND_CELLS = 24, 44
"""Widths of the text, and of the matches, if both cannot be shown whole."""


class _MatchCount(Lines):
    """The matches of the filter."""

    def __init__(self) -> None:
        super().__init__(classes="filter-found")
        self.text = ""

    def lines(self, width: int) -> list[list[Span]]:
        text = fit_parts(self.text, width)
        return [[(" " * (width - cell_len(text)), ""), (text, "muted")]]


class _Problems(Lines):
    """Errors in the filter, and notes on the runs. Has no line if there are none."""

    def __init__(self) -> None:
        super().__init__(classes="filter-problem")
        self.text = ""
        self.trouble = ""
        self.trouble_tone = "bad"

    def lines(self, width: int) -> list[list[Span]]:
        notes = [(self.text, "bad"), (self.trouble, self.trouble_tone)]
        marks = {"bad": "✗", "warn": "!"}
        return [[(f"  {marks[tone]} ", tone), (safe(text, width - 4), tone)] for text, tone in notes if text]

    def tell(self) -> None:
        """Show errors and notes."""
        self.display = bool(self.text or self.trouble)
        self.refresh(layout=True)
        self.paint()


class FilterInput(HasActions, TypedText):
    """The text. Up, down, enter and esc leave it."""

    ACTIONS = (Action("escape,up,down", "leave", "Leave the filter", shown=False),)

    class Left(Message):
        """The operator has finished typing."""

    def action_leave(self) -> None:
        self.post_message(self.Left())


class FilterLine(Vertical):
    """``meant`` is the last valid text."""

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
        """The filter changed."""

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

    def open(self) -> None:
        """Go to the line for typing."""
        self.screen.set_focus(self.query_one(FilterInput))

    @property
    def text(self) -> str:
        return self.query_one(FilterInput).value

    def clear_text(self) -> None:
        """Clear the filter."""
        self.query_one(FilterInput).value = ""

    def put(self, text: str) -> None:
        """Set the filter, as if it had been typed."""
        field = self.query_one(FilterInput)
        with field.prevent(Input.Changed):
            field.value = text
        self.done_typing()

    def set_trouble(self, message: str, tone: str = "bad") -> None:
        """Show a note below on these runs ("bad": an unreadable store; "warn": a doubt)."""
        problems = self.query_one(_Problems)
        if (problems.trouble, problems.trouble_tone) != (message, tone):
            problems.trouble, problems.trouble_tone = message, tone
            problems.tell()

    def show_match_count(self, text: str) -> None:
        """Show the matches."""
        self.query_one(_MatchCount).text = text
        self._fit()

    def _fit(self) -> None:
        """Give the matches as many cells as their text takes and the filter leaves."""
        found, width = self.query_one(_MatchCount), self.size.width
        room = width - max(LEAST_TEXT_CELLS, cell_len(self.text) + 6)
        found.styles.width = min(max(LEAST_FOUND_CELLS, room), cell_len(found.text) + 2)
        found.paint()

    def on_resize(self) -> None:
        self._fit()

    @on(Input.Changed, "#filter")
    def understand(self, event: Input.Changed) -> None:
        """Parse the filter at every key. An invalid term is reported, and the other terms apply."""
        event.stop()
        self._fit()
        query, problem = parse_typing(event.value)
        self._take(query, problem)

    def _take(self, query: Query, problem: str) -> None:
        problems = self.query_one(_Problems)
        if problems.text != problem:
            problems.text = problem
            problems.tell()
        self.meant = query
        self.post_message(self.Changed(query))

    def done_typing(self) -> None:
        """Apply the filter as typed: the last term is complete now."""
        query, problem = parse_typing(f"{self.text} ")
        self._take(query, problem)

    @on(FilterInput.Left)
    def left(self) -> None:
        self.done_typing()
        self.post_message(FilterFinished())

    @on(Input.Submitted, "#filter")
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(FilterInput.Left())
