"""What the console keeps of a message that came in, as plain data. All raise WireError."""

from __future__ import annotations

from typing import Any

from labconsole.nodes.channel import read_event, read_hello, read_reply
from labconsole.wire.message import Refusal
from labconsole.wire.rules import bad
from support.requests import REQUESTS

Message = dict[str, Any]


def kept_reply(op: str, message: Message) -> Message:
    """The answer to a request: ``ok`` or ``error``, and its id."""

    def unknown(value: Any, where: str) -> Any:
        raise bad(where, "answers an operation of no agent")

    check = REQUESTS[op].reply.parse if op in REQUESTS else unknown
    reply = read_reply(op, check, message)
    numbered = {"id": message["id"]} if "id" in message else {}
    if isinstance(reply, Refusal):
        return {**numbered, "error": {"detail": None, **reply.to_wire()}}
    return {**numbered, "ok": reply.to_wire()}


def kept_event(message: Message) -> Message | None:
    """An event, or None for one of an unknown kind."""
    event = read_event(dict(message))
    return None if event is None else {"event": event.kind, **event.to_wire()}


def kept_hello(message: Message) -> Message:
    """The first line of an agent."""
    return {"event": "hello", **read_hello(message).to_wire()}
