"""Changing a node's network, undoing the changes, and reading the current settings."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Dict, List, Optional, Type

from labconsole.wire.clean import clean
from labconsole.wire.codec import WireError
from labconsole.wire.message import Done, Message, Request
from labconsole.wire.rules import MAX_ITEMS, Key, Most, Name, Rule, Sentence, Word, bad, list_of
from labconsole.wire.session import Undone
from labconsole.wire.settings import MAX_SETTINGS

MAX_ROUTES = 100_000


class AnyChange(Message):
    """A change to a node's network: `do` names it, and the other fields are those of that [change](#changes)."""

    # The changes themselves are classes in the room network, above this one; each registers itself here.
    do: ClassVar[str] = ""
    known: ClassVar[Dict[str, Type[AnyChange]]] = {}

    def __init_subclass__(cls, do: str = "") -> None:
        cls.do = do
        if do:
            cls.known[do] = cls

    def to_wire(self) -> Dict[str, Any]:
        return {"do": self.do, **super().to_wire()}


def _change(value: Any, where: str) -> AnyChange:
    if type(value) is not dict:
        raise bad(where, "has an item that is not an object")
    do = value.get("do")
    kind = AnyChange.known.get(do) if type(do) is str else None
    if kind is None:
        allowed = ", ".join(sorted(AnyChange.known))
        raise bad("do:", "%s is not a change; allowed: %s" % (clean(repr(do), 100), allowed))
    try:
        return kind.parse({key: item for key, item in value.items() if key != "do"}, "it")
    except WireError as exc:
        raise WireError(exc.code, "change %s: %s" % (do, exc.message)) from None


class ApplyChanges(Request[Done], op="net.apply"):
    """Apply the changes in order and remember the inverse of each; on an error, undo the changes of this call."""

    token: Word
    changes: Annotated[List[AnyChange], Rule(list_of(_change, MAX_SETTINGS))]


class UndoChanges(Request[Undone], op="net.undo"):
    """Undo in reverse order the changes applied with this token; without one, all changes."""

    token: Optional[Word] = None


class RouteEntry(Message):
    """A route of the main table; ``interface`` and ``gateway`` if it has them."""

    destination: Name
    interface: Optional[Name]
    gateway: Optional[Name]


class NeighbourEntry(Message):
    """``permanent``: the entry was set, not learned."""

    address: Optional[Name]
    mac: Optional[Name]
    interface: Optional[Name]
    permanent: bool


class NetworkState(Message):
    """The current settings, and the tables if requested."""

    sysctls: Annotated[Dict[str, Sentence], Most(MAX_SETTINGS)]
    routes: Optional[Annotated[List[RouteEntry], Most(MAX_ROUTES)]] = None
    neighbours: Optional[Annotated[List[NeighbourEntry], Most(MAX_ROUTES)]] = None


class ReadNetwork(Request[NetworkState], op="net.read"):
    """Request these settings, and optionally the routes and the neighbours."""

    sysctls: Optional[Annotated[List[Key], Most(MAX_ITEMS)]] = None
    routes: Optional[bool] = None
    neighbours: Optional[bool] = None
    namespace: Optional[Word] = None
