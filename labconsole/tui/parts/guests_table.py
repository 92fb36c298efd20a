"""A row for each guest of the running step: its activity, its marks, and its working time or result.

For a finished trial without times per guest, the row has each guest's result.
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
    CopyState.STANDS: ("· idle", "muted"),
    CopyState.WAITS: ("· waits", ""),
    CopyState.WORKS: ("▶ works", "accent"),
    CopyState.DONE: ("✓ done", "good"),
}


NAME, DOES = Column("name", "guest", 6, right=False, grow_to=20), Column("state", "does", 8, right=False)
RESULT_PREFIX, MOST_CELLS = "found ", 40
NUMBERS = f"0123456789<>-+{UNKNOWN}"
"""Characters at the start of a number."""


def build_result_columns(guests: Sequence[PictureGuest]) -> tuple[Column, ...]:
    """A column for each heading with a result of any guest, as wide as its values. The last leave first."""
    texts: dict[str, list[str]] = {}
    for guest in guests:
        for heading, word in guest.found:
            texts.setdefault(heading, []).append(word)
    return tuple(
        Column(
            RESULT_PREFIX + heading,
            heading,
            min(MOST_CELLS, max(map(cell_len, (heading, *said)))),
            rank=rank,
            right=all(word[:1] in NUMBERS for word in said),
        )
        for rank, (heading, said) in enumerate(texts.items())
    )


class GuestsTable(LineTable):
    """Rows are places in the crew's order. A picture is replaced, never changed, so the same one is painted once."""

    EMPTY = "no guest is running"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        NAME,
        DOES,
        Column("begun", "begun +s", 9, rank=2),
        Column("ended", "ended +s", 9, rank=1),
        Column("seconds", "seconds", 10),
    )
    OVER_TIME: ClassVar[tuple[Column, ...]] = (NAME, DOES)
    """Columns if a chart next to the table shows the guests' activity."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._guests: tuple[PictureGuest, ...] = ()
        self._wanted = self.COLUMNS
        self._painted: tuple[object, ...] = ()
        self.border_title = "Guests"

    def show(self, picture: StepPicture | None) -> None:
        """Take a step's picture, or None for no step. Paints if it changed, and once a second while guests work."""
        if not self.is_mounted or not self.size.width or not self.display:
            return  # out of sight, rows and guests stay as last painted
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
    """Format ``Guests: 57 of 100 done, 43 work``. Guests without work are counted separately."""
    states = Counter(guest.state for guest in guests)
    with_work = states[CopyState.WAITS] + states[CopyState.WORKS] + states[CopyState.DONE]
    parts = [f"{format_rounded(states[CopyState.DONE])} of {format_rounded(with_work)} done"] if with_work else []
    for state, verb in (
        (CopyState.WORKS, "at work"),
        (CopyState.WAITS, "waiting"),
        (CopyState.STANDS, "idle"),
        (CopyState.STARTS, "starting, or already up"),
    ):
        parts += [f"{format_rounded(states[state])} {verb}"] if states[state] else []
    return f"Guests: {', '.join(parts)}" if parts else "Guests"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"
