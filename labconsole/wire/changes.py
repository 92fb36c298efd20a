"""Changing a node's network, undoing that, and reading what is set."""

from __future__ import annotations

from typing import Annotated, Any, Dict, List, Optional

from labconsole.wire.message import Done, Message, Request
from labconsole.wire.rules import MAX_ITEMS, Key, Most, Name, Rule, Sentence, Word, bad, listed
from labconsole.wire.session import Undone
from labconsole.wire.settings import MAX_SETTINGS

MAX_ROUTES = 100_000


def _object(value: Any, where: str) -> Any:
    if type(value) is not dict:
        raise bad(where, "is not an object")
    return value


class ApplyChanges(Request[Done], op="net.apply"):
    """Apply the changes in order and remember the inverse of each; on an error undo what this call did."""

    token: Word
    changes: Annotated[List[Dict[str, Any]], Rule(listed(_object, MAX_SETTINGS))]


class UndoChanges(Request[Undone], op="net.undo"):
    """Undo in reverse order what was applied with this token; without one, everything."""

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
    """Ask for these settings, and for the routes and the neighbours."""

    sysctls: Optional[Annotated[List[Key], Most(MAX_ITEMS)]] = None
    routes: Optional[bool] = None
    neighbours: Optional[bool] = None
    namespace: Optional[Word] = None
