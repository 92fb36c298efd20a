"""The live view of guests that are being started. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from labconsole.contracts.picture import CopyState, PictureGuest
from labconsole.experiments.boot.record import GuestBootRecord
from labconsole.measure.external_timing import Marks


def guests_starting(names: Sequence[str], found: Mapping[str, Marks]) -> tuple[PictureGuest, ...]:
    """Return the guests by the marks received so far. A guest's start-up time is known only when the trial is over."""
    return _guests((name, found.get(name, Marks()).start_request_ns, None) for name in names)


def guests_started(guests: Iterable[GuestBootRecord]) -> tuple[PictureGuest, ...]:
    """Return the guests of a finished trial."""
    return _guests((each.guest, each.mark_ns, each.mark_s) for each in guests)


def _guests(marks: Iterable[tuple[str, int | None, float | None]]) -> tuple[PictureGuest, ...]:
    seen = list(marks)
    first_ns = min((mark_ns for _, mark_ns, _ in seen if mark_ns is not None), default=0)
    return tuple(
        PictureGuest(
            name=name,
            state=CopyState.STARTS if mark_ns is None else CopyState.STANDS,
            begun_s=None if mark_ns is None else (mark_ns - first_ns) / 1e9,
            seconds=seconds,
        )
        for name, mark_ns, seconds in seen
    )
