"""What an agent may send unasked, checked kind by kind before anybody else sees it.

A node is not trusted: a wrong type deep inside an event would otherwise end as a traceback in the engine or the
console. Names and sentences are cleaned in place rather than refused, because an interface may really have an escape
sequence for a name. ``counters`` is the hot one (100 nodes at 10 Hz): all its numbers are checked at once, which costs
half of what parsing the line does (measured at 8 interfaces: 6 us beside 11 us, row by row with min and max 18 us).
"""

from __future__ import annotations

import re
from array import array
from typing import Any

from labconsole.agent.wire import PROTOCOL, WireError
from labconsole.nodes.checks import (
    S64,
    Check,
    bad,
    count,
    fields,
    flag,
    lines,
    listed,
    maybe,
    name,
    plain,
    printable,
    sentence,
    whole,
)

MAX_NAMESPACES = 256
MAX_INTERFACES = 4096
MAX_STREAMS = 256
MAX_CPUS = 4096
MAX_RAW = 65_536
"""Characters of a generator's own report: pktgen's file is a page."""
MAX_STATISTICS = 64
"""A newer kernel may have more than the 25 we know; a row longer than this is none of a kernel's."""

_OTHERS = plain()


def check_event(message: dict[str, Any]) -> str | None:
    """Check one event in place and return its kind, or None for a kind this console does not know.

    Raises WireError naming the kind and what is wrong.
    """
    kind = message.get("event")
    if type(kind) is not str:
        raise bad("event", "is not a name")
    check = _CHECKS.get(kind)
    if check is None:
        return None
    try:
        check(message, "the event")
    except WireError as exc:
        raise WireError(exc.code, f"{kind}: {exc.message}") from None
    return kind


def check_hello(message: dict[str, Any]) -> None:
    """Check the first line of an agent in place. Raises WireError."""
    protocol = count(message.get("protocol"), "protocol")
    if protocol != PROTOCOL:
        raise WireError("protocol", f"the agent speaks protocol {protocol}, this console {PROTOCOL}")
    for key in ("version", "python", "hostname", "kernel"):
        if message.get(key) is not None:
            message[key] = name(message[key], key)
    for key in ("pid", "euid"):
        maybe(count)(message.get(key), key)
    for key in ("monotonic_ns", "wall_ns"):
        count(message.get(key), key)
    message.update(_OTHERS(message, "hello"))


def check_statistics(namespaces: Any, *, named: bool) -> None:
    """Check ``{namespace: [[index, numbers], ...]}`` in place; if ``named``, rows are [index, name, numbers].

    Raises WireError.
    """
    if type(namespaces) is not dict or len(namespaces) > MAX_NAMESPACES:
        raise bad("namespaces", f"is not an object of at most {MAX_NAMESPACES}")
    width = 3 if named else 2
    indices: list[Any] = []
    numbers: list[Any] = []
    for namespace, rows in namespaces.items():
        if not printable(namespace):
            raise bad("namespaces", "has a name that is none")
        if type(rows) is not list or len(rows) > MAX_INTERFACES:
            raise bad("namespaces", f"has one that is not a list of at most {MAX_INTERFACES} rows")
        for row in rows:
            if type(row) is not list or len(row) != width:
                raise bad("namespaces", f"has a row that is not of {width}")
            values = row[-1]
            if type(values) is not list or not 0 < len(values) <= MAX_STATISTICS:
                raise bad("namespaces", "has a row without numbers")
            if named:
                row[1] = name(row[1], "an interface")
            indices.append(row[0])
            numbers += values
    if not indices:
        return
    # The set of types also refuses true and false, which isinstance would let pass for whole numbers.
    if set(map(type, indices)) != {int} or min(indices) < 0 or max(indices) >= 2**31:
        raise bad("namespaces", "has an interface index that is none")
    if set(map(type, numbers)) != {int}:
        raise bad("namespaces", "has a statistic that is not a whole number")
    try:
        array("Q", numbers)  # takes just 0..2^64-1, and seven times as fast as min and max do
    except OverflowError:
        raise bad("namespaces", "has a statistic that is no 64-bit count") from None


