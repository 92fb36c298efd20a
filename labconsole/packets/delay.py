"""Figures from the time stamps of one stream: which packets are sampled, their delay, how evenly they arrived."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from functools import lru_cache
from itertools import compress
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from labconsole.packets.pcap import Buffer, RecordLayout

# -- sampling ----------------------------------------------------------------------------------------------------------
# Choosing which neighbouring packets of a stream are sampled: places drawn at random, determined by number and seed.
#
# In every block of 4096 packets the same number of pairs begins, at places drawn at random and rotated afresh for each
# block, so bursts that are stamped once and senders that pause at regular intervals cannot fall into step with them
# (RFC 2330, section 11.1.1). Beyond one pair a block, blocks are left out at random. Each level has half of the places
# of the one below: so a sample can be thinned out later, and it is the same however the packets were split into pieces.

_BITS = 12
_BLOCK = 1 << _BITS
_WORD = (1 << 64) - 1
MAX_LEVEL = 2 * _BITS
"""One pair in 17 million packets."""
_LAST_IN_BLOCK = bytes((_BITS,))


def _mixed(value: int) -> int:
    """Mix a number by SplitMix64 (Steele, Lea and Flood 2014): the same on every machine and version."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _WORD
    return value ^ value >> 31


@lru_cache(maxsize=4)
def _draw_order(seed: int) -> Tuple[List[int], List[List[int]], List[bytes]]:
    """Return each place's last level, and by level the remaining places in order with their last levels."""
    order = list(range(_BLOCK))
    state = _mixed(seed)
    for place in range(_BLOCK - 1, 0, -1):  # Fisher and Yates
        state = _mixed(state)
        other = state % (place + 1)
        order[place], order[other] = order[other], order[place]
    last_levels = [0] * _BLOCK
    for number, place in enumerate(order):
        last_levels[place] = _BITS - number.bit_length()
    left = [sorted(order[: _BLOCK >> level]) for level in range(_BITS + 1)]
    return last_levels, left, [bytes(last_levels[place] for place in places) for places in left]


class PairPlaces:
    """The places where pairs begin at ``level``: one in 2**level packets."""

    __slots__ = ("_last_levels", "_left", "_left_levels", "_of_block", "_seed", "_turn", "level")

    def __init__(self, seed: int) -> None:
        self._seed = _mixed(seed)
        self._last_levels, self._left, self._left_levels = _draw_order(seed)
        self.level = 0
        self._turn: Tuple[int, int, int] = (-1, 0, 0)
        self._of_block: Tuple[int, int, List[int], bytes] = (-1, -1, [], b"")

    def find_places(self, first: int, stop: int) -> Tuple[List[int], bytes]:
        """Return the places from ``first`` on and below ``stop``, in order, and the last level of each."""
        places: List[int] = []
        last_levels = b""
        for block in range(first >> _BITS, ((stop - 1) >> _BITS) + 1):
            there, levels = self._of(block)
            low = bisect_left(there, first) if first > block << _BITS else 0
            high = bisect_left(there, stop) if stop < (block + 1) << _BITS else len(there)
            places += there[low:high]
            last_levels += levels[low:high]
        return places, last_levels

    def last_level(self, place: int) -> int:
        """Return the highest level at which a pair begins here."""
        turn, beyond = self._turned(place >> _BITS)
        last_level = self._last_levels[(place - turn) & _BLOCK - 1]
        return beyond if last_level == _BITS else last_level

    def _of(self, block: int) -> Tuple[List[int], bytes]:
        level = self.level
        if self._of_block[:2] != (level, block):
            turn, beyond = self._turned(block)
            within = min(level, _BITS)
            places, levels = self._left[within], self._left_levels[within]
            wraps = bisect_left(places, _BLOCK - turn)
            after = (block << _BITS) + turn
            before = after - _BLOCK
            turned = [place + before for place in places[wraps:]] + [place + after for place in places[:wraps]]
            last_levels = (levels[wraps:] + levels[:wraps]).replace(_LAST_IN_BLOCK, bytes((beyond,)))
            self._of_block = (level, block, turned, last_levels) if beyond >= level else (level, block, [], b"")
        return self._of_block[2:]

    def _turned(self, block: int) -> Tuple[int, int]:
        """Return the rotation of a block's places, and the last level of the place that remains longest."""
        if self._turn[0] != block:
            drawn = _mixed(self._seed + block)
            self._turn = (block, drawn & _BLOCK - 1, MAX_LEVEL - (drawn >> 64 - _BITS).bit_length())
        return self._turn[1:]


