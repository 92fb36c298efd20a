"""The definition of a change to a node's network: one class that makes it, undoes it and describes it.

``class Tap(NetworkChange, do="tap")`` in a file of this room is all that a further change needs: its annotations check
the console's request (wire/rules.py), and ``do`` is its name on the wire.
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
"""How to undo one change: plain JSON, so that both the agent and its keeper, another process, can store it."""

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
    """The operations of a node that a change may use."""

    def promise(self, kind: str, **entry: Any) -> None:
        """Register an undo entry, which is executed whatever happens from now on. Called before the change is made."""

    def make_namespace(self, name: str) -> None:
        """Make a network namespace that ends with the agent."""

    def inside(self, namespace: str, work: Callable[[], Any]) -> None:
        """Call ``work()`` inside a namespace that the agent made. Raises WireError."""

    def pid(self, namespace: str) -> int:
        """Return the id of a process that runs in a namespace of the agent's."""


class NetworkChange(AnyChange):
    """Base of the changes. ``kind`` names its entries in the journal; classes with the same ``kind`` share their undo.

    Each change defines apply, undo and commands itself; the methods here that raise NotImplementedError only document
    them.
    """

    kind: ClassVar[str]
    namespace: Optional[Word] = None

    def __init_subclass__(cls, kind: str = "", **names: str) -> None:
        super().__init_subclass__(**names)
        cls.kind = kind or cls.do
        if cls.kind:
            _UNDOING[cls.kind] = cls.undo

    def apply(self, node: ChangedNode) -> None:
        """Make the change. Called inside its namespace, in a thread. Raises WireError, OSError or pyroute2's
        NetlinkError.
        """
        raise NotImplementedError

    @staticmethod
    def undo(entry: Entry) -> None:
        """Undo the change, or as much of it as remains; does nothing if nothing is left. Called inside its namespace,
        too.
        """
        raise NotImplementedError

    def commands(self) -> List[str]:
        """Return the equivalent shell commands, for a dry run; the agent itself speaks netlink."""
        raise NotImplementedError

    def _ip(self, *arguments: str) -> str:
        """Return a command of the program ip, in the change's namespace."""
        return line("ip", *(["-n", self.namespace] if self.namespace else []), *arguments)


_UNDOING: Dict[str, Callable[[Entry], None]] = {}


def line(*arguments: str) -> str:
    """Join arguments into a line, quoted for a shell."""
    import shlex  # agents never need it

    return shlex.join(arguments)


@functools.lru_cache(maxsize=None)
def load_all() -> None:
    """Import the files of this room, which registers their classes."""
    failed: Optional[ImportError] = None
    for found in pkgutil.iter_modules(labconsole.network.__path__):
        try:
            importlib.import_module("labconsole.network.%s" % found.name)
        except ImportError as exc:  # the others can still be undone
            failed = exc
    if failed is not None:
        raise failed


def undo(entry: Entry) -> None:
    """Undo a change by its entry, in the namespace of the calling thread. Raises KeyError if no class has its kind."""
    if entry["kind"] not in _UNDOING:
        load_all()
    _UNDOING[entry["kind"]](entry)
