"""The sender for kernels without pktgen: one process per stream that puts pktgen's frames on an interface.

Pacing is by absolute deadlines, as in pktgen: frame n is due at start + n·delay, and after a stall the backlog is sent
at once. Unlike pktgen it never busy-waits: several senders and the measured software may share two cores. It sleeps
until a burst is due, so that short delays cost one wake-up per BURST_INTERVAL_NS instead of one per frame.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import mmap
import os
import time
from typing import Any, Dict, List, Optional

from labconsole.agent import netlink
from labconsole.agent.processes.children import NAP_NS, ArmedChild, ChildSide, sleep_until
from labconsole.agent.sending import sendpath
from labconsole.packets.frame import FrameTemplate, parse_mac
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import OVERTIME_NS, StreamSpec

VERSION = "1"
BURST_INTERVAL_NS = 100_000
"""A wake-up costs about 5 µs of CPU here; at 10 000 per second that is 5 % of a core and the bursts stay short."""
LINK_CHECK_INTERVAL_NS = 10_000_000
RETRY_NS = 20_000

_PR_SET_TIMERSLACK = 29
_SHARED_BYTES = 4096
_TEXT_AT = 512
_SAID_BYTES = 64
_SAID_AT = _SHARED_BYTES - _SAID_BYTES
_FIELD_COUNT = 10
STOP, SENT, ERRORS, SEEN, STARTED, STOPPED, STARTED_WALL, IDLE, REASON, TEXT = range(_FIELD_COUNT)
REASONS = ("", "count", "duration", "stopped", "error")
_DURATION, _STOPPED, _ERROR = 2, 3, 4

_GONE = (errno.ENETDOWN, errno.ENXIO, errno.ENODEV)
_BUSY = (errno.ENOBUFS, errno.EBUSY)


class Shared:
    """A page shared with the sender: 64-bit words, each written by one side, and the text of its last error."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _SHARED_BYTES)
        self.words = memoryview(self.memory)[:_TEXT_AT].cast("q")

    def set_error(self, text: str) -> None:
        data = text.encode("utf-8", "replace")[: _SAID_AT - _TEXT_AT]
        self.memory[_TEXT_AT : _TEXT_AT + len(data)] = data
        self.words[TEXT] = len(data)
        self.words[REASON] = _ERROR

    def say(self, text: str) -> None:
        """Store the sender's message about itself, at most _SAID_BYTES long."""
        self.memory[_SAID_AT:] = text.encode("utf-8")[:_SAID_BYTES].ljust(_SAID_BYTES, b"\0")

    @property
    def said(self) -> str:
        return self.memory[_SAID_AT:].rstrip(b"\0").decode("utf-8", "replace")

    @property
    def error_text(self) -> Optional[str]:
        length = min(max(self.words[TEXT], 0), _SAID_AT - _TEXT_AT)
        return self.memory[_TEXT_AT : _TEXT_AT + length].decode("utf-8", "replace") if length else None


