"""A row for each guest of the step under way: what it does, its marks, and how long it has worked or what it took; of
a trial that is over and in which no guest takes a time, what each came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len

from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.text.cells import UNKNOWN, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable

LOOKS = {
    CopyState.STARTS: ("… starts", "muted"),
    CopyState.STANDS: ("· stands", "muted"),
    CopyState.WAITS: ("· waits", ""),
    CopyState.WORKS: ("▶ works", "accent"),
    CopyState.DONE: ("✓ done", "good"),
}


NAME, DOES = Column("name", "guest", 6, right=False, grow_to=20), Column("state", "does", 8, right=False)
RESULT_PREFIX, MOST_CELLS = "found ", 40
NUMBERS = f"0123456789<>-+{UNKNOWN}"
"""What a number may begin with."""


def build_result_columns(guests: Sequence[PictureGuest]) -> tuple[Column, ...]:
    """A column for each heading under which any guest came to something, as wide as its words; the last leave first."""
    words: dict[str, list[str]] = {}
    for guest in guests:
        for heading, word in guest.found:
            words.setdefault(heading, []).append(word)
    return tuple(
        Column(
            RESULT_PREFIX + heading,
            heading,
            min(MOST_CELLS, max(map(cell_len, (heading, *said)))),
            rank=rank,
            right=all(word[:1] in NUMBERS for word in said),
        )
        for rank, (heading, said) in enumerate(words.items())
    )


class GuestsTable(LineTable):
    """Rows are places in the crew's order; a picture is replaced, never changed, so the same one is painted once."""

    EMPTY = "no guest stands"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        NAME,
        DOES,
        Column("begun", "begun +s", 9, rank=2),
        Column("ended", "ended +s", 9, rank=1),
        Column("seconds", "seconds", 10),
    )
    OVER_TIME: ClassVar[tuple[Column, ...]] = (NAME, DOES)
    """Of guests of which a chart beside has what they do."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._guests: tuple[PictureGuest, ...] = ()
        self._wanted = self.COLUMNS
        self._painted: tuple[object, ...] = ()
        self.border_title = "Guests"

    def show(self, picture: StepPicture | None) -> None:
        """Take what a step shows, None: no step; painted when it is another, and once a second while somebody works."""
        if not self.is_mounted or not self.size.width or not self.display:
            return  # out of sight, rows and guests stay those that were painted last
        guests = picture.guests if picture is not None else ()
        over_time = picture is not None and picture.over_time is not None
        working = any(guest.state is CopyState.WORKS for guest in guests)
        seen = guests, int(clock.monotonic_s()) if working else 0, self.size, self.display, over_time
        if guests is self._guests and self._painted[1:] == seen[1:]:
            return
        self._guests, self._painted = guests, seen
        found = build_result_columns(guests)
        wanted = (NAME, *found) if found else self.OVER_TIME if over_time else self.COLUMNS
        if wanted != self._wanted:
            self._wanted = wanted
        timed = "seconds by the clock outside · + from the first mark" if wanted == self.COLUMNS else ""
        set_border_titles(self, format_guest_counts(guests), timed)
        self._cells.clear()
        self.paint()

    def columns(self) -> tuple[Column, ...]:
        return self._wanted

    def keys(self) -> list[int]:
        return list(range(len(self._guests)))

    def cell_of(self, column: Column, key: int, width: int) -> Span:
        if column.name.startswith(RESULT_PREFIX):
            return safe(dict(self._guests[key].found).get(column.title, ""), width), ""
        return super().cell_of(column, key, width)

    def cell_name(self, key: int, width: int) -> Span:
        return safe(self._guests[key].name, width), "strong"

    def cell_state(self, key: int, width: int) -> Span:
        return LOOKS[self._guests[key].state]

    def cell_begun(self, key: int, width: int) -> Span:
        return _seconds(self._guests[key].begun_s), "muted"

    def cell_ended(self, key: int, width: int) -> Span:
        return _seconds(self._guests[key].ended_s), "muted"

    def cell_seconds(self, key: int, width: int) -> Span:
        guest = self._guests[key]
        if guest.seconds is not None:
            return _seconds(guest.seconds), "strong"
        if guest.state is CopyState.WORKS and guest.heard_s is not None:
            return f"{clock.monotonic_s() - guest.heard_s:.0f} …", "accent"
        return "", ""


def format_guest_counts(guests: tuple[PictureGuest, ...]) -> str:
    """``Guests: 57 of 100 done, 43 work``, those that have nothing to do counted apart."""
    states = Counter(guest.state for guest in guests)
    asked = states[CopyState.WAITS] + states[CopyState.WORKS] + states[CopyState.DONE]
    words = [f"{format_rounded(states[CopyState.DONE])} of {format_rounded(asked)} done"] if asked else []
    for state, verb in (
        (CopyState.WORKS, "at work"),
        (CopyState.WAITS, "waiting"),
        (CopyState.STANDS, "standing by"),
        (CopyState.STARTS, "starting, or standing already"),
    ):
        words += [f"{format_rounded(states[state])} {verb}"] if states[state] else []
    return f"Guests: {', '.join(words)}" if words else "Guests"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"
