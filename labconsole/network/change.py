"""What a change to a node's network is: one class, which knows how to make it, to undo it and to tell it.

``class Tap(NetworkChange, do="tap")`` in a file of this room is all that a further change needs: its annotations are
the checks of what a console asks for (wire/rules.py), and ``do`` is its name on the wire.
"""

from __future__ import annotations

import functools
import importlib
import ipaddress
import pkgutil
import re
from typing import Annotated, Any, Callable, ClassVar, Dict, List, Optional, Protocol

import labconsole.network
from labconsole.wire.changes import AnyChange
from labconsole.wire.clean import clean
from labconsole.wire.rules import Check, Rule, Word, bad

Entry = Dict[str, Any]
"""How to undo one change: plain JSON, so that the agent and its keeper, another process, can both hold it."""

_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z")
_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\Z")


def _interface(value: Any, where: str) -> str:
    if type(value) is not str or not _INTERFACE.match(value) or value in (".", ".."):
        raise bad(where, "is not a valid interface name: %s" % clean(repr(value), 100))
    return value


def _mac(value: Any, where: str) -> str:
    if type(value) is not str or not _MAC.match(value):
        raise bad(where, "is not a MAC address: %s" % clean(repr(value), 100))
    return value


def _address(parse: Callable[[str], Any], what: str) -> Check:
    def check(value: Any, where: str) -> str:
        try:
            return str(parse(value if type(value) is str else ""))
        except ValueError as exc:
            raise bad(where, "is not %s: %s" % (what, clean(str(exc), 100))) from None

    return check


def _parse_interface_address(text: str) -> Any:
    if "/" not in text:
        raise ValueError("%r has no prefix length" % text)
    return ipaddress.ip_interface(text)


InterfaceName = Annotated[str, Rule(_interface)]
Mac = Annotated[str, Rule(_mac)]
IpAddress = Annotated[str, Rule(_address(ipaddress.ip_address, "an IP address"))]
IpInterface = Annotated[str, Rule(_address(_parse_interface_address, "an IP address with its prefix length"))]
IpNetwork = Annotated[str, Rule(_address(ipaddress.ip_network, "an IP network"))]


class ChangedNode(Protocol):
    """What a change is given of the node that it is made on."""

    def promise(self, kind: str, **entry: Any) -> None:
        """Have this undone, whatever happens from now on: called before the change is made."""

    def make_namespace(self, name: str) -> None:
        """Make a network namespace that ends with the agent."""

    def inside(self, namespace: str, work: Callable[[], Any]) -> None:
        """``work()`` inside a namespace that the agent made. Raises WireError."""

    def pid(self, namespace: str) -> int:
        """A process that runs in a namespace of the agent's."""


class NetworkChange(AnyChange):
    """Base of the changes. ``kind`` names its entries in the journal; classes with the same one undo alike.

    Each change defines apply, undo and commands itself: what raises NotImplementedError says only what is wanted.
    """

    kind: ClassVar[str]
    namespace: Optional[Word] = None

    def __init_subclass__(cls, kind: str = "", **names: str) -> None:
        super().__init_subclass__(**names)
        cls.kind = kind or cls.do
        if cls.kind:
            _UNDOING[cls.kind] = cls.undo

    def apply(self, node: ChangedNode) -> None:
        """Make it. Called inside its namespace, in a thread; raises WireError, OSError or pyroute2's NetlinkError."""
        raise NotImplementedError

    @staticmethod
    def undo(entry: Entry) -> None:
        """Undo it, or as much of it as there is: content when nothing is left. Called inside its namespace, too."""
        raise NotImplementedError

    def commands(self) -> List[str]:
        """The lines that an operator would type for it, for a dry run: the agent itself speaks netlink."""
        raise NotImplementedError

    def _ip(self, *words: str) -> str:
        """A line of the program ip, in the change's namespace."""
        return line("ip", *(["-n", self.namespace] if self.namespace else []), *words)


_UNDOING: Dict[str, Callable[[Entry], None]] = {}


def line(*words: str) -> str:
    """Words as a shell takes them."""
    import shlex  # an agent never needs it

    return shlex.join(words)


@functools.lru_cache(maxsize=None)
def load_all() -> None:
    """Import the files of this room: then their classes are known."""
    failed: Optional[ImportError] = None
    for found in pkgutil.iter_modules(labconsole.network.__path__):
        try:
            importlib.import_module("labconsole.network.%s" % found.name)
        except ImportError as exc:  # the others can still be undone
            failed = exc
    if failed is not None:
        raise failed


def undo(entry: Entry) -> None:
    """Undo a change by its entry, in the namespace of the calling thread. Raises KeyError for one of no class."""
    if entry["kind"] not in _UNDOING:
        load_all()
    _UNDOING[entry["kind"]](entry)
