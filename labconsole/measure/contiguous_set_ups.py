"""Finds the set-ups of a block that were measured without interruption; only they share the block's conditions. Pure.

A *stretch* is a series of set-ups, in the order of their start, that all belong to one block of a plan on a testbed. A
set-up that was repeated after other blocks, or whose platform was measured apart from the others, has its own stretch,
and drift lies between it and the rest of its block. A mere pause does not end a stretch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from labconsole.measure.groups import block_of
from labconsole.measure.run_row import RunRow

ContiguousSetUps = Mapping[tuple[Hashable, str], int]
"""The number of a set-up's stretch, by block (``block_of``) and set-up."""

SetUpStarts = Mapping[tuple[Hashable, str, str], str]
"""The start of the first try at a set-up, by block, platform and background."""

LAST = "~"
"""Sorts after every time stamp."""


def find_set_up_starts(runs: Iterable[RunRow]) -> SetUpStarts:
    """The start of all set-ups in ``runs``. A repeated set-up counts from its first try, not from the repetition."""
    begun: dict[tuple[Hashable, str, str], str] = {}
    for run in runs:
        if run.set_up is None or not run.block or run.plan_hash is None:
            continue
        key = (block_of(run), run.platform, run.background)
        begun[key] = min(run.started_at, begun.get(key, LAST))
    return begun


def number_contiguous_set_ups(runs: Iterable[RunRow]) -> ContiguousSetUps:
    """The stretches of all set-ups in ``runs``, by block and set-up.

    ``runs`` must contain everything stored, because excluded runs also separate blocks. A set-up begins with its
    earliest run. Set-ups of the same moment are ordered by block.
    """
    begun: dict[tuple[Any, str], str] = {}
    for run in runs:
        if run.set_up is None or not run.block or run.plan_hash is None:
            continue
        key = (block_of(run), run.set_up)
        if run.started_at < begun.get(key, LAST):
            begun[key] = run.started_at
    found: dict[tuple[Hashable, str], int] = {}
    latest: dict[tuple[str, str], tuple[Hashable, int]] = {}
    for _, block, set_up in sorted((at, *key) for key, at in begun.items()):
        plan = block[1:]
        earlier, number = latest.get(plan, (None, 0))
        if block != earlier:
            number += 1
            latest[plan] = (block, number)
        found[block, set_up] = number
    return found