# -- figures -----------------------------------------------------------------------------------------------------------
# Figures from the time stamps of one stream: the delay of its frames, and how evenly they arrived.
#
# Delay is the capture's time stamp minus the one in pktgen's header, by two clocks; other code judges whether they
# agree, so the delay here is called raw. The one non-obvious decision: delays are taken of a sample, because examining
# every frame would cost more than all other counting together. The sample is pairs of neighbouring arrivals: every one
# while there are at most MAX_PAIRS of them, then a half, a quarter, and so on, at places drawn at random
# (packets/delay.py). So the memory is bounded, and delay variation between neighbours (RFC 3393) is measured on true
# neighbours.

MAX_PAIRS = 1 << 14
MAX_DELAY_STREAMS = 16
"""Most streams of a capture whose delays are kept; a testbed's capture has one."""

STAMP_BYTES = 12
"""Bytes from the sequence number to the end of the time stamp: number, seconds, microseconds."""

MAX_ARRIVALS = 1 << 18
"""Most arrivals used for spacing, from the first on: 2 MiB, a tenth of a second to evaluate."""

BACK_TO_BACK_RATIO = 0.9
"""Frames that follow each other in less than this share of the usual gap belong to one burst. A generator that catches
up sends as fast as it can, which at nine tenths of its maximum is hardly faster than its pace.
"""

QUEUED_NS = 10_000_000
"""Packets this much later than the sending time waited in a queue, whatever the delay of the path."""

WINDOWS_NS = {"1": 1_000_000, "10": 10_000_000, "100": 100_000_000}

PERMILLES = (("p50", 500), ("p99", 990), ("p999", 999))


def read_uint32(buffer: Buffer, start: int, stop: int, step: int, *, little: bool) -> "array[int]":
    """Read a field of four bytes, taken every ``step`` bytes, as numbers."""
    first = buffer[start:stop:step]
    column = bytearray(4 * len(first))
    for place in range(4):
        at = start + (place if little else 3 - place)
        column[place::4] = first if at == start else buffer[at:stop:step]
    found = array("I")
    found.frombytes(bytes(column))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def derive_delays(
    buffer: Buffer, start: int, count: int, step: int, layout: RecordLayout, number_at: int
) -> Tuple[bytes, int]:
    """Return the delays in ns of ``count`` frames as native 64-bit numbers, and how many have no usable time."""
    stop = start + (count - 1) * step + number_at + STAMP_BYTES
    high = read_uint32(buffer, start + layout.time_high, stop, step, little=layout.little)
    low = read_uint32(buffer, start + layout.time_low, stop, step, little=layout.little)
    seconds = read_uint32(buffer, start + number_at + 4, stop, step, little=False)
    microseconds = read_uint32(buffer, start + number_at + 8, stop, step, little=False)
    base_ns, high_ns, low_ns = layout.base_ns, layout.high_ns, layout.low_ns
    if high.count(high[0]) == count == seconds.count(seconds[0]):
        at_ns = base_ns + high[0] * high_ns - seconds[0] * 1_000_000_000
        delays = [at_ns + b * low_ns - d * 1000 for b, d in zip(low, microseconds)]
    else:
        delays = [
            base_ns + a * high_ns + b * low_ns - c * 1_000_000_000 - d * 1000
            for a, b, c, d in zip(high, low, seconds, microseconds)
        ]
    try:
        return array("q", delays).tobytes(), seconds.count(0) if 0 in seconds else 0
    except OverflowError:  # impossible times, in a damaged or forged capture
        return bytes(8 * count), count


DeriveDelays = Callable[[Buffer, int, int, int, RecordLayout, int], Tuple[bytes, int]]
"""``derive_delays``, or something faster with the same result."""


_AT_LEAST = [bytes(level >= least for level in range(256)) for least in range(MAX_LEVEL + 1)]


