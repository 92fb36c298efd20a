"""Commands for a guest's shell to send, and the parser of its answer.

The datagrams go to an address that no node has, by a permanent neighbour entry. So they get no answer, and the sink's
kernel drops what the capture has counted. A guest needs the shell and arp of busybox, and iperf 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from labconsole.wire.guests import AskedGuests

SINK_ADDRESS = "198.18.127.1"
"""In the guests' network, beyond the addresses of timekeepers."""

PROGRAM = "iperf"
SINK_PORT = 5001
"""iperf's default port."""

FIRST_SOURCE_PORT, PORTS_PER_GUEST = 20_000, 32
OUTPUT_BYTES = 400
_SENT_FOR = re.compile(r"\b0\.0+- *(\d{1,6}\.\d{1,6}) sec\b")
_ANSWER = re.compile(r"^LCFLOW (.*) ST (\d{1,3})\|?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sending:
    """What one guest, numbered from 0, is to send. ``neighbour``: the sink's MAC address, or None for a guest without a
    network stack of its own, which needs no entry.
    """

    guest: int
    address: str
    flows: int
    offered_bps: int
    payload_bytes: int
    duration_s: float
    after_s: float = 0.0
    neighbour: str | None = None

    @property
    def ports(self) -> range:
        """The UDP source ports of its flows."""
        first = FIRST_SOURCE_PORT + PORTS_PER_GUEST * self.guest
        return range(first, first + self.flows)

    def line(self) -> str:
        """The command that sends. It removes the guest's neighbour entry at the end, because a guest that is not ours
        would keep it.
        """
        flows = f" -P {self.flows} --incr-srcport" if self.flows > 1 else ""
        work = (
            f"iperf -c {SINK_ADDRESS} -p {SINK_PORT} -u -l {self.payload_bytes} -b {self.offered_bps} "
            f"-t {self.duration_s:g} -B {self.address}:{self.ports[0]}{flows} --no-udp-fin"
        )
        return build_shell_line(work, after_s=self.after_s, neighbour=self.neighbour)


def build_shell_line(work: str, *, after_s: float, neighbour: str | None) -> str:
    """Command that does ``work`` after a delay and prints how it ended. ``neighbour``: see Sending."""
    wait = f"sleep {after_s:g}; " if after_s else ""
    tell = "" if neighbour is None else f"busybox arp -s {SINK_ADDRESS} {neighbour}; "
    forget = "" if neighbour is None else f"busybox arp -d {SINK_ADDRESS} >/dev/null 2>&1; "
    said = f"o=$({{ {work}; echo \" ST $?\"; }} 2>&1 | tail -c {OUTPUT_BYTES} | tr '\\n' '|'); "
    return f'{tell}{wait}{said}{forget}printf "%s\\n" "LCFLOW $o"'


@dataclass(frozen=True, slots=True)
class SenderAnswer:
    """How sending ended in a guest. ``exit_status``: None if the guest's answer cannot be read."""

    exit_status: int | None = None
    output: str = ""


def read_answer(printed: str) -> SenderAnswer:
    """Parse a guest's answer."""
    found = _ANSWER.search(printed.replace("\r", ""))
    return SenderAnswer() if found is None else SenderAnswer(int(found[2]), found[1].strip(" |"))


def reported_sent_s(output: str) -> float | None:
    """Sending time of iperf's longest flow, by its own report and its guest's clock, or None without a report."""
    found = [float(each) for each in _SENT_FOR.findall(output)]
    return max(found, default=0.0) or None


def silent_guests(answered: AskedGuests) -> Iterator[tuple[str, str]]:
    """Guests that did not report that they had sent all, and why."""
    for each in answered.guests:
        if each.code:
            yield each.guest, each.message or each.code
