"""Counts series of similar capture records with numpy: the console's fast alternative to the node's ``RecordRuns``.

Pure. It contains no parser and no definition of its own: the bytes that ``agent.pcap`` names decide which records are
similar, and all results go through the trackers of ``agent.sequence``. Console and node therefore give identical
reports; numpy only reads, compares and subtracts the columns here.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from labconsole.packets.pcap import RecordLayout
    from labconsole.packets.sequence import SequenceTracker, StreamCounts

_SMALL_GAP_UNITS = 1 << 16
_FEW = 8
_MANY_BREAKS = 64


@lru_cache(maxsize=64)
def _machine_word_spans(columns: tuple[int, ...], stride: int) -> tuple[tuple[int, int], ...]:
    """The byte columns as few (offset, size) machine words of 1, 2, 4 and 8 bytes.

    A word may include one byte more than necessary (the time to live between fragment offset and protocol): comparing
    too much can only shorten a series, and saves a quarter of the comparisons.
    """
    spans: list[tuple[int, int]] = []
    wanted = sorted(set(columns))
    while wanted:
        first = wanted[0]
        for size in (8, 4, 2, 1):
            covered = [offset for offset in wanted if offset < first + size]
            if len(covered) >= max(size - 1, 1) and first + size <= stride:
                break
        spans.append((first, size))
        del wanted[: len(covered)]
    return tuple(spans)


def _column(buffer: bytes, start: int, stride: int, records: int, kind: str) -> npt.NDArray[np.unsignedinteger]:
    """One field of all records, as a view into the buffer."""
    return np.ndarray((records,), dtype=kind, buffer=buffer, offset=start, strides=(stride,))


class NumpyRuns:
    """The numpy implementation of ``agent.analysis.RecordRuns``."""

    buffer_bytes = 1 << 22
    chunk_records = 32768

    def matching(self, buffer: bytes, start: int, stride: int, limit: int, columns: tuple[int, ...]) -> int:
        """The number of the ``limit`` records from ``start`` on that agree with the first one in all ``columns``."""
        alike = limit
        for offset, size in _machine_word_spans(columns, stride):
            column = _column(buffer, start + offset, stride, alike, f"u{size}")
            differs = column != column[0]
            if differs.any():
                alike = int(differs.argmax())
                if alike < _FEW:
                    return alike
        return alike

    @staticmethod
    def lower_words(buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> array[int]:
        """The lower words of time stamps."""
        order = "<" if layout.little else ">"
        lows = array("I")
        lows.frombytes(_column(buffer, start + layout.time_low, stride, records, order + "u4").astype("=u4").tobytes())
        return lows

    @staticmethod
    def least_and_greatest(words: array[int]) -> tuple[int, int]:
        """The least and greatest of these lower words."""
        every = np.frombuffer(words, dtype="=u4")
        return int(every.min()), int(every.max())

    def count_stream(
        self,
        buffer: bytes,
        start: int,
        stride: int,
        records: int,
        layout: RecordLayout,
        number_at: int,
        stream: StreamCounts,
    ) -> tuple[int, int]:
        """Add similar records of one stream; sequence numbers are at ``number_at`` in a record.

        Returns (earliest, latest) in ns.
        """
        add_numbers(stream.sequence, _column(buffer, start + number_at, stride, records, ">u4"))
        units = self._units(buffer, start, stride, records, layout)
        first_ns = layout.base_ns + int(units[0]) * layout.low_ns
        last_ns = layout.base_ns + int(units[-1]) * layout.low_ns
        stream.arrived(first_ns)
        gaps = np.diff(units)
        smallest = int(gaps.min(initial=0))
        if smallest < 0:
            earliest = layout.base_ns + int(units.min()) * layout.low_ns
            latest = layout.base_ns + int(units.max()) * layout.low_ns
            stream.gaps.backward_steps += int((gaps < 0).sum())
            gaps = gaps[gaps >= 0]
        else:
            earliest, latest = first_ns, last_ns
        _count_gaps(stream, gaps, layout.low_ns)
        stream.extend_span(earliest, latest)
        stream.previous_at_ns = last_ns
        return earliest, latest

    @staticmethod
    def delays(
        buffer: bytes, start: int, count: int, step: int, layout: RecordLayout, number_at: int
    ) -> tuple[bytes, int]:
        """See ``agent.timing.delays_of``."""
        order = "<" if layout.little else ">"

        def field(offset: int, kind: str) -> npt.NDArray[np.int64]:
            return _column(buffer, start + offset, step, count, kind).astype(np.int64)

        high = field(layout.time_high, order + "u4")
        if abs(int(high.max()) * layout.high_ns + layout.base_ns) >= 1 << 62:  # times that no clock has
            return bytes(8 * count), count
        delays = high * layout.high_ns + layout.base_ns
        delays += field(layout.time_low, order + "u4") * layout.low_ns
        seconds = field(number_at + 4, ">u4")
        delays -= seconds * 1_000_000_000 + field(number_at + 8, ">u4") * 1000
        return delays.tobytes(), count - int(np.count_nonzero(seconds))

    def span(self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> tuple[int, int]:
        """(earliest, latest) time stamp of similar records, in ns."""
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
    steps = (numbers[1:] - numbers[:-1]).view(np.int32)
    breaks = np.flatnonzero(steps != 1)
    backward = np.flatnonzero(steps <= 0)
    if breaks.size < _MANY_BREAKS or backward.size * 8 > breaks.size:
        _add_runs(tracker, numbers, breaks)
        return
    begin = 0
    for stop in [*(backward + 1).tolist(), numbers.size]:
        _add_rising(tracker, numbers[begin:stop], steps[begin : stop - 1])
        begin = stop


def _add_runs(tracker: SequenceTracker, numbers: npt.NDArray[np.unsignedinteger], breaks: npt.NDArray[np.intp]) -> None:
    first_of_runs = numbers[np.concatenate(([0], breaks + 1))].tolist()
    last_of_runs = numbers[np.concatenate((breaks, [numbers.size - 1]))].tolist()
    add_run = tracker.add_run
    for first, last in zip(first_of_runs, last_of_runs, strict=True):
        add_run(first, ((last - first) & 0xFFFFFFFF) + 1)


def _add_rising(
    tracker: SequenceTracker, numbers: npt.NDArray[np.unsignedinteger], steps: npt.NDArray[np.int32]
) -> None:
    """Add rising numbers: those above the highest so far at once, with all the gaps between them."""
    highest = tracker.highest
    if highest is None:
        late = 0
    else:
        ahead = ((int(numbers[0]) - highest + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        unwrapped = highest + ahead + np.concatenate(([0], np.cumsum(steps, dtype=np.int64)))
        late = int(np.searchsorted(unwrapped, highest, side="right"))
    if late:
        _add_runs(tracker, numbers[:late], np.flatnonzero(steps[: late - 1] != 1))
    if late == numbers.size:
        return
    tracker.add_run(int(numbers[late]), 1)
    assert tracker.highest is not None
    steps = steps[late:]
    unwrapped = tracker.highest + np.concatenate(([0], np.cumsum(steps, dtype=np.int64)))
    holes = np.flatnonzero(steps != 1)
    starts, ends = (unwrapped[holes] + 1).tobytes(), (unwrapped[holes + 1] - 1).tobytes()
    tracker.add_forward(array("q", starts), array("q", ends), int(unwrapped[-1]))
