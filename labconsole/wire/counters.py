"""Interface counters: read once, sampled periodically, kept back in a quiet window.

``counters`` is the hot event (100 nodes at 10 Hz): all its numbers are checked at once, which takes half as long as
parsing the line (measured at 8 interfaces with all numbers sent: 6 us compared with 11 us; row by row with min and max,
18 us).
"""

from __future__ import annotations

from array import array
from typing import Annotated, Any, Callable, Dict, List

from labconsole.wire.links import MAX_INTERFACES
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Rule, bad, between, name, printable

MAX_NAMESPACES = 256
MIN_STATISTICS, MAX_STATISTICS = 23, 64
"""Fewest and most statistics in a row. The oldest kernel with these counters (2.6.35) has 23 of the 25 known here. A
newer one may have more, and none has more than this.
"""

MAX_SAMPLED = 2**20
"""Most numbers in all rows together, including the zeros that are not sent: 40 000 interfaces of 25 statistics."""

_ZEROS = [0] * MAX_STATISTICS


def _check_rows(namespaces: Any, where: str, length_of: Callable[[List[Any], str], int]) -> Any:
    """Check rows of three, index first and statistics last; ``length_of`` returns how many statistics a row has."""
    if type(namespaces) is not dict or len(namespaces) > MAX_NAMESPACES:
        raise bad(where, "is not an object of at most %d" % MAX_NAMESPACES)
    indices: List[Any] = []
    numbers: List[Any] = []
    statistics = 0
    for namespace, rows in namespaces.items():
        if not printable(namespace):
            raise bad(where, "has an invalid name")
        if type(rows) is not list or len(rows) > MAX_INTERFACES:
            raise bad(where, "has an entry that is not a list of at most %d rows" % MAX_INTERFACES)
        for row in rows:
            if type(row) is not list or len(row) != 3:
                raise bad(where, "has a row without exactly 3 entries")
            length = length_of(row, where) if type(row[2]) is list else 0
            if not MIN_STATISTICS <= length <= MAX_STATISTICS:
                raise bad(where, "has a row that is not of %d to %d numbers" % (MIN_STATISTICS, MAX_STATISTICS))
            statistics += length
            indices.append(row[0])
            numbers += row[2]
    if statistics > MAX_SAMPLED:
        raise bad(where, "has more than %d statistics" % MAX_SAMPLED)
    # The sets of types also refuse true and false, which isinstance would accept as whole numbers.
    if indices and (set(map(type, indices)) != {int} or min(indices) < 0 or max(indices) >= 2**31):
        raise bad(where, "has an invalid interface index")
    if numbers and set(map(type, numbers)) != {int}:
        raise bad(where, "has a statistic that is not a whole number")
    try:
        array("Q", numbers)  # accepts just 0..2^64-1, and seven times as fast as min and max
    except OverflowError:
        raise bad(where, "has a statistic that is not a 64-bit count") from None
    return namespaces


def _named_length(row: List[Any], where: str) -> int:
    row[1] = name(row[1], "an interface")
    return len(row[2])


def _sampled_length(row: List[Any], where: str) -> int:
    if type(row[1]) is not int or len(row[2]) > row[1]:
        raise bad(where, "has a row with more statistics than it says")
    return row[1]


def _named(namespaces: Any, where: str) -> Any:
    return _check_rows(namespaces, where, _named_length)


def _sampled(namespaces: Any, where: str) -> Any:
    """Return the rows as index and all statistics."""
    for rows in _check_rows(namespaces, where, _sampled_length).values():
        for row in rows:
            length, values = row.pop(1), row[1]
            values += _ZEROS[: length - len(values)]
    return namespaces


class InterfaceCounters(Message):
    """``namespaces``: for each namespace ("" is the node's own), rows of index, name and the kernel's statistics."""

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(_named)]


class ReadCounters(Request[InterfaceCounters], op="counters.read", watches=True):
    """Request the counters now."""


class StartCounters(Request[Done], op="counters.start", watches=True):
    """Start ``counters`` events."""

    interval_s: Annotated[float, Rule(between(0.001, 3600))]


class StopCounters(Request[Done], op="counters.stop", watches=True):
    """Stop ``counters`` events."""


class KeptSamples(Message):
    """Number of samples of a quiet window that were sent, and of due samples that are missing."""

    samples: Count
    missed: Count


class KeepQuiet(Request[KeptSamples], op="counters.quiet"):
    """On: keep samples in memory (at most 65 536 or 64 MiB) instead of sending them, and delay ``links`` events too.

    Off: replies after the samples were sent, as ``counters`` events with ``late`` true.
    """

    on: bool


class CountersSampled(AgentEvent, kind="counters"):
    """One sample. On the wire, ``namespaces`` has rows of index, number of statistics, and these without the zeros at
    the end.

    ``missed`` counts the due samples missing just before this one: the node was too busy, or more than 1 MiB waited for
    the console.
    """

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(_sampled)]
    missed: Count
    late: bool
