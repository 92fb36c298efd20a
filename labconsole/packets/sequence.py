"""The fate of a numbered stream's packets: lost, reordered, duplicated, and the gaps between arrivals.

Pure, standard library only, memory bounded whatever arrives. The one non-obvious decision: the missing numbers are kept
as sorted intervals, so a late packet is distinguished from a duplicate exactly. When there are too many intervals the
oldest half is settled for good (counted as lost and forgotten). A packet that arrives even later than that cannot be
judged any more; then the stream has no sequence result and says why, instead of a wrong one.

Numbers are 32 bit and wrap; each is interpreted as the one nearest to the highest seen (RFC 1982's serial arithmetic).
Reordered is RFC 4737's type-P-reordered: it arrives after a higher number. A duplicate is not reordered.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from operator import sub
from typing import Any, Dict, Optional, Sequence, Tuple

from labconsole.packets.delay import DelaySamples, Lateness, StreamArrivals

SEQUENCE_MODULUS = 1 << 32
MAX_INTERVALS = 1 << 16
"""Most missing intervals. Half of them stay open when the rest is settled: at 50 % random loss still the last 130 000
numbers, far more than any queue reorders. 1 MiB per stream; the time to insert in the middle stays below 30 us.
"""
MAX_RUN_LENGTHS = 1 << 12
"""Most different loss-run lengths kept per stream. Real losses have dozens; only forged numbers have thousands."""
MAX_EXACT_GAPS = 1 << 13
"""Most different gap lengths counted exactly per stream; beyond that they are counted in buckets."""
_BUCKET_BITS = 7


class SequenceTracker:
    """Follows one stream's numbers. ``error`` is the reason for no result, or None."""

    __slots__ = (
        "_ends",
        "_run_lengths",
        "_settled_below",
        "_starts",
        "duplicate_packets",
        "error",
        "first",
        "highest",
        "reordered_packets",
    )

    def __init__(self) -> None:
        self.first = 0
        self.highest: Optional[int] = None
        self.reordered_packets = 0
        self.duplicate_packets = 0
        self.error: Optional[str] = None
        # first and highest are unwrapped: they may leave 0..2^32-1 on either side
        self._starts = array("q")
        self._ends = array("q")
        self._run_lengths: Dict[int, int] = {}
        self._settled_below: Optional[int] = None

    def add_run(self, first: int, count: int) -> None:
        """Add ``count`` consecutive arrivals, numbered from ``first`` upwards by one, wrapping at 2^32."""
        highest = self.highest
        if highest is None:
            self.first = first
            self.highest = first + count - 1
            return
        # distance from the highest number, in -2^31 .. 2^31-1
        ahead = ((first - highest + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        if ahead > 0:
            if ahead > 1:
                self._starts.append(highest + 1)
                self._ends.append(highest + ahead - 1)
                if len(self._starts) > MAX_INTERVALS:
                    self._settle_oldest()
            self.highest = highest + ahead + count - 1
            return
        begin = highest + ahead
        last = begin + count - 1
        if self.error is None:
            self._add_late(begin, min(last, highest))
        if last > highest:
            self.highest = last

    def add_forward(self, starts: array[int], ends: array[int], highest: int) -> None:
        """Add arrivals in rising order up to ``highest``, all but the intervals starts[i]..ends[i] (array "q").

        All numbers are unwrapped and above the highest so far.
        """
        done = 0
        while done < len(starts):  # settles where add_run would: the result must not depend on the method
            part = slice(done, done + MAX_INTERVALS + 1 - len(self._starts))
            self._starts += starts[part]
            self._ends += ends[part]
            done = part.stop
            if len(self._starts) > MAX_INTERVALS:
                self._settle_oldest()
        self.highest = highest

    def _add_late(self, begin: int, last: int) -> None:
        """Add numbers at or below the highest: each was missing (reordered), precedes the first one (same) or is a
        copy.
        """
        if self._settled_below is not None and begin < self._settled_below:
            self.error = (
                "a packet arrived more than %d numbers late, which is more than can be tracked"
                % (self.highest - self._settled_below)  # type: ignore[operator]
            )
            self._starts, self._ends = array("q"), array("q")
            return
        if begin < self.first:
            end = min(last, self.first - 1)
            if end + 1 < self.first:
                self._starts.insert(0, end + 1)
                self._ends.insert(0, self.first - 1)
            self.reordered_packets += end - begin + 1
            self.first = begin
            begin = end + 1
            if begin > last:
                return
        found = self._fill(begin, last)
        self.reordered_packets += found
        self.duplicate_packets += last - begin + 1 - found

    def _fill(self, begin: int, last: int) -> int:
        """Remove begin..last from the missing numbers; return how many of them were missing."""
        starts, ends = self._starts, self._ends
        found = 0
        at = bisect_left(ends, begin)
        while at < len(starts) and starts[at] <= last:
            start, end = starts[at], ends[at]
            low, high = max(start, begin), min(end, last)
            found += high - low + 1
            if low > start and high < end:
                starts.insert(at + 1, high + 1)
                ends.insert(at, low - 1)
                if len(starts) > MAX_INTERVALS:
                    self._settle_oldest()
                break
            if low > start:
                ends[at] = low - 1
                at += 1
            elif high < end:
                starts[at] = high + 1
                break
            else:
                del starts[at], ends[at]
        return found

    def _settle_oldest(self) -> None:
        half = len(self._starts) // 2
        self._count_runs(self._run_lengths, self._starts[:half], self._ends[:half])
        self._settled_below = self._ends[half - 1] + 1
        self._starts, self._ends = self._starts[half:], self._ends[half:]
        if len(self._run_lengths) > MAX_RUN_LENGTHS and self.error is None:
            self.error = "the losses have more than %d different lengths" % MAX_RUN_LENGTHS
        if self.error is not None:
            self._run_lengths = {}

    @staticmethod
    def _count_runs(into: Dict[int, int], starts: array[int], ends: array[int]) -> None:
        for length_less_one, times in Counter(map(sub, ends, starts)).items():
            into[length_less_one + 1] = into.get(length_less_one + 1, 0) + times

    def report(self) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
        """Return (the result so far, None), or (None, the reason for none)."""
        if self.highest is None:
            return None, "no packet has arrived"
        run_lengths = dict(self._run_lengths)
        self._count_runs(run_lengths, self._starts, self._ends)
        error = self.error
        if error is None and len(run_lengths) > MAX_RUN_LENGTHS:
            error = "the losses have more than %d different lengths" % MAX_RUN_LENGTHS
        if error is not None:
            return None, error
        result = {
            "first": self.first % SEQUENCE_MODULUS,
            "last": self.highest % SEQUENCE_MODULUS,
            "expected_packets": self.highest - self.first + 1,
            "lost_packets": sum(length * times for length, times in run_lengths.items()),
            "lost_runs": {str(length): run_lengths[length] for length in sorted(run_lengths)},
            "reordered_packets": self.reordered_packets,
            "duplicate_packets": self.duplicate_packets,
        }
        return result, None


def bucket_of(gap_ns: int) -> int:
    """Return the lowest gap of the bucket of ``gap_ns``: 128 buckets per octave, each at most 0.8 % wide."""
    shift = gap_ns.bit_length() - 1 - _BUCKET_BITS
    return gap_ns if shift <= 0 else gap_ns >> shift << shift


def bucket_width(lowest_ns: int) -> int:
    """Return the width in ns of the bucket that begins at ``lowest_ns``."""
    return 1 << max(lowest_ns.bit_length() - 1 - _BUCKET_BITS, 0)


class GapStatistics:
    """The distribution of gaps between arrivals. Exact while there are at most MAX_EXACT_GAPS different ones."""

    __slots__ = ("_counts", "_pending", "backward_steps", "bucketed", "gaps", "max_ns", "min_ns", "sum_ns")

    def __init__(self) -> None:
        self.gaps = 0
        self.sum_ns = 0
        self.min_ns: Optional[int] = None
        self.max_ns: Optional[int] = None
        self.backward_steps = 0
        """Arrivals stamped before their predecessor (the clock was stepped): no gap, in no other figure."""
        self.bucketed = False
        self._counts: Dict[int, int] = {}
        self._pending: Dict[int, Counter[int]] = {}

    def pending(self, unit_ns: int) -> Counter[int]:
        """Return the counter for gaps in units of ``unit_ns``; call ``settle`` now and then."""
        counts = self._pending.get(unit_ns)
        if counts is None:
            counts = self._pending[unit_ns] = Counter()
        return counts

    def settle(self, *, at_least: int = MAX_EXACT_GAPS) -> None:
        """Move pending gaps into the distribution if at least this many different ones are pending."""
        if sum(map(len, self._pending.values())) < at_least:
            return
        for unit_ns, pending in self._pending.items():
            if pending:
                self._move(unit_ns, pending)
        self._pending = {}
        if not self.bucketed and len(self._counts) > MAX_EXACT_GAPS:
            self.bucketed = True
            exact, self._counts = self._counts, {}
            for gap_ns, times in exact.items():
                lowest = bucket_of(gap_ns)
                self._counts[lowest] = self._counts.get(lowest, 0) + times

    def _move(self, unit_ns: int, pending: Dict[int, int]) -> None:
        shortest, longest = min(pending) * unit_ns, max(pending) * unit_ns
        self.min_ns = shortest if self.min_ns is None else min(self.min_ns, shortest)
        self.max_ns = longest if self.max_ns is None else max(self.max_ns, longest)
        self.gaps += sum(pending.values())
        self.sum_ns += sum(gap * times for gap, times in pending.items()) * unit_ns
        counts, bucketed = self._counts, self.bucketed
        for gap, times in pending.items():
            gap_ns = bucket_of(gap * unit_ns) if bucketed else gap * unit_ns
            counts[gap_ns] = counts.get(gap_ns, 0) + times

    def _percentile(self, ordered: Sequence[Tuple[int, int]], percent: int) -> int:
        """Return a percentile by nearest rank: the shortest gap that at least ``percent`` % of the gaps do not
        exceed.
        """
        rank = -(-self.gaps * percent // 100)
        gap_ns = ordered[-1][0]
        for candidate_ns, times in ordered:
            rank -= times
            if rank <= 0:
                gap_ns = candidate_ns
                break
        if not self.bucketed:
            return gap_ns
        # the middle of the part of the bucket that can contain gaps
        highest = min(gap_ns + bucket_width(gap_ns) - 1, self.max_ns)  # type: ignore[type-var]
        return (max(gap_ns, self.min_ns) + highest) // 2  # type: ignore[type-var, operator]

    def report(self) -> Optional[Dict[str, Any]]:
        """Return min, mean, p50, p99, max in ns, or None without a single gap."""
        self.settle(at_least=1)
        if not self.gaps:
            return None
        ordered = sorted(self._counts.items())
        return {
            "min": self.min_ns,
            "mean": self.sum_ns / self.gaps,
            "p50": self._percentile(ordered, 50),
            "p99": self._percentile(ordered, 99),
            "max": self.max_ns,
        }


class StreamCounts:
    """All counts of one stream."""

    __slots__ = (
        "arrivals",
        "began_at_ns",
        "bytes",
        "delays",
        "first_at_ns",
        "gaps",
        "last_at_ns",
        "lateness",
        "packets",
        "previous_at_ns",
        "sequence",
        "untimed_packets",
    )

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0
        self.untimed_packets = 0
        self.first_at_ns: Optional[int] = None
        self.last_at_ns: Optional[int] = None
        self.previous_at_ns: Optional[int] = None
        self.sequence = SequenceTracker()
        self.gaps = GapStatistics()
        self.delays: Optional[DelaySamples] = None
        self.arrivals: Optional[StreamArrivals] = None
        self.lateness: Optional[Lateness] = None
        self.began_at_ns: Optional[int] = None
        """Arrival of the first packet, in the order of the capture."""

    def arrived(self, at_ns: Optional[int]) -> None:
        """Add one packet's arrival, after the one reported before. Without a time stamp, the time is not recorded."""
        if at_ns is None:
            self.untimed_packets += 1
            return
        previous = self.previous_at_ns
        if previous is None:
            self.first_at_ns = self.last_at_ns = self.began_at_ns = at_ns
        else:
            if at_ns < previous:
                self.gaps.backward_steps += 1
            else:
                pending = self.gaps.pending(1)
                pending[at_ns - previous] = pending.get(at_ns - previous, 0) + 1
                if len(pending) >= MAX_EXACT_GAPS:
                    self.gaps.settle()
            self.extend_span(at_ns, at_ns)
        self.previous_at_ns = at_ns

    def extend_span(self, earliest_ns: int, latest_ns: int) -> None:
        """Extend the span by packets that were stamped within this one."""
        if self.first_at_ns is None or earliest_ns < self.first_at_ns:
            self.first_at_ns = earliest_ns
        if self.last_at_ns is None or latest_ns > self.last_at_ns:
            self.last_at_ns = latest_ns
