"""Doubts about times measured by the timekeeper, and about swap, for all experiments with several guests. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.model.record.crew_trial import TimekeeperRecord
from labconsole.model.record.run import Figures, Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import reason

LEAST_STEP_S, STEP_RATIO = 0.001, 0.001
"""The timekeeper's clock may be set by a thousandth of the shortest time, and by its resolution."""


def timekeeper_reasons(seen: TimekeeperRecord, shortest_s: float, limits: Tolerances) -> Iterator[Reason]:
    """Reasons against the timekeeper's times.

    ``shortest_s``: the shortest measured time; a step of the clock changes each time by its full amount.
    """
    for sender in seen.doubled:
        yield reason("mark_forged", f"a mark of {sender} arrived twice", node=seen.node, copy=sender)
    if seen.strange_packets:
        detail = f"{seen.strange_packets} pings to {seen.address} match no mark"
        yield reason("mark_forged", detail, node=seen.node, packets=seen.strange_packets)
    if seen.dropped_packets:
        detail = f"the timekeeper's kernel dropped {seen.dropped_packets} packets that may have been marks"
        yield reason("not_observed", detail, node=seen.node, packets=seen.dropped_packets)
    allowed_s = min(limits.clock_step_s, max(LEAST_STEP_S, STEP_RATIO * shortest_s))
    if abs(seen.wall_moved_ns) > allowed_s * 1e9:
        detail = f"the clock of {seen.node} was set by {seen.wall_moved_ns / 1e9:+.3f} s meanwhile"
        yield reason("clock_stepped", detail, node=seen.node, step_s=seen.wall_moved_ns / 1e9)


def interrupted_note(node: str, why: str) -> Figures:
    """An entry on what was not observed: the timekeeper did not listen all the time."""
    return {"node": node, "kind": "not_observed", "detail": f"listening for marks was interrupted: {why}"}


def swap_reasons(swapped_pages: int | None) -> Iterator[Reason]:
    """A reason if pages were swapped. ``swapped_pages`` is None if unknown."""
    if swapped_pages:
        detail = f"the unit under test moved {swapped_pages} pages in or out of swap"
        yield reason("swapped", detail, pages=swapped_pages)