def burst_packets(delay_ns: int) -> int:
    """Return the frames per wake-up if there is no stall."""
    if delay_ns == 0:
        return sendpath.SLOTS
    return max(1, min(sendpath.SLOTS, BURST_INTERVAL_NS // delay_ns))


# -- in the sending process -------------------------------------------------------------------------------------------


def build_template(spec: StreamSpec) -> FrameTemplate:
    source = parse_mac(spec.source_mac) if spec.source_mac else sendpath.hardware_address(spec.interface)
    if source is None:
        raise WireError("bad_interface", "%s is not an Ethernet interface" % spec.interface)
    return FrameTemplate(
        destination_mac=parse_mac(spec.destination_mac),
        source_mac=source,
        source_ip=spec.source_ip,
        sink_ip=spec.sink_ip,
        udp_source_port=spec.udp_source_port,
        udp_sink_port=spec.udp_sink_port,
        size_bytes=spec.pkt_size_bytes,
        destinations=spec.destinations or 1,
    )


def send_stream(spec: StreamSpec, shared: Shared, side: ChildSide) -> None:
    """Run the sending process."""
    try:
        if spec.cpus:
            os.sched_setaffinity(0, spec.cpus)
        path = sendpath.open_path(spec.interface, build_template(spec))
        watch = sendpath.LinkWatch(spec.interface)
    except WireError as exc:
        side.failed(exc.code, exc.message)
        return
    except OSError as exc:
        side.failed("generator_failed", "cannot send on %s: %s" % (spec.interface, exc.strerror))
        return
    # Timers are otherwise allowed to be 50 µs late, to save wake-ups.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    shared.say(path.kind)
    side.ready()
    at_ns = side.wait_word()
    if at_ns is not None and not sleep_until(at_ns, lambda: bool(shared.words[STOP])):
        shared.words[REASON] = _STOPPED
        return
    Sender(spec, shared, path, watch).run()


class Sender:
    def __init__(self, spec: StreamSpec, shared: Shared, path: Any, watch: Any) -> None:
        self._delay_ns, self._paced = spec.delay_ns, spec.paced
        self._burst = burst_packets(spec.delay_ns)
        self._total, planned = spec.planned_packets()
        self._reason = REASONS.index(planned)
        self._duration_ns = None if spec.duration_s is None else round(spec.duration_s * 1e9)
        self._fields, self._shared, self._path, self._watch = shared.words, shared, path, watch
        self._slot = self._pending = self._sent = 0

    def run(self) -> None:
        fields, clock = self._fields, time.monotonic_ns
        fields[STARTED_WALL] = time.time_ns()
        start = next_check = now = clock()
        fields[STARTED] = start
        end = None
        if self._duration_ns is not None:
            end = start + self._duration_ns + (OVERTIME_NS if self._paced else 0)
        reason = self._reason
        while self._sent < self._total:
            now = clock()
            if fields[STOP]:
                reason = _STOPPED
                break
            if end is not None and now >= end:
                reason = _DURATION
                break
            if now >= next_check:
                next_check = now + LINK_CHECK_INTERVAL_NS
                trouble = self._watch.trouble()
                if trouble:
                    self._shared.set_error(trouble)
                    break
            if not self._pending and not self._load(start, now):
                continue
            if not self._send():
                break
            fields[SEEN] = now
        fields[STOPPED] = fields[SEEN] = clock()
        if fields[REASON] != _ERROR:
            fields[REASON] = reason

    def _load(self, start_ns: int, now_ns: int) -> bool:
        """Prepare the frames that are due, or sleep until a burst is due (False)."""
        left = self._total - self._sent
        wanted = min(self._burst, left)
        if self._delay_ns:
            due = (now_ns - start_ns) // self._delay_ns + 1 - self._sent
            if due < wanted:
                self._nap(start_ns + (self._sent + wanted - 1) * self._delay_ns - now_ns)
                return False
            wanted = min(due, left)
        self._pending = self._path.ring.fill(self._slot, wanted, self._sent + 1, time.time_ns())
        return True

    def _nap(self, wait_ns: int) -> None:
        before = time.monotonic_ns()
        time.sleep(min(wait_ns, NAP_NS) / 1e9)
        self._fields[IDLE] += time.monotonic_ns() - before

    def _send(self) -> bool:
        """Pass prepared frames to the kernel. Returns False if there is no use in going on."""
        used, accepted, number = self._path.send(self._slot, self._pending)
        self._slot = (self._slot + used) % sendpath.SLOTS
        self._pending -= used
        self._sent += accepted
        self._fields[SENT] = self._sent
        if used > accepted:
            # The driver dropped a frame: its number goes to the next one, as in pktgen, so that no number is missing.
            self._path.ring.fill(self._slot, self._pending, self._sent + 1, time.time_ns())
        if number in (0, errno.EAGAIN, errno.EINTR):
            if number == errno.EAGAIN and not used:
                self._nap(RETRY_NS)
            return True
        if number in _BUSY:
            self._fields[ERRORS] += 1
            trouble = self._watch.trouble()
            if not trouble:
                self._nap(RETRY_NS)
                return True
        elif number in _GONE:
            trouble = self._watch.trouble() or os.strerror(number)
        else:
            trouble = "the kernel refused a frame: %s" % os.strerror(number)
        self._shared.set_error(trouble)
        return False


# -- in the agent -----------------------------------------------------------------------------------------------------


class AfPacketBackend:
    """One sending process per stream."""

    generator = "afpacket"

    def __init__(self) -> None:
        self._streams: List[Any] = []

    async def prepare(self, specs: List[StreamSpec]) -> List[Dict[str, Any]]:
        # Before the forks, because an import that another thread is in the middle of would never end in a child.
        await asyncio.get_running_loop().run_in_executor(None, netlink.load)
        for spec in specs:
            shared = Shared()
            # Forked here, on the event loop's thread: see ArmedChild.
            self._streams.append((spec, shared, self._fork(spec, shared)))
        for _, _, child in self._streams:
            await child.wait_ready()
        return [
            {
                "stream": spec.stream,
                "generator": self.generator,
                "version": self._version(shared),
                "interface": spec.interface,
                "burst_packets": self._burst_packets(spec),
                "cpus": spec.cpus,
            }
            for spec, shared, _ in self._streams
        ]

    def _fork(self, spec: StreamSpec, shared: Shared) -> ArmedChild:
        return ArmedChild(lambda side: send_stream(spec, shared, side))

    def _version(self, shared: Shared) -> str:
        return "%s (%s)" % (VERSION, shared.said)

    def _burst_packets(self, spec: StreamSpec) -> Optional[int]:
        return burst_packets(spec.delay_ns)

    async def start(self, at_monotonic_ns: Optional[int]) -> None:
        for _, _, child in self._streams:
            child.give_word(at_monotonic_ns)

    def progress(self) -> List[Dict[str, Any]]:
        return [
            {
                "stream": spec.stream,
                "sent_packets": shared.words[SENT],
                "errors": shared.words[ERRORS],
                "monotonic_ns": shared.words[SEEN] or None,
            }
            for spec, shared, _ in self._streams
        ]

    async def wait(self) -> List[Dict[str, Any]]:
        for _, _, child in self._streams:
            await child.wait_end()
        return [self._result(spec, shared) for spec, shared, _ in self._streams]

    async def stop(self) -> None:
        for _, shared, _ in self._streams:
            shared.words[STOP] = 1

    async def close(self) -> None:
        for _, _, child in self._streams:
            await child.close()

    def _result(self, spec: StreamSpec, shared: Shared) -> Dict[str, Any]:
        fields = shared.words
        reason, error_text = REASONS[fields[REASON]], shared.error_text
        if not reason:
            reason, error_text = "error", "the sending process died"
        started, stopped, sent = fields[STARTED] or None, fields[STOPPED] or None, fields[SENT]
        elapsed = None
        if started is not None and stopped is not None:
            # The last frame has a slot of its own, even if nothing follows it.
            elapsed = max(stopped - started, sent * spec.delay_ns)
        return {
            "stream": spec.stream,
            "generator": self.generator,
            "version": self._version(shared),
            "interface": spec.interface,
            "sent_packets": sent,
            "errors": fields[ERRORS],
            "error_text": error_text,
            "started_monotonic_ns": started,
            "stopped_monotonic_ns": stopped,
            "started_wall_ns": fields[STARTED_WALL] or None,
            "elapsed_ns": elapsed,
            "idle_ns": fields[IDLE],
            "delay_ns": spec.delay_ns,
            "burst_packets": self._burst_packets(spec),
            "requested_count": spec.count,
            "stopped_by": reason,
            "raw": None,
        }