_COUNTERS_KEYS = frozenset({"event", "monotonic_ns", "wall_ns", "namespaces", "missed", "late"})


def _counters(message: dict[str, Any], where: str) -> None:
    try:
        at_ns, wall_ns, missed = message["monotonic_ns"], message["wall_ns"], message["missed"]
        late, namespaces = message["late"], message["namespaces"]
    except KeyError as exc:
        raise bad(where, f"has no {exc.args[0]}") from None
    if not (type(at_ns) is type(wall_ns) is type(missed) is int):
        raise bad("monotonic_ns, wall_ns or missed", "is not a whole number")
    if not (0 <= at_ns < S64 and 0 <= wall_ns < S64 and 0 <= missed < S64):
        raise bad("monotonic_ns, wall_ns or missed", "is not from 0")
    if type(late) is not bool:
        raise bad("late", "is not true or false")
    check_statistics(namespaces, named=False)
    if len(message) > len(_COUNTERS_KEYS):
        message.update(_OTHERS({key: message[key] for key in message.keys() - _COUNTERS_KEYS}, where))


_HARDWARE_ADDRESS = re.compile(r"(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){0,31})?\Z")


def hardware_address(value: Any, where: str) -> str:
    """A link's address, of whatever length its kind has. What one node says here, others are told."""
    if type(value) is not str or not _HARDWARE_ADDRESS.match(value):
        raise bad(where, "is not a hardware address")
    return value


INDEX = whole(0, 2**31 - 1)
LINKS = listed(
    fields(
        {
            "namespace": name,
            "index": INDEX,
            "name": name,
            "mac": maybe(hardware_address),
            "mtu": maybe(count),
            "kind": maybe(name),
            "driver": maybe(name),
            "up": flag,
            "carrier": maybe(flag),
            "speed_bps": maybe(count),
        }
    ),
    MAX_INTERFACES,
)
"""The interfaces of a node."""

RESULTS = listed(
    fields(
        {
            "stream": name,
            "generator": name,
            "version": maybe(name),
            "interface": name,
            "sent_packets": maybe(count),
            "errors": maybe(count),
            "error_text": maybe(sentence),
            "started_monotonic_ns": maybe(count),
            "stopped_monotonic_ns": maybe(count),
            "started_wall_ns": maybe(count),
            "elapsed_ns": maybe(count),
            "idle_ns": maybe(count),
            "delay_ns": count,
            "burst_packets": maybe(count),
            "requested_count": maybe(count),
            "stopped_by": name,
            "raw": maybe(lines(MAX_RAW)),
        }
    ),
    MAX_STREAMS,
)
"""What the streams of a generator have come to."""

HOLDER: dict[str, Check] = {
    "owner": maybe(sentence),
    "purpose": maybe(sentence),
    "observe": maybe(name),
    "quiet": maybe(flag),
    "since_wall_ns": maybe(count),
    "until_wall_ns": maybe(count),
}
"""Who holds a lease, as far as that is said."""

_PROGRESS = listed(fields({"stream": name, "sent_packets": maybe(count), "errors": maybe(count)}), MAX_STREAMS)

_CHECKS: dict[str, Check] = {
    "counters": _counters,
    "links": fields({"event": name, "links": LINKS}),
    "generator": fields({"event": name, "monotonic_ns": count, "streams": _PROGRESS}),
    "generator.done": fields({"event": name, "streams": RESULTS}),
    "capture.died": fields({"event": name, "capture": name, "message": sentence}),
    "guest.ended": fields({"event": name, "guest": name, "message": sentence}),
    "lease": fields({"event": name, "holder": maybe(fields(HOLDER)), "quiet": flag}),
    "lease_lost": fields({"event": name, "by": sentence, "purpose": sentence}),
    "notice": fields({"event": name, "code": name, "message": sentence}),
}
