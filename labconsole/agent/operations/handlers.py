"""Which method answers which request: the method says so itself, with the request's class above it.

A method is asynchronous, takes an object of that class and returns one of the class's reply. It is a method of one of
the agent's parts (agent/parts.py).
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, NamedTuple, Optional, Type, TypeVar

from labconsole.wire.codec import WireError
from labconsole.wire.message import Message, Request

F = TypeVar("F", bound=Callable[[Any, Any], Awaitable[Message]])


class Operation(NamedTuple):
    """One thing that can be asked."""

    request: Type[Request[Any]]
    answer: Callable[[Any], Awaitable[Message]]
    first: Optional[Callable[[], None]]

    async def __call__(self, args: Dict[str, Any]) -> Dict[str, Any]:
        """Plain arguments in, plain data out. Raises WireError."""
        if self.first is not None:
            self.first()
        try:
            request = self.request.parse(args, self.request.op)
        except WireError as exc:
            raise WireError("bad_request", exc.message, exc.detail) from None
        return (await self.answer(request)).to_wire()


def handles(request: Type[Request[Any]], first: Optional[Callable[[], None]] = None) -> Callable[[F], F]:
    """Mark a method as the one that answers ``request``. ``first`` imports what the request is read with."""

    def mark(method: F) -> F:
        method.request, method.first = request, first  # type: ignore[attr-defined]
        return method

    return mark


def find_operations(owner: object) -> Dict[str, Operation]:
    """Every operation that this object answers, by its name on the wire."""
    found: Dict[str, Operation] = {}
    for name, method in vars(type(owner)).items():
        request = getattr(method, "request", None)
        if isinstance(request, type) and issubclass(request, Request):
            found[request.op] = Operation(request, getattr(owner, name), method.first)
    return found
