"""Time marks: ICMP echoes by which a guest tells a node outside when its work begins and ends.

``busybox ping -c 1 -s SIZE -p HEX`` sends ``SIZE`` bytes of payload. The first four are the sender's own clock, which
is not trusted; the pattern fills the others, and the field ``code`` of the ICMP header, too. The kernel's answer
repeats all of that.
"""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Most, Name, Port, Rule, Sentence, Word, bad, whole
from labconsole.wire.session import Clocks

MAX_MARKS = 8192
"""Most packets examined, including those that are no marks; of later ones the kernel only counts the packets."""

MAX_PAYLOAD_BYTES = 65535 - 20 - 8

Byte = Annotated[int, Rule(whole(0, 255))]
PayloadBytes = Annotated[int, Rule(whole(0, MAX_PAYLOAD_BYTES))]


class TimeMark(Message):
    """An echo request as it came in, or (``reply``) an echo reply as it went out. ``wall_ns``: the kernel's stamp.

    ``address``, ``mac``: the other end's. ``pattern``: the payload's last byte, which fills the payload from
    ``pattern_from_byte`` on (busybox: from 4, or earlier by chance), or None without a payload.
    """

    reply: bool
    address: Name
    mac: Name
    icmp_id: Port
    icmp_sequence: Port
    icmp_code: Byte
    payload_bytes: PayloadBytes
    pattern: Optional[Byte]
    pattern_from_byte: Optional[PayloadBytes]
    wall_ns: Count

    def check_fields(self) -> None:
        """Check that a payload has a last byte, and that its pattern begins within it."""
        begins = -1 if self.pattern_from_byte is None else self.pattern_from_byte
        if (self.pattern is None) != (begins < 0) or (begins < 0) != (self.payload_bytes == 0):
            raise bad("pattern", "contradicts pattern_from_byte or payload_bytes")
        if begins >= max(self.payload_bytes, 1):
            raise bad("pattern_from_byte", "is not inside the payload")


class StartMarks(Request[Done], op="marks.start"):
    """Start to keep the echo requests to this IPv4 address that come in here, and the replies that go out."""

    marks: Word
    interface: Word
    address: Word
    namespace: Optional[Word] = None


class SeenMarks(Message):
    """All marks in the order in which the kernel saw them.

    ``untold_marks``: the number of these without an event, because too much waited for the console.
    ``strange_packets``: echoes to or from the address that are no marks: fragments, cut short or with a wrong checksum,
    requests that went out or were for another MAC address, replies that came in. ``dropped_kernel_packets``: the kernel
    had no room for them. ``unread_packets``: arrived after 8192 had been examined. ``interrupted``: why some may be
    missing, such as "Network is down".
    """

    marks: Annotated[List[TimeMark], Most(MAX_MARKS)]
    untold_marks: Count
    strange_packets: Count
    dropped_kernel_packets: Count
    unread_packets: Count
    started: Clocks
    stopped: Clocks
    interrupted: Optional[Sentence]

    @property
    def clock_step_ns(self) -> int:
        """Return how far the wall clock was set forward meanwhile: its gain on the monotonic clock."""
        gained = self.stopped.wall_ns - self.started.wall_ns
        return gained - (self.stopped.monotonic_ns - self.started.monotonic_ns)


class StopMarks(Request[SeenMarks], op="marks.stop"):
    """Stop, and return all marks seen."""

    marks: Word


class MarkSeen(AgentEvent, kind="mark.seen"):
    """A mark came in or went out."""

    marks: Name
    mark: TimeMark
