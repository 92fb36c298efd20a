"""The verdict on one boot trial: which guests started, whether both witnesses agree, the page cache. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.experiments.boot.derived_values import clock_reasons
from labconsole.experiments.boot.disk_images import sum_cached_pages
from labconsole.experiments.boot.record import CachedFiles, GuestBootRecord
from labconsole.model.record.kind import TimekeeperRecord
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import reason, swap_reasons, timekeeper_reasons

APART_S, APART_RATIO = 0.1, 0.02
"""A guest reports that it is up right after the reply to its mark. Both witnesses agree within this tolerance plus the
error between their clocks.
"""


def derive_reasons(
    guests: Sequence[GuestBootRecord],
    *,
    start: str,
    clock_error_s: float | None,
    clock_error_allowed_s: float | None,
    files: Sequence[CachedFiles] | None,
    timekeeper: TimekeeperRecord | None,
    swapped_pages: int | None,
    limits: Tolerances,
) -> list[Reason]:
    """Return the reasons derived from the record alone, so that anyone can re-evaluate it."""
    found = [*_marks(guests, clock_error_s), *clock_reasons(clock_error_s, clock_error_allowed_s)]
    if files is not None:
        found += _cached(start, files)
    if timekeeper is not None:
        times = [abs(each.mark_s) for each in guests if each.mark_s is not None]
        found += timekeeper_reasons(timekeeper, min(times, default=0.0), limits)
    return [*found, *swap_reasons(swapped_pages)]


def apart_s(guest: GuestBootRecord) -> float | None:
    """Return the difference between a guest's two witnesses, or None if one is missing."""
    return None if guest.mark_s is None or guest.ready_s is None else guest.ready_s - guest.mark_s


def too_far_apart(guest: GuestBootRecord, clock_error_s: float | None) -> bool:
    """Return whether the two witnesses contradict each other."""
    difference_s = apart_s(guest)
    if difference_s is None or guest.mark_s is None:
        return False
    return abs(difference_s) > APART_S + APART_RATIO * abs(guest.mark_s) + (clock_error_s or 0.0)


def _marks(guests: Sequence[GuestBootRecord], clock_error_s: float | None) -> Iterator[Reason]:
    for each in guests:
        if each.ready_ns is not None and each.mark_ns is None:
            detail = f"{each.guest}: reported that it was up, but the timekeeper did not receive its mark"
            yield reason("mark_lost", detail, guest=each.guest)
        if too_far_apart(each, clock_error_s):
            detail = f"{each.guest}: its mark came after {each.mark_s:.3f} s, its word after {each.ready_s:.3f} s"
            yield reason("ready_disagrees", detail, guest=each.guest, apart_s=apart_s(each))


def _cached(start: str, files: Sequence[CachedFiles]) -> Iterator[Reason]:
    pages, cached = sum_cached_pages(files)
    if not pages:
        detail = f"the page cache of the guests' files is unknown, so nothing shows that it was a {start} start"
        yield reason("not_cold" if start == "cold" else "not_hot", detail, pages=pages)
        return
    if start == "cold" and cached:
        detail = f"{cached} of {pages} pages of the guests' files were still in memory"
        yield reason("not_cold", detail, pages=pages, cached_pages=cached)
    if start == "hot" and cached < pages:
        detail = f"only {cached} of {pages} pages of the guests' files were in memory"
        yield reason("not_hot", detail, pages=pages, cached_pages=cached)
