"""Counting flows that arrive interleaved: by source MAC address and UDP ports, over time, exactly.

A flow is what one sender sends from one port. The frames counted as flows are Ethernet, IPv4 without options, UDP and
no fragment; everything else is counted as other. The one non-obvious decision: records of one length are counted
together however their flows are interleaved, by columns of bytes (see ``columns``). Only the few bytes of the key that
differ at all are combined into words and counted, and the least and greatest time stamp decide whether all records lie
in one bin. If they do not, the records are halved.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from labconsole.packets.columns import FEW_RECORDS, RecordRuns
from labconsole.packets.frame import CONTROL, classify_frame
from labconsole.packets.pcap import LINK_ETHERNET, Buffer, CaptureReader, RecordLayout

MAX_FLOWS = 256
"""Most flows counted individually: forged ones must not fill a node's memory."""

MAX_BINS = 20_000
MAX_CELLS = 100_000
"""Most non-empty bins of all flows together; later packets are counted, but not over time."""

_KEY_BYTES = tuple(range(6, 12)) + tuple(range(34, 38))
_DECIDING = (12, 13, 14, 20, 21, 23)
_LEAST_BYTES = 42
_NAMED_BYTES = 96
_FEW_AT_ONCE = 32
_FEW_VALUES = 16
_MF_AND_HIGH_OFFSET = 0x3F
_COUNTING_KINDS = ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))


class FlowKey(NamedTuple):
    """The sender of a flow and its ports."""

    mac: bytes
    udp_source_port: int
    udp_sink_port: int


class FlowCounts:
    """One flow. ``first_at_ns`` and ``last_at_ns`` are of the first and the last packet captured with a time stamp.

    ``bins``: number of the bin to [packets, bytes]. ``outside_packets``: counted in no bin.
    """

    __slots__ = ("bins", "bytes", "first_at_ns", "last_at_ns", "outside_packets", "packets")

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0
        self.first_at_ns: Optional[int] = None
        self.last_at_ns: Optional[int] = None
        self.outside_packets = 0
        self.bins: Dict[int, List[int]] = {}


