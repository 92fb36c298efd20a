"""What time stamps tell of one stream: the delay of its frames, and how evenly they came.

Delay is the capture's time stamp minus the one in pktgen's header, by two clocks; whether they agree is for others to
judge, so it is called raw here. The one non-obvious decision: delays are taken of a sample, because looking at every
frame would cost more than all other counting together. The sample is pairs of neighbouring arrivals at places that
depend only on their number: every pair while there are at most MAX_PAIRS of them, then every second, every fourth, and
so on. So the result is the same however the capture was cut into pieces, the memory is bounded, and delay variation
between neighbours (RFC 3393) is measured on true neighbours.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from labconsole.agent.pcap import Buffer, RecordLayout

MAX_PAIRS = 1 << 14
MAX_DELAY_STREAMS = 16
"""Streams of a capture whose delays are kept; a testbed's capture holds one."""

STAMP_BYTES = 12
"""From the sequence number to the end of the time stamp: number, seconds, microseconds."""

MAX_ARRIVALS = 1 << 18
"""Arrivals that spacing looks at, from the first on: 2 MiB, a tenth of a second to evaluate."""

BACK_TO_BACK_RATIO = 0.9
"""Frames that follow each other in less than this share of the usual gap belong to one burst: a generator that catches
up sends as fast as it can, which at nine tenths of its maximum is hardly faster than it should."""

QUEUED_NS = 10_000_000
"""What comes so much after the sending time lay in a queue, whatever the delay of the path."""

WINDOWS_NS = {"1": 1_000_000, "10": 10_000_000, "100": 100_000_000}

PERMILLES = (("p50", 500), ("p99", 990), ("p999", 999))


def words(buffer: Buffer, start: int, stop: int, step: int, *, little: bool) -> "array[int]":
    """A field of four bytes, taken every ``step`` bytes, as numbers."""
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


def delays_of(
    buffer: Buffer, start: int, count: int, step: int, layout: RecordLayout, number_at: int
) -> Tuple[bytes, int]:
    """(delays in ns of ``count`` frames as 64-bit numbers of this machine, how many of them have no usable time)."""
    stop = start + (count - 1) * step + number_at + STAMP_BYTES
    high = words(buffer, start + layout.time_high, stop, step, little=layout.little)
    low = words(buffer, start + layout.time_low, stop, step, little=layout.little)
    seconds = words(buffer, start + number_at + 4, stop, step, little=False)
    microseconds = words(buffer, start + number_at + 8, stop, step, little=False)
    base_ns, high_ns, low_ns = layout.base_ns, layout.high_ns, layout.low_ns
    delays = [
        base_ns + a * high_ns + b * low_ns - c * 1_000_000_000 - d * 1000
        for a, b, c, d in zip(high, low, seconds, microseconds)
    ]
    try:
        return array("q", delays).tobytes(), seconds.count(0) if 0 in seconds else 0
    except OverflowError:  # times that no clock has, in a damaged or a made-up capture
        return bytes(8 * count), count


Reckon = Callable[[Buffer, int, int, int, RecordLayout, int], Tuple[bytes, int]]
"""``delays_of``, or something faster with the same result."""


