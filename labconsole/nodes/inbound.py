"""What an agent may send unasked, checked kind by kind before anybody else sees it.

A node is not trusted: a wrong type deep inside an event would otherwise end as a traceback in the engine or the
console. Names and sentences are cleaned in place rather than refused, because an interface may really have an escape
sequence for a name. ``counters`` is the hot one (100 nodes at 10 Hz): its rows are checked by set and min/max, which
costs less than parsing the line did (measured at 8 interfaces: 48 us beside 57 us).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from labconsole.agent.wire import PROTOCOL, WireError
from labconsole.nodes.text import clean

MAX_NAMESPACES = 256
MAX_INTERFACES = 4096
MAX_STREAMS = 256
MAX_NAME = 255
MAX_MESSAGE = 4096
MAX_DEPTH = 6
MAX_ITEMS = 100_000
MAX_STATISTICS = 64
"""A newer kernel may have more than the 25 we know; a row longer than this is none of a kernel's."""
_U64 = 2**64
_S64 = 2**63


def check_event(message: dict[str, Any]) -> str | None:
    """Check one event in place and return its kind, or None for a kind this console does not know.

    Raises WireError("bad_event") naming what is wrong.
    """
    kind = message.get("event")
    if not isinstance(kind, str):
        raise _bad("event", "is not a name")
    check = _CHECKS.get(kind)
    if check is None:
        return None
    check(message)
    return kind


def check_hello(message: dict[str, Any]) -> None:
    """Check the first line of an agent in place. Raises WireError."""
    _int(message, "protocol")
    if message["protocol"] != PROTOCOL:
        raise WireError("protocol", f"the agent speaks protocol {message['protocol']}, this console {PROTOCOL}")
    for key in ("version", "python", "hostname", "kernel"):
        _text(message, key, MAX_NAME, optional=True)
    for key in ("pid", "euid"):
        _int(message, key, optional=True)
    for key in ("monotonic_ns", "wall_ns"):
        _int(message, key)
    _plain(message, "hello")


def check_clock(message: dict[str, Any]) -> tuple[int, int]:
    """The (monotonic_ns, wall_ns) of a ``ping`` reply. Raises WireError."""
    return _int(message, "monotonic_ns"), _int(message, "wall_ns")


def check_reply(message: dict[str, Any]) -> None:
    """Check the outer form of a reply: ``ok`` an object, or ``error`` with code and message. Raises WireError."""
    if "error" in message:
        error = message["error"]
        if not isinstance(error, dict):
            raise _bad("error", "is not an object")
        _text(error, "code", 64)
        _text(error, "message", MAX_MESSAGE)
    elif not isinstance(message.get("ok"), dict):
        raise _bad("ok", "is not an object")


def _bad(where: str, what: str) -> WireError:
    return WireError("bad_event", f"{where} {what}")


def _int(message: dict[str, Any], key: str, limit: int = _S64, *, optional: bool = False) -> int:
    value = message.get(key)
    if value is None and optional:
        return 0
    if type(value) is not int or not 0 <= value < limit:
        raise _bad(key, "is not a whole number from 0")
    return value


def _text(message: dict[str, Any], key: str, limit: int, *, optional: bool = False) -> None:
    value = message.get(key)
    if value is None and optional:
        return
    if not isinstance(value, str):
        raise _bad(key, "is not text")
    if limit == MAX_NAME and len(value) > limit:
        raise _bad(key, f"is longer than {limit} characters")
    message[key] = clean(value, limit)


def _bool(message: dict[str, Any], key: str, *, optional: bool = False) -> None:
    value = message.get(key)
    if value is None and optional:
        return
    if not isinstance(value, bool):
        raise _bad(key, "is not true or false")


def _list(message: dict[str, Any], key: str, limit: int) -> list[Any]:
    value = message.get(key)
    if not isinstance(value, list) or len(value) > limit:
        raise _bad(key, f"is not a list of at most {limit}")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(where, "is not an object")
    return value


