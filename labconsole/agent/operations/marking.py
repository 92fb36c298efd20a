"""The operations marks.*: the time marks that guests send to an address of this node."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple, Optional

from labconsole.agent.operations import handles
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.wire.codec import WireError
from labconsole.wire.marks import MarkSeen, SeenMarks, StartMarks, StopMarks, TimeMark
from labconsole.wire.message import Done

if TYPE_CHECKING:
    from labconsole.agent.reading.marks import MarkTap  # imported on first use


class _TakenMarks(NamedTuple):
    namespace: str
    tap: MarkTap


class Marking:
    """The marks of a session, by the names that the console gave them. ``offer`` sends an event if there is room."""

    def __init__(self, namespaces: Namespaces, offer: Callable[[Dict[str, Any]], bool]) -> None:
        self._namespaces, self._offer = namespaces, offer
        self._running: Dict[str, _TakenMarks] = {}

    @handles(StartMarks)
    async def start(self, request: StartMarks) -> Done:
        from labconsole.agent.reading import marks

        name, namespace = request.marks, request.namespace or ""
        descriptor = self._namespaces.require(namespace)
        if name in self._running:
            raise WireError("exists", "marks %s are already being taken" % name)
        try:
            address = socket.inet_pton(socket.AF_INET, request.address)
        except OSError:
            raise WireError("bad_request", "address: %r is not an IPv4 address" % request.address) from None

        def tell(mark: TimeMark) -> bool:
            return self._offer({"event": MarkSeen.kind, **MarkSeen(marks=name, mark=mark).to_wire()})

        opened = linux.run_in_namespace(descriptor, lambda: marks.open_socket(request.interface, address))
        self._running[name] = _TakenMarks(namespace, marks.MarkTap(opened, address, tell))
        return Done()

    @handles(StopMarks)
    async def stop(self, request: StopMarks) -> SeenMarks:
        if request.marks not in self._running:
            raise WireError("no_such_marks", "no marks %s are being taken" % request.marks)
        return self._running.pop(request.marks).tap.end()

    def follow_namespaces(self, leaving: Optional[str]) -> None:
        """Close sockets in a namespace that is being removed: they would keep it alive."""
        for running in self._running.values():
            if running.namespace and running.namespace == leaving:
                running.tap.end("the namespace is gone")

    def close(self) -> None:
        """Discard all marks."""
        for running in self._running.values():
            running.tap.close()
        self._running.clear()
