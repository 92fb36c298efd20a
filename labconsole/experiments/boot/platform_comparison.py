"""The memory that each guest takes from the machine, compared between tools in pairs of blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.summary import SeriesKey, series_key
from labconsole.measure.paired_blocks import Blocks, assign_points, find_exclusion_code, newest_trials
from labconsole.measure.statistics.line_in_blocks import LineInBlocks
from labconsole.report.paper_abstracts import format_none_valid, pair_tools

OUTCOME_CODES: Final = ("guests_missing", "no_memory", "swapped")
"""Codes of boot trials that needed more than the machine has. The trials left at such a number of guests are a
choice.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryComparison:
    """The difference between the memory taken at one series (``key``) and another (``than``), over the number of
    guests.

    ``line``: None if no block has both. ``absent``: why the comparison allows no conclusion.
    """

    key: SeriesKey
    than: SeriesKey
    line: LineInBlocks | None
    absent: str | None


def compare_memory(records: Iterable[BootRecord]) -> list[MemoryComparison]:
    """Compare every two platforms with the same request, even if no trial of one of them enters."""
    every = sorted(records, key=lambda each: (each.started_at, each.boot_id))
    requested: dict[SeriesKey, dict[int, list[BootRecord]]] = {}
    for key, record in assign_points(newest_trials(every), series_key):
        requested.setdefault(key, {}).setdefault(record.requested.guests, []).append(record)
    entered = {key: {n: valid for n, group in of.items() if (valid := _valid(group))} for key, of in requested.items()}
    blocks, found = Blocks(every), list[MemoryComparison]()
    for key, than in pair_tools(requested):
        none = [each.platform for each in (key, than) if not entered[each]]
        both = entered[key].keys() & entered[than].keys()
        failed = (
            trial for each in (key, than) for n in both for trial in requested[each][n] if trial not in entered[each][n]
        )
        out = find_exclusion_code(OUTCOME_CODES, failed)
        found.append(
            MemoryComparison(
                key=key,
                than=than,
                line=blocks.line_apart(entered[key], entered[than], taken_bytes),
                absent=format_none_valid(none) if none else f"trials left out by {out}" if out else None,
            )
        )
    return found


def _valid(trials: Iterable[BootRecord]) -> list[BootRecord]:
    return [each for each in trials if each.verdict.status == "valid"]


def taken_bytes(record: BootRecord) -> float | None:
    """Return by how much the free memory of the machine decreased.

    The hypervisor's figure is used where it reports one, because Xen's first domain sees only its own memory; otherwise
    that of the UUT's kernel.
    """
    memory = record.memory
    if memory is None:
        return None
    return memory.used_bytes if memory.hypervisor_free_before_bytes is None else memory.hypervisor_bytes