class DelaySamples:
    """The delays of a sample of one stream's frames."""

    __slots__ = ("_first", "_second", "every", "seen", "unusable")

    def __init__(self) -> None:
        self.seen = 0
        self.every = 2
        """One pair is taken in so many packets: 2 is all of them."""
        self.unusable = 0
        self._first = array("q")
        self._second = array("q")

    def add(self, at_ns: int, stamp: bytes) -> None:
        """One frame that arrived ``at_ns`` with these 8 bytes of time stamp."""
        place = self.seen % self.every
        self.seen += 1
        if place < 2:
            seconds, microseconds = int.from_bytes(stamp[:4], "big"), int.from_bytes(stamp[4:8], "big")
            delay_ns = at_ns - seconds * 1_000_000_000 - microseconds * 1000
            usable = bool(seconds) and abs(delay_ns) < 1 << 63
            self.unusable += not usable
            (self._second if place else self._first).append(delay_ns if usable else 0)
            self._thin_out()

    def add_run(
        self,
        reckon: Reckon,
        buffer: Buffer,
        start: int,
        stride: int,
        records: int,
        layout: RecordLayout,
        number_at: int,
    ) -> None:
        """Frames in records of one length, ``stride`` bytes apart; their sequence numbers are ``number_at`` in each."""
        for place, into in ((0, self._first), (1, self._second)):
            skipped = (place - self.seen) % self.every
            if skipped < records:
                count = (records - skipped - 1) // self.every + 1
                at = start + skipped * stride
                delays, unusable = reckon(buffer, at, count, stride * self.every, layout, number_at)
                into.frombytes(delays)
                self.unusable += unusable
        self.seen += records
        self._thin_out()

    def _thin_out(self) -> None:
        while len(self._first) > MAX_PAIRS:
            self.every *= 2
            self._first, self._second = self._first[::2], self._second[::2]

    def report(self) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
        """(the figures, None), or (None, why there are none)."""
        if not self._first:
            return None, "no frame has a time stamp of its sender and one of its arrival"
        if self.unusable:
            return None, "frames came without a time stamp of their sender, or with impossible times"
        delays = sorted([*self._first, *self._second])
        shortest = delays[0]
        between = sorted(abs(b - a) for a, b in zip(self._first, self._second))
        found: Dict[str, Any] = {
            "packets": len(delays),
            "pair_every_packets": self.every,
            "raw_ns": {"min": shortest, "mean": sum(delays) / len(delays), **quantiles(delays), "max": delays[-1]},
            "pdv_ns": {**quantiles([delay - shortest for delay in delays]), "max": delays[-1] - shortest},
            "ipdv_ns": None,
        }
        if between:
            found["ipdv_ns"] = {"mean": sum(between) / len(between), **quantiles(between), "max": between[-1]}
        return found, None


def quantiles(ordered: Sequence[int]) -> Dict[str, int]:
    """Nearest rank: the lowest value that this share of all values does not exceed."""
    return {name: ordered[-(-len(ordered) * permille // 1000) - 1] for name, permille in PERMILLES}


class Lateness:
    """How many frames came more than the sending time after the first one: exact, whatever the order of arrival.

    ``queued_packets`` came more than ``QUEUED_NS`` later than that still.
    """

    __slots__ = ("_sending_ns", "late_packets", "queued_packets")

    def __init__(self, sending_ns: int) -> None:
        self._sending_ns = sending_ns
        self.late_packets = 0
        self.queued_packets = 0

    def add(self, first_ns: int, span: Tuple[int, int], packets: int, times: Callable[[], Sequence[int]]) -> None:
        """``packets`` came within ``span``, both ends included; ``times`` tells when each did, and is rarely asked."""
        late_ns = first_ns + self._sending_ns
        if span[1] <= late_ns:
            return
        self.late_packets += _later(late_ns, span, packets, times)
        self.queued_packets += _later(late_ns + QUEUED_NS, span, packets, times)


def _later(than_ns: int, span: Tuple[int, int], packets: int, times: Callable[[], Sequence[int]]) -> int:
    if span[1] <= than_ns:
        return 0
    return packets if span[0] > than_ns else sum(at_ns > than_ns for at_ns in times())


class Arrivals:
    """When the first frames of a stream came: bursts and peak rates, which no distribution of gaps can tell."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times = array("q")

    def add(self, times: Sequence[int]) -> None:
        room = MAX_ARRIVALS - len(self._times)
        if room > 0:
            self._times.extend(time for time in times[:room] if time < 1 << 63)

    def report(self, usual_gap_ns: int) -> Optional[Dict[str, Any]]:
        """``usual_gap_ns`` 0: the median of the gaps is the usual one. None with fewer than two arrivals."""
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
    """Most arrivals in any half-open window of this length; None where all of them span less."""
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
