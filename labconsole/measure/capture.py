"""Counting runs of alike capture records with numpy: the console's fast way beside the node's ``RecordRuns``.

Pure. It holds no parser and no definition of its own: which records are alike is decided by the bytes that
``agent.pcap`` names, and all results go through the trackers of ``agent.sequence``. So console and node give the same
report, figure for figure; here only the columns are read, compared and subtracted by numpy.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from labconsole.agent.pcap import RecordLayout
from labconsole.agent.sequence import SequenceTracker, StreamCounts

_SMALL_GAP_UNITS = 1 << 16
_FEW = 8


@lru_cache(maxsize=64)
def _words(columns: tuple[int, ...], stride: int) -> tuple[tuple[int, int], ...]:
    """The byte columns as few (offset, size) words of 1, 2, 4 and 8 bytes.

    A word may take in one byte more than asked (the time to live between fragment offset and protocol): comparing too
    much can only shorten a run, and a quarter of the comparisons is saved.
    """
    words: list[tuple[int, int]] = []
    wanted = sorted(set(columns))
    while wanted:
        first = wanted[0]
        for size in (8, 4, 2, 1):
            covered = [offset for offset in wanted if offset < first + size]
            if len(covered) >= max(size - 1, 1) and first + size <= stride:
                break
        words.append((first, size))
        del wanted[: len(covered)]
    return tuple(words)


def _column(buffer: bytes, start: int, stride: int, records: int, kind: str) -> npt.NDArray[np.unsignedinteger]:
    """One field of all records, as a view into the buffer."""
    return np.ndarray((records,), dtype=kind, buffer=buffer, offset=start, strides=(stride,))


class NumpyRuns:
    """What ``agent.analysis.RecordRuns`` does, with numpy."""

    chunk_records = 16384

    def matching(self, buffer: bytes, start: int, stride: int, limit: int, columns: tuple[int, ...]) -> int:
        """How many of the ``limit`` records from ``start`` on agree with the first one in all ``columns``."""
        alike = limit
        for offset, size in _words(columns, stride):
            column = _column(buffer, start + offset, stride, alike, f"u{size}")
            differs = column != column[0]
            if differs.any():
                alike = int(differs.argmax())
                if alike < _FEW:
                    return alike
        return alike

    def count_stream(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, number_at: int,
        stream: StreamCounts,
    ) -> tuple[int, int]:  # fmt: skip
        """Add alike records of one stream; sequence numbers are ``number_at`` in a record. (earliest, latest) in ns."""
        add_numbers(stream.sequence, _column(buffer, start + number_at, stride, records, ">u4"))
        units = self._units(buffer, start, stride, records, layout)
        first_ns = layout.base_ns + int(units[0]) * layout.low_ns
        last_ns = layout.base_ns + int(units[-1]) * layout.low_ns
        stream.arrived(first_ns)
        gaps = np.diff(units)
        smallest = int(gaps.min())
        if smallest < 0:
            earliest = layout.base_ns + int(units.min()) * layout.low_ns
            latest = layout.base_ns + int(units.max()) * layout.low_ns
            stream.gaps.backward_steps += int((gaps < 0).sum())
            gaps = gaps[gaps >= 0]
        else:
            earliest, latest = first_ns, last_ns
        _count_gaps(stream, gaps, layout.low_ns)
        stream.seen_between(earliest, latest)
        stream.previous_at_ns = last_ns
        return earliest, latest

    def span(self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> tuple[int, int]:
        """(earliest, latest) time stamp of alike records, in ns."""
        units = self._units(buffer, start, stride, records, layout)
        return tuple(layout.base_ns + int(unit) * layout.low_ns for unit in (units.min(), units.max()))  # type: ignore

    @staticmethod
    def _units(buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> npt.NDArray[np.int64]:
        """Time stamps in units of ``low_ns``. Times beyond the year 294 000 do not fit and wrap."""
        order = "<" if layout.little else ">"
        high = _column(buffer, start + layout.time_high, stride, records, order + "u4").astype(np.int64)
        high *= layout.high_ns // layout.low_ns
        high += _column(buffer, start + layout.time_low, stride, records, order + "u4")
        return high


def _count_gaps(stream: StreamCounts, gaps: npt.NDArray[np.int64], unit_ns: int) -> None:
    if not gaps.size:
        return
    pending = stream.gaps.pending(unit_ns)
    if int(gaps.max()) < _SMALL_GAP_UNITS:
        counts = np.bincount(gaps)
        lengths = np.flatnonzero(counts)
        times = counts[lengths]
    else:
        lengths, times = np.unique(gaps, return_counts=True)
    for length, how_many in zip(lengths.tolist(), times.tolist(), strict=True):
        pending[length] += how_many
    stream.gaps.settle()


def add_numbers(tracker: SequenceTracker, column: npt.NDArray[np.unsignedinteger]) -> None:
    """Give the tracker 32-bit sequence numbers in the order of arrival."""
    numbers = column.astype(np.uint32)
    breaks = np.flatnonzero(numbers[1:] - numbers[:-1] != 1)
    first_of_runs = numbers[np.concatenate(([0], breaks + 1))].tolist()
    last_of_runs = numbers[np.concatenate((breaks, [numbers.size - 1]))].tolist()
    add_run = tracker.add_run
    for first, last in zip(first_of_runs, last_of_runs, strict=True):
        add_run(first, ((last - first) & 0xFFFFFFFF) + 1)
