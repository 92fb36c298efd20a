"""The operations packet_times.* and packet_count.*: every packet of streams counted in the kernel, a trial at a time,
and timed by a program if possible.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, AsyncIterator, List, Optional, Sequence, Tuple, Union

from labconsole.agent.bpf.kernel import build_load_error
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import handles
from labconsole.wire.codec import WireError
from labconsole.wire.packet_times import (
    LINK_S,
    NATIVE_XDP,
    SOCKET_FILTER,
    CountedPackets,
    DelaysRead,
    PacketCountStarted,
    PacketTimesStarted,
    PortCount,
    PortDelays,
    PortTimes,
    ReadPacketTimes,
    StartPacketCount,
    StartPacketTimes,
    StopPacketCount,
    StopPacketTimes,
    TimedPackets,
    TimedPort,
)

if TYPE_CHECKING:
    from labconsole.agent.reading.clocks import ClockOffset  # imported on first use
    from labconsole.agent.reading.packet_times import PacketCounter, PacketTimer
    from labconsole.agent.reading.xdp_port import XdpPort


LOOK_S = 10.0
"""Interval between readings of counters without times, which have room for 2**32 packets: no link carries them in that
time.
"""


class Timing:
    """The timing of a session, at the node's own ports."""

    def __init__(self, journal: UndoJournal) -> None:
        self._journal = journal
        self._timers: List[PacketTimer] = []
        self._counters: List[PacketCounter] = []
        self._looking: Optional[asyncio.TimerHandle] = None
        self._offset: Optional[ClockOffset] = None
        self._using = asyncio.Lock()
        self._closed = 0
        self._going: Optional["asyncio.Future[None]"] = None

    @handles(StartPacketTimes)
    async def start(self, request: StartPacketTimes) -> PacketTimesStarted:
        async with self._using:
            return await self._start(request)

    async def _start(self, request: StartPacketTimes) -> PacketTimesStarted:
        from labconsole.agent.reading.clocks import ClockOffset

        if self._timers:
            raise WireError("exists", "packets are being timed already")
        _check(request.ports)
        if self._going is not None:
            await self._going  # or a program of ours would be in the way of this one
        self._offset = offset = ClockOffset()
        loop, closed = asyncio.get_running_loop(), self._closed
        try:
            timers = await loop.run_in_executor(None, self._attached, request, offset.ns)
        except OSError as exc:
            raise build_load_error(exc) from None
        if self._closed != closed:
            self._let_go(timers)
            raise WireError("closing", "the node was given back before timing began")
        self._timers = timers
        return PacketTimesStarted(
            instructions=max((timer.instructions for timer in timers), default=0),
            memory_bytes=sum(timer.memory_bytes for timer in timers),
        )

    def _attached(self, request: StartPacketTimes, offset_ns: int) -> List[PacketTimer]:
        """Attach the programs, in a thread: XDP may wait for links, those of all ports together, also if it fails."""
        from labconsole.agent.reading.packet_times import PacketTimer
        from labconsole.agent.reading.xdp_port import wait_for_links

        timers: List[PacketTimer] = []
        reset: List[XdpPort] = []
        try:
            for port in request.ports:
                own = self._xdp_port(port.interface, request.by)
                reset += [] if own is None else [own]
                timers.append(PacketTimer(port.interface, port.streams, offset_ns, own))
            down = wait_for_links(reset)
            if down:
                said = (
                    "%s got a program for native XDP, but the link was not up again after %g s: the program was removed"
                )
                raise WireError("failed", said % (down, LINK_S))
        except BaseException:
            _close(timers)
            with suppress(OSError):
                wait_for_links(reset)
            raise
        return timers

    def _xdp_port(self, interface: str, by: str) -> Optional[XdpPort]:
        from labconsole.agent.reading.xdp_port import XdpPort

        if by == SOCKET_FILTER:
            return None
        return XdpPort(interface, self._journal.promise, self._journal.done, native=by == NATIVE_XDP)

    @handles(StartPacketCount)
    async def start_count(self, request: StartPacketCount) -> PacketCountStarted:
        from labconsole.agent.reading.packet_times import PacketCounter

        if self._counters:
            raise WireError("exists", "packets are being counted already")
        _check(request.ports)
        try:
            for port in request.ports:
                self._counters.append(PacketCounter(port.interface, port.streams))
        except PermissionError:
            _close(self._counters)
            raise WireError("no_permission", "no permission to open a raw socket; CAP_NET_RAW is needed") from None
        except OSError as exc:
            _close(self._counters)
            raise WireError("not_supported", "a raw socket does not count: %s" % exc.strerror) from None
        self._look()
        return PacketCountStarted()

    def _look(self) -> None:
        for each in self._counters:
            each.packets()
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _close_counters(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        _close(self._counters)

    @handles(StopPacketCount)
    async def stop_count(self, request: StopPacketCount) -> CountedPackets:
        if not self._counters:
            raise WireError("not_counting", "packets are not being counted")
        try:
            counted = [PortCount(interface=each.interface, packets=each.packets()) for each in self._counters]
            return CountedPackets(ports=counted)
        finally:
            self._close_counters()

    @handles(ReadPacketTimes)
    async def read(self, request: ReadPacketTimes) -> DelaysRead:
        async with self._taken() as (timers, offset):
            closed = self._closed
            try:
                ports = await asyncio.get_running_loop().run_in_executor(None, _read_port_delays, timers)
                return DelaysRead(ports=ports, clock_moved_ns=offset.moved_ns())
            finally:
                if self._closed == closed:
                    self._timers = timers
                else:
                    self._let_go(timers)

    @handles(StopPacketTimes)
    async def stop(self, request: StopPacketTimes) -> TimedPackets:
        async with self._taken() as (timers, offset):
            try:
                await asyncio.get_running_loop().run_in_executor(None, _detach, timers)
                return await _build_timed_packets(timers, offset)
            finally:
                _close(timers)

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[Tuple[List[PacketTimer], ClockOffset]]:
        """Yield the timers, which then belong to this request: they are not closed while a thread reads them."""
        async with self._using:
            timers, offset = self._timers, self._offset
            if not timers or offset is None:
                raise WireError("not_counting", "packets are not being timed")
            self._timers = []
            yield timers, offset

    def close(self) -> None:
        """Stop timing, and discard the results."""
        self._closed += 1
        timers, self._timers = self._timers, []
        self._let_go(timers)
        self._close_counters()

    def _let_go(self, timers: List[PacketTimer]) -> None:
        """Detach in a thread if a driver may reset a link for it. If the agent ends before, the kernel detaches, and
        the keeper restores the port's settings.
        """
        if any(timer.port is not None for timer in timers):
            self._going = asyncio.get_running_loop().run_in_executor(None, _close, timers)
        else:
            _close(timers)


def _check(ports: Sequence[TimedPort]) -> None:
    for port in ports:
        for stream in port.streams:
            for name in ("source_ip", "sink_ip"):
                try:
                    socket.inet_pton(socket.AF_INET, getattr(stream, name))
                except OSError:
                    said = "%s: %r is not an IPv4 address" % (name, getattr(stream, name))
                    raise WireError("bad_request", said) from None
        try:
            socket.if_nametoindex(port.interface)
        except OSError:
            raise WireError("no_such_interface", "there is no interface %r" % port.interface) from None


def _close(counters: Union[List[PacketTimer], List[PacketCounter]]) -> None:
    while counters:
        counters.pop().close()


async def _build_timed_packets(timers: List[PacketTimer], offset: ClockOffset) -> TimedPackets:
    moved_ns = offset.moved_ns()
    ports = await asyncio.get_running_loop().run_in_executor(None, _ports, timers)
    return TimedPackets(ports=ports, clock_moved_ns=moved_ns)


def _detach(timers: List[PacketTimer]) -> None:
    for timer in timers:
        timer.detach()


def _read_port_delays(timers: List[PacketTimer]) -> List[PortDelays]:
    return [PortDelays(interface=timer.interface, streams=timer.delays()) for timer in timers]


def _ports(timers: List[PacketTimer]) -> List[PortTimes]:
    from labconsole.agent.reading.xdp_port import wait_for_links

    with suppress(OSError):  # unknown changes do not prevent reporting the counts
        wait_for_links([timer.port for timer in timers if timer.port is not None])
    return [
        PortTimes(
            interface=timer.interface, streams=timer.counted(), xdp=None if timer.port is None else timer.port.told()
        )
        for timer in timers
    ]
