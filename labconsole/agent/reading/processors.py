"""Load of the processors, from one reading of /proc/stat: some ten microseconds on two of them."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional, Tuple

from labconsole.agent.reading.files import read_bytes

MOST_OF_STAT = 1 << 18
LEAST_NS = 950_000_000
"""Least time between two readings: the kernel counts in hundredths of a second."""

_IDLE, _IOWAIT, _SOFTIRQ, _STEAL, _KINDS = 3, 4, 6, 7, 8
"""user, nice, system, idle, iowait, irq, softirq, steal; guests' time is already in user and nice."""

Ticks = Tuple[int, ...]


def parse_ticks(stat: bytes) -> Dict[int, Ticks]:
    """Parse the ticks of each processor by its number. Malformed lines are skipped."""
    found: Dict[int, Ticks] = {}
    for line in stat.rpartition(b"\n")[0].split(b"\n"):  # the last line may be cut off
        if not line.startswith(b"cpu"):
            break
        fields = line.split()
        if len(fields) > _KINDS and fields[0] != b"cpu":
            try:
                found[int(fields[0][3:])] = tuple(map(int, fields[1 : _KINDS + 1]))
            except ValueError:
                continue
    return found


def derive_use(first: Dict[int, Ticks], last: Dict[int, Ticks]) -> Optional[Dict[str, Any]]:
    """Return shares of the mean and of the busiest processor, or None if no time passed on any."""
    grown: Dict[int, Ticks] = {}
    for number, ticks in last.items():
        if number in first:
            # Idle and iowait may decrease by a tick; the counts of an offline processor stay the same.
            moved = tuple(max(0, now - before) for before, now in zip(first[number], ticks))
            if sum(moved):
                grown[number] = moved
    if not grown:
        return None
    busiest = max(grown, key=lambda number: (_shares(grown[number])["busy"], -number))
    return {
        "processors": len(grown),
        "mean": _shares(tuple(map(sum, zip(*grown.values())))),
        "busiest": _shares(grown[busiest]),
        "busiest_number": busiest,
    }


def _shares(ticks: Ticks) -> Dict[str, float]:
    total = sum(ticks)
    return {
        "busy": round((total - ticks[_IDLE] - ticks[_IOWAIT]) / total, 4),
        "softirq": round(ticks[_SOFTIRQ] / total, 4),
        "steal": round(ticks[_STEAL] / total, 4),
    }


class Processors:
    """Keeps the last reading; the first one has nothing to compare with."""

    def __init__(self) -> None:
        self._at_ns: Optional[int] = None
        self._ticks: Dict[int, Ticks] = {}

    def due(self, now_ns: int) -> bool:
        return self._at_ns is None or now_ns - self._at_ns >= LEAST_NS

    def event(self) -> Optional[Dict[str, Any]]:
        """Read now; return the use since the previous reading, if there was one."""
        at_ns, ticks = time.monotonic_ns(), parse_ticks(read_bytes("/proc/stat", MOST_OF_STAT) or b"")
        before_ns, self._at_ns = self._at_ns, at_ns
        before, self._ticks = self._ticks, ticks
        use = derive_use(before, ticks)
        if before_ns is None or use is None:
            return None
        return {
            "event": "processors",
            "monotonic_ns": at_ns,
            "wall_ns": time.time_ns(),
            "elapsed_ns": at_ns - before_ns,
            **use,
        }