class FlowBins:
    """Counts the flows of one capture, fed piece by piece alongside its analysis. Pure: it opens nothing.

    Bin k is from k * ``bin_ns`` to (k + 1) * ``bin_ns`` after the time stamp of the first packet of any flow.
    """

    def __init__(self, bin_ns: int, bins: int, runs: Optional[RecordRuns] = None) -> None:
        self.bin_ns, self._bins = bin_ns, min(bins, MAX_BINS)
        self.flows: Dict[FlowKey, FlowCounts] = {}
        self.packets = 0
        self.other_packets = 0
        self.control_packets = 0
        self.fragments = 0
        self.unlisted_packets = 0
        self.origin_ns: Optional[int] = None
        self._cells = 0
        self._reader = CaptureReader()
        self._runs = RecordRuns() if runs is None else runs
        self._run_limit = 64
        self._singly = 0
        self._failures = 0

    def feed(self, buffer: Buffer, start: int = 0, end: Optional[int] = None) -> int:
        """Count the complete records in buffer[start:end]; return the number of bytes, as
        CaptureAnalysis.feed() does.
        """
        end = len(buffer) if end is None else end
        reader, position = self._reader, start
        if reader.format is None and end - start < 4:
            return 0
        while reader.corrupt_reason is None:
            following, is_packet = reader.advance(buffer, position, end)
            if following == position:
                break
            if is_packet:
                following = self._count(buffer, position, following, end)
            position = following
        return position - start

    def _count(self, buffer: Buffer, start: int, following: int, end: int) -> int:
        reader = self._reader
        layout, frame_at, stride = reader.layout, reader.frame_start, following - start
        plain = _is_plain(buffer, frame_at, reader.captured_bytes, reader.interface.link_type)
        if plain and layout is not None:
            if self._singly:
                self._singly -= 1
            elif end - start >= FEW_RECORDS * stride:
                limit = min((end - start) // stride, self._run_limit)
                columns = layout.constant + tuple(layout.header_bytes + offset for offset in _DECIDING)
                alike = self._runs.matching(buffer, start, stride, limit, columns)
                if alike >= FEW_RECORDS:
                    self._failures = 0
                    self._run_limit = min(2 * alike if alike == limit else alike + 64, self._runs.chunk_records)
                    self.packets += alike
                    self._add_alike(buffer, start, stride, alike, layout)
                    return start + alike * stride
                self._run_limit = 64
                self._failures = min(self._failures + 1, 6)
                self._singly = alike + (1 << self._failures)
        self.packets += 1
        if plain:
            self._add(_read_flow_key(buffer, frame_at), reader.original_bytes, 1, reader.at_ns, reader.at_ns)
        else:
            self.other_packets += 1
            if reader.interface.link_type == LINK_ETHERNET:
                frame = bytes(buffer[frame_at : frame_at + min(reader.captured_bytes, _NAMED_BYTES)])
                self.control_packets += classify_frame(frame, ()) in CONTROL
            if _is_fragment(buffer, frame_at, reader.captured_bytes, reader.interface.link_type):
                self.fragments += 1
        return following

    def _add_alike(self, buffer: Buffer, start: int, stride: int, records: int, layout: RecordLayout) -> None:
        """Add records of one length that all belong to flows, one second at a time."""
        high = layout.time_high
        while records:
            part = self._runs.matching(buffer, start, stride, records, (high, high + 1, high + 2, high + 3))
            if part < _FEW_AT_ONCE:
                part = min(records, _FEW_AT_ONCE)
                self._add_few(buffer, start, stride, part, layout)
            else:
                base_ns = layout.base_ns + _read_word(buffer, start + high, layout) * layout.high_ns
                lows = self._runs.lower_words(buffer, start, stride, part, layout)
                self._add_second(buffer, start, stride, layout, base_ns, lows)
            start += part * stride
            records -= part

    def _add_second(
        self, buffer: Buffer, start: int, stride: int, layout: RecordLayout, base_ns: int, lows: Any
    ) -> None:
        """Add records with equal upper halves of their time stamps: halve them until each part lies in one bin."""
        if len(lows) <= _FEW_AT_ONCE:
            self._add_few(buffer, start, stride, len(lows), layout)
            return
        if self.origin_ns is None:
            self.origin_ns = base_ns + lows[0] * layout.low_ns
        first, last = (self._bin_of(base_ns + low * layout.low_ns) for low in self._runs.least_and_greatest(lows))
        if first == last:
            self._add_bin(buffer, start, stride, layout, base_ns, lows)
            return
        half = len(lows) // 2
        self._add_second(buffer, start, stride, layout, base_ns, lows[:half])
        self._add_second(buffer, start + half * stride, stride, layout, base_ns, lows[half:])

    def _add_bin(self, buffer: Buffer, start: int, stride: int, layout: RecordLayout, base_ns: int, lows: Any) -> None:
        """Add records that all arrived in one bin."""
        records = len(lows)
        frame_at, stop = start + layout.header_bytes, start + records * stride
        columns = [buffer[frame_at + offset : stop : stride] for offset in _KEY_BYTES]
        differing = [column for column in columns if column != column[:1] * records]

        def add(first: int, last: int, packets: int) -> None:
            first_at_ns, last_at_ns = (base_ns + lows[place] * layout.low_ns for place in (first, last))
            key = _read_flow_key(buffer, frame_at + first * stride)
            self._add(key, self._reader.original_bytes, packets, first_at_ns, last_at_ns)

        if not differing:
            add(0, records - 1, records)
            return
        apart = _find_distinguishing_column(differing)
        if apart is not None:
            column, counts = apart
            for value, packets in counts.items():
                add(column.index(value), column.rindex(value), packets)
            return
        keys = _side_by_side(differing, records)
        backwards = keys[::-1]
        for key, packets in Counter(keys).items():
            add(keys.index(key), records - 1 - backwards.index(key), packets)

    def _add_few(self, buffer: Buffer, start: int, stride: int, records: int, layout: RecordLayout) -> None:
        for at in range(start, start + records * stride, stride):
            high, low = (
                _read_word(buffer, at + layout.time_high, layout),
                _read_word(buffer, at + layout.time_low, layout),
            )
            at_ns = layout.base_ns + high * layout.high_ns + low * layout.low_ns
            self._add(_read_flow_key(buffer, at + layout.header_bytes), self._reader.original_bytes, 1, at_ns, at_ns)

    def _add(
        self, key: FlowKey, frame_bytes: int, packets: int, first_at_ns: Optional[int], last_at_ns: Optional[int]
    ) -> None:
        """Add packets of a flow that arrived in one bin, the first and the last of them at these times."""
        flow = self.flows.get(key)
        if flow is None:
            if len(self.flows) >= MAX_FLOWS:
                self.unlisted_packets += packets
                return
            flow = self.flows[key] = FlowCounts()
        flow.packets += packets
        flow.bytes += packets * frame_bytes
        if first_at_ns is None:
            flow.outside_packets += packets
            return
        if self.origin_ns is None:
            self.origin_ns = first_at_ns
        if flow.first_at_ns is None:
            flow.first_at_ns = first_at_ns
        flow.last_at_ns = last_at_ns
        number = self._bin_of(first_at_ns)
        if not 0 <= number < self._bins:
            flow.outside_packets += packets
            return
        counts = flow.bins.get(number)
        if counts is None:
            if self._cells >= MAX_CELLS:
                flow.outside_packets += packets
                return
            self._cells += 1
            counts = flow.bins[number] = [0, 0]
        counts[0] += packets
        counts[1] += packets * frame_bytes

    def _bin_of(self, at_ns: int) -> int:
        assert self.origin_ns is not None
        return (at_ns - self.origin_ns) // self.bin_ns

    def report(self) -> Dict[str, Any]:
        """Return the counts, as ``CountedFlows`` describes them (wire/flows.py)."""
        return {
            "bin_ns": self.bin_ns,
            "origin_ns": self.origin_ns,
            "packets": self.packets,
            "other_packets": self.other_packets,
            "control_packets": self.control_packets,
            "fragments": self.fragments,
            "unlisted_packets": self.unlisted_packets,
            "flows": [_report(key, self.flows[key]) for key in sorted(self.flows)],
        }


def _report(key: FlowKey, flow: FlowCounts) -> Dict[str, Any]:
    bins = sorted(flow.bins)
    return {
        "mac": ":".join("%02x" % byte for byte in key.mac),
        "udp_source_port": key.udp_source_port,
        "udp_sink_port": key.udp_sink_port,
        "packets": flow.packets,
        "bytes": flow.bytes,
        "first_at_ns": flow.first_at_ns,
        "last_at_ns": flow.last_at_ns,
        "outside_packets": flow.outside_packets,
        "bins": bins,
        "bin_packets": [flow.bins[number][0] for number in bins],
        "bin_bytes": [flow.bins[number][1] for number in bins],
    }


def _is_plain(buffer: Buffer, at: int, captured_bytes: int, link_type: int) -> bool:
    """Whether the frame there is counted as a flow's."""
    return (
        link_type == LINK_ETHERNET
        and captured_bytes >= _LEAST_BYTES
        and buffer[at + 12 : at + 15] == b"\x08\x00\x45"
        and buffer[at + 23] == 17
        and not buffer[at + 20] & _MF_AND_HIGH_OFFSET
        and not buffer[at + 21]
    )


def _is_fragment(buffer: Buffer, at: int, captured_bytes: int, link_type: int) -> bool:
    return (
        link_type == LINK_ETHERNET
        and captured_bytes >= 24
        and buffer[at + 12 : at + 14] == b"\x08\x00"
        and bool(buffer[at + 20] & _MF_AND_HIGH_OFFSET or buffer[at + 21])
    )


def _read_flow_key(buffer: Buffer, at: int) -> FlowKey:
    ports = struct.unpack_from(">HH", buffer, at + 34)
    return FlowKey(bytes(buffer[at + 6 : at + 12]), *ports)


def _read_word(buffer: Buffer, at: int, layout: RecordLayout) -> int:
    return int.from_bytes(buffer[at : at + 4], "little" if layout.little else "big")


def _find_distinguishing_column(columns: List[Buffer]) -> Optional[Tuple[Buffer, Dict[int, int]]]:
    """Find a column whose value determines all others; return it and the count of each value, or None if there is none
    or it has many values, which are faster to count otherwise.
    """
    for column in columns:
        counts = _count_values(column)
        if counts is None:
            return None
        if all(_follows(other, column, counts) for other in columns if other is not column):
            return column, counts
    return None


def _follows(other: Buffer, column: Buffer, counts: Dict[int, int]) -> bool:
    """Whether one column is constant wherever another has the same value."""
    table = bytearray(256)
    for value in counts:
        table[value] = other[column.index(value)]
    return bool(column.translate(bytes(table)) == other)


def _count_values(column: Buffer) -> Optional[Dict[int, int]]:
    """Map each value to its count, or return None if there are many values. Deleting one from bytes costs 0.3
    ns each.
    """
    counts: Dict[int, int] = {}
    while column:
        if len(counts) == _FEW_VALUES:
            return None
        others = column.translate(None, bytes(column[:1]))
        counts[column[0]] = len(column) - len(others)
        column = others
    return counts


def _side_by_side(columns: List[Any], records: int) -> Any:
    """Join the bytes of these columns record by record, into words or bytes that can be counted and searched."""
    if len(columns) == 1:
        return array("B", bytes(columns[0]))
    for size, kind in _COUNTING_KINDS:
        if len(columns) <= size and array(kind).itemsize == size:
            side_by_side = bytearray(size * records)
            for place, column in enumerate(columns):
                side_by_side[place::size] = column
            keys = array(kind)
            keys.frombytes(bytes(side_by_side))
            return keys
    return list(zip(*columns))
