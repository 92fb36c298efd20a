"""The parts of an agent: each handles the requests of one subject, and is imported when first needed.

Importing all of them takes an agent five times as long as the rest of its start. Code that ends or undoes a session
imports nothing: a part that was never needed has nothing to end.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Tuple

from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import Operation, find_operations
from labconsole.agent.pipes import Notice, Outlet
from labconsole.wire.codec import WireError

if TYPE_CHECKING:
    from labconsole.agent.operations.capturing import Captures
    from labconsole.agent.operations.checking import Checking
    from labconsole.agent.operations.counting import Counting
    from labconsole.agent.operations.generating import Generating
    from labconsole.agent.operations.guest_stops import GuestStops
    from labconsole.agent.operations.guests import Guests
    from labconsole.agent.operations.leasing import Leasing
    from labconsole.agent.operations.marking import Marking
    from labconsole.agent.operations.network import NetworkChanges
    from labconsole.agent.operations.program_execution import Executor
    from labconsole.agent.operations.queues import SharedQueues
    from labconsole.agent.operations.reading import Reading
    from labconsole.agent.operations.timing import Timing
    from labconsole.agent.operations.tracing import Tracing
    from labconsole.agent.processes.namespaces import Namespaces
    from labconsole.agent.reading.counters import Counters
    from labconsole.agent.reading.links import Links

OPERATIONS = {
    "reading": "facts links settings drops.read surroundings clock.keeper clock.nic process.usage process.memory "
    "processor_work.begin processor_work.end net.read foreign.start foreign.stop "
    "sink_ports.hold sink_ports.release",
    "counting": "counters.read counters.start counters.stop counters.quiet",
    "checking": "survey clean listen.start listen.read listen.stop",
    "leasing": "lease.take lease.read lease.watch lease.tell lease.release",
    "generating": "generator.prepare generator.start generator.wait generator.stop generator.close",
    "capturing": "capture.start capture.drain capture.stop",
    "marking": "marks.start marks.stop",
    "tracing": "kernel_drops.start kernel_drops.stop",
    "timing": "packet_times.start packet_times.read packet_times.stop packet_count.start packet_count.stop",
    "changing": "net.apply net.undo",
    "queues": "queue.read queue.change",
    "guests": "guest.start guest.ask guest.ask_all guest.status guest.stop",
    "stopping": "guest.promise_stop guest.stop_kept",
    "executing": "exec",
}
"""The part of the agent that handles a request. An operation without an entry is handled, too, but all parts are
imported to find it.
"""


class Parts:
    """The parts of one session. ``failed`` reports an exception, and returns the sentence."""

    def __init__(
        self,
        journal: UndoJournal,
        outlet: Outlet,
        notice: Notice,
        failed: Callable[[str, BaseException], str],
        watch_state: Callable[[], Dict[str, Any]],
    ) -> None:
        self._journal, self._outlet, self._notice = journal, outlet, notice
        self._failed, self._watch_state = failed, watch_state
        self.operations: Dict[str, Operation] = {}
        self.only_watches = False
        self._failures: List[str] = []

    def operation(self, op: str) -> Optional[Operation]:
        if op not in self.operations:
            for part in [part for part, ops in OPERATIONS.items() if op in ops.split()] or OPERATIONS:
                self.operations.update(find_operations(getattr(self, part)))
        return self.operations.get(op)

    def made(self, *parts: str) -> List[Any]:
        """Return those of these parts that exist so far: a part that was never imported has nothing to end."""
        return [self.__dict__[part] for part in parts if part in self.__dict__]

    @cached_property
    def namespaces(self) -> Namespaces:
        from labconsole.agent.processes.namespaces import Namespaces

        return Namespaces(self._namespace_died)

    @cached_property
    def counters(self) -> Counters:
        from labconsole.agent.reading.counters import Counters

        return Counters(self.namespaces, self._outlet, self._notice)

    @cached_property
    def links(self) -> Links:
        from labconsole.agent.reading.links import Links

        return Links(self.namespaces, lambda links: self.counting.links_changed(links))

    @cached_property
    def reading(self) -> Reading:
        from labconsole.agent.operations.reading import Reading

        return Reading(self.namespaces, self.links)

    @cached_property
    def counting(self) -> Counting:
        from labconsole.agent.operations.counting import Counting

        return Counting(self.counters, self._outlet.send, lambda quiet: self.leasing.mark_quiet(quiet))

    @cached_property
    def checking(self) -> Checking:
        from labconsole.agent.operations.checking import Checking

        return Checking(self.reading, self._watch_state)

    @cached_property
    def leasing(self) -> Leasing:
        from labconsole.agent.operations.leasing import Leasing

        return Leasing(
            self._outlet.send,
            stop_traffic=self._stop_traffic,
            undo=self._undo_for_another,
            give_up=self._give_up,
            keep_still=lambda still: self.counting.keep_still(still),
            only_watches=lambda: self.only_watches,
        )

    @cached_property
    def generating(self) -> Generating:
        from labconsole.agent.operations.generating import Generating

        return Generating(self._journal, self._outlet.send, self._outlet.offer, time.monotonic_ns)

    @cached_property
    def capturing(self) -> Captures:
        from labconsole.agent.operations.capturing import Captures

        return Captures(self._journal, self._outlet.send, self.namespaces.find_entry_namespaces)

    @cached_property
    def marking(self) -> Marking:
        from labconsole.agent.operations.marking import Marking

        return Marking(self.namespaces, self._outlet.offer)

    @cached_property
    def tracing(self) -> Tracing:
        from labconsole.agent.operations.tracing import Tracing

        return Tracing(self.namespaces)

    @cached_property
    def timing(self) -> Timing:
        from labconsole.agent.operations.timing import Timing

        return Timing(self._journal)

    @cached_property
    def changing(self) -> NetworkChanges:
        from labconsole.agent.operations.network import NetworkChanges

        return NetworkChanges(
            self._journal,
            self.namespaces,
            self._namespaces_changed,
            together=lambda: self.links.held() if self.made("links") else nullcontext(),
        )

    @cached_property
    def queues(self) -> SharedQueues:
        from labconsole.agent.operations.queues import SharedQueues

        return SharedQueues(self._outlet.offer)

    @cached_property
    def guests(self) -> Guests:
        from labconsole.agent.operations.guests import Guests

        return Guests(self._outlet.send, self.namespaces.find_entry_namespaces)

    @cached_property
    def stopping(self) -> GuestStops:
        from labconsole.agent.operations.guest_stops import GuestStops

        return GuestStops(self._journal)

    @cached_property
    def executing(self) -> Executor:
        from labconsole.agent.operations.program_execution import Executor

        return Executor(self.namespaces.find_entry_namespaces)

    def _namespaces_changed(self, leaving: Optional[str]) -> None:
        for part in self.made("counters", "links", "marking"):
            part.follow_namespaces(leaving)

    def _namespace_died(self, name: str) -> None:
        self._namespaces_changed(name)
        self._notice("namespace_gone", "the guest in namespace %s is gone: its process was killed" % name)

    # Another session takes the node over

    async def _stop_traffic(self) -> None:
        try:
            for generating in self.made("generating"):
                await generating.stop_traffic()
        except WireError as exc:
            if exc.code != "not_prepared":
                self._notice(exc.code, exc.message)

    def _give_up(self) -> None:
        for changing in self.made("changing"):
            changing.give_up()
        for stopping in self.made("stopping"):
            stopping.stop_for_another()

    async def _undo_for_another(self) -> None:
        for part in self.made("reading", "marking", "tracing", "timing"):
            part.close()
        for guests in self.made("guests"):
            guests.kill_all()
        for stopping in self.made("stopping"):
            stopping.stop_for_another()
        await self._each(("stopping the generator", self._abandon), ("undoing changes", self._undo))

    # The end

    def stop(self) -> None:
        """Stop everything that runs, without waiting."""
        for counters in self.made("counters"):
            counters.stop()
        for part in self.made("checking", "reading", "marking", "tracing", "timing"):
            part.close()
        for part in self.made("capturing", "executing", "guests"):
            part.kill_all()
        for stopping in self.made("stopping"):
            stopping.close()

    async def undo(self) -> List[str]:
        """Undo all changes, each step regardless of failures of the others. Returns what failed in the session."""
        await self._each(
            ("stopping the generator", self._abandon),
            ("closing the captures", self._close_captures),
            ("undoing changes", self._undo),
        )
        for part in self.made("links", "counters", "leasing"):
            part.close()
        return self._failures

    async def _each(self, *steps: Tuple[str, Callable[[], Awaitable[None]]]) -> None:
        for what, step in steps:
            try:
                await step()
            except Exception as exc:  # noqa: BLE001 - one failed step must not keep the next from running
                self._failures.append(self._failed(what, exc))

    async def _abandon(self) -> None:
        for generating in self.made("generating"):
            await generating.abandon()

    async def _close_captures(self) -> None:
        for capturing in self.made("capturing"):
            await capturing.close()

    async def _undo(self) -> None:
        for changing in self.made("changing"):
            self._failures += await changing.take_back(None)
