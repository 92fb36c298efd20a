"""A row for each guest of the step under way: what it does, its marks, and how long it has worked or what it took."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from labconsole.contracts.picture import CopyState, PictureGuest, StepPicture
from labconsole.text.cells import UNKNOWN, count, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Span, entitle
from labconsole.tui.parts.table import Column, LineTable

LOOKS = {
    CopyState.STARTS: ("… starts", "muted"),
    CopyState.STANDS: ("· stands", "muted"),
    CopyState.WAITS: ("· waits", ""),
    CopyState.WORKS: ("▶ works", "accent"),
    CopyState.DONE: ("✓ done", "good"),
}


class GuestsTable(LineTable):
    """Rows are places in the crew's order; a picture is replaced, never changed, so the same one is painted once."""

    EMPTY = "no guest stands"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "guest", 6, right=False, grow_to=20),
        Column("state", "does", 8, right=False),
        Column("begun", "begun +s", 9, rank=2),
        Column("ended", "ended +s", 9, rank=1),
        Column("seconds", "seconds", 10),
    )

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._guests: tuple[PictureGuest, ...] = ()
        self._painted: tuple[object, ...] = ()
        self.border_title = "Guests"

    def show(self, picture: StepPicture | None) -> None:
        """Take what a step shows, None: no step; painted when it is another, and once a second while somebody works."""
        if not self.is_mounted or not self.size.width or not self.display:
            return  # out of sight, rows and guests stay those that were painted last
        guests = picture.guests if picture is not None else ()
        working = any(guest.state is CopyState.WORKS for guest in guests)
        seen = guests, int(clock.monotonic_s()) if working else 0, self.size, self.display
        if guests is self._guests and self._painted[1:] == seen[1:]:
            return
        self._guests, self._painted = guests, seen
        entitle(self, guests_words(guests), "seconds by the clock outside · + from the first mark")
        self._cells.clear()
        self.paint()

    def keys(self) -> list[int]:
        return list(range(len(self._guests)))

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


def guests_words(guests: tuple[PictureGuest, ...]) -> str:
    """``Guests: 57 of 100 done, 43 work``, those that have nothing to do counted apart."""
    states = Counter(guest.state for guest in guests)
    asked = states[CopyState.WAITS] + states[CopyState.WORKS] + states[CopyState.DONE]
    words = [f"{count(states[CopyState.DONE])} of {count(asked)} done"] if asked else []
    for state, verb in (
        (CopyState.WORKS, "at work"), (CopyState.WAITS, "waiting"),
        (CopyState.STANDS, "standing by"), (CopyState.STARTS, "starting, or standing already"),
    ):  # fmt: skip
        words += [f"{count(states[state])} {verb}"] if states[state] else []
    return f"Guests: {', '.join(words)}" if words else "Guests"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"
