"""Times by a clock outside: what a timekeeper saw of the marks that a guest sends before and after its work.

A mark is one ICMP echo request of a size and a pattern that only this trial knows, and its reply. The work begins when
the timekeeper's reply to the first leaves, because the guest waits for it, and has ended when the second request comes
(Mattos et al., section 3.1). Sending, waiting and the shell around are taken off by jobs that do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Moment = Literal["start", "end"]

CLOCK_BYTES = 4
"""In front of the pattern busybox writes its own clock, which nobody believes."""


class EchoPacket(Protocol):
    """An echo request or reply that the timekeeper saw. From ``pattern_from_byte`` on its payload is all one byte,
    ``pattern``; None: it has no payload.
    """

    @property
    def reply(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def mac(self) -> str: ...
    @property
    def payload_bytes(self) -> int: ...
    @property
    def pattern(self) -> int | None: ...
    @property
    def pattern_from_byte(self) -> int | None: ...
    @property
    def wall_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Nonce:
    """What tells one mark from all others: the size of its payload and the byte that this is made of."""

    payload_bytes: int
    pattern: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSender:
    """One copy of a job, and by what its two marks are known. ``mac`` in lower case, None: not known yet, so that any
    will do. ``end`` None: it sends one only.
    """

    name: str
    address: str
    mac: str | None
    start: Nonce
    end: Nonce | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """When a copy's marks were seen, by the timekeeper's wall clock; None: not seen."""

    start_request_ns: int | None = None
    start_reply_ns: int | None = None
    end_request_ns: int | None = None
    end_reply_ns: int | None = None

    @property
    def outside_ns(self) -> int | None:
        """From the first reply to the second request."""
        if self.start_reply_ns is None or self.end_request_ns is None:
            return None
        return self.end_request_ns - self.start_reply_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkResult:
    """The marks of each sender by its name, and what else came. ``doubled``: senders of which one came twice;
    ``strange_packets``: echo requests that are nobody's mark.
    """

    of: Mapping[str, Marks]
    doubled: tuple[str, ...]
    strange_packets: int


class MarkFinder:
    """Matches packets, in the order in which they were seen, to who sent them."""

    def __init__(self, senders: Sequence[MarkSender]) -> None:
        self._wanted: dict[tuple[str, str | None, int, int], tuple[str, Moment]] = {}
        for sender in senders:
            moments: dict[Moment, Nonce | None] = {"start": sender.start, "end": sender.end}
            for moment, nonce in moments.items():
                if nonce is None:
                    continue
                key = sender.address, sender.mac, nonce.payload_bytes, nonce.pattern
                self._wanted[key] = (sender.name, moment)
        self._times: dict[str, dict[str, int]] = {sender.name: {} for sender in senders}
        self._doubled: dict[str, None] = {}
        self._strange_packets = 0

    def see(self, packet: EchoPacket) -> str | None:
        """One packet more; whose it is, if it says something new. A mark from another address, or MAC, than its
        sender's is nobody's.
        """
        whose = None
        if packet.pattern is not None and (packet.pattern_from_byte or 0) <= CLOCK_BYTES:
            for mac in (packet.mac.lower(), None):
                whose = whose or self._wanted.get((packet.address, mac, packet.payload_bytes, packet.pattern))
        if whose is None:
            self._strange_packets += not packet.reply  # the answer to a stranger is ours, and follows from it
            return None
        name, moment = whose
        key = f"{moment}_{'reply' if packet.reply else 'request'}_ns"
        if key in self._times[name]:
            self._doubled[name] = None
            return None
        self._times[name][key] = packet.wall_ns
        return name

    def found(self) -> MarkResult:
        """What was seen so far."""
        return MarkResult(
            of={name: Marks(**times) for name, times in self._times.items()},
            doubled=tuple(self._doubled),
            strange_packets=self._strange_packets,
        )


def find_marks(senders: Sequence[MarkSender], seen: Iterable[EchoPacket]) -> MarkResult:
    """Match all that was seen to who sent it."""
    finder = MarkFinder(senders)
    for packet in seen:
        finder.see(packet)
    return finder.found()
