"""Telemetry trials as reported: what packets cost the unit under test's processors, and why some were dropped.

They enter no mean. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labconsole.measure.drop_causes import is_kernels
from labconsole.measure.processor_time import ProcessorTime, processor_time, read_work
from labconsole.model.record.run import Requested, RunRecord, StreamRecord


@dataclass(frozen=True, slots=True)
class TelemetryTrial:
    """``rate_pps``: forwarded, without a second guest's own streams. ``doubts``: the codes of its verdict.
    ``processes``: the busiest, by name, with their time. ``drops``: the kernel's words for what the unit under test
    dropped, the commonest first.
    """

    run_id: str
    requested: Requested
    doubts: tuple[str, ...]
    rate_pps: float | None
    time: ProcessorTime
    processes: tuple[tuple[str, int], ...]
    drops: tuple[tuple[str, int], ...]


def read_telemetry_trials(record: Mapping[str, Any]) -> list[TelemetryTrial]:
    """One trial, or none if the record reports nothing. Raises ValueError for something that is not a record."""
    run = RunRecord.model_validate_json(json.dumps(record), strict=True)
    work, time = read_work(run), processor_time(run)
    if run.verdict.status == "invalid" or work is None or time is None:
        return []
    used: Counter[str] = Counter()
    for each in work.processes:
        used[clean_name(each.name)] += each.cpu_ns
    total = run.total
    rate_pps = total.measured_pps if total.forwarding_pps is None else total.forwarding_pps
    doubts = tuple(reason.code for reason in run.verdict.reasons)
    return [TelemetryTrial(run.run_id, run.requested, doubts, rate_pps, time, tuple(used.most_common()), _drops(run))]


def _drops(run: RunRecord) -> tuple[tuple[str, int], ...]:
    second: tuple[StreamRecord, ...] = run.background.streams if run.background is not None else ()
    found: Counter[str] = Counter()
    for stream in (*run.streams, *second):
        for hop in stream.ledger:
            found.update({name: packets for name, packets in hop.drops.items() if is_kernels(name)})
    return tuple((clean_name(name), packets) for name, packets in found.most_common())


def clean_name(name: str) -> str:
    """A node's word without characters that a table in any format would interpret."""
    return " ".join("".join("·" if char in "|\\<>`" else char for char in name).split())
