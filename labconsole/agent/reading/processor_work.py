"""Work of the processors for packets between two readings of /proc: some milliseconds each, before and after traffic
and never during it.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import closing, suppress
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from labconsole.agent.reading.drops import driver_statistics, named_statistics, softnet
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.reading.host_activity import Snapshot, derive_ticks_used
from labconsole.agent.reading.proc_files import read_text
from labconsole.wire.processor_work import MAX_LINES, MAX_QUEUES, MAX_WORKING

MOST_CHARACTERS = 1 << 24
"""Most characters read from a file with a column for each processor and a line for each interrupt."""

WHAT_CHARACTERS = 80
_CPU = re.compile(r"CPU(\d{1,5})\Z")
_KINDS = 10
"""user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice."""

_QUEUE = re.compile(
    r"(?P<direction>[rt]x)[-_]?(?:queue[-_]?)?(?P<queue>\d{1,5})[-_.](?:[rt]x_)?(?:packets|pkts|cnt)\Z"
    r"|(?:queue_|\[)(?P<number>\d{1,5})(?:_|\]: )(?P<way>[rt]x)_(?:packets|pkts|cnt|ucast_packets)\Z"
)
"""Spellings of drivers: rx_queue_0_packets, rx-0.packets, tx1_packets, queue_0_rx_cnt, [0]: rx_ucast_packets."""

Table = Dict[str, Tuple[str, Dict[int, int]]]
"""Maps a line's first word to the rest of its text, and its count on each processor."""

Queue = Tuple[str, str, int]
"""Interface, direction, number."""


def parse_table(text: str) -> Table:
    """Parse a file whose first line names processors, such as /proc/interrupts and /proc/softirqs. Skips other
    lines.
    """
    head, _, body = text.partition("\n")
    numbers = [int(found.group(1)) for found in map(_CPU.match, head.split()) if found is not None]
    table: Table = {}
    if not numbers:
        return table
    for line in body.splitlines():
        key, colon, rest = line.partition(":")
        fields = rest.split(None, len(numbers))
        counts = fields[: len(numbers)]
        if not colon or len(counts) < len(numbers) or not all(word.isdecimal() for word in counts):
            continue  # ERR and MIS have one number for all
        what = " ".join(fields[len(numbers) :]).split()
        table[key.strip()] = (
            " ".join(what)[:WHAT_CHARACTERS],
            {number: int(word) for number, word in zip(numbers, counts)},
        )
    return table


def parse_times(stat: str) -> Dict[int, Tuple[int, ...]]:
    """Parse the ticks of each processor by kind."""
    found: Dict[int, Tuple[int, ...]] = {}
    for line in stat.splitlines():
        fields = line.split()
        if not fields or not fields[0].startswith("cpu"):
            break
        if len(fields) > _KINDS and fields[0][3:].isdecimal():
            try:
                found[int(fields[0][3:])] = tuple(int(word) for word in fields[1 : _KINDS + 1])
            except ValueError:
                continue
    return found


def parse_queues(interface: str, statistics: Dict[str, int]) -> Dict[Queue, int]:
    """Return the packets of each queue, from a driver's statistics."""
    found: Dict[Queue, int] = {}
    for name, number in statistics.items():
        match = _QUEUE.match(name)
        if match is not None:
            direction, queue = match.group("direction") or match.group("way"), match.group("queue")
            found.setdefault((interface, direction, int(queue or match.group("number"))), number)
    return found


class WorkCounts(NamedTuple):
    at_ns: int
    processes: Snapshot
    times: Dict[int, Tuple[int, ...]]
    softirqs: Table
    interrupts: Table
    softnet: Dict[int, List[int]]
    queues: Dict[Queue, int]


def _now(interfaces: Sequence[str]) -> WorkCounts:
    queues: Dict[Queue, int] = {}
    with closing(Ethtool()) as tool:
        for interface in interfaces:
            with suppress(OSError):  # a busy driver: the others' queues are still reported
                queues.update(parse_queues(interface, driver_statistics(tool, interface, named_statistics) or {}))
    return WorkCounts(
        processes=Snapshot(),
        interrupts=parse_table(read_text("/proc/interrupts", MOST_CHARACTERS) or ""),
        softirqs=parse_table(read_text("/proc/softirqs", MOST_CHARACTERS) or ""),
        softnet={row[0]: [each or 0 for each in row[1:]] for row in softnet() or [] if row[0] is not None},
        queues=queues,
        # Last before the window, so that the time of the readings above is not in it.
        times=parse_times(read_text("/proc/stat", MOST_CHARACTERS) or ""),
        at_ns=time.monotonic_ns(),
    )


