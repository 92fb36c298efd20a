"""Counting a capture: packets, streams, sequence numbers and gaps, on a node and at the console alike.

The one non-obvious decision: after each record, the analysis finds how many of the following records agree with it in
the bytes that decide what a packet is (``packets.pcap`` names them). The object given as ``runs`` counts these
together: the standard library's ``RecordRuns`` on a node, numpy at the console. Where records differ, they are counted
one by one, with the same result.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from labconsole.packets.columns import FEW_RECORDS, RecordRuns
from labconsole.packets.delay import MAX_DELAY_STREAMS, STAMP_BYTES, DelaySamples, Lateness, StreamArrivals
from labconsole.packets.pcap import (
    LINK_NAMES,
    PKTGEN_MAGIC,
    Buffer,
    CaptureReader,
    Dissection,
    NotACapture,
    RecordLayout,
    StreamKey,
    dissect,
)
from labconsole.packets.sequence import StreamCounts

MAX_LINK_NAMES = 16
"""Most link types named; a real capture has one or two."""
_UNTOLD = Dissection(None, 0, (), None)
MAX_STREAMS = 1024
"""Most streams counted individually. A testbed has tens; forged addresses must not fill a node's memory."""


class _Dissector:
    """Caches dissected frames: a frame that agrees with an earlier one in the deciding bytes has the same
    dissection.
    """

    _MAX_KNOWN = 4096

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, int], Dict[Tuple[int, ...], Tuple[Any, Dict[Any, Dissection]]]] = {}
        self._size = 0

    def dissect(self, buffer: Buffer, start: int, captured_bytes: int, link_type: int) -> Dissection:
        frame = bytes(buffer[start : start + min(captured_bytes, 160)])
        kinds = self._known.get((link_type, len(frame)))
        if kinds is not None:
            for deciding, known in kinds.values():
                found = known.get(deciding(frame))
                if found is not None and (found.key is not None or not _has_magic(frame, found)):
                    return found
        dissection = dissect(frame, 0, len(frame), link_type)
        offsets = dissection.decided_by
        magic_at = dissection.sequence_offset - 4
        if dissection.key is None and magic_at > 0 and not _has_magic(frame, dissection):
            # not the magic number: whatever the value and the sender, the frame is not pktgen's
            first, stop = dissection.key_bytes or (0, 0)
            ignored = {*range(magic_at, magic_at + 4), *range(first, stop)}
            offsets = tuple(offset for offset in offsets if offset not in ignored)
        if offsets:
            if self._size >= self._MAX_KNOWN:  # forged traffic; real traffic has a handful
                self._known, self._size = {}, 0
            kinds = self._known.setdefault((link_type, len(frame)), {})
            if offsets not in kinds:
                kinds[offsets] = (itemgetter(*_slices(offsets)), {})
            deciding, known = kinds[offsets]
            known[deciding(frame)] = dissection
            self._size += 1
        return dissection


def _has_magic(frame: bytes, dissection: Dissection) -> bool:
    at = dissection.sequence_offset
    return at > 0 and frame[at - 4 : at] == PKTGEN_MAGIC


def _slices(offsets: Tuple[int, ...]) -> List[slice]:
    """Return the same bytes as slices."""
    slices: List[slice] = []
    for offset in offsets:
        if slices and slices[-1].stop == offset:
            slices[-1] = slice(slices[-1].start, offset + 1)
        else:
            slices.append(slice(offset, offset + 1))
    return slices


