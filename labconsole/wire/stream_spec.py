"""The specification of one stream to send."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, List, Optional, Tuple

from labconsole.packets import frame
from labconsole.wire.codec import WireError
from labconsole.wire.facts import MAX_CPUS
from labconsole.wire.message import Message
from labconsole.wire.rules import S64, Count, Finite, Most, Rule, Word, whole

GENERATORS = ("auto", "pktgen", "afpacket")
"""The project's own generators; any other name is a plug-in's."""
_PLUG_IN = re.compile(r"[a-z][a-z0-9_]{0,29}\Z")
MIN_DURATION_S = 1e-6
MAX_DURATION_S = 7 * 86400.0
NEVER_DELAY_NS = 0x7FFFFFFF
"""The value that pktgen takes for "never send"."""
MAX_DELAY_NS = 9_999_999_999
Whole = Annotated[int, Rule(whole(-S64, S64 - 1))]
"""The range is checked with the other fields, in messages that name the stream."""
MAX_DESTINATIONS = 16384
OVERTIME_NS = 20_000_000
"""How long a paced generator may send its last frames after its time, so that one late wake-up loses none."""


class StreamSpec(Message):
    """One stream to send. pkt_size_bytes is without the frame check sequence; delay_ns 0 means no delay.

    ``destinations``: number of addresses, from sink_ip on, that the frames go to in turn, or None for sink_ip alone.
    ``options``: of a plug-in's generator, as JSON.
    """

    stream: Word
    interface: Word
    generator: Word
    destination_mac: Word
    source_mac: Optional[Word] = None
    source_ip: Word
    sink_ip: Word
    udp_source_port: Whole
    udp_sink_port: Whole
    pkt_size_bytes: Whole
    delay_ns: Whole
    count: Optional[Whole] = None
    duration_s: Optional[Finite] = None
    max_count: Whole
    cpus: Optional[Annotated[List[Count], Most(MAX_CPUS)]] = None
    destinations: Optional[Whole] = None
    options: Optional[Word] = None

    @property
    def last_ip(self) -> str:
        """Return the last destination address."""
        return str(ipaddress.IPv4Address(self.sink_ip) + (self.destinations or 1) - 1)

    @property
    def paced(self) -> bool:
        """Whether the stream has a pace: not without a delay, and not with one of 1 ns."""
        return self.delay_ns > 1

    def planned_packets(self) -> Tuple[int, str]:
        """Return the most frames to send, and whether the stream ends by "count" or by "duration"."""
        total, reason = self.max_count, "count"
        if self.count is not None:
            total = min(total, self.count)
        if self.duration_s is not None and self.paced:
            in_time = -(-round(self.duration_s * 1e9) // self.delay_ns)
            if in_time < total:
                total, reason = in_time, "duration"
        return total, reason

    def check_fields(self) -> None:
        """Check the ranges. Raises WireError("bad_message") naming the stream and the field."""
        if not self.stream:
            raise WireError("bad_message", "a stream has an empty name")
        if not 1 <= len(self.interface.encode("utf-8", "replace")) <= 15 or set(self.interface) & set("/@ \t\r\n"):
            self._refuse("interface", self.interface, "an interface name of 1 to 15 byte")
        if not _PLUG_IN.match(self.generator):
            self._refuse("generator", self.generator, "%s, or a plug-in's name" % ", ".join(GENERATORS))
        for name in ("destination_mac", "source_mac"):
            value = getattr(self, name)
            if value is not None:
                try:
                    frame.parse_mac(value)
                except ValueError:
                    self._refuse(name, value, "a MAC address such as 02:00:00:00:01:02")
        for name in ("source_ip", "sink_ip"):
            try:
                ipaddress.IPv4Address(getattr(self, name))
            except ValueError:
                self._refuse(name, getattr(self, name), "an IPv4 address")
        self._check_range("udp_source_port", 1, 65535)
        self._check_range("udp_sink_port", 1, 65535)
        self._check_range("pkt_size_bytes", frame.MIN_FRAME_BYTES, 65535)
        self._check_range("delay_ns", 0, MAX_DELAY_NS)
        if self.delay_ns == NEVER_DELAY_NS:
            self._refuse("delay_ns", self.delay_ns, "any other number: pktgen reads this one as never")
        self._check_range("max_count", 1, 2**62)
        if self.count is not None:
            self._check_range("count", 1, self.max_count)
        elif self.duration_s is None:
            self._refuse("count", None, "a count or a duration_s")
        if self.duration_s is not None and not MIN_DURATION_S <= self.duration_s <= MAX_DURATION_S:
            self._refuse("duration_s", self.duration_s, "from %g to %g" % (MIN_DURATION_S, MAX_DURATION_S))
        many = self.destinations
        if many is not None:
            low = int(ipaddress.IPv4Address(self.sink_ip)) % MAX_DESTINATIONS
            if not 1 <= many <= MAX_DESTINATIONS or many & (many - 1) or low % many:
                allowed = "a power of two up to %d, of which sink_ip is a multiple" % MAX_DESTINATIONS
                self._refuse("destinations", many, allowed)
        if self.cpus is not None and not self.cpus:
            self._refuse("cpus", self.cpus, "a list of CPU numbers")

    def _check_range(self, name: str, low: int, high: int) -> None:
        if not low <= getattr(self, name) <= high:
            self._refuse(name, getattr(self, name), "from %d to %d" % (low, high))

    def _refuse(self, name: str, value: Any, allowed: str) -> None:
        raise WireError(
            "bad_message",
            "stream %s: %s is %r; allowed: %s" % (self.stream, name, value, allowed),
            {"stream": self.stream, "field": name},
        )