class WorkWindow:
    """The beginning of the open window, if any."""

    def __init__(self) -> None:
        self._begin: Optional[WorkCounts] = None
        self._interfaces: List[str] = []

    def begin(self, interfaces: Sequence[str]) -> None:
        self._interfaces = list(interfaces)
        self._begin = _now(self._interfaces)

    def end(self) -> Optional[Dict[str, Any]]:
        """Return the work since the beginning, or None if no window is open."""
        first, self._begin = self._begin, None
        return None if first is None else derive_work(first, _ending(self._interfaces))


def _ending(interfaces: Sequence[str]) -> WorkCounts:
    """Read times first, so that the time of the other readings is not in them."""
    at_ns, times = time.monotonic_ns(), parse_times(read_text("/proc/stat", MOST_CHARACTERS) or "")
    return _now(interfaces)._replace(at_ns=at_ns, times=times)


def derive_work(first: WorkCounts, last: WorkCounts) -> Dict[str, Any]:
    """Return the work between two moments, in the form of NodeWork."""
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    interrupts, unlisted = _interrupts(first.interrupts, last.interrupts)
    return {
        "elapsed_ns": max(1, last.at_ns - first.at_ns),
        "tick_ns": tick_ns,
        "processors": [
            _processor(number, first, last, tick_ns) for number in sorted(last.times) if number in first.times
        ],
        "interrupts": interrupts,
        "unlisted_interrupts": unlisted,
        "queues": [
            {"interface": interface, "direction": direction, "queue": queue, "packets": packets - before}
            for (interface, direction, queue), packets in sorted(last.queues.items())[:MAX_QUEUES]
            if packets > (before := first.queues.get((interface, direction, queue), packets))
        ],
        "processes": _processes(first.processes, last.processes, tick_ns),
    }


def _processor(number: int, first: WorkCounts, last: WorkCounts, tick_ns: int) -> Dict[str, Any]:
    ticks = [max(0, now - then) for then, now in zip(first.times[number], last.times[number])]
    user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = ticks
    backlog = _grown(first.softnet.get(number), last.softnet.get(number))
    return {
        "number": number,
        "user_ns": (user + nice) * tick_ns,
        "guest_ns": (guest + guest_nice) * tick_ns,
        "system_ns": system * tick_ns,
        "interrupt_ns": irq * tick_ns,
        "softirq_ns": softirq * tick_ns,
        "steal_ns": steal * tick_ns,
        "idle_ns": (idle + iowait) * tick_ns,
        "received_softirqs": _softirqs("NET_RX", number, first, last),
        "sent_softirqs": _softirqs("NET_TX", number, first, last),
        "stack_packets": backlog[0],
        "backlog_dropped_packets": backlog[1],
        "squeezed": backlog[2],
    }


def _grown(first: Optional[List[int]], last: Optional[List[int]]) -> List[Optional[int]]:
    """Return increments; the kernel counts in 32 bits."""
    if first is None or last is None:
        return [None, None, None]
    return [(now - then) % 2**32 for then, now in zip(first, last)]


def _softirqs(kind: str, number: int, first: WorkCounts, last: WorkCounts) -> Optional[int]:
    then, now = (moment.softirqs.get(kind, ("", {}))[1].get(number) for moment in (first, last))
    return None if then is None or now is None else (now - then) % 2**32


def _interrupts(first: Table, last: Table) -> Tuple[List[Dict[str, Any]], int]:
    """Return interrupts that occurred, the most frequent first, and the sum of the others."""
    found = []
    for line, (what, counts) in last.items():
        if line not in first or first[line][0] != what:
            continue  # it began within the window: its counter includes earlier interrupts
        before = first[line][1]
        grown = [(number, count - before[number]) for number, count in sorted(counts.items()) if number in before]
        moved = [[number, count % 2**32] for number, count in grown if count > 0 or count < -(2**31)]
        if moved:
            found.append({"line": line, "what": what, "by_processor": moved})
    found.sort(key=_occurred, reverse=True)
    return found[:MAX_LINES], sum(map(_occurred, found[MAX_LINES:]))


def _occurred(interrupt: Dict[str, Any]) -> int:
    return sum(count for _, count in interrupt["by_processor"])


def _processes(first: Snapshot, last: Snapshot, tick_ns: int) -> List[Dict[str, Any]]:
    used = {pid: own + ended for pid, (own, ended) in derive_ticks_used(first, last).items()}
    busiest = sorted((pid for pid in used if used[pid] > 0), key=lambda pid: (-used[pid], pid))[:MAX_WORKING]
    return [
        {
            "pid": pid,
            "name": last.processes[pid].name,
            "kernel": last.processes[pid].kernel,
            "cpu_ns": used[pid] * tick_ns,
        }
        for pid in busiest
    ]