class DelaySamples:
    """Delays of a sample of one stream's frames: pairs of neighbours, all of them while they are few."""

    __slots__ = ("_first", "_last_levels", "_places", "_second", "_where", "seen", "unusable")

    def __init__(self, seed: int = 0) -> None:
        self.seen = 0
        self.unusable = 0
        self._places = PairPlaces(seed)
        self._where = array("q")
        self._last_levels = bytearray()
        self._first = array("q")
        self._second = array("q")

    def add(self, at_ns: int, stamp: bytes) -> None:
        """Add one frame that arrived at ``at_ns`` with these 8 bytes of time stamp."""
        place, level = self.seen, self._places.level
        self.seen += 1
        last_level = self._places.last_level(place)
        begins = last_level >= level
        follows = bool(place) and self._places.last_level(place - 1) >= level
        if not begins and not follows:
            return
        seconds, microseconds = int.from_bytes(stamp[:4], "big"), int.from_bytes(stamp[4:8], "big")
        delay_ns = at_ns - seconds * 1_000_000_000 - microseconds * 1000
        usable = bool(seconds) and abs(delay_ns) < 1 << 63
        self.unusable += not usable
        if follows:
            self._second.append(delay_ns if usable else 0)
        if begins:
            self._first.append(delay_ns if usable else 0)
            self._where.append(place)
            self._last_levels.append(last_level)
        self._thin_out()

    def add_run(
        self,
        derive: DeriveDelays,
        buffer: Buffer,
        start: int,
        stride: int,
        records: int,
        layout: RecordLayout,
        number_at: int,
    ) -> None:
        """Add frames in records of one length, ``stride`` bytes apart, with sequence numbers at ``number_at``
        in each.
        """
        began, stop = self.seen, self.seen + records
        self.seen = stop
        places, last_levels = self._places.find_places(began, stop)
        awaited = len(self._first) > len(self._second)  # the frame before this run began a pair
        if len(places) == records:
            count, part = records, buffer
        elif places or awaited:
            count, part = self._picked(buffer, start, stride, [place - began for place in places], records, awaited)
            start = 0
        else:
            return
        packed, unusable = derive(part, start, count, stride, layout, number_at)
        delays = array("q")
        delays.frombytes(packed)
        self.unusable += unusable
        if len(places) == records:
            self._first += delays
            self._second += delays if awaited else delays[1:]
        else:
            self._second += delays[:awaited]
            self._first += delays[awaited::2]
            self._second += delays[1 + awaited :: 2]
        self._where.extend(places)
        self._last_levels += last_levels
        self._thin_out()

    @staticmethod
    def _picked(
        buffer: Buffer, start: int, stride: int, places: List[int], records: int, awaited: bool
    ) -> Tuple[int, bytes]:
        """Return the number of selected records and their bytes: the first if ``awaited``, then pairs; the last may be
        half.
        """
        end = start + records * stride
        parts = [buffer[start : start + stride]] if awaited else []
        parts += [buffer[at : at + 2 * stride] for at in [start + place * stride for place in places]]
        if places and places[-1] == records - 1:
            parts[-1] = buffer[end - stride : end]
        picked = b"".join(parts)
        return len(picked) // stride, picked

    def _thin_out(self) -> None:
        while len(self._first) > MAX_PAIRS and self._places.level < MAX_LEVEL:
            self._places.level += 1
            kept = self._last_levels.translate(_AT_LEAST[self._places.level])
            self._first = array("q", compress(self._first, kept))
            self._second = array("q", compress(self._second, kept))
            self._where = array("q", compress(self._where, kept))
            self._last_levels = bytearray(compress(self._last_levels, kept))

    def _delays(self) -> List[int]:
        """Return the delay of every frame of the sample once: a pair's second frame may be the next pair's first."""
        delays = list(self._first)
        following = [*self._where[1:], -1]
        delays += [delay for at, after, delay in zip(self._where, following, self._second) if after != at + 1]
        return delays

    def report(self) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
        """Return (the figures, None), or (None, the reason for none)."""
        if not self._first:
            return None, "no frame has both a time stamp of its sender and one of its arrival"
        if self.unusable:
            return None, "frames came without a time stamp of their sender, or with impossible times"
        delays = sorted(self._delays())
        shortest = delays[0]
        between = sorted(abs(b - a) for a, b in zip(self._first, self._second))
        found: Dict[str, Any] = {
            "packets": len(delays),
            "pair_every_packets": 1 << self._places.level,
            "raw_ns": {"min": shortest, "mean": sum(delays) / len(delays), **quantiles(delays), "max": delays[-1]},
            "pdv_ns": {**quantiles([delay - shortest for delay in delays]), "max": delays[-1] - shortest},
            "ipdv_ns": None,
        }
        if between:
            found["ipdv_ns"] = {"mean": sum(between) / len(between), **quantiles(between), "max": between[-1]}
        return found, None


