"""The resolution of start-up times: the error of the clock comparison, and the delay from a guest's start to its mark.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labconsole.experiments.boot.record import GuestBootRecord
from labconsole.model.record.run import Figures, Reason
from labconsole.platforms.base.marks import SEEK_STEP_S
from labconsole.verdict.reasons import reason

LEAST_ERROR_S, ERROR_RATIO = 0.001, 0.01
"""The error that the clocks may leave in a time: this many seconds, or this share of the time if that is more."""

MARK_TRY_S = 1.0
"""Duration of an installed guest's ping that does not find the timekeeper; the next one may be its mark."""


def clock_allowed_s(startup_s: float | None) -> float | None:
    """Return the error that the clocks may leave in this time, or None without a time."""
    return None if startup_s is None else max(LEAST_ERROR_S, ERROR_RATIO * startup_s)


def clock_reasons(clock_error_s: float | None, allowed_s: float | None) -> Iterator[Reason]:
    """Judge the clocks' error. ``allowed_s``: None in records that are older than this check, which are not judged."""
    if clock_error_s is None or allowed_s is None or clock_error_s <= allowed_s:
        return
    detail = f"the clocks leave {clock_error_s * 1e3:.1f} ms of the time open; {allowed_s * 1e3:.1f} ms are allowed"
    yield reason("clock_coarse", detail, clock_error_s=clock_error_s, clock_error_allowed_s=allowed_s)


def earlier_s(guest: GuestBootRecord) -> float | None:
    """Return how long before its mark the guest may have been up at most, or None if unknown.

    A guest asks for the timekeeper's address in steps. The way into an installed guest is tried in steps, too.
    """
    way = guest.way_in
    if way is None:
        return SEEK_STEP_S
    if way.mark_tries is None:
        return None
    return (way.gap_s or 0.0) + (MARK_TRY_S if way.mark_tries > 1 else SEEK_STEP_S)


def resolution_s(guests: Sequence[GuestBootRecord], clock_error_s: float | None) -> float | None:
    """Return the error bound of a trial's time from these causes, or None if unknown."""
    earlier = [earlier_s(each) for each in guests]
    known = [each for each in earlier if each is not None]
    if clock_error_s is None or not known or len(known) < len(earlier):
        return None
    return clock_error_s + max(known)


def coarse_notes(guests: Sequence[GuestBootRecord], uut: str) -> Iterator[Figures]:
    """Report an influence if installed guests may have been up clearly before their marks."""
    marked = [each for each in guests if each.mark_s is not None]
    unknown = [each.guest for each in marked if earlier_s(each) is None]
    earlier = {each.guest: found for each in marked if (found := earlier_s(each) or 0.0) > SEEK_STEP_S}
    if not earlier and not unknown:
        return
    sentences = []
    if earlier:
        worst = max(earlier, key=lambda guest: earlier[guest])
        sentences.append(
            f"{worst} may have been there {earlier[worst]:.3f} s before its mark: the way to it was tried in steps"
        )
    if unknown:
        sentences.append(f"{', '.join(unknown)} did not say how often the timekeeper was looked for before the mark")
    yield {
        "node": uut,
        "kind": "mark_coarse",
        "detail": "; ".join(sentences),
        "earlier_s": earlier,
        "unknown": unknown,
    }
