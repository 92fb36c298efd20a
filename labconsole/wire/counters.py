"""Interface counters: read once, sampled in turn, kept still in a quiet window.

``counters`` is the hot event (100 nodes at 10 Hz): all its numbers are checked at once, which costs half of what
parsing the line does (measured at 8 interfaces with all numbers sent: 6 us beside 11 us, row by row with min and max
18 us).
"""

from __future__ import annotations

from array import array
from typing import Annotated, Any, Callable, Dict, List

from labconsole.wire.links import MAX_INTERFACES
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Rule, bad, between, name, printable

MAX_NAMESPACES = 256
MAX_STATISTICS = 64
"""A newer kernel may have more than the 25 we know; a row longer than this is none of a kernel's."""

MAX_SAMPLED = 2**20
"""Of all rows together, with the zeros that are not sent: 40 000 interfaces of 25 statistics."""

_ZEROS = [0] * MAX_STATISTICS


def _check_rows(namespaces: Any, where: str, length_of: Callable[[List[Any], str], int]) -> Any:
    """Rows of three with the index first and the statistics last; ``length_of`` says how many statistics a row has."""
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
            if not 0 < length <= MAX_STATISTICS:
                raise bad(where, "has a row with values that are not numbers")
            statistics += length
            indices.append(row[0])
            numbers += row[2]
    if statistics > MAX_SAMPLED:
        raise bad(where, "has more than %d statistics" % MAX_SAMPLED)
    # The sets of types also refuse true and false, which isinstance would let pass for whole numbers.
    if indices and (set(map(type, indices)) != {int} or min(indices) < 0 or max(indices) >= 2**31):
        raise bad(where, "has an invalid interface index")
    if numbers and set(map(type, numbers)) != {int}:
        raise bad(where, "has a statistic that is not a whole number")
    try:
        array("Q", numbers)  # takes just 0..2^64-1, and seven times as fast as min and max do
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
    """As rows of index and all statistics."""
    for rows in _check_rows(namespaces, where, _sampled_length).values():
        for row in rows:
            length, values = row.pop(1), row[1]
            values += _ZEROS[: length - len(values)]
    return namespaces


class InterfaceCounters(Message):
    """``namespaces``: of each namespace ("" is the node's own), rows of index, name and the kernel's statistics."""

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(_named)]


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
    """One sample; on the wire ``namespaces`` has rows of index, number of statistics, and these without the zeros
    at the end.

    ``missed`` counts the samples before this one that were due and are missing: the node was too busy, or more than
    1 MiB waited for the console.
    """

    monotonic_ns: Count
    wall_ns: Count
    namespaces: Annotated[Dict[str, List[List[Any]]], Rule(_sampled)]
    missed: Count
    late: bool
