"""Times by an external clock: a timekeeper observes the marks that a guest sends before and after its work.

A mark is one ICMP echo request of a size and a pattern that only this trial uses, and its reply. The work begins when
the timekeeper's reply to the first leaves, because the guest waits for it. The work has ended when the second request
arrives (Mattos et al., section 3.1). Sending, waiting and the surrounding shell are subtracted by means of jobs that do
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Moment = Literal["start", "end"]

CLOCK_BYTES = 4
"""busybox writes its own clock in front of the pattern; that clock is not used."""


class EchoPacket(Protocol):
    """An echo request or reply that the timekeeper saw.

    From ``pattern_from_byte`` on its payload is all one byte, ``pattern``, which is None without a payload.
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
    """The payload that distinguishes one mark from all others: its size, and the byte that it repeats."""

    payload_bytes: int
    pattern: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSender:
    """One copy of a job, and what identifies its two marks.

    ``mac``: in lower case, or None if it is not known yet, so that any one matches. ``end``: None if it sends only one.
    """

    name: str
    address: str
    mac: str | None
    start: Nonce
    end: Nonce | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """When a copy's marks were seen, by the timekeeper's wall clock; None if not seen."""

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
    """The marks by sender name, and other packets.

    ``doubled``: senders with a duplicate mark. ``strange_packets``: echo requests that match no sender.
    """

    of: Mapping[str, Marks]
    doubled: tuple[str, ...]
    strange_packets: int


class MarkFinder:
    """Matches packets, in the order of observation, to their senders."""

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
        """Add one packet. Returns its sender if it is new information.

        A mark from another address or MAC than its sender's matches no sender.
        """
        whose = None
        if packet.pattern is not None and (packet.pattern_from_byte or 0) <= CLOCK_BYTES:
            for mac in (packet.mac.lower(), None):
                whose = whose or self._wanted.get((packet.address, mac, packet.payload_bytes, packet.pattern))
        if whose is None:
            self._strange_packets += not packet.reply  # our own reply to an unknown request does not count again
            return None
        name, moment = whose
        key = f"{moment}_{'reply' if packet.reply else 'request'}_ns"
        if key in self._times[name]:
            self._doubled[name] = None
            return None
        self._times[name][key] = packet.wall_ns
        return name

    def found(self) -> MarkResult:
        """The result so far."""
        return MarkResult(
            of={name: Marks(**times) for name, times in self._times.items()},
            doubled=tuple(self._doubled),
            strange_packets=self._strange_packets,
        )


def find_marks(senders: Sequence[MarkSender], seen: Iterable[EchoPacket]) -> MarkResult:
    """Match all observed packets to their senders."""
    finder = MarkFinder(senders)
    for packet in seen:
        finder.see(packet)
    return finder.found()
