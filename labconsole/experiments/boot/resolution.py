"""How coarsely the clock outside tells a start: the error of the clocks compared, and how much earlier a guest may have
been there than its mark. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.model.record.boot import GuestBootRecord
from labconsole.model.record.run import Figures, Reason
from labconsole.platforms.base.marks import SEEK_STEP_S
from labconsole.verdict.reasons import reason

LEAST_ERROR_S, ERROR_RATIO = 0.001, 0.01
"""So much the clocks may leave open of a time, or this share of it, if that is more."""

MARK_TRY_S = 1.0
"""What a ping takes with which an installed guest looks in vain for the timekeeper; the next one may be its mark."""


def clock_allowed_s(startup_s: float | None) -> float | None:
    """What the clocks may leave open of this time; None: there is none."""
    return None if startup_s is None else max(LEAST_ERROR_S, ERROR_RATIO * startup_s)


def clock_reasons(clock_error_s: float | None, allowed_s: float | None) -> Iterator[Reason]:
    """``allowed_s`` None: it is not judged, as in a record from before it was."""
    if clock_error_s is None or allowed_s is None or clock_error_s <= allowed_s:
        return
    detail = f"the clocks leave {clock_error_s * 1e3:.1f} ms of the time open; {allowed_s * 1e3:.1f} ms are allowed"
    yield reason("clock_coarse", detail, clock_error_s=clock_error_s, clock_error_allowed_s=allowed_s)


def earlier_s(guest: GuestBootRecord) -> float | None:
    """By how much earlier, at most, it may have been there than its mark says; None: not known. It asks for the
    timekeeper's address in steps. The way into an installed one is tried in steps, too.
    """
    way = guest.way_in
    if way is None:
        return SEEK_STEP_S
    if way.mark_tries is None:
        return None
    return (way.gap_s or 0.0) + (MARK_TRY_S if way.mark_tries > 1 else SEEK_STEP_S)


def resolution_s(guests: Sequence[GuestBootRecord], clock_error_s: float | None) -> float | None:
    """How far off the time of a trial may be by all that; None: not known."""
    earlier = [earlier_s(each) for each in guests]
    known = [each for each in earlier if each is not None]
    if clock_error_s is None or not known or len(known) < len(earlier):
        return None
    return clock_error_s + max(known)


def coarse_notes(guests: Sequence[GuestBootRecord], uut: str) -> Iterator[Figures]:
    """One influence where installed guests may have been there clearly before their marks."""
    came = [each for each in guests if each.mark_s is not None]
    unknown = [each.guest for each in came if earlier_s(each) is None]
    earlier = {each.guest: found for each in came if (found := earlier_s(each) or 0.0) > SEEK_STEP_S}
    if not earlier and not unknown:
        return
    words = []
    if earlier:
        worst = max(earlier, key=lambda guest: earlier[guest])
        words.append(
            f"{worst} may have been there {earlier[worst]:.3f} s before its mark: the way to it was tried in steps"
        )
    if unknown:
        words.append(f"{', '.join(unknown)} did not say how often the timekeeper was looked for before the mark")
    yield {
        "node": uut,
        "kind": "mark_coarse",
        "detail": "; ".join(words),
        "earlier_s": earlier,
        "unknown": unknown,
    }
