"""Interface counters: read once, sampled in turn, kept still in a quiet window.

``counters`` is the hot event (100 nodes at 10 Hz): all its numbers are checked at once, which costs half of what
parsing the line does (measured at 8 interfaces: 6 us beside 11 us, row by row with min and max 18 us).
"""

from __future__ import annotations

from array import array
from typing import Annotated, Any, Dict, List

from labconsole.wire.links import MAX_INTERFACES
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Check, Count, Rule, bad, between, name, printable

MAX_NAMESPACES = 256
MAX_STATISTICS = 64
"""A newer kernel may have more than the 25 we know; a row longer than this is none of a kernel's."""


def statistics(*, named: bool) -> Check:
    """``{namespace: [[index, numbers], ...]}``; if ``named``, rows are [index, name, numbers]."""
    width = 3 if named else 2

    def check(namespaces: Any, where: str) -> Any:
        if type(namespaces) is not dict or len(namespaces) > MAX_NAMESPACES:
            raise bad(where, "is not an object of at most %d" % MAX_NAMESPACES)
        indices: List[Any] = []
        numbers: List[Any] = []
        for namespace, rows in namespaces.items():
            if not printable(namespace):
                raise bad(where, "has an invalid name")
            if type(rows) is not list or len(rows) > MAX_INTERFACES:
                raise bad(where, "has an entry that is not a list of at most %d rows" % MAX_INTERFACES)
            for row in rows:
                if type(row) is not list or len(row) != width:
                    raise bad(where, "has a row without exactly %d entries" % width)
                values = row[-1]
                if type(values) is not list or not 0 < len(values) <= MAX_STATISTICS:
                    raise bad(where, "has a row with values that are not numbers")
                if named:
                    row[1] = name(row[1], "an interface")
                indices.append(row[0])
                numbers += values
        if not indices:
            return namespaces
        # The set of types also refuses true and false, which isinstance would let pass for whole numbers.
        if set(map(type, indices)) != {int} or min(indices) < 0 or max(indices) >= 2**31:
            raise bad(where, "has an invalid interface index")
        if set(map(type, numbers)) != {int}:
            raise bad(where, "has a statistic that is not a whole number")
        try:
            array("Q", numbers)  # takes just 0..2^64-1, and seven times as fast as min and max do
        except OverflowError:
            raise bad(where, "has a statistic that is not a 64-bit count") from None
        return namespaces

    return check


class InterfaceCounters(Message):
    """``namespaces``: of each namespace ("" is the node's own), rows of index, name and the kernel's statistics."""

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(statistics(named=True))]


class ReadCounters(Request[InterfaceCounters], op="counters.read", watches=True):
    """Ask for the counters now."""


class StartCounters(Request[Done], op="counters.start", watches=True):
    """Begin ``counters`` events."""

    interval_s: Annotated[float, Rule(between(0.001, 3600))]


class StopCounters(Request[Done], op="counters.stop", watches=True):
    """End ``counters`` events."""


class KeptSamples(Message):
    """How many samples of a quiet window were sent, and how many due samples are missing."""

    samples: Count
    missed: Count


class KeepQuiet(Request[KeptSamples], op="counters.quiet"):
    """On: samples are kept in memory (at most 65 536 or 64 MiB) instead of sent, and ``links`` events wait too.

    Off: replies after the samples were sent, as ``counters`` events with ``late`` true.
    """

    on: bool


class CountersSampled(AgentEvent, kind="counters"):
    """One sample; ``namespaces`` has rows of index and statistics.

    ``missed`` counts the samples before this one that were due and are missing: the node was too busy, or more than
    1 MiB waited for the console.
    """

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(statistics(named=False))]
    missed: Count
    late: bool
