"""What each guest of one tool takes of the machine's memory against another's, in pairs of blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labconsole.experiments.boot.summary import SeriesKey, series_key
from labconsole.measure.statistics.line_in_blocks import LineInBlocks
from labconsole.measure.trials_of_guests import Blocks, newest_trials, with_points
from labconsole.model.record.boot import BootRecord
from labconsole.report.abstracts import tool_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCompared:
    """By what line the memory that is taken from the machine at one series (``key``) lies from another's (``than``),
    over the number of guests. None: there is no block that has both.
    """

    key: SeriesKey
    than: SeriesKey
    line: LineInBlocks | None


def compare_memory(records: Iterable[BootRecord]) -> list[MemoryCompared]:
    """Every two platforms that were asked the same."""
    every = sorted(records, key=lambda each: (each.started_at, each.boot_id))
    entered: dict[SeriesKey, dict[int, list[BootRecord]]] = {}
    for key, record in with_points(newest_trials(every), series_key):
        if record.verdict.status == "valid":
            entered.setdefault(key, {}).setdefault(record.requested.guests, []).append(record)
    blocks = Blocks(every)
    return [
        MemoryCompared(key=key, than=than, line=blocks.line_apart(entered[key], entered[than], taken_bytes))
        for key, than in tool_pairs(entered)
    ]


def taken_bytes(record: BootRecord) -> float | None:
    """By how much less the machine has left: its hypervisor where that says so, for its first guest sees only what it
    has itself (Xen); else the unit under test's kernel.
    """
    memory = record.memory
    if memory is None:
        return None
    return memory.used_bytes if memory.hypervisor_free_before_bytes is None else memory.hypervisor_bytes
