"""The queue that guests share by weights: its classes, and rate changes while it is in use."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import AgentEvent, Message, Request
from labconsole.wire.rules import Count, Most, Rule, Sentence, Word, above, bad, whole

MAX_CLASSES = 64
MAX_CHANGES = 1000
MAX_BEGIN_S = 600
MAX_EVERY_S = 3600

LEAST_CLASS_BPS, MOST_CLASS_BPS = 8_000, 680 * 10**9
ClassRate = Annotated[int, Rule(whole(LEAST_CLASS_BPS, MOST_CLASS_BPS))]
"""In bit/s; the kernel counts in bytes per second."""

MOST_BURST_S = 274
"""Longest burst in seconds: the kernel stores a burst as its duration, in 32 bits of 64 ns."""

Burst = Annotated[int, Rule(whole(64, 2**31 - 1))]
"""In bytes."""

Rates = Annotated[List[ClassRate], Most(MAX_CLASSES)]


class QueueClass(Message):
    """One guest's class in the kernel. A field is None if the class does not exist or does not report it."""

    rate_bps: Optional[Count]
    most_bps: Optional[Count]
    packets: Optional[Count]
    dropped_packets: Optional[Count]


class QueueState(Message):
    """The guests' classes, in order."""

    classes: Annotated[List[QueueClass], Most(MAX_CLASSES)]


class ReadQueue(Request[QueueState], op="queue.read"):
    """Request the classes of a shared queue that has ``classes`` of them."""

    queue: Word
    classes: Annotated[int, Rule(whole(1, MAX_CLASSES))]


class TakenChange(Message):
    """One set of rates. Times are those of the node's CLOCK_MONOTONIC: when the set was due, when the last of its
    classes got its rate, and when the rates were read back, or None if the change was not made. ``rates_bps``: as read
    back, in order, None for a class that does not exist. ``kept_bps``: the same just before the next set was due, None
    for the last set. ``complaint``: why a class could not be changed.
    """

    due_ns: Count
    taken_ns: Optional[Count]
    read_ns: Optional[Count]
    rates_bps: Annotated[List[Optional[Count]], Most(MAX_CLASSES)]
    kept_bps: Optional[Annotated[List[Optional[Count]], Most(MAX_CLASSES)]] = None
    complaint: Optional[Sentence] = None


class TakenChanges(Message):
    """``begun_ns``: when the queue was first seen in use, or None if it never was; then nothing was changed.
    ``looked_ns``: the last look at which it was not in use.
    """

    looked_ns: Optional[Count]
    begun_ns: Optional[Count]
    changes: Annotated[List[TakenChange], Most(MAX_CHANGES)]

    def check_fields(self) -> None:
        """Check that nothing changed before the beginning."""
        if self.begun_ns is None and self.changes:
            raise bad("changes", "were made in a queue that was never in use")


class ChangeRates(Request[TakenChanges], op="queue.change"):
    """Wait until a shared queue is in use, then give its classes these rates in order, one set every ``every_s`` from
    there. The first set is the current one and is only read back. ``most_bps``, ``burst_bytes``: values of each class
    that stay as they are.
    """

    queue: Word
    rates_bps: Annotated[List[Rates], Most(MAX_CHANGES)]
    most_bps: Rates
    burst_bytes: Burst
    every_s: Annotated[float, Rule(above(0, MAX_EVERY_S))]
    begin_s: Annotated[float, Rule(above(0, MAX_BEGIN_S))]

    def check_fields(self) -> None:
        """Check that every set has the same number of classes."""
        if not self.rates_bps or not self.most_bps or {len(each) for each in self.rates_bps} != {len(self.most_bps)}:
            raise bad("rates_bps", "is not a list of sets of as many classes as most_bps")
        if self.burst_bytes * 8 > MOST_BURST_S * min(min(each, default=MOST_CLASS_BPS) for each in self.rates_bps):
            raise bad("burst_bytes", "is more than a class gets in %d s" % MOST_BURST_S)


class RatesTaken(AgentEvent, kind="queue.changed"):
    """A shared queue has had the set at ``place`` of its changes, from 0, since ``taken_ns`` of the node's
    CLOCK_MONOTONIC. ``rates_bps``: as read back. The reply to ``queue.change`` says more.
    """

    queue: Word
    place: Count
    taken_ns: Count
    rates_bps: Annotated[List[Optional[Count]], Most(MAX_CLASSES)]
