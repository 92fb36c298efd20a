"""The operations kernel_drops.*: where and why the kernel drops test packets, for one trial at a time."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from labconsole.agent.bpf.kernel import build_load_error
from labconsole.agent.operations import handles
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.wire.codec import WireError
from labconsole.wire.kernel_drops import (
    GuestInside,
    KernelDrop,
    KernelDrops,
    KernelDropsStarted,
    StartKernelDrops,
    StopKernelDrops,
)

if TYPE_CHECKING:
    from labconsole.agent.reading.kernel_drops import DropCounter, KernelLayout  # imported on first use

USUAL_LOOK_S = 0.1

_Place = Tuple[str, Optional[str], Optional[int], Optional[str], Optional[str]]


class Tracing:
    """The counting of a session, which follows the namespaces that existed when it began."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._layout: Optional[KernelLayout] = None
        self._counter: Optional[DropCounter] = None
        self._names: Dict[int, str] = {}
        self._interfaces: Dict[int, Dict[int, str]] = {}
        """By the namespace's inode and interface number, as at the start: an interface that disappears later has a
        name.
        """

        self._begun_ns = self._ended_ns = 0
        self._budget_ns: Optional[int] = None
        self._look_every_s = USUAL_LOOK_S
        self._looking: Optional[asyncio.TimerHandle] = None
        self._closings = 0
        """A start that waited while everything was closed does not go on after it."""

        self._turn = asyncio.Lock()
        """One request at a time: each waits for the kernel or its tables in between."""

    @handles(StartKernelDrops)
    async def start(self, request: StartKernelDrops) -> KernelDropsStarted:
        async with self._turn:
            return await self._start(request)

    async def _start(self, request: StartKernelDrops) -> KernelDropsStarted:
        from labconsole.agent.reading import kernel_drops

        if self._counter is not None:
            raise WireError("exists", "dropped packets are being counted already")
        for sink in request.sinks:
            try:
                socket.inet_pton(socket.AF_INET, sink)
            except OSError:
                raise WireError("bad_request", "sinks: %r is not an IPv4 address" % sink) from None
        loop, closings = asyncio.get_running_loop(), self._closings
        try:
            if self._layout is None:
                self._layout = await loop.run_in_executor(None, kernel_drops.read_layout)
            if self._closings != closings:
                raise WireError("closing", "the node was given back before counting began")
            self._names = {inode: name for name in self._namespaces.names if (inode := self._inode(name)) is not None}
            self._interfaces = {inode: self._read_interface_names(name) for inode, name in self._names.items()}
            for guest in request.guests:
                self._follow(guest)
            self._counter = counter = self._attach(self._layout, list(self._names), request.sinks)
        except kernel_drops.DropReasonsUnavailable as exc:
            raise WireError(exc.code, str(exc)) from None
        except OSError as exc:
            raise build_load_error(exc) from None
        self._begun_ns, self._ended_ns = time.monotonic_ns(), 0
        self._budget_ns, self._look_every_s = request.budget_ns, request.look_every_s or USUAL_LOOK_S
        if self._budget_ns is not None:
            self._looking = loop.call_later(self._look_every_s, self._look)
        return KernelDropsStarted(mode=counter.mode, tells_reasons=self._layout.tells_reasons)

    @staticmethod
    def _attach(layout: KernelLayout, inodes: List[int], sinks: List[str]) -> DropCounter:
        from labconsole.agent.reading.kernel_drops import DropCounter

        try:
            return DropCounter(layout, inodes, sinks)
        except OSError as exc:
            if exc.errno in (errno.EPERM, errno.ENOSYS):
                raise
        return DropCounter(layout, inodes, sinks, by_helper=True)  # a kernel that does not let programs follow pointers

    def _inode(self, name: str) -> Optional[int]:
        """Return the inode, or None for a guest that has just ended."""
        try:
            descriptor = self._namespaces.resolve(name)
            return os.stat("/proc/self/ns/net" if descriptor is None else descriptor).st_ino
        except (LookupError, OSError):
            return None

    def _follow(self, guest: GuestInside) -> None:
        """Add a guest's namespace, with the interfaces that are in it now; nothing of it is kept open."""
        try:
            descriptor = os.open("/proc/%d/ns/net" % guest.pid, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it has just ended
        try:
            inode = os.fstat(descriptor).st_ino
            if inode not in self._names:
                self._names[inode] = guest.name
                self._interfaces[inode] = dict(linux.run_in_namespace(descriptor, socket.if_nameindex))
        except OSError:
            self._interfaces[inode] = {}  # it may not be entered: its interfaces have no names
        finally:
            os.close(descriptor)

    def _look(self) -> None:
        if self._counter is None or self._budget_ns is None:
            return
        try:
            over = self._counter.estimated_cost_ns() > self._budget_ns
        except OSError:
            over = True  # an unknown cost counts as over the budget
        if over:
            self._ended_ns = time.monotonic_ns()
            self._counter.detach()
            return
        self._looking = asyncio.get_running_loop().call_later(self._look_every_s, self._look)

    @handles(StopKernelDrops)
    async def stop(self, request: StopKernelDrops) -> KernelDrops:
        async with self._turn:
            return await self._stop()

    async def _stop(self) -> KernelDrops:
        counter = self._counter
        if counter is None:
            raise WireError("not_counting", "dropped packets are not being counted")
        self._counter = None  # it belongs to this request: it is not closed while a thread reads it
        self.close()
        early = not counter.attached
        try:
            counter.detach()
            return await asyncio.get_running_loop().run_in_executor(None, self._build_result, counter, early)
        finally:
            counter.close()

    def _build_result(self, counter: DropCounter, early: bool) -> KernelDrops:
        ended_ns = self._ended_ns or time.monotonic_ns()
        totals = counter.totals()
        return KernelDrops(
            rows=self._rows(counter),
            passed_packets=totals["passed_packets"],
            looked_packets=totals["looked_packets"],
            unreadable_packets=totals["unreadable_packets"],
            unlisted_packets=totals["unlisted_packets"],
            missed_packets=counter.missed_packets,
            counted_ns=ended_ns - self._begun_ns,
            ended_early=early,
        )

    def _rows(self, counter: DropCounter) -> List[KernelDrop]:
        """Return rows with names instead of numbers; functions that the compiler has split are merged."""
        from labconsole.agent.bpf.kernel import Symbols, read_symbols
        from labconsole.agent.reading import kernel_drops

        assert self._layout is not None
        found = list(counter.rows())
        symbols = read_symbols() if found else Symbols(())
        interfaces = {
            inode: {**those, **self._read_interface_names(self._names[inode])}
            for inode, those in self._interfaces.items()
        }
        packets: Dict[_Place, int] = {}
        for row in found:
            place = (
                self._names[row.inode],
                interfaces[row.inode].get(row.interface_index),
                row.stream if row.stream < kernel_drops.UNREADABLE else None,
                kernel_drops.reason_name(self._layout, row.reason),
                symbols.function(row.address),
            )
            if row.stream != kernel_drops.UNREADABLE:
                packets[place] = packets.get(place, 0) + row.packets
        return [
            KernelDrop(namespace=name, interface=interface, stream=stream, reason=reason, function=function, packets=n)
            for (name, interface, stream, reason, function), n in packets.items()
        ]

    def _read_interface_names(self, name: str) -> Dict[int, str]:
        try:
            return dict(linux.run_in_namespace(self._namespaces.resolve(name), socket.if_nameindex))
        except (LookupError, OSError):
            return {}  # the namespace is gone, and its interfaces with it

    def close(self) -> None:
        """Stop counting, and discard the counts."""
        self._closings += 1
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._counter is not None:
            self._counter.close()
            self._counter = None
