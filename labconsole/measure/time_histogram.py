"""Histograms of times in nanoseconds: HdrHistogram's buckets, its encoding for other tools, a text picture. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from labconsole.measure.ledger import MIN_BAR, Row, bar, cut
from labconsole.units import format_count
from labconsole.wire.packet_times import BUCKET_BITS, BUCKETS, HIGHEST_BITS

# -- time histogram ----------------------------------------------------------------------------------------------------
# HdrHistogram(1, 2^36 - 1, 2): from 1 ns to 68 s with two significant digits, so that a value is exact to 1/128. A
# quantile is the highest value of its bucket, as HdrHistogram's own value at a percentile. Source: Gil Tene,
# HdrHistogram, its encoding of version 2 (https://github.com/HdrHistogram/HdrHistogram).

_DIGITS = 2
_COOKIE, _COMPRESSED_COOKIE = 0x1C849313, 0x1C849314
_HEAD = struct.Struct(">iiiiqqd")
_COMPRESSED_HEAD = struct.Struct(">ii")
_MOST_BYTES = 1 << 20


def bucket_of(value_ns: int) -> int:
    """The bucket of a value. Raises ValueError below 0."""
    if value_ns < 0:
        raise ValueError(f"a time of {value_ns} ns")
    value_ns = min(value_ns, (1 << HIGHEST_BITS) - 1)
    halvings = max(0, value_ns.bit_length() - 1 - BUCKET_BITS)
    return (halvings << BUCKET_BITS) + (value_ns >> halvings)


def lowest_ns(bucket: int) -> int:
    """The lowest value of a bucket."""
    halvings = max(0, (bucket >> BUCKET_BITS) - 1)
    return (bucket - (halvings << BUCKET_BITS)) << halvings


def highest_ns(bucket: int) -> int:
    """The highest value of a bucket."""
    return lowest_ns(bucket + 1) - 1


@dataclass(frozen=True, slots=True)
class TimeHistogram:
    """``packets``: by bucket, non-empty ones in rising order."""

    packets: Mapping[int, int]

    @classmethod
    def of(cls, buckets: Sequence[Sequence[int]]) -> TimeHistogram:
        """Create one from pairs of bucket and packets."""
        return cls({pair[0]: pair[1] for pair in sorted(buckets, key=lambda pair: pair[0])})

    @property
    def total(self) -> int:
        return sum(self.packets.values())

    def quantile_ns(self, ratio: float | Fraction) -> int:
        """The highest value of the nearest rank's bucket. Raises ValueError without packets."""
        total = self.total
        wanted, seen = min(total, max(1, math.ceil(_exact(ratio) * total))), 0
        for bucket, packets in self.packets.items():
            seen += packets
            if seen >= wanted:
                return highest_ns(bucket)
        raise ValueError("a histogram of nothing has no quantiles")

    def supported_quantile_ns(self, ratio: float | Fraction) -> int | None:
        """The quantile, or None if it would need more packets."""
        return self.quantile_ns(ratio) if self.total * (1 - _exact(ratio)) >= 1 else None

    def added(self, other: TimeHistogram) -> TimeHistogram:
        """A histogram of the packets of both."""
        buckets = sorted({*self.packets, *other.packets})
        return TimeHistogram({each: self.packets.get(each, 0) + other.packets.get(each, 0) for each in buckets})

    def encoded(self) -> str:
        """The histogram as text that any HdrHistogram reads: version 2, compressed, in base64."""
        payload, last = bytearray(), -1
        for bucket, packets in self.packets.items():
            empty = bucket - last - 1
            if empty:
                payload += _zigzag(-empty)
            payload += _zigzag(packets)
            last = bucket
        head = _HEAD.pack(_COOKIE, len(payload), 0, _DIGITS, 1, (1 << HIGHEST_BITS) - 1, 1.0)
        packed = zlib.compress(head + bytes(payload), 9)
        return base64.b64encode(_COMPRESSED_HEAD.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")

    @classmethod
    def decoded(cls, text: str) -> TimeHistogram:
        """Decode the result of ``encoded``. Raises ValueError for anything else."""
        if not text.isascii():
            raise ValueError("not an HdrHistogram: contains bytes that are not ASCII")
        try:
            raw = base64.b64decode(text, validate=True)
            cookie, length = _COMPRESSED_HEAD.unpack_from(raw)
            if cookie != _COMPRESSED_COOKIE or length != len(raw) - _COMPRESSED_HEAD.size:
                raise ValueError("not a compressed HdrHistogram of version 2")
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(raw[_COMPRESSED_HEAD.size :], _MOST_BYTES)
            if not unpacking.eof or unpacking.unused_data:
                raise ValueError("not an HdrHistogram: it is truncated, or more follows")
            cookie, length, offset, digits, lowest, highest, ratio = _HEAD.unpack_from(data)
        except (binascii.Error, struct.error, zlib.error) as exc:
            raise ValueError(f"no HdrHistogram: {exc}") from None
        shape = (cookie, length, offset, digits, lowest, highest, ratio)
        if shape != (_COOKIE, len(data) - _HEAD.size, 0, _DIGITS, 1, (1 << HIGHEST_BITS) - 1, 1.0):
            raise ValueError("not an HdrHistogram from 1 ns to 2^36 - 1 ns with two digits")
        packets: dict[int, int] = {}
        bucket = 0
        for value in _values(data[_HEAD.size :]):
            if value > 0:
                packets[bucket] = value
            bucket += max(1, -value)
            if bucket > BUCKETS:
                raise ValueError("an HdrHistogram with more buckets than it says")
        if not packets:
            raise ValueError("an empty HdrHistogram")
        return cls(packets)


def _exact(ratio: float | Fraction) -> Fraction:
    """The intended fraction: 0.999 is nine hundred ninety-nine thousandths, not a binary number near it."""
    return Fraction(ratio).limit_denominator(10**9)


def _zigzag(value: int) -> bytes:
    """A signed number in the fewest groups of seven bits; nine bytes at most, the last one whole."""
    number = (value << 1) ^ (value >> 63)
    made = bytearray()
    for _ in range(8):
        if number < 0x80:
            made.append(number)
            return bytes(made)
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _values(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number = shift = 0
        while True:
            if at >= len(data):
                raise ValueError("a truncated HdrHistogram")
            byte = data[at]
            at += 1
            if shift == 56:
                number |= byte << shift
                break
            number |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
            shift += 7
        yield (number >> 1) ^ -(number & 1)


# -- histogram picture -------------------------------------------------------------------------------------------------
# A text picture of the times of every packet: a histogram on a logarithmic axis.

EDGES_NS = [0, *(step * 10**decade for decade in range(12) for step in (1, 2, 5))]
"""0, 1, 2, 5, 10, … ns, beyond the last bucket. A bucket, at most 1/128 of its value wide, counts where it begins."""

_UNITS = ((10**9, "s"), (10**6, "ms"), (1000, "µs"))


def format_span(value_ns: int) -> str:
    """``500 ns``, ``2 µs``."""
    for size, unit in _UNITS:
        if value_ns >= size:
            return f"{value_ns // size} {unit}"
    return f"{value_ns} ns"


def histogram_rows(histogram: TimeHistogram, width: int) -> list[Row]:
    """A bar for every step of 1, 2, 5 between the shortest and the longest, with its packets and their share."""
    counts: dict[int, int] = {}
    for bucket, packets in histogram.packets.items():
        step = max(0, bisect_right(EDGES_NS, lowest_ns(bucket)) - 1)
        counts[step] = counts.get(step, 0) + packets
    if not counts:
        return []
    total, most = histogram.total, max(counts.values())
    figures = max(len(format_count(packets)) for packets in counts.values())
    rows: list[Row] = []
    for step in range(min(counts), max(counts) + 1):
        packets = counts.get(step, 0)
        label = f"{format_span(EDGES_NS[step]):>6} – {format_span(EDGES_NS[step + 1]):<6}"
        figures_text = f"{format_count(packets):>{figures}}  {100 * packets / total:>8.4f} %  "
        row: Row = [(f"{label}  ", "muted"), (figures_text, "")]
        room = width - sum(len(text) for text, _ in row)
        if packets and room >= MIN_BAR:
            row.append((bar(packets / most, room), "good"))
        rows.append(cut(row, width))
    return rows