def quantiles(ordered: Sequence[int]) -> Dict[str, int]:
    """Return quantiles by nearest rank: the lowest value that this share of all values does not exceed."""
    return {name: ordered[-(-len(ordered) * permille // 1000) - 1] for name, permille in PERMILLES}


class Lateness:
    """Counts frames that arrived later after the first than the sending time: exact, whatever the order of arrival.

    ``queued_packets`` arrived more than ``QUEUED_NS`` later still.
    """

    __slots__ = ("_sending_ns", "late_packets", "queued_packets")

    def __init__(self, sending_ns: int) -> None:
        self._sending_ns = sending_ns
        self.late_packets = 0
        self.queued_packets = 0

    def add(self, first_ns: int, span: Tuple[int, int], packets: int, times: Callable[[], Sequence[int]]) -> None:
        """Add ``packets`` that arrived within ``span``, ends included. ``times`` returns each arrival and is rarely
        called.
        """
        late_ns = first_ns + self._sending_ns
        if span[1] <= late_ns:
            return
        self.late_packets += _count_later(late_ns, span, packets, times)
        self.queued_packets += _count_later(late_ns + QUEUED_NS, span, packets, times)


def _count_later(than_ns: int, span: Tuple[int, int], packets: int, times: Callable[[], Sequence[int]]) -> int:
    if span[1] <= than_ns:
        return 0
    return packets if span[0] > than_ns else sum(at_ns > than_ns for at_ns in times())


class StreamArrivals:
    """Arrivals of a stream's first frames: bursts and peak rates, which no distribution of gaps contains."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times = array("q")

    def add(self, times: Sequence[int]) -> None:
        room = MAX_ARRIVALS - len(self._times)
        if room > 0:
            self._times.extend(time for time in times[:room] if time < 1 << 63)

    def report(self, usual_gap_ns: int) -> Optional[Dict[str, Any]]:
        """Report bursts against ``usual_gap_ns``; 0 uses the median gap. None with fewer than two arrivals."""
        times = sorted(self._times)
        gaps = [b - a for a, b in zip(times, times[1:])]
        if not gaps:
            return None
        ordered = sorted(gaps)
        middle = quantiles(ordered)
        limit_ns = (usual_gap_ns or middle["p50"]) * BACK_TO_BACK_RATIO
        return {
            "packets": len(times),
            "gap_ns": {
                "min": ordered[0],
                "mean": sum(gaps) / len(gaps),
                "p50": middle["p50"],
                "p99": middle["p99"],
                "max": ordered[-1],
            },
            "burst_packets": _longest_burst(gaps, limit_ns),
            "peak_packets": {name: _most_within(times, window_ns) for name, window_ns in WINDOWS_NS.items()},
        }


def _longest_burst(gaps: Sequence[int], below_ns: float) -> int:
    longest = packets = 1
    for gap in gaps:
        packets = packets + 1 if gap < below_ns else 1
        if packets > longest:
            longest = packets
    return longest


def _most_within(times: Sequence[int], window_ns: int) -> Optional[int]:
    """Return the most arrivals in any half-open window of this length, or None if all of them span less."""
    if times[-1] - times[0] < window_ns:
        return None
    most = low = 0
    for high, at_ns in enumerate(times):
        earliest = at_ns - window_ns
        while times[low] <= earliest:
            low += 1
        if high - low >= most:
            most = high - low + 1
    return most
