"""Commands for a guest's shell to send, its answer, and the observations of one window of sending. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.engine.crew_sink import RX, SinkWindow, count_arrivals
from labconsole.experiments.flow.rates import offered_bps, own_rate, sent_for_s
from labconsole.experiments.flow.record import FlowRequested, LimiterRecord, SenderRecord, SinkFlowRecord, SinkRecord
from labconsole.wire.guests import AskedGuest, AskedGuests
from labconsole.wire.queues import TakenChanges

# -- commands ----------------------------------------------------------------------------------------------------------
# Commands for a guest's shell to send, and the parser of its answer.
#
# The datagrams go to an address that no node has, by a permanent neighbour entry. So they get no answer, and the sink's
# kernel drops what the capture has counted. A guest needs the shell and arp of busybox, and iperf 2.

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


# -- observations ------------------------------------------------------------------------------------------------------
# Observations of one window of sending, and the parts of a record that follow from them.


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSender:
    """A guest that sends: where its packets come from, and the UUT's interface at which they arrive."""

    name: str
    address: str
    mac: str
    host_interface: str | None
    sending: Sending


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowWindow(SinkWindow):
    """Observations of one window. ``taken``: changes of weights; ``kept_bps``: the guests' rates by them at the end."""

    answered: AskedGuests
    limiters: Mapping[str, LimiterRecord] = field(default_factory=dict)
    taken: TakenChanges | None = None
    kept_bps: tuple[int | None, ...] = ()

    @property
    def silent(self) -> tuple[tuple[str, str], ...]:
        """Guests that did not report that they had sent all, and why."""
        return tuple(silent_guests(self.answered))

    def said(self, guest: str) -> AskedGuest | None:
        """The output of a guest's console, or None."""
        return next((each for each in self.answered.guests if each.guest == guest), None)


def build_flows(senders: Sequence[FlowSender], window: FlowWindow) -> tuple[SinkFlowRecord, ...]:
    """Every flow of the crew, including those without packets; empty if nothing was captured."""
    if (counted := window.counted) is None:
        return ()
    return tuple(
        count_arrivals(counted.get((sender.mac, port, SINK_PORT))).build_record(
            SinkFlowRecord, guest=sender.name, flow=number, udp_source_port=port
        )
        for sender in senders
        for number, port in enumerate(sender.sending.ports, 1)
    )


def build_sender(
    sender: FlowSender,
    flows: Sequence[SinkFlowRecord],
    window: FlowWindow,
    requested: FlowRequested,
    shared_bps: float | None,
) -> SenderRecord:
    """Build the record of one guest."""
    said = window.said(sender.name)
    answer = SenderAnswer() if said is None or said.printed is None else read_answer(said.printed)
    packets = sum(flow.packets for flow in flows if flow.guest == sender.name)
    host_packets = window.count(0, sender.host_interface, RX)
    return SenderRecord(
        guest=sender.name,
        address=sender.address,
        mac=sender.mac,
        host_interface=sender.host_interface,
        host_packets=host_packets,
        offered_bps=offered_bps(host_packets, sent_for_s(flows, sender.name), requested.payload_bytes),
        limiter=window.limiters.get(sender.name),
        exit_status=answer.exit_status,
        output=answer.output,
        packets=packets,
        lost_packets=None if host_packets is None or window.capture is None else host_packets - packets,
        payload_bps=own_rate(flows, sender.name, requested.payload_bytes),
        shared_bps=shared_bps,
    )


def build_sink(
    node: str, interface: str, mac: str, flows: Sequence[SinkFlowRecord], window: FlowWindow, *, marks: int = 0
) -> SinkRecord | None:
    """Build the record of all that the sink counted, or None if it did not capture. ``marks``: packets of ours that
    belong to no flow.
    """
    own_packets = sum(flow.packets for flow in flows) + marks
    fragments = 0 if window.flows is None else window.flows.fragments
    return window.build_sink(SinkRecord, node, interface, mac, own_packets, address=SINK_ADDRESS, fragments=fragments)
