"""Changes to the node's network, each with its inverse promised before it is made.

``NetworkChanges`` orders them; each is made by its own class (labconsole/network), in a thread inside the requested
namespace. A change that fails half-way is undone by its own inverse, which copes with whatever part of it exists.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, Optional, Set, cast

from labconsole.agent import undo
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import handles
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.network.iproute import error_number
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.codec import WireError
from labconsole.wire.message import Done
from labconsole.wire.session import Undone

if TYPE_CHECKING:
    from labconsole.network.change import NetworkChange


def convert_to_wire_error(what: str, exc: BaseException) -> WireError:
    """Convert an OSError or NetlinkError to the sentence and stable code for the console."""
    if isinstance(exc, WireError):
        return exc
    number = error_number(exc)
    if number is None:
        return WireError("internal", "%s: %s: %s" % (what, type(exc).__name__, exc))
    codes = {
        errno.EPERM: "no_permission",
        errno.EACCES: "no_permission",
        errno.EEXIST: "exists",
        errno.ENODEV: "no_such_interface",
        errno.EOPNOTSUPP: "not_supported",
        errno.EBUSY: "busy",
    }
    text = exc.args[-1] if exc.args and isinstance(exc.args[-1], str) and exc.args[-1] else errno.errorcode.get(number)
    return WireError(codes.get(number, "failed"), "%s: %s" % (what, text))


def describe(what: Dict[str, Any]) -> str:
    """Describe a change on the wire or an undo entry for sentences, such as ``bridge lcb1``."""
    kind = what.get("do") or what.get("kind")
    for key in ("name", "interface", "address", "destination"):
        if isinstance(what.get(key), str):
            return "%s %s" % (kind, what[key])
    values = what.get("values")
    return "%s %s" % (kind, values[0][0]) if values else str(kind)


async def _run_to_completion(work: Callable[..., Any], *arguments: Any) -> None:
    """Run in a thread. If cancelled, still wait for it: undoing must not overtake the change that it undoes."""
    running = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _load_changes() -> None:
    """Import the changes, which would make an agent's start take 6 % longer."""
    from labconsole.network import change

    change.load_all()


class _LocalNode:
    """This node, as a change sees it (network/change.py). Called from the change's thread."""

    def __init__(self, journal: UndoJournal, namespaces: Namespaces, place: Dict[str, Any]) -> None:
        self._journal, self._namespaces, self._place = journal, namespaces, place
        self._loop = asyncio.get_running_loop()

    def promise(self, kind: str, **entry: Any) -> None:
        self._journal.promise(dict(entry, kind=kind, **self._place))

    def make_namespace(self, name: str) -> None:
        # In the main thread, because it forks.
        asyncio.run_coroutine_threadsafe(self._namespaces.make(name), self._loop).result()

    def inside(self, namespace: str, work: Callable[[], Any]) -> None:
        linux.run_in_namespace(self._namespaces.require(namespace), work)

    def pid(self, namespace: str) -> int:
        return self._namespaces.pid(namespace)


class NetworkChanges:
    """Applies changes in order and undoes them in reverse, one request at a time."""

    def __init__(
        self,
        journal: UndoJournal,
        namespaces: Namespaces,
        on_change: Callable[[Optional[str]], None],
        together: Callable[[], ContextManager[None]],
    ) -> None:
        self._journal, self._namespaces, self._on_change, self._together = journal, namespaces, on_change, together
        self._lock = asyncio.Lock()
        self._stuck: Set[int] = set()

    @handles(ApplyChanges, first=_load_changes)
    async def apply(self, request: ApplyChanges) -> Done:
        """Apply all of the changes or, if one fails, none of them."""
        async with self._lock:
            before = self._journal.last
            try:
                with self._together():
                    for change in request.changes:
                        await self._apply_one(request.token, cast("NetworkChange", change))
            except BaseException:
                await self._undo(request.token, before)
                raise
            finally:
                self._on_change(None)
        return Done()

    @handles(UndoChanges)
    async def undo(self, request: UndoChanges) -> Undone:
        """Undo the changes of a token; without one, everything."""
        return Undone(failed=await self.take_back(request.token))

    async def take_back(self, token: Optional[str]) -> List[str]:
        """Undo the changes of ``token``, or None for everything. Returns a sentence for each that could not be undone.

        Failed ones are retried when their token is undone again, and at the end; then they are given up.
        """
        async with self._lock:
            try:
                with self._together():
                    return await self._undo(token, 0)
            finally:
                if token is None:
                    self.give_up()
                self._on_change(None)

    def give_up(self) -> None:
        """Stop retrying: the node's next holder may have made things of the same names."""
        while self._stuck:
            self._journal.done(self._stuck.pop())

    async def _apply_one(self, token: str, change: NetworkChange) -> None:
        namespace = change.namespace or ""
        descriptor = self._namespaces.require(namespace)
        here = _LocalNode(self._journal, self._namespaces, {"token": token, "namespace": namespace})
        try:
            await _run_to_completion(linux.run_in_namespace, descriptor, lambda: change.apply(here))
        except WireError:
            raise
        except Exception as exc:
            raise convert_to_wire_error("cannot make change %s" % describe(change.to_wire()), exc) from exc

    async def _undo(self, token: Optional[str], since: int) -> List[str]:
        failed: List[str] = []
        for entry in self._journal.pending(token, since=since):
            if "token" not in entry:
                continue  # not a change of ours: a capture's file or process, which its owner ends
            try:
                await self._undo_one(entry)
            except Exception as exc:  # noqa: BLE001 - reported, and the rest is still undone
                failed.append(convert_to_wire_error("cannot undo %s" % describe(entry), exc).message)
                self._stuck.add(entry["number"])
            else:
                self._stuck.discard(entry["number"])
                self._journal.done(entry["number"])
        return failed

    async def _undo_one(self, entry: Dict[str, Any]) -> None:
        if entry["kind"] == "namespace":
            self._on_change(entry["name"])  # sockets inside would keep it alive
            self._namespaces.remove(entry["name"])
            return
        await _run_to_completion(undo.run, entry, self._namespaces.resolve)
