"""Pairs of blocks whose exact agreement shows noise of few values, and no effect. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from labconsole.measure.statistics.effects import MINIMUM_BLOCKS
from labconsole.measure.statistics.set_ups import Key

FEW_KINDS: Final = "values of all 3 blocks move by the same ratio: their set-ups may be of two kinds"

EXACT_RATIO: Final = 1e-9
"""Ratios that differ by less are equal but for floating point."""


def find_few_kinds(one: Mapping[Key, float], other: Mapping[Key, float]) -> str | None:
    """Why nothing is claimed if values move from block to block and their ratio does not, in three blocks, or None.

    Noise of two values does so in 1 of 32 cases, and measured values never.
    """
    shared = [(one[block], other[block]) for block in one if block in other]
    if len(shared) != MINIMUM_BLOCKS or min(min(pair) for pair in shared) <= 0:
        return None
    ratios, ours, theirs = [a / b for a, b in shared], [a for a, _ in shared], [b for _, b in shared]
    spread, *moves = (max(each) / min(each) - 1 for each in (ratios, ours, theirs))
    return FEW_KINDS if spread <= EXACT_RATIO < min(moves) else None
