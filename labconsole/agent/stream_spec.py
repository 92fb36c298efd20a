"""What one stream is to send: the request as it comes over the wire, checked."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from typing import Any, List, Optional, Tuple

from labconsole.agent import frames
from labconsole.agent.wire import WireError, encodable, field

GENERATORS = ("auto", "pktgen", "afpacket")
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
        if (
            not 1 <= len(self.interface.encode("utf-8", "replace")) <= 15
            or set(self.interface) & set("/@ \t\r\n\0")
            or not encodable(self.interface)
        ):
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
