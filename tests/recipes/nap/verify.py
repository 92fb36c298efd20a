"""Recomputation of a stored nap."""

from __future__ import annotations

from collections.abc import Iterator

from labconsole.measure.recompute.discrepancy import Discrepancy

from .record import NapRecord


def recompute_nap(record: NapRecord) -> Iterator[Discrepancy]:
    """Find values that do not follow from the others."""
    longest_s = max(record.slept_s, default=None)
    if longest_s != record.longest_s:
        yield Discrepancy(where="longest_s", stored=record.longest_s, recomputed=longest_s)


RECOMPUTE = recompute_nap
