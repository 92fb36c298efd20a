"""Throughput of guests over time, from the counters of their interfaces on the UUT, for live display. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.picture import OverTime, PictureCurve
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled

LEAST_STEP_S = 0.2
"""Minimum time between two points of a curve; shorter intervals mostly show noise of the reading times."""

MOST_POINTS = 400


class CountingWatch:
    """Takes samples of the UUT's counters. ``guests``: interface index on the UUT to the guest's name.

    A value is the increase of ``statistic`` per second, times ``scale``.
    """

    def __init__(self, guests: Mapping[int, str], statistic: str, scale: float) -> None:
        self._names, self._place, self._scale = dict(guests), STAT_NAMES.index(statistic), scale
        self._begun_ns: int | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._curves: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in guests.values()}

    def see(self, sample: CountersSampled) -> bool:
        """Add a sample; return whether a point was added. Time begins with the first sample."""
        added = False
        for index, values in sample.namespaces.get("", ()):
            if index in self._names and len(values) > self._place:
                added |= self._count(index, sample.monotonic_ns, values[self._place])
        return added

    def _count(self, index: int, at_ns: int, counted: int) -> bool:
        self._begun_ns = at_ns if self._begun_ns is None else self._begun_ns
        former_ns, former = self._last.setdefault(index, (at_ns, counted))
        took_s = (at_ns - former_ns) / 1e9
        if took_s < LEAST_STEP_S:
            return False
        self._last[index] = at_ns, counted
        seconds, values = self._curves[self._names[index]]
        seconds.append((at_ns - self._begun_ns) / 1e9)
        values.append(max(0, counted - former) / took_s * self._scale)
        del seconds[:-MOST_POINTS], values[:-MOST_POINTS]
        return True

    def since_begun_s(self, at_ns: int) -> float | None:
        """A time of the UUT's monotonic clock on the curves' time axis, or None before the first sample."""
        return None if self._begun_ns is None else (at_ns - self._begun_ns) / 1e9

    def over_time(self, title: str, unit: str, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """The curves so far."""
        curves = tuple(
            PictureCurve(name=name, seconds=tuple(seconds), values=tuple(values))
            for name, (seconds, values) in self._curves.items()
        )
        return OverTime(title=title, unit=unit, curves=curves, moments=tuple(moments))
