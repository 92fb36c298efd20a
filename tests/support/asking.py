"""Requests made of plain data: of links of tests that answer with plain data, and of agents that know others than ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from labconsole.contracts.ports import AgentLink
from labconsole.wire.codec import MAX_LINE_BYTES
from labconsole.wire.message import M, Message, R, Request
from labconsole.wire.rules import plain
from support.requests import REQUESTS


class Asking:
    """Beside it stands ``request(op, args, *, timeout_s)``."""

    async def ask(self: Any, request: Request[R], *, timeout_s: float = 30.0) -> R:
        type(request).parse(request.arguments())  # as an agent reads it: what was left out may have to be there
        answer = await self.request(request.op, request.arguments(), timeout_s=timeout_s)
        return request.reply.parse(answer)  # type: ignore[return-value]


async def asked(link: AgentLink, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> Any:
    """What a link says to ``op``, as plain data; an operation that no class knows may be answered with anything."""
    anything = SimpleNamespace(parse=plain(characters=MAX_LINE_BYTES))
    reply = REQUESTS[op].reply if op in REQUESTS else anything
    request = SimpleNamespace(op=op, arguments=lambda: args or {}, reply=reply, misfit=lambda reply: None)
    answer = await link.ask(cast("Request[Any]", request), timeout_s=timeout_s)
    return answer.to_wire() if isinstance(answer, Message) else answer


def partly(cls: type[M], data: dict[str, Any]) -> M:
    """A message of which a test says only what is looked at."""
    message = object.__new__(cls)
    hints = get_type_hints(cls, include_extras=True)
    message.__dict__.update({name: _partly(hints[name], value) for name, value in data.items()})
    return message


def _partly(hint: Any, value: Any) -> Any:
    if value is None or isinstance(value, Message):
        return value
    if get_origin(hint) in (Annotated, Union):
        return _partly(get_args(hint)[0], value)
    if isinstance(hint, type) and issubclass(hint, Message):
        return partly(hint, value)
    if get_origin(hint) is list:
        return [_partly(get_args(hint)[0], item) for item in value]
    if get_origin(hint) is dict:
        return {key: _partly(get_args(hint)[1], item) for key, item in value.items()}
    return value
