"""Interface counters and the load of the processors, one reading of each per tick."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from labconsole.agent import netlink
from labconsole.agent.pipes import Outlet
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading.proc_files import read_bytes
from labconsole.wire import codec

# -- load of the processors --------------------------------------------------------------------------------------------
# Load of the processors, from one reading of /proc/stat: some ten microseconds on two of them.

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


# -- interface counters ------------------------------------------------------------------------------------------------
# Interface counters: one RTM_GETSTATS dump per tick and namespace, on a socket of pyroute2's.
#
# Only the reply is decoded here: pyroute2 takes twenty times as long for it and omits two of the counters
# (docs/decisions/0013), which matters on the machine whose forwarding is being measured. In a quiet window the kernel's
# raw replies are kept and decoded only when they are sent.

IFLA_STATS_LINK_64 = 1

QUIET_SAMPLES = 65536
QUIET_BYTES = 64 * 1024 * 1024
"""Memory limit of a quiet window, whichever limit is reached first; at 10 Hz and 100 interfaces that is five
minutes.
"""

_INDEX = struct.Struct("=i")
_INDEX_AT, _STATS_START = 4, 12
"""In struct if_stats_msg, and behind it."""
_NUMBERS = [struct.Struct("=%dQ" % n) for n in range(64)]
# A newer kernel may send more counters than there are names: those are omitted.
_KNOWN = len(codec.STAT_NAMES)

Stats = List[Tuple[int, Tuple[int, ...]]]


def _dumped(parts: List[bytes]) -> Iterator[Tuple[int, int, bytes]]:
    """Yield interface index, the number of known counters, and their bytes, from the parts of one dump."""
    for message in netlink.messages(parts):
        for kind, numbers in netlink.attributes(message, _STATS_START):
            if kind == IFLA_STATS_LINK_64:
                yield _INDEX.unpack_from(message, _INDEX_AT)[0], min(len(numbers) // 8, _KNOWN), numbers


def parse_stats(parts: List[bytes]) -> Stats:
    """Return (interface index, its counters in the order of wire.STAT_NAMES) from the parts of one dump."""
    return [(index, _NUMBERS[count].unpack_from(numbers)) for index, count, numbers in _dumped(parts)]


def sampled_rows(parts: List[bytes]) -> List[Tuple[int, int, Tuple[int, ...]]]:
    """Return rows of a ``counters`` event: index, number of counters, and those up to the last that is not 0.

    Most are 0 on most interfaces: writing, encrypting and reading them would cost more than all the rest.
    """
    rows = []
    for index, count, numbers in _dumped(parts):
        moved = (len(numbers[: count * 8].rstrip(b"\0")) + 7) // 8
        rows.append((index, count, _NUMBERS[moved].unpack_from(numbers)))
    return rows


class NamespaceCounters:
    """The counters of one namespace, and the interface names."""

    def __init__(self, namespace: Optional[int]) -> None:
        self._route = netlink.RouteSocket(namespace)
        self._events = netlink.RouteSocket(namespace, groups=netlink.LINK_EVENTS)
        self._names: Optional[Dict[int, str]] = None

    def close(self) -> None:
        self._route.close()
        self._events.close()

    def stats(self) -> List[bytes]:
        return self._route.stats()

    def names(self) -> Dict[int, str]:
        """Return names by index. Listed again only after link events: pyroute2 takes a tenth of a millisecond for each
        link.
        """
        if self._events.drain():
            self._names = None
        if self._names is None:
            self._names = self._route.names()
        return self._names


class CounterSnapshot:
    """All interfaces at one moment, as the kernel reported them."""

    __slots__ = ("monotonic_ns", "wall_ns", "replies")

    def __init__(self, replies: Dict[str, List[bytes]]) -> None:
        # Stamped after reading: packets counted here had passed by this time. The count of late packets relies on that.
        self.monotonic_ns, self.wall_ns, self.replies = time.monotonic_ns(), time.time_ns(), replies

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for parts in self.replies.values() for part in parts)

    def event(self, *, missed: int, late: bool) -> Dict[str, Any]:
        return {
            "event": "counters",
            "monotonic_ns": self.monotonic_ns,
            "wall_ns": self.wall_ns,
            "namespaces": {name: sampled_rows(parts) for name, parts in self.replies.items()},
            "missed": missed,
            "late": late,
        }


class Counters:
    """Reads counters once or at an interval, in the agent's namespace and those it made."""

    def __init__(self, namespaces: Namespaces, outlet: Outlet, notice: Callable[[str, str], None]) -> None:
        self._namespaces, self._outlet, self._notice = namespaces, outlet, notice
        self._sockets: Dict[str, NamespaceCounters] = {}
        self._processors = Processors()
        self._loop = asyncio.get_running_loop()
        self._timer: Optional[asyncio.TimerHandle] = None
        self._interval_s = 0.0
        self._due_s = 0.0
        self._missed = 0
        self._failing = False
        self._kept: Optional[List[CounterSnapshot]] = None
        self._kept_bytes = 0
        self._kept_missed = 0
        self._paused = False

    async def open(self) -> None:
        """Open a socket in every namespace. To be awaited before the first reading."""
        if not self._sockets:
            await self._loop.run_in_executor(None, netlink.load)
            self._open_and_close(None)

    def follow_namespaces(self, leaving: Optional[str] = None) -> None:
        if self._sockets:
            self._open_and_close(leaving)

    def _open_and_close(self, leaving: Optional[str]) -> None:
        """Open a socket for each namespace without one, close those of namespaces that are gone or ``leaving``."""
        for name in list(self._sockets):
            if name not in self._namespaces or name == leaving:
                self._sockets.pop(name).close()
        for name in self._namespaces.names:
            if name not in self._sockets and name != leaving:
                self._sockets[name] = NamespaceCounters(self._namespaces.resolve(name))

    def sample(self) -> CounterSnapshot:
        return CounterSnapshot({name: opened.stats() for name, opened in self._sockets.items()})

    def read(self) -> Dict[str, Any]:
        """Handle counters.read: with names, for the ledger."""
        sample = self.sample()
        result: Dict[str, Any] = {"monotonic_ns": sample.monotonic_ns, "wall_ns": sample.wall_ns, "namespaces": {}}
        for name, parts in sample.replies.items():
            names = self._sockets[name].names()
            # An interface that appeared or disappeared between the two dumps has no name here and is omitted.
            result["namespaces"][name] = [
                (index, names[index], numbers) for index, numbers in parse_stats(parts) if index in names
            ]
        return result

    def start(self, interval_s: float) -> None:
        if not 0.001 <= interval_s <= 3600:
            raise codec.WireError("bad_request", "interval_s must be from 0.001 to 3600, got %g" % interval_s)
        self.stop()
        self._interval_s = interval_s
        self._missed = 0
        self._schedule()

    def _schedule(self) -> None:
        if not self._paused and self._timer is None and self._interval_s:
            self._due_s = self._loop.time()
            self._timer = self._loop.call_at(self._due_s, self._tick)

    def stop(self) -> None:
        self._interval_s = 0.0
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hold(self, on: bool) -> None:
        """Take no samples while ``on``, because another session measures here. These samples do not count as missed."""
        self._paused = on
        if on:
            self._cancel()
        else:
            self._schedule()

    def close(self) -> None:
        self.stop()
        for opened in self._sockets.values():
            opened.close()
        self._sockets.clear()

    def _tick(self) -> None:
        try:
            sample = self.sample()
            self._deliver(sample)
            self._tell_processors(sample.monotonic_ns)
            self._failing = False
        except (OSError, struct.error) as exc:
            self._missed += 1
            if not self._failing:
                self._failing = True  # reported once, not ten times a second
                self._notice("counters_failed", "cannot read the interface counters: %s" % exc)
        # Absolute schedule: a late tick does not move the following ones; those already past are counted.
        self._due_s += self._interval_s
        late_s = self._loop.time() - self._due_s
        if late_s > 0:
            skipped = int(late_s / self._interval_s) + 1
            self._missed += skipped
            self._due_s += skipped * self._interval_s
        self._timer = self._loop.call_at(self._due_s, self._tick)

    def _deliver(self, sample: CounterSnapshot) -> None:
        if self._kept is not None:
            if len(self._kept) >= QUIET_SAMPLES or self._kept_bytes + sample.size_bytes > QUIET_BYTES:
                self._kept_missed += 1
                return
            self._kept.append(sample)
            self._kept_bytes += sample.size_bytes
            return
        if self._outlet.has_room:
            self._outlet.send(sample.event(missed=self._missed, late=False))
            self._missed = 0
        else:
            self._missed += 1

    def _tell_processors(self, now_ns: int) -> None:
        """Report processor use. Never in a quiet window: it is not read then either."""
        if self._kept is None and self._processors.due(now_ns) and self._outlet.has_room:
            event = self._processors.event()
            if event is not None:
                self._outlet.send(event)

    def begin_quiet(self) -> None:
        if self._kept is None:
            self._kept, self._kept_bytes, self._kept_missed = [], 0, 0

    async def end_quiet(self) -> Dict[str, int]:
        """Send the kept samples, as fast as they are read there, and sample live again."""
        kept, missed = self._kept or [], self._kept_missed + self._missed
        self._kept = None
        self._missed = self._kept_missed = 0
        for sample in kept:
            await self._outlet.room()
            self._outlet.send(sample.event(missed=0, late=True))
        return {"samples": len(kept), "missed": missed}
