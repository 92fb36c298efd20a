"""What guests let through over time, by the counters of their interfaces on the UUT: for whoever watches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.picture import OverTime, PictureCurve
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled

LEAST_STEP_S = 0.2
"""Between two points of a curve: what is shorter is mostly the noise of when it was read."""

MOST_POINTS = 400


class CountingWatch:
    """Takes samples of the UUT's counters. ``guests``: the index of each one's interface there, to its name. A value
    is what ``statistic`` grew by in a second, times ``scale``.
    """

    def __init__(self, guests: Mapping[int, str], statistic: str, scale: float) -> None:
        self._names, self._place, self._scale = dict(guests), STAT_NAMES.index(statistic), scale
        self._begun_ns: int | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._curves: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in guests.values()}

    def see(self, sample: CountersSampled) -> bool:
        """Whether a point was added. The first sample is where time begins."""
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
        """A time of the UUT's monotonic clock as the curves have it; None: nothing was seen yet."""
        return None if self._begun_ns is None else (at_ns - self._begun_ns) / 1e9

    def over_time(self, title: str, unit: str, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """What was seen so far."""
        curves = tuple(
            PictureCurve(name=name, seconds=tuple(seconds), values=tuple(values))
            for name, (seconds, values) in self._curves.items()
        )
        return OverTime(title=title, unit=unit, curves=curves, moments=tuple(moments))
