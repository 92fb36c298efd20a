"""Losses of a design point's trials, and the trials that lost next to nothing of the offered packets. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.measure.maximum import REACHED_LOSS_RATIO
from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.loss_interval import is_loss_known


def lost_packets(runs: Sequence[RunRow], by_sides: bool) -> list[int | None]:
    """Packets lost by the unit under test, or by everything between the generator and the sink; None if unknown.

    If a trial has slightly more frames out than in, those are the unit under test's own, and no loss shows. A larger
    excess in any trial makes the loss of all unknown: else trials with larger losses would be left, and represent the
    rest.
    """
    found: list[int | None] = []
    for run in runs:
        some, of = (run.uut_lost_packets if by_sides else run.loss_packets), run.offered_packets
        if some is None or of is None:
            found.append(None)
        elif not is_loss_known(some, of):
            return [None] * len(runs)
        else:
            found.append(max(some, 0))
    return found


def missing_ratio(runs: Sequence[RunRow], lost: Sequence[int | None], by_sides: bool) -> float | None:
    """The share of offered packets that was lost or late, over trials with known loss; None if there are none."""
    missing = offered = 0
    late_known = True
    for run, some in zip(runs, lost, strict=True):
        if some is None:
            continue
        missing, offered = missing + some, offered + (run.offered_packets or 0)
        if by_sides:
            late_known = late_known and run.late_packets is not None
            missing += run.late_packets or 0
    if not offered:
        return None
    ratio = missing / offered
    return ratio if late_known or ratio >= REACHED_LOSS_RATIO else None


def full_run_ids(runs: Sequence[RunRow], lost: Sequence[int | None], by_sides: bool) -> frozenset[str]:
    """The trials that forwarded all that they were offered, if their loss is known.

    Their rate is the sender's, and a lower limit of what could be forwarded.
    """
    return frozenset(
        run.run_id
        for run, some in zip(runs, lost, strict=True)
        if some is not None
        and run.offered_packets
        and (some + (run.late_packets or 0) * by_sides) / run.offered_packets < REACHED_LOSS_RATIO
    )
