"""The node's traffic generator: pktgen where the kernel has it, else the agent's own sender. One contract for both.

All streams of a node use the same one: the two differ in how they pace, and streams of a trial must be comparable.

``elapsed_ns`` of a result runs from the first frame to the end of the last frame's slot: the time between the
generator's own start and stop marks, or sent_packets·delay_ns when that is longer (a generator that keeps pace stops
with the last frame, one delay too early). Offered rate is sent_packets / elapsed_ns. What is not known is None.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import sys
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Optional, Tuple

from labconsole.agent import children, frames, sendpath
from labconsole.agent.wire import WireError, field

GENERATORS = ("auto", "pktgen", "afpacket")
PKTGEN_ROOT = "/proc/net/pktgen"
MODPROBE_LIMIT_S = 5.0
MAX_DURATION_S = 7 * 86400.0
NEVER_DELAY_NS = 0x7FFFFFFF
"""pktgen takes this one value for "never send"."""
MAX_DELAY_NS = 9_999_999_999
OVERTIME_NS = 20_000_000
"""A paced generator may finish its last frames this long after its time, so that one late wake-up does not cost any."""


@dataclass(frozen=True)
class StreamSpec:
    """What one stream is to send. pkt_size_bytes is without the frame check sequence; delay_ns 0 is flat out."""

    stream: str
    interface: str
    generator: str
    destination_mac: str
    source_mac: Optional[str]
    source_ip: str
    sink_ip: str
    udp_source_port: int
    udp_sink_port: int
    pkt_size_bytes: int
    delay_ns: int
    count: Optional[int]
    duration_s: Optional[float]
    max_count: int
    cpus: Optional[List[int]]

    @classmethod
    def from_wire(cls, args: Any) -> "StreamSpec":
        """Raises WireError("bad_request") naming the stream and the field."""
        if not isinstance(args, dict):
            raise WireError("bad_request", "a stream must be an object, got %s" % type(args).__name__)
        unknown = sorted(set(args) - {item.name for item in fields(cls)})
        if unknown:
            raise WireError("bad_request", "a stream has no field %s" % ", ".join(map(str, unknown)))
        spec = cls(
            stream=field(args, "stream", str),
            interface=field(args, "interface", str),
            generator=field(args, "generator", str),
            destination_mac=field(args, "destination_mac", str),
            source_mac=field(args, "source_mac", str, optional=True),
            source_ip=field(args, "source_ip", str),
            sink_ip=field(args, "sink_ip", str),
            udp_source_port=field(args, "udp_source_port", int),
            udp_sink_port=field(args, "udp_sink_port", int),
            pkt_size_bytes=field(args, "pkt_size_bytes", int),
            delay_ns=field(args, "delay_ns", int),
            count=field(args, "count", int, optional=True),
            duration_s=field(args, "duration_s", float, optional=True),
            max_count=field(args, "max_count", int),
            cpus=field(args, "cpus", list, optional=True),
        )
        spec._check()
        return spec

    def planned_packets(self) -> Tuple[int, str]:
        """How many frames at most, and what it means to have sent them all: "count" or "duration"."""
        total, reason = self.max_count, "count"
        if self.count is not None:
            total = min(total, self.count)
        if self.duration_s is not None and self.delay_ns:
            in_time = -(-round(self.duration_s * 1e9) // self.delay_ns)
            if in_time < total:
                total, reason = in_time, "duration"
        return total, reason

    def _check(self) -> None:
        if not self.stream:
            raise WireError("bad_request", "a stream has an empty name")
        if not 1 <= len(self.interface.encode()) <= 15 or set(self.interface) & set("/@ \t\r\n\0"):
            self._refuse("interface", self.interface, "an interface name of 1 to 15 byte")
        if self.generator not in GENERATORS:
            self._refuse("generator", self.generator, " or ".join(GENERATORS))
        for name in ("destination_mac", "source_mac"):
            value = getattr(self, name)
            if value is not None:
                try:
                    frames.parse_mac(value)
                except ValueError:
                    self._refuse(name, value, "a MAC address such as 02:00:00:00:01:02")
        for name in ("source_ip", "sink_ip"):
            try:
                ipaddress.IPv4Address(getattr(self, name))
            except ValueError:
                self._refuse(name, getattr(self, name), "an IPv4 address")
        self._check_range("udp_source_port", 1, 65535)
        self._check_range("udp_sink_port", 1, 65535)
        self._check_range("pkt_size_bytes", frames.MIN_FRAME_BYTES, 65535)
        self._check_range("delay_ns", 0, MAX_DELAY_NS)
        if self.delay_ns == NEVER_DELAY_NS:
            self._refuse("delay_ns", self.delay_ns, "any other number: this one means never to pktgen")
        self._check_range("max_count", 1, 2**62)
        if self.count is not None:
            self._check_range("count", 1, self.max_count)
        elif self.duration_s is None:
            self._refuse("count", None, "a count or a duration_s")
        if self.duration_s is not None and not 0 < self.duration_s <= MAX_DURATION_S:
            self._refuse("duration_s", self.duration_s, "more than 0 and at most %g" % MAX_DURATION_S)
        if self.cpus is not None and not (
            self.cpus and all(isinstance(cpu, int) and not isinstance(cpu, bool) and cpu >= 0 for cpu in self.cpus)
        ):
            self._refuse("cpus", self.cpus, "a list of CPU numbers")

    def _check_range(self, name: str, low: int, high: int) -> None:
        if not low <= getattr(self, name) <= high:
            self._refuse(name, getattr(self, name), "from %d to %d" % (low, high))

    def _refuse(self, name: str, value: Any, allowed: str) -> None:
        raise WireError(
            "bad_request",
            "stream %s: %s is %r, allowed is %s" % (self.stream, name, value, allowed),
            {"stream": self.stream, "field": name},
        )


def check_interface(spec: StreamSpec) -> None:
    """Refuse what neither generator could send: pktgen itself checks none of this."""
    try:
        mtu = sendpath.mtu_bytes(spec.interface)
        ethernet = sendpath.hardware_address(spec.interface) is not None
    except OSError as exc:
        raise WireError("bad_interface", "%s: %s" % (spec.interface, exc.strerror), {"stream": spec.stream}) from exc
    if not ethernet:
        raise WireError("bad_interface", "%s is not an Ethernet interface" % spec.interface, {"stream": spec.stream})
    if spec.pkt_size_bytes > mtu + 14:
        raise WireError(
            "bad_request",
            "stream %s: a frame of %d byte (without FCS) does not fit %s, whose MTU %d allows %d"
            % (spec.stream, spec.pkt_size_bytes, spec.interface, mtu, mtu + 14),
            {"stream": spec.stream, "field": "pkt_size_bytes"},
        )
    watch = sendpath.LinkWatch(spec.interface)
    trouble = watch.trouble()
    watch.close()
    if trouble:
        raise WireError("link_down", "stream %s cannot be sent: %s" % (spec.stream, trouble), {"stream": spec.stream})


async def have_pktgen(root: str = PKTGEN_ROOT) -> bool:
    """Whether this kernel has pktgen and lets us use it, loading the module if it is one and we may."""
    control = os.path.join(root, "pgctrl")
    if os.path.exists(control):
        return os.access(control, os.R_OK | os.W_OK)
    if os.geteuid() != 0:
        return False
    try:
        process = await children.spawn(["modprobe", "-q", "pktgen"])
    except OSError:  # no modprobe
        return False
    try:
        await asyncio.wait_for(process.communicate(), MODPROBE_LIMIT_S)
    except asyncio.TimeoutError:
        children.kill_group(process)
        await process.wait()
    return os.path.exists(control)


def cleanup_arguments() -> Dict[str, Any]:
    """What a keeper passes to ``pktgen.cleanup_ours`` if this agent is killed; known before anything is configured."""
    return {"owner": "lc%d" % os.getpid()}


class GeneratorSession:
    """Streams prepared together, started together and gone together.

    Order of calls: prepare, start, then progress, stop and wait in any order, close (at any time, always).
    """

    def __init__(self, *, pktgen_root: str = PKTGEN_ROOT) -> None:
        self._root = pktgen_root
        self._backend: Any = None
        self._started = False
        self._closed = False

    async def prepare(self, specs: List[StreamSpec]) -> List[Dict[str, Any]]:
        """Check, choose the generator, and arm: after this, ``start`` only has to give the word."""
        if self._backend is not None or self._closed:
            raise WireError("busy", "this generator was prepared already")
        if not specs:
            raise WireError("bad_request", "no stream to generate")
        names = [spec.stream for spec in specs]
        if len(set(names)) != len(names):
            raise WireError("bad_request", "two streams have the same name")
        wanted = {spec.generator for spec in specs}
        if len(wanted) != 1:
            raise WireError("bad_request", "all streams of a node use the same generator, not %s" % sorted(wanted))
        for spec in specs:
            check_interface(spec)
        self._backend = await self._choose(wanted.pop())
        try:
            prepared: List[Dict[str, Any]] = await self._backend.prepare(specs)
        except BaseException:
            await self.close()
            raise
        return prepared

    async def _choose(self, wanted: str) -> Any:
        if wanted != "afpacket":
            if await have_pktgen(self._root):
                from labconsole.agent.pktgen import PktgenBackend
                from labconsole.agent.pktgen_files import ProcFiles

                return PktgenBackend(ProcFiles(self._root))
            if wanted == "pktgen":
                raise WireError("pktgen_missing", "no pktgen that we may use: the kernel has none, or we are not root")
        from labconsole.agent.afpacket import AfPacketBackend

        return AfPacketBackend()

    async def start(self, at_monotonic_ns: Optional[int]) -> None:
        """Give the word; sending begins at that instant of CLOCK_MONOTONIC (None: at once). Returns without waiting."""
        if self._backend is None or self._closed:
            raise WireError("not_prepared", "no generator is prepared on this node")
        if self._started:
            raise WireError("busy", "the generator was started already")
        self._started = True
        await self._backend.start(at_monotonic_ns)

    def progress(self) -> List[Dict[str, Any]]:
        return [] if self._backend is None else list(self._backend.progress())

    async def wait(self) -> List[Dict[str, Any]]:
        """The results, once the last stream has ended."""
        if not self._started:
            raise WireError("not_prepared", "the generator was not started")
        results: List[Dict[str, Any]] = await self._backend.wait()
        return results

    async def stop(self) -> None:
        """End early. Returns at once or as soon as the kernel was told; ``wait`` tells what was sent."""
        if self._backend is not None and self._started:
            await self._backend.stop()

    async def close(self) -> None:
        """Leave nothing: no process and no pktgen device of ours. Idempotent."""
        self._closed = True
        if self._backend is not None:
            await self._backend.close()


async def _run_once(specs: List[Any]) -> List[Dict[str, Any]]:
    session = GeneratorSession()
    try:
        await session.prepare([StreamSpec.from_wire(spec) for spec in specs])
        await session.start(None)
        return await session.wait()
    finally:
        await session.close()


def main() -> int:
    """``python -m labconsole.agent.generator``: run the streams given as a JSON list on stdin, print the results."""
    try:
        print(json.dumps(asyncio.run(_run_once(json.load(sys.stdin)))))
    except WireError as exc:
        print(json.dumps({"error": {"code": exc.code, "message": exc.message, "detail": exc.detail}}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