class CaptureAnalysis:
    """Counts one capture, fed piece by piece. Pure: it opens nothing.

    ``corrupt_at_byte`` is set when the rest cannot be read; feeding more is useless then. With ``spacing_gap_ns`` the
    report has the evenness of each stream's arrivals against that gap (0: against its own median). With ``sending_ns``
    it has the number of packets that arrived later after the first than the sending time. Without ``streams`` packets
    are counted without their streams: telling thousands of addresses apart takes 20 µs per packet.
    """

    def __init__(
        self,
        runs: Optional[RecordRuns] = None,
        spacing_gap_ns: Optional[int] = None,
        sending_ns: Optional[int] = None,
        sampling_seed: int = 0,
        streams: bool = True,
    ) -> None:
        self._sampling_seed, self._tells_apart = sampling_seed, streams
        self._spacing_gap_ns, self._sending_ns = spacing_gap_ns, sending_ns
        self.packets = 0
        self.bytes = 0
        self.other_packets = 0
        self.unlisted_stream_packets = 0
        self.read_bytes = 0
        self.corrupt_at_byte: Optional[int] = None
        self._untimed_packets = 0
        self._first_at_ns: Optional[int] = None
        self._last_at_ns: Optional[int] = None
        self._streams: Dict[StreamKey, StreamCounts] = {}
        self._reader = CaptureReader()
        self._dissector = _Dissector()
        self._runs = RecordRuns() if runs is None else runs
        self._columns: Dict[Any, Tuple[Tuple[int, ...], Tuple[int, ...]]] = {}
        self._run_limit = 64
        self._singly = 0
        self._last_failures = 0

    def feed(self, buffer: Buffer, start: int = 0, end: Optional[int] = None) -> int:
        """Count the complete records in buffer[start:end] (bytes or bytearray); return the number of bytes counted.

        The caller passes the rest again with more data behind it. Raises NotACapture if the first bytes are not a
        capture's.
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

    def _count(self, buffer: Buffer, start: int, following: int, end: int) -> int:
        """Count the reader's current record and following ones like it; return where the counted ones end."""
        reader = self._reader
        seen = self._identify_stream(buffer) if self._tells_apart else _UNTOLD
        layout, stride = reader.layout, following - start
        if layout is not None:
            if self._singly:
                self._singly -= 1
            elif end - start >= FEW_RECORDS * stride:
                counted = self._count_alike(buffer, start, stride, (end - start) // stride, layout, seen)
                if counted:
                    return start + counted * stride
        stream = self._add_packets(seen.key, 1)
        if reader.at_ns is None:
            self._untimed_packets += 1
        else:
            self._extend_span(reader.at_ns, reader.at_ns)
        if stream is not None:
            at = reader.frame_start + seen.sequence_offset
            stream.sequence.add_run(int.from_bytes(buffer[at : at + 4], "big"), 1)
            stream.arrived(reader.at_ns)
            if reader.at_ns is not None:
                if stream.delays is not None and self._stamped(seen):
                    stream.delays.add(reader.at_ns, bytes(buffer[at + 4 : at + STAMP_BYTES]))
                if stream.arrivals is not None:
                    stream.arrivals.add([reader.at_ns])
                self._count_late(stream, (reader.at_ns, reader.at_ns), 1, tuple)
        return following

    def _identify_stream(self, buffer: Buffer) -> Dissection:
        reader = self._reader
        return self._dissector.dissect(buffer, reader.frame_start, reader.captured_bytes, reader.interface.link_type)

    @staticmethod
    def _count_late(
        stream: StreamCounts, span: Tuple[int, int], packets: int, times: Callable[[], Sequence[int]]
    ) -> None:
        if stream.lateness is not None and stream.began_at_ns is not None:
            stream.lateness.add(stream.began_at_ns, span, packets, times)

    def _stamped(self, seen: Dissection) -> bool:
        """Whether enough of the frame was captured to include pktgen's time stamp."""
        return self._reader.captured_bytes >= seen.sequence_offset + STAMP_BYTES

    def _count_alike(
        self, buffer: Buffer, start: int, stride: int, complete: int, layout: RecordLayout, seen: Dissection
    ) -> int:
        """Count many records at once and return how many. 0 if it would not pay; then it is not tried for a while."""
        alike_columns, mixed_columns = self._find_columns(layout, seen)
        limit = min(complete, self._run_limit)
        alike = self._runs.matching(buffer, start, stride, limit, alike_columns)
        if alike >= FEW_RECORDS:
            self._last_failures = 0
            self._run_limit = min(2 * alike if alike == limit else alike + 64, self._runs.chunk_records)
            self._count_run(buffer, start, stride, alike, layout, seen)
            return alike
        self._run_limit = 64
        if mixed_columns:
            limit = min(complete, 8 * FEW_RECORDS)
            mixed = self._runs.matching(buffer, start, stride, limit, mixed_columns)
            if mixed >= 4 * FEW_RECORDS:
                self._last_failures = 0
                if mixed == limit:
                    limit = min(complete, RecordRuns.chunk_records)
                    mixed = self._runs.matching(buffer, start, stride, limit, mixed_columns)
                self._count_mixed(buffer, start, stride, mixed, layout, seen)
                return mixed
        self._last_failures = min(self._last_failures + 1, 6)
        self._singly = alike + (1 << self._last_failures)
        return 0

    def _count_mixed(
        self, buffer: Buffer, start: int, stride: int, records: int, layout: RecordLayout, seen: Dissection
    ) -> None:
        """Count records of several streams that differ in addresses and ports only: sort them by stream, then count
        runs.
        """
        first, stop = (layout.header_bytes + offset for offset in seen.key_bytes)  # type: ignore[union-attr]
        apart: Dict[bytes, List[bytes]] = defaultdict(list)
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
        self, buffer: Buffer, start: int, stride: int, records: int, layout: RecordLayout, seen: Dissection
    ) -> None:
        stream = self._add_packets(seen.key, records)
        if stream is None:
            span = self._runs.span(buffer, start, stride, records, layout)
        else:
            number_at = layout.header_bytes + seen.sequence_offset
            span = self._runs.count_stream(buffer, start, stride, records, layout, number_at, stream)
            if stream.delays is not None and self._stamped(seen):
                stream.delays.add_run(self._runs.delays, buffer, start, stride, records, layout, number_at)
            if stream.arrivals is not None:
                stream.arrivals.add(RecordRuns.times(buffer, start, stride, records, layout))
            self._count_late(stream, span, records, lambda: RecordRuns.times(buffer, start, stride, records, layout))
        self._extend_span(span[0], span[1])

    def _find_columns(self, layout: RecordLayout, seen: Dissection) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        """Return the columns equal in one stream's records, and those equal in several streams' records or none."""
        known = (layout.constant, layout.header_bytes, seen.decided_by, seen.key_bytes)
        columns = self._columns.get(known)
        if columns is None:
            if len(self._columns) > 256:
                self._columns = {}
            frame = tuple(sorted(set(seen.decided_by)))
            alike = layout.constant + tuple(layout.header_bytes + offset for offset in frame)
            mixed: Tuple[int, ...] = ()
            if seen.key_bytes is not None:
                first, stop = seen.key_bytes
                rest = [layout.header_bytes + offset for offset in frame if not first <= offset < stop]
                mixed = layout.constant + tuple(rest)
            columns = self._columns[known] = (alike, mixed)
        return columns

    def _add_packets(self, key: Optional[StreamKey], records: int) -> Optional[StreamCounts]:
        """Count packets of a stream; return the stream, or None if it is not counted individually."""
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
            stream.lateness = None if self._sending_ns is None else Lateness(self._sending_ns)
            if len(self._streams) <= MAX_DELAY_STREAMS:
                stream.delays = DelaySamples(self._sampling_seed)
                stream.arrivals = None if self._spacing_gap_ns is None else StreamArrivals()
        stream.packets += records
        stream.bytes += original_bytes
        return stream

    def _extend_span(self, earliest_ns: int, latest_ns: int) -> None:
        if self._first_at_ns is None or earliest_ns < self._first_at_ns:
            self._first_at_ns = earliest_ns
        if self._last_at_ns is None or latest_ns > self._last_at_ns:
            self._last_at_ns = latest_ns

    def report(self, *, unread: bytes = b"") -> Dict[str, Any]:
        """Return the counts so far, as ``analyze --json`` prints them (docs/analyze.md).

        ``unread`` is the unconsumed end of the capture: a truncated record, or nothing. Raises NotACapture if there was
        too little data.
        """
        reader = self._reader
        if reader.format is None:
            raise NotACapture(unread)
        names = sorted({LINK_NAMES.get(number, "link type %d" % number) for number in reader.link_types})
        if len(names) > MAX_LINK_NAMES:
            names[MAX_LINK_NAMES:] = ["%d more" % (len(names) - MAX_LINK_NAMES)]
        duration_ns = _duration_ns(self._first_at_ns, self._last_at_ns)
        result: Dict[str, Any] = {
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
        }
        result.update(_rates(self.packets - self._untimed_packets, self.packets, self.bytes, duration_ns))
        gap_ns = self._spacing_gap_ns
        result["streams"] = [_stream_report(key, self._streams[key], gap_ns) for key in sorted(self._streams)]
        return result


