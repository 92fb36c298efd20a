"""Checks an agent's messages before other code sees them: its hello, its events, its answers.

A node is not trusted: a wrong type deep inside a message would otherwise end as a traceback in the engine or the
console. Names and sentences are cleaned rather than refused, because an interface's name may really contain an escape
sequence. The class of a message defines its format (labconsole/wire).
"""

from __future__ import annotations

from typing import Any

from labconsole.wire.catalogue import EVENTS
from labconsole.wire.codec import PROTOCOL, WireError
from labconsole.wire.message import AgentEvent, Refusal
from labconsole.wire.rules import Check, bad, count
from labconsole.wire.session import Hello


def read_hello(message: dict[str, Any]) -> Hello:
    """Parse the first line of an agent. Raises WireError."""
    protocol = count(message.get("protocol"), "protocol")
    if protocol != PROTOCOL:
        raise WireError("protocol", f"the agent speaks protocol {protocol}, this console {PROTOCOL}")
    return Hello.parse({key: value for key, value in message.items() if key != "event"}, "hello")


def read_event(message: dict[str, Any]) -> AgentEvent | None:
    """Parse one event, or return None for an unknown kind. Removes the kind from ``message``.

    Raises WireError naming the kind and the problem.
    """
    kind = message.get("event")
    if type(kind) is not str:
        raise bad("event", "is not a name")
    if kind not in EVENTS:
        return None
    del message["event"]
    try:
        return EVENTS[kind].parse(message, "the event")
    except WireError as exc:
        raise WireError(exc.code, f"{kind}: {exc.message}") from None


def read_reply(op: str, check: Check, message: dict[str, Any]) -> Any:
    """Parse the answer to ``op``: its ``ok`` by ``check``, or its error as a Refusal.

    Raises WireError naming the operation and the problem.
    """
    try:
        if "error" in message:
            return Refusal.parse(message["error"], "error")
        return check(message.get("ok"), "ok")
    except WireError as exc:
        raise WireError(exc.code, f"{op}: {exc.message}") from None
