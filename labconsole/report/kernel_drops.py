"""Reasons that the kernel of the unit under test gave for dropped packets, in all runs of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labconsole.measure.drop_causes import find_off_path_drops, is_kernels, lower_bounds


@dataclass(slots=True)
class DropCount:
    """Packets of one reason at one hop, with the number of runs; ``partly_counted_runs`` of them may have more."""

    packets: int = 0
    run_ids: list[str] = field(default_factory=list)
    partly_counted_runs: int = 0


class KernelDropCounts:
    """``found``: by platform, interface (``uut/eth2``) and the kernel's word in the ledger. ``off_path``: the same for
    packets dropped off every stream's path, by the interface at which they were dropped.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], DropCount] = {}
        self.off_path: dict[tuple[str, str, str], DropCount] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one record."""
        background_streams = (record["background"] or {}).get("streams") or []
        for stream in (*record["streams"], *background_streams):
            for hop in stream["ledger"]:
                for label, packets in (hop.get("drops") or {}).items():
                    if is_kernels(label):
                        _add(self.found, record, f"{hop['node']}/{hop['interface']}", label, packets)
        for row in find_off_path_drops(record.get("extensions") or {}):
            _add(self.off_path, record, row.place, row.label, row.packets)


def _add(
    found: dict[tuple[str, str, str], DropCount], record: Mapping[str, Any], place: str, label: str, packets: int
) -> None:
    kept = found.setdefault((record["requested"]["platform"], place, label), DropCount())
    kept.packets += packets
    if record["run_id"] not in kept.run_ids:
        kept.run_ids.append(record["run_id"])
        kept.partly_counted_runs += lower_bounds(record.get("extensions") or {})
