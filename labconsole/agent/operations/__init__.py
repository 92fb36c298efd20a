"""Requests that a console can send to the agent, one module per subject, and which method handles which request."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, NamedTuple, Optional, Type, TypeVar

from labconsole.wire.codec import WireError
from labconsole.wire.message import Message, Request

# -- handlers ----------------------------------------------------------------------------------------------------------
# Which method handles which request: the decorator above a method names the request's class.
#
# A method is asynchronous, takes an object of that class and returns one of the class's reply. It belongs to one of the
# agent's parts (agent/parts.py).

F = TypeVar("F", bound=Callable[[Any, Any], Awaitable[Message]])


class Operation(NamedTuple):
    """One operation that a console can request."""

    request: Type[Request[Any]]
    answer: Callable[[Any], Awaitable[Message]]
    first: Optional[Callable[[], None]]

    async def __call__(self, args: Dict[str, Any]) -> Dict[str, Any]:
        """Take plain arguments and return plain data. Raises WireError."""
        if self.first is not None:
            self.first()
        try:
            request = self.request.parse(args, self.request.op)
        except WireError as exc:
            raise WireError("bad_request", exc.message, exc.detail) from None
        return (await self.answer(request)).to_wire()


def handles(request: Type[Request[Any]], first: Optional[Callable[[], None]] = None) -> Callable[[F], F]:
    """Mark a method as the handler of ``request``. ``first`` imports the modules that the request needs."""

    def mark(method: F) -> F:
        method.request, method.first = request, first  # type: ignore[attr-defined]
        return method

    return mark


def find_operations(owner: object) -> Dict[str, Operation]:
    """Return every operation that this object handles, by its name on the wire."""
    found: Dict[str, Operation] = {}
    for name, method in vars(type(owner)).items():
        request = getattr(method, "request", None)
        if isinstance(request, type) and issubclass(request, Request):
            found[request.op] = Operation(request, getattr(owner, name), method.first)
    return found
