"""Counting a capture: packets, streams, sequence numbers and gaps, on a node with the standard library alone.

The one non-obvious decision: ``bytes`` objects are sliced with a stride. While records have one length, byte k of
every record is ``buffer[start + k :: stride]``, which CPython copies at 0.3 ns per packet (a strided memoryview: 3 ns).
Comparing some 40 such columns with a constant proves, exactly, that thousands of records say the same; sequence numbers
and time stamps are put together from columns as well. Where records differ, they are counted one by one with the same
result. ``RecordRuns`` is the fast way; the console puts its numpy version in the same place.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from functools import lru_cache
from operator import itemgetter, sub
from typing import Any, Dict, List, Optional, Tuple

from labconsole.agent.pcap import LINK_NAMES, CaptureReader, Dissection, NotACapture, RecordLayout, StreamKey, dissect
from labconsole.agent.sequence import SequenceTracker, StreamCounts

MAX_STREAMS = 1024
"""Streams counted each for itself. A testbed has tens; forged addresses must not fill a node's memory."""
_FEW = 8
"""Fewer alike records than this are counted one by one: setting up the columns costs as much."""
_HIGH_BYTES = bytes(range(128, 256))
_CLEAR_TOP_BIT = bytes(range(128)) * 2


class RecordRuns:
    """Counts runs of alike records by columns of bytes."""

    chunk_records = 4096
    """Records per run: their columns' lines stay in a 512 KiB second-level cache."""

    def matching(self, buffer: bytes, start: int, stride: int, limit: int, columns: Tuple[int, ...]) -> int:
        """How many of the ``limit`` records from ``start`` on agree with the first one in all ``columns``."""
        alike, stop = limit, start + limit * stride
        for offset in columns:
            column = buffer[start + offset : stop : stride]
            value = column[:1]
            if column != value * alike:
                alike -= len(column.lstrip(value))
                if alike < _FEW:
                    return alike
                stop = start + alike * stride
        return alike

    def count_stream(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, number_at: int,
        stream: StreamCounts,
    ) -> Tuple[int, int]:  # fmt: skip
        """Add alike records of one stream; sequence numbers are ``number_at`` in a record. (earliest, latest) in ns."""
        stop = start + records * stride
        numbers = bytearray(4 * records)
        for place in range(4):
            numbers[place::4] = buffer[start + number_at + place : stop : stride]
        add_numbers(stream.sequence, bytes(numbers), records)
        earliest, latest = None, None
        while records:
            high = layout.time_high
            part = self.matching(buffer, start, stride, records, (high, high + 1, high + 2, high + 3))
            if part < records and part < 64:
                part = min(records, 512)
                span = self._count_times_slowly(buffer, start, stride, part, layout, stream)
            else:
                span = self._count_times(buffer, start, stride, part, layout, stream)
            earliest = span[0] if earliest is None else min(earliest, span[0])
            latest = span[1] if latest is None else max(latest, span[1])
            records -= part
            start += part * stride
        return earliest, latest  # type: ignore[return-value]

    def _count_times(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, stream: StreamCounts
    ) -> Tuple[int, int]:
        """Add arrivals whose high time words are equal: all gaps at once, as lanes of one very long integer."""
        stop = start + records * stride
        lanes = bytearray(4 * records)
        for place in range(4):
            offset = layout.time_low + (place if layout.little else 3 - place)
            lanes[place::4] = buffer[start + offset : stop : stride]
        tops = lanes[3::4]
        if not tops.isascii():
            if tops.translate(None, _HIGH_BYTES):
                return self._count_times_slowly(buffer, start, stride, records, layout, stream)
            lanes[3::4] = tops.translate(_CLEAR_TOP_BIT)  # set in all of them: no difference to the differences
        gaps = records - 1
        if not gaps:
            return self._count_times_slowly(buffer, start, stride, records, layout, stream)
        guard, mask = _guard_and_mask(gaps)
        times = int.from_bytes(lanes, "little")
        # the guard bit on top of every lane keeps a borrow inside it; it is still set where the gap is not negative
        differences = bytearray(((times >> 32 | guard) - (times & mask)).to_bytes(4 * gaps, "little"))
        if differences[3::4] != b"\x80" * gaps:
            return self._count_times_slowly(buffer, start, stride, records, layout, stream)
        first_ns, last_ns = (self._time_of(buffer, start + k * stride, layout) for k in (0, gaps))
        stream.arrived(first_ns)
        pending = stream.gaps.pending(layout.low_ns)
        if differences[1::4].count(0) == gaps and differences[2::4].count(0) == gaps:
            _count_bytes(pending, differences[0::4])
        else:
            differences[3::4] = bytes(gaps)
            pending.update(_array_of(differences))
        stream.gaps.settle()
        stream.seen_between(first_ns, last_ns)
        stream.previous_at_ns = last_ns
        return first_ns, last_ns

    def _count_times_slowly(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, stream: StreamCounts
    ) -> Tuple[int, int]:
        times = self._times(buffer, start, stride, records, layout)
        stream.arrived(times[0])
        gaps = list(map(sub, times[1:], times))
        forward = [gap for gap in gaps if gap >= 0]
        stream.gaps.backward_steps += len(gaps) - len(forward)
        stream.gaps.pending(1).update(forward)
        stream.gaps.settle()
        earliest, latest = min(times), max(times)
        stream.seen_between(earliest, latest)
        stream.previous_at_ns = times[-1]
        return earliest, latest

    def span(self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> Tuple[int, int]:
        """(earliest, latest) time stamp of alike records, in ns."""
        times = self._times(buffer, start, stride, records, layout)
        return min(times), max(times)

    @staticmethod
    def _times(buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout) -> List[int]:
        words = []
        for offset in (layout.time_high, layout.time_low):
            column = bytearray(4 * records)
            for place in range(4):
                at = start + offset + (place if layout.little else 3 - place)
                column[place::4] = buffer[at : start + records * stride : stride]
            words.append(_array_of(column))
        base_ns, high_ns, low_ns = layout.base_ns, layout.high_ns, layout.low_ns
        return [base_ns + high * high_ns + low * low_ns for high, low in zip(*words)]

    @staticmethod
    def _time_of(buffer: bytes, start: int, layout: RecordLayout) -> int:
        order = "little" if layout.little else "big"  # type: Any
        high = int.from_bytes(buffer[start + layout.time_high : start + layout.time_high + 4], order)
        low = int.from_bytes(buffer[start + layout.time_low : start + layout.time_low + 4], order)
        return layout.base_ns + high * layout.high_ns + low * layout.low_ns


def _array_of(little_endian: bytes) -> array:
    words = array("I")
    words.frombytes(little_endian)
    if _BIG_ENDIAN_MACHINE:
        words.byteswap()
    return words


_BIG_ENDIAN_MACHINE = array("H", [1]).tobytes() == b"\x00\x01"


@lru_cache(maxsize=8)
def _guard_and_mask(lanes: int) -> Tuple[int, int]:
    return int.from_bytes(b"\x00\x00\x00\x80" * lanes, "little"), (1 << 32 * lanes) - 1


def _count_bytes(into: Any, values: bytearray) -> None:
    """Count gaps below 256: as a rule there are few different ones, and deleting one from bytes costs 0.3 ns each."""
    for _ in range(32):
        if not values:
            return
        value = values[0]
        others = values.translate(None, values[:1])
        into[value] += len(values) - len(others)
        values = others
    into.update(values)


_COUNTING_BITS = 16


@lru_cache(maxsize=8)
def _counting_block(upper_half: int) -> bytes:
    """All 65 536 numbers with this upper half, big-endian, one after the other."""
    size = 1 << _COUNTING_BITS
    block = bytearray(4 * size)
    block[0::4] = bytes((upper_half >> 8,)) * size
    block[1::4] = bytes((upper_half & 255,)) * size
    block[2::4] = b"".join([bytes((value,)) * 256 for value in range(256)])
    block[3::4] = bytes(range(256)) * 256
    return bytes(block)


def _counting(first: int, count: int) -> bytes:
    """The numbers first, first + 1, ... as a sender counts: 32 bit, big-endian, wrapping."""
    upper_half, lower_half = first >> _COUNTING_BITS, first & 0xFFFF
    numbers = _counting_block(upper_half)[4 * lower_half : 4 * (lower_half + count)]
    while len(numbers) < 4 * count:
        upper_half = (upper_half + 1) & 0xFFFF
        numbers += _counting_block(upper_half)[: 4 * count - len(numbers)]
    return numbers


def add_numbers(tracker: SequenceTracker, numbers: bytes, count: int) -> None:
    """Give the tracker ``count`` big-endian sequence numbers as runs that count up by one."""
    done, short_runs = 0, 0
    while done < count:
        if short_runs > 16:
            _add_numbers_singly(tracker, numbers[4 * done :])
            return
        first = int.from_bytes(numbers[4 * done : 4 * done + 4], "big")
        rest = numbers[4 * done :]
        expected = _counting(first, count - done)
        if rest == expected:
            tracker.add_run(first, count - done)
            return
        agreed, differs, step = 1, count - done, 4
        while agreed + step < differs:  # widen until it differs, then halve: exact, each comparison one memcmp
            if rest[4 * agreed : 4 * (agreed + step)] != expected[4 * agreed : 4 * (agreed + step)]:
                differs = agreed + step
                break
            agreed += step
            step *= 4
        while differs - agreed > 1:
            middle = (agreed + differs) // 2
            if rest[4 * agreed : 4 * middle] == expected[4 * agreed : 4 * middle]:
                agreed = middle
            else:
                differs = middle
        tracker.add_run(first, agreed)
        done += agreed
        short_runs = short_runs + 1 if agreed < 32 else max(short_runs - 1, 0)


def _add_numbers_singly(tracker: SequenceTracker, numbers: bytes) -> None:
    """The same one by one: faster where runs are short (half of all packets lost)."""
    words = array("I", numbers)
    if not _BIG_ENDIAN_MACHINE:
        words.byteswap()
    first = expected = words[0]
    for number in words:
        if number == expected:
            expected += 1
        else:
            tracker.add_run(first, expected - first)
            first = number
            expected = number + 1
    tracker.add_run(first, expected - first)


class _Dissector:
    """Remembers frames: one that agrees with an earlier one in the bytes that decided is the same thing."""

    _MAX_KNOWN = 4096

    def __init__(self) -> None:
        self._known = {}  # type: Dict[Tuple[int, int], Dict[Tuple[int, ...], Tuple[itemgetter, dict]]]
        self._size = 0

    def dissect(self, buffer: bytes, start: int, captured_bytes: int, link_type: int) -> Dissection:
        frame = bytes(buffer[start : start + min(captured_bytes, 160)])
        kinds = self._known.get((link_type, len(frame)))
        if kinds is not None:
            for deciding, known in kinds.values():
                found = known.get(deciding(frame))
                if found is not None:
                    return found
        dissection = dissect(frame, 0, len(frame), link_type)
        offsets = dissection.decided_by
        if offsets:
            if self._size >= self._MAX_KNOWN:  # made-up traffic; the real one has a handful
                self._known, self._size = {}, 0
            kinds = self._known.setdefault((link_type, len(frame)), {})
            if offsets not in kinds:
                kinds[offsets] = (itemgetter(*_slices(offsets)), {})
            deciding, known = kinds[offsets]
            known[deciding(frame)] = dissection
            self._size += 1
        return dissection


def _slices(offsets: Tuple[int, ...]) -> List[slice]:
    """The same bytes as slices."""
    slices = []  # type: List[slice]
    for offset in offsets:
        if slices and slices[-1].stop == offset:
            slices[-1] = slice(slices[-1].start, offset + 1)
        else:
            slices.append(slice(offset, offset + 1))
    return slices


class CaptureAnalysis:
    """Counts one capture, fed piece by piece. Pure: it opens nothing.

    ``corrupt_at_byte`` is set when the rest cannot be read; feeding more is useless then.
    """

    def __init__(self, runs: Optional[RecordRuns] = None) -> None:
        self.packets = 0
        self.bytes = 0
        self.other_packets = 0
        self.unlisted_stream_packets = 0
        self.read_bytes = 0
        self.corrupt_at_byte = None  # type: Optional[int]
        self._untimed_packets = 0
        self._first_at_ns = None  # type: Optional[int]
        self._last_at_ns = None  # type: Optional[int]
        self._streams = {}  # type: Dict[StreamKey, StreamCounts]
        self._reader = CaptureReader()
        self._dissector = _Dissector()
        self._runs = RecordRuns() if runs is None else runs
        self._columns = {}  # type: Dict[tuple, Tuple[Tuple[int, ...], Tuple[int, ...]]]
        self._run_limit = 64
        self._singly = 0
        self._last_failures = 0

    def feed(self, buffer: bytes, start: int = 0, end: Optional[int] = None) -> int:
        """Count the complete records in buffer[start:end] (bytes or bytearray); how many bytes that were.

        The rest has to come again, with more behind it. Raises NotACapture if the first bytes are no capture's.
        """
        end = len(buffer) if end is None else end
        reader, position = self._reader, start
        if reader.format is None and end - start < 4:
            return 0
        while self.corrupt_at_byte is None:
            following, is_packet = reader.advance(buffer, position, end)
            if reader.corrupt_reason is not None:
                self.corrupt_at_byte = self.read_bytes + position - start
            if following == position:
                break
            if is_packet:
                following = self._count(buffer, position, following, end)
            position = following
        self.read_bytes += position - start
        return position - start

    def _count(self, buffer: bytes, start: int, following: int, end: int) -> int:
        """Count the record the reader stands on, and those after it that are like it. Where the counted ones end."""
        reader = self._reader
        seen = self._dissector.dissect(buffer, reader.frame_start, reader.captured_bytes, reader.interface.link_type)
        layout, stride = reader.layout, following - start
        if layout is not None:
            if self._singly:
                self._singly -= 1
            elif end - start >= _FEW * stride:
                counted = self._count_alike(buffer, start, stride, (end - start) // stride, layout, seen)
                if counted:
                    return start + counted * stride
        stream = self._add_packets(seen.key, 1)
        if reader.at_ns is None:
            self._untimed_packets += 1
        else:
            self._seen_between(reader.at_ns, reader.at_ns)
        if stream is not None:
            at = reader.frame_start + seen.sequence_offset
            stream.sequence.add_run(int.from_bytes(buffer[at : at + 4], "big"), 1)
            stream.arrived(reader.at_ns)
        return following

    def _count_alike(
        self, buffer: bytes, start: int, stride: int, complete: int, layout: RecordLayout, seen: Dissection
    ) -> int:  # fmt: skip
        """Count many records at once; how many. 0 where it would not pay, and then it is not tried for a while."""
        alike_columns, mixed_columns = self._columns_of(layout, seen)
        limit = min(complete, self._run_limit)
        alike = self._runs.matching(buffer, start, stride, limit, alike_columns)
        if alike >= _FEW:
            self._last_failures = 0
            self._run_limit = min(2 * alike if alike == limit else alike + 64, self._runs.chunk_records)
            self._count_run(buffer, start, stride, alike, layout, seen)
            return alike
        self._run_limit = 64
        if mixed_columns:
            limit = min(complete, RecordRuns.chunk_records)
            mixed = self._runs.matching(buffer, start, stride, limit, mixed_columns)
            if mixed >= 4 * _FEW:
                self._last_failures = 0
                self._count_mixed(buffer, start, stride, mixed, layout, seen)
                return mixed
        self._last_failures = min(self._last_failures + 1, 4)
        self._singly = alike + (1 << self._last_failures)
        return 0

    def _count_mixed(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, seen: Dissection
    ) -> None:
        """Count records of several streams that differ in addresses and ports only: sort them apart, then as runs."""
        first, stop = (layout.header_bytes + offset for offset in seen.key_bytes)  # type: ignore[union-attr]
        apart = defaultdict(list)  # type: Dict[bytes, List[bytes]]
        content = bytes(buffer[start : start + records * stride])
        for at in range(0, records * stride, stride):
            apart[content[at + first : at + stop]].append(content[at : at + stride])
        reader = self._reader
        for members in apart.values():
            what = self._dissector.dissect(
                members[0], layout.header_bytes, reader.captured_bytes, reader.interface.link_type
            )
            self._count_run(b"".join(members), 0, stride, len(members), layout, what)

    def _count_run(
        self, buffer: bytes, start: int, stride: int, records: int, layout: RecordLayout, seen: Dissection
    ) -> None:
        stream = self._add_packets(seen.key, records)
        if stream is None:
            span = self._runs.span(buffer, start, stride, records, layout)
        else:
            number_at = layout.header_bytes + seen.sequence_offset
            span = self._runs.count_stream(buffer, start, stride, records, layout, number_at, stream)
        self._seen_between(span[0], span[1])

    def _columns_of(self, layout: RecordLayout, seen: Dissection) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        """(columns equal in one stream's records, those equal in several streams' records or none)."""
        known = (layout.constant, layout.header_bytes, seen.decided_by, seen.key_bytes)
        columns = self._columns.get(known)
        if columns is None:
            if len(self._columns) > 256:
                self._columns = {}
            frame = tuple(sorted(set(seen.decided_by)))
            alike = layout.constant + tuple(layout.header_bytes + offset for offset in frame)
            mixed = ()  # type: Tuple[int, ...]
            if seen.key_bytes is not None:
                first, stop = seen.key_bytes
                rest = [layout.header_bytes + offset for offset in frame if not first <= offset < stop]
                mixed = layout.constant + tuple(rest)
            columns = self._columns[known] = (alike, mixed)
        return columns

    def _add_packets(self, key: Optional[StreamKey], records: int) -> Optional[StreamCounts]:
        """Count packets of a stream; the stream, or None where it has none of its own."""
        original_bytes = records * self._reader.original_bytes
        self.packets += records
        self.bytes += original_bytes
        if key is None:
            self.other_packets += records
            return None
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= MAX_STREAMS:
                self.unlisted_stream_packets += records
                return None
            stream = self._streams[key] = StreamCounts()
        stream.packets += records
        stream.bytes += original_bytes
        return stream

    def _seen_between(self, earliest_ns: int, latest_ns: int) -> None:
        if self._first_at_ns is None or earliest_ns < self._first_at_ns:
            self._first_at_ns = earliest_ns
        if self._last_at_ns is None or latest_ns > self._last_at_ns:
            self._last_at_ns = latest_ns

    def report(self, *, unread: bytes = b"") -> Dict[str, Any]:
        """What has been counted so far, as ``analyze --json`` prints it (docs/analyze.md).

        ``unread`` is what of the capture's end was not consumed: a record cut off, or nothing. Raises NotACapture if
        there was too little to tell.
        """
        reader = self._reader
        if reader.format is None:
            raise NotACapture(unread)
        names = sorted({LINK_NAMES.get(number, "link type %d" % number) for number in reader.link_types})
        duration_ns = self._last_at_ns - self._first_at_ns if self._first_at_ns is not None else None
        result = {
            "format": reader.format,
            "link_type": " + ".join(names) if names else None,
            "packets": self.packets,
            "bytes": self.bytes,
            "first_at_ns": self._first_at_ns,
            "last_at_ns": self._last_at_ns,
            "duration_ns": duration_ns,
            "truncated": bool(unread) or self.corrupt_at_byte is not None,
            "corrupt_at_byte": self.corrupt_at_byte,
            "corrupt_reason": reader.corrupt_reason,
            "read_bytes": self.read_bytes,
            "other_packets": self.other_packets,
            "unlisted_stream_packets": self.unlisted_stream_packets,
            "untimed_packets": self._untimed_packets,
        }  # type: Dict[str, Any]
        result.update(_rates(self.packets - self._untimed_packets, self.packets, self.bytes, duration_ns))
        result["streams"] = [_stream_report(key, self._streams[key]) for key in sorted(self._streams)]
        return result


def _rates(timed_packets: int, packets: int, frame_bytes: int, duration_ns: Optional[int]) -> Dict[str, Any]:
    """Intervals over time: n arrivals span n - 1 of them. None where there is no time between first and last."""
    if not duration_ns:
        return {"pps": None, "frame_bps": None}
    pps = (timed_packets - 1) * 1_000_000_000 / duration_ns
    return {"pps": pps, "frame_bps": pps * 8 * frame_bytes / packets}


def _stream_report(key: StreamKey, stream: StreamCounts) -> Dict[str, Any]:
    sequence, sequence_error = stream.sequence.report()
    duration_ns = stream.last_at_ns - stream.first_at_ns if stream.first_at_ns is not None else None
    result = {
        "source_ip": _address(key.source),
        "sink_ip": _address(key.sink),
        "udp_source_port": key.udp_source_port,
        "udp_sink_port": key.udp_sink_port,
        "packets": stream.packets,
        "bytes": stream.bytes,
        "first_at_ns": stream.first_at_ns,
        "last_at_ns": stream.last_at_ns,
        "sequence": sequence,
        "sequence_error": sequence_error,
        "gap_ns": stream.gaps.report(),
        "gaps_exact": not stream.gaps.bucketed,
        "backward_steps": stream.gaps.backward_steps,
    }  # type: Dict[str, Any]
    result.update(_rates(stream.packets - stream.untimed_packets, stream.packets, stream.bytes, duration_ns))
    return result


def _address(packed: bytes) -> str:
    if len(packed) == 4:
        return ".".join(map(str, packed))
    import ipaddress  # takes 5 ms to load, for the rare case

    return str(ipaddress.IPv6Address(packed))


class CaptureFollower:
    """Counts a file while somebody still writes to it, in bounded memory. Not safe for several threads at once."""

    buffer_bytes = 1 << 20

    def __init__(self, path: "str | os.PathLike[str]", runs: Optional[RecordRuns] = None) -> None:
        self.path = os.fspath(path)
        self.analysis = CaptureAnalysis(runs)
        self._buffer = bytearray(self.buffer_bytes)
        self._kept = 0
        self._file = None  # type: Any

    def poll(self, max_bytes: Optional[int] = None) -> int:
        """Count what has been appended since, at most about ``max_bytes`` of it; the packets counted so far.

        Raises OSError if the file cannot be read, NotACapture if it is none.
        """
        if self._file is None:
            self._file = open(self.path, "rb", buffering=0)
        analysis, done = self.analysis, 0
        while analysis.corrupt_at_byte is None and (max_bytes is None or done < max_bytes):
            if self._kept == len(self._buffer):  # one record fills it; grows with what the file really holds
                self._buffer.extend(bytes(len(self._buffer)))
            with memoryview(self._buffer) as view:
                got = self._file.readinto(view[self._kept :])
            if not got:
                break
            done += got
            end = self._kept + got
            used = analysis.feed(self._buffer, 0, end)
            self._kept = end - used
            if used and self._kept:
                self._buffer[: self._kept] = self._buffer[used:end]
        return analysis.packets

    def finish(self) -> Dict[str, Any]:
        """Count the rest, close the file and report. Raises as ``poll`` does."""
        try:
            self.poll()
            return self.analysis.report(unread=bytes(self._buffer[: min(self._kept, 16)]))
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; what was counted stays in ``analysis``."""
        if self._file is not None:
            self._file.close()
            self._file = None


def analyze_file(path: "str | os.PathLike[str]") -> Dict[str, Any]:
    """Count a capture file, in bounded memory. Raises OSError or NotACapture."""
    return CaptureFollower(path).finish()
