"""Foreign packets on the data ports: what counters show beyond the streams, with protocols from the taps. Pure.

Control traffic is on every wire (ARP, IPv6 neighbour and listener discovery, LLDP, spanning tree): a little of it is
reported without a doubt. Packets that could be mistaken for a stream's, or whose protocol is unknown, cause a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labconsole.model.record.run import Figures, StreamRecord
from labconsole.packets.frame import CONTROL
from labconsole.verdict.hops import growth
from labconsole.verdict.observations import StreamObservations, TappedFrames, TrialObservations

CONTROL_PACKETS = 20
CONTROL_RATIO = 1e-4
"""The share of the stream's packets up to which control traffic causes no doubt, per port and direction.

CONTROL_PACKETS applies if that is more.
"""

PROTOCOL_NAMES = {
    "arp": "ARP",
    "nd": "IPv6 neighbour discovery",
    "mld": "IPv6 listener discovery",
    "lldp": "LLDP",
    "stp": "spanning tree",
    "udp_test": "UDP with pktgen's mark",
    "udp_stream": "UDP of the stream's addresses",
    "udp": "other UDP",
    "tcp": "TCP",
    "icmp": "ICMP",
    "icmp_sink": "ICMP port unreachable by which the sink itself answers the stream",
    "icmp_prohibited": "ICMP by which a firewall rejects the stream",
    "icmp_unreachable": "ICMP that the stream's sink is unreachable",
    "icmp_redirect": "ICMP redirects of the stream",
    "icmp_time_exceeded": "ICMP time exceeded of the stream",
    "igmp": "IGMP",
    "icmpv6": "other ICMPv6",
    "ipv4": "other IPv4",
    "ipv6": "other IPv6",
    "llc": "other 802.2",
    "short": "too short to tell",
    "other": "of other kinds",
    "unnamed": "without a name",
}
"""Readable names for the agent's protocol names. A protocol that is not here is an EtherType."""

MAX_NAMED = 4
Port = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Foreign:
    """Packets on a data port that are not the stream's.

    ``direction``: in or out of the port. ``protocols``: number of packets by protocol; those seen by counters only are
    ``unnamed``. ``stream_packets``: the packets that the stream itself had sent.
    """

    node: str
    interface: str
    direction: str
    protocols: dict[str, int]
    stream_packets: int

    @property
    def packets(self) -> int:
        """The number of all foreign packets."""
        return sum(self.protocols.values())

    @property
    def control_packets(self) -> int:
        """The number of packets of known control traffic."""
        return sum(packets for name, packets in self.protocols.items() if name in CONTROL)

    def doubtful(self, tolerated_packets: int) -> bool:
        """Whether there are more than the usual control traffic and the tolerance."""
        return beyond_usual(self.packets, self.control_packets, self.stream_packets) > tolerated_packets

    @property
    def sentence(self) -> str:
        """Readable description, which begins with the interface."""
        verb = "received" if self.direction == "in" else "sent"
        most = sorted(self.protocols.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{packets} {PROTOCOL_NAMES.get(name, f'of type {name}')}" for name, packets in most[:MAX_NAMED]]
        rest = sum(packets for _, packets in most[MAX_NAMED:])
        named_counts = ", ".join([*named, f"{rest} of others"] if rest else named)
        return f"{self.interface} {verb} {self.packets} packets that do not belong to the stream ({named_counts})"

    @property
    def figures(self) -> Figures:
        """The evidence for a reason."""
        return {
            "interface": self.interface,
            "direction": self.direction,
            "packets": self.packets,
            "protocols": self.protocols,
        }


def beyond_usual(packets: int, control_packets: int, stream_packets: int) -> int:
    """The number of foreign packets beyond the usual control traffic."""
    usual = max(CONTROL_PACKETS, CONTROL_RATIO * stream_packets)
    return packets - control_packets + max(0, control_packets - int(usual))


def foreign(seen: TrialObservations, raw: StreamObservations, record: StreamRecord, uut: str) -> Iterator[Foreign]:
    """Every port of a stream where foreign packets passed, in either direction."""
    stream = raw.stream
    source, sink = (stream.source.node, stream.source.interface), (stream.sink.node, stream.sink.interface)
    across = {(uut, stream.uut_in): source, (uut, stream.uut_out): sink} if raw.path.points else {}
    beyond = dict(_beyond(seen, raw, record, uut))
    for place in dict.fromkeys([*beyond, *((end, way) for end in (source, sink) for way in ("in", "out"))]):
        (node, interface), direction = port, way = place
        # The other end of a cable receives what the unit under test's port sends.
        tapped = seen.foreign.get(across.get(port, port))
        named = _named(tapped, way if port not in across else "in" if way == "out" else "out")
        counted = beyond.get(place, 0)
        if port in across and counted:
            named = _cap_counts(named, counted)
        protocols = {**named, "unnamed": max(0, counted - sum(named.values()))}
        protocols = {name: packets for name, packets in protocols.items() if packets}
        if protocols:
            yield Foreign(node, interface, direction, protocols, record.offered_packets or 0)


def _named(tapped: TappedFrames | None, way: str) -> dict[str, int]:
    if tapped is None:
        return {}
    return dict(tapped.received if way == "in" else tapped.sent)


def _cap_counts(named: dict[str, int], counted: int) -> dict[str, int]:
    """The protocols that the other end saw, limited to this port's count; doubtful ones first."""
    found = {}
    for name in sorted(named, key=lambda name: (name in CONTROL, name)):
        found[name] = min(named[name], counted)
        counted -= found[name]
    return found


def _beyond(
    seen: TrialObservations, raw: StreamObservations, record: StreamRecord, uut: str
) -> Iterator[tuple[tuple[Port, str], int]]:
    """Every port and direction that counted more than the stream can have brought there, and by how much."""
    offered, stream = record.offered_packets, raw.stream
    source, sink = (stream.source.node, stream.source.interface), (stream.sink.node, stream.sink.interface)
    inward, outward = (uut, stream.uut_in), (uut, stream.uut_out)
    sent = record.counters.get("source_tx_packets")
    # The upper limit for the stream: the count at the previous port.
    expected: list[tuple[Port, str, int | None]] = [(source, "out", offered), (source, "in", 0)]
    if raw.path.points:
        received = record.counters.get("uut_in_rx_packets")
        expected += [
            (inward, "in", offered if sent is None else sent),
            (inward, "out", 0),
            (outward, "out", offered if received is None else received),
            (outward, "in", 0),
        ]
    captured = record.capture.captured_packets if record.capture is not None and record.capture.complete else None
    before_sink = record.counters.get("uut_out_tx_packets") if raw.path.points else sent
    expected += [(sink, "in", before_sink if captured is None else captured), (sink, "out", 0)]
    for port, direction, most in expected:
        counted = growth(seen, *_interface(port), "rx_packets" if direction == "in" else "tx_packets")
        if counted is not None and most is not None and counted > most:
            yield (port, direction), counted - most


def _interface(port: Port) -> tuple[str, str, str]:
    return port[0], "", port[1]