def _plain(value: Any, where: str) -> None:
    """Refuse what no reader is prepared for: numbers that are not finite or exceed 64 bits, deep nesting, floods."""
    left = MAX_ITEMS
    todo: list[tuple[Any, int]] = [(value, 0)]
    while todo:
        item, depth = todo.pop()
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise _bad(where, "is nested too deeply or holds too much")
        if isinstance(item, dict):
            if any(len(key) > MAX_NAME for key in item):
                raise _bad(where, "has a key that is too long")
            todo.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            todo.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise _bad(where, "has a number that is none")
        elif isinstance(item, int) and not -_S64 <= item < _U64:
            raise _bad(where, "has a number beyond 64 bits")


def _counters(message: dict[str, Any]) -> None:
    _int(message, "monotonic_ns")
    _int(message, "wall_ns")
    _int(message, "missed", optional=True)
    _bool(message, "late", optional=True)
    namespaces = _object(message.get("namespaces"), "namespaces")
    if len(namespaces) > MAX_NAMESPACES:
        raise _bad("namespaces", f"are more than {MAX_NAMESPACES}")
    for namespace, rows in namespaces.items():
        if len(namespace) > MAX_NAME or not namespace.isprintable():
            raise _bad("namespaces", "has a name that is none")
        if not isinstance(rows, list) or len(rows) > MAX_INTERFACES:
            raise _bad("namespaces", f"has one that is not a list of at most {MAX_INTERFACES} rows")
        for row in rows:
            if type(row) is not list or len(row) != 2:
                raise _bad("counters", "has a row that is not [index, numbers]")
            index, numbers = row
            if type(index) is not int or not 0 <= index < 2**31:
                raise _bad("counters", "has an interface index that is none")
            if type(numbers) is not list or not 0 < len(numbers) <= MAX_STATISTICS:
                raise _bad("counters", "has a row without numbers")
            # The set of types also refuses true and false, which isinstance would let pass for whole numbers.
            if set(map(type, numbers)) != {int} or min(numbers) < 0 or max(numbers) >= _U64:
                raise _bad("counters", "has a number that is no 64-bit count")


def _links(message: dict[str, Any]) -> None:
    for item in _list(message, "links", MAX_INTERFACES):
        check_link(item)


def check_link(item: Any) -> None:
    """Check one interface of ``links`` in place. Raises WireError."""
    link = _object(item, "a link")
    _int(link, "index", 2**31)
    for key, optional in (("name", False), ("namespace", True), ("mac", True), ("kind", True), ("driver", True)):
        _text(link, key, MAX_NAME, optional=optional)
    for key in ("mtu", "speed_bps"):
        _int(link, key, optional=True)
    for key in ("up", "carrier"):
        _bool(link, key, optional=True)
    _plain(link, "a link")


def _streams(message: dict[str, Any], *, results: bool) -> None:
    for item in _list(message, "streams", MAX_STREAMS):
        stream = _object(item, "a stream")
        _text(stream, "stream", MAX_NAME)
        _plain(stream, "a stream")
        stream.update({key: clean(value, MAX_MESSAGE) for key, value in stream.items() if isinstance(value, str)})
        for key in ("sent_packets",) if results else ("sent_packets", "errors"):
            _int(stream, key, _U64, optional=True)


def _generator(message: dict[str, Any]) -> None:
    _int(message, "monotonic_ns")
    _streams(message, results=False)


def _generator_done(message: dict[str, Any]) -> None:
    _streams(message, results=True)


def _capture_died(message: dict[str, Any]) -> None:
    _text(message, "capture", MAX_NAME)
    _text(message, "message", MAX_MESSAGE)


def _notice(message: dict[str, Any]) -> None:
    _text(message, "code", MAX_NAME)
    _text(message, "message", MAX_MESSAGE)


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "counters": _counters,
    "links": _links,
    "generator": _generator,
    "generator.done": _generator_done,
    "capture.died": _capture_died,
    "notice": _notice,
}