def _duration_ns(first_at_ns: Optional[int], last_at_ns: Optional[int]) -> Optional[int]:
    return None if first_at_ns is None or last_at_ns is None else last_at_ns - first_at_ns


def _rates(timed_packets: int, packets: int, frame_bytes: int, duration_ns: Optional[int]) -> Dict[str, Any]:
    """Return rates over intervals: n arrivals span n - 1 of them. None if first and last have the same time."""
    if not duration_ns:
        return {"pps": None, "frame_bps": None}
    pps = (timed_packets - 1) * 1_000_000_000 / duration_ns
    return {"pps": pps, "frame_bps": pps * 8 * frame_bytes / packets}


def _stream_report(key: StreamKey, stream: StreamCounts, spacing_gap_ns: Optional[int]) -> Dict[str, Any]:
    sequence, sequence_error = stream.sequence.report()
    delay, delay_error = (None, "too many streams") if stream.delays is None else stream.delays.report()
    duration_ns = _duration_ns(stream.first_at_ns, stream.last_at_ns)
    result: Dict[str, Any] = {
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
        "delay": delay,
        "delay_error": delay_error,
    }
    if spacing_gap_ns is not None:
        result["spacing"] = None if stream.arrivals is None else stream.arrivals.report(spacing_gap_ns)
    if stream.lateness is not None:
        result["late_packets"] = stream.lateness.late_packets
        result["queued_packets"] = stream.lateness.queued_packets
    result.update(_rates(stream.packets - stream.untimed_packets, stream.packets, stream.bytes, duration_ns))
    return result


def _address(packed: bytes) -> str:
    if len(packed) == 4:
        return ".".join(map(str, packed))
    import ipaddress  # takes 5 ms to load, for the rare case

    return str(ipaddress.IPv6Address(packed))
