"""Guests that are sent to from outside: what each is told, what it counts, and where what did not arrive went. Pure.

Only inside can be counted what arrived: the guest's counts are taken, its clock is not. A rate is what was read over
the time that the source sent. Nobody believes the reader itself; it only has to take datagrams out of its socket.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.flow.figures import HEADER_BYTES
from labconsole.experiments.flow.script import FIRST_SOURCE_PORT, SINK_ADDRESS, SINK_PORT
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.model.record.flow import FlowRequested, HopLoss, ReceiverSeen, SourceSeen
from labconsole.model.record.run import Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observed import Snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.generator import SentStream
from labconsole.wire.stream_spec import MAX_DELAY_NS, StreamSpec

FAR_ADDRESS = SINK_ADDRESS
"""That datagrams come from: nobody has it, so that nothing a guest says to it is answered."""

TAUGHT_EVERY_S = 50
"""So often a guest sends a ping there: a bridge forgets after 300 s behind which port it is, and then gives its frames
to all.
"""

READ_LINE = "cat /proc/net/route /proc/net/dev /proc/net/snmp /proc/net/udp"
LISTEN_TRIES, LISTEN_NAP_S = 50, 0.1
SLACK_RATIO, SLACK_S = 0.02, 0.05
"""How much longer than asked the source may take for its count before it is stopped by time."""

RX, TX, TX_DROPPED = map(STAT_NAMES.index, ("rx_packets", "tx_packets", "tx_dropped"))
_MOST = 2**63
_ROUTE = re.compile(r"^(\S{1,15})\t([0-9A-F]{8})\t", re.MULTILINE)
_DEVICE = re.compile(r"^ *(\S{1,15}): *\d{1,20} +(\d{1,18}) ", re.MULTILINE)
_TABLE = re.compile(r"^(Ip|Udp): ([A-Za-z].*)\n\1: ([-\d ]+)$", re.MULTILINE)
_READERS = re.compile(r"^ *\d{1,9}: ([0-9A-F]{8}):([0-9A-F]{4}) ", re.MULTILINE)
_READER = re.compile(r"^LCREADER (\d{1,10}) (\d{1,10})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InwardGuest:
    """One guest; ``own_stack``: it has a network stack of its own, and not the UUT's."""

    name: str
    address: str
    mac: str
    host_interface: str | None
    own_stack: bool

    def begin_line(self, source_mac: str) -> str:
        """Starts the reader and waits until it listens. A guest with a stack of its own is told whose the address of
        the datagrams is, and sends there now and then.
        """
        teach = (
            f"busybox arp -s {FAR_ADDRESS} {source_mac}; "
            f"busybox ping -i {TAUGHT_EVERY_S} {FAR_ADDRESS} >/dev/null 2>&1 & h=$!; "
        )
        listens = f"grep -q '{_little_endian(self.address)}:{SINK_PORT:04X} ' /proc/net/udp"
        return (
            f"h=0; {teach if self.own_stack else ''}"
            f"iperf -s -u -p {SINK_PORT} -B {self.address} >/dev/null 2>&1 & r=$!; i=0; "
            f"while [ $i -lt {LISTEN_TRIES} ] && ! {listens}; do sleep {LISTEN_NAP_S:g}; i=$((i+1)); done; "
            'echo "LCREADER $r $h"'
        )

    def end_line(self, processes: Sequence[int]) -> str:
        """Ends what begin_line() started."""
        forget = f"busybox arp -d {FAR_ADDRESS} >/dev/null 2>&1; " if self.own_stack else ""
        return f"{forget}kill -KILL {' '.join(map(str, processes))} 2>/dev/null; :"


def processes_of(printed: str) -> list[int]:
    """What begin_line() started, by what it said; none where it said nothing that can be read."""
    found = _READER.search(printed.replace("\r", ""))
    return [] if found is None else [int(each) for each in found.groups() if int(each) > 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCounts:
    """What a guest has counted since it was started. None: it does not say. ``others``: packets in at all its other
    interfaces; ``reader``: whether its reader's socket is there.
    """

    nic: int | None
    others: int | None
    ip: int | None
    udp: int | None
    socket_full: int | None
    no_reader: int | None
    errors: int | None
    reader: bool


def read_counts(printed: str, address: str, network: str) -> GuestCounts:
    """``network``: the address of that in which the guest's NIC is."""
    text = printed.replace("\r", "")
    wanted, own = _little_endian(network), _little_endian(address)
    nic = next((device for device, to in _ROUTE.findall(text) if to == wanted), None)
    devices = {device: int(packets) for device, packets in _DEVICE.findall(text)}
    tables: dict[str, dict[str, int]] = {}
    for table, names, values in _TABLE.findall(text):
        numbers = [int(each) for each in values.split() if re.fullmatch(r"-?\d{1,18}", each)]
        if len(numbers) == len(names.split()):
            tables[table] = {name: value for name, value in zip(names.split(), numbers, strict=True) if value >= 0}
    ip, udp = tables.get("Ip", {}), tables.get("Udp", {})
    return GuestCounts(
        nic=None if nic is None else devices.get(nic),
        others=None if nic is None else sum(packets for device, packets in devices.items() if device != nic),
        ip=ip.get("InDelivers"),
        udp=udp.get("InDatagrams"),
        socket_full=udp.get("RcvbufErrors"),
        no_reader=udp.get("NoPorts"),
        errors=udp.get("InErrors"),
        reader=any((own, f"{SINK_PORT:04X}") == found for found in _READERS.findall(text)),
    )


def _little_endian(address: str) -> str:
    """As the kernel's tables of a machine of that byte order have it, which all are that guests run on."""
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))


@dataclass(frozen=True, slots=True, kw_only=True)
class InwardWindow:
    """``before`` and ``after``: counters of the UUT and of the source, ``counted`` those of each guest at both ends;
    ``silent``: guests that did not answer, and why.
    """

    sent: Mapping[str, SentStream]
    before: tuple[Snapshot, Snapshot]
    after: tuple[Snapshot, Snapshot]
    counted: Mapping[str, tuple[GuestCounts | None, GuestCounts | None]]
    silent: tuple[tuple[str, str], ...] = ()

    def moved(self, node: int, interface: str | None, statistic: int) -> int | None:
        """What an interface of the UUT (0) or of the source (1) counted; None: it was not there all the time."""
        before, after = (side[node].get(("", interface or "")) for side in (self.before, self.after))
        if before is None or after is None or after.values[statistic] < before.values[statistic]:
            return None
        return after.values[statistic] - before.values[statistic]


def stream_of(
    guest: InwardGuest,
    number: int,
    requested: FlowRequested,
    interface: str,
    generator: str,
    cpus: Sequence[int] | None,
) -> StreamSpec:
    """What the source sends to a guest, counted from 0. Raises ValueError for less than it can."""
    delay_ns = max(1, round(8e9 * requested.payload_bytes / requested.offered_bps))
    if delay_ns > MAX_DELAY_NS:
        raise ValueError(f"{requested.offered_bps} bit/s are less than a datagram in {MAX_DELAY_NS / 1e9:.0f} s")
    count = max(1, round(requested.duration_s * 1e9 / delay_ns))
    return StreamSpec(
        stream=guest.name,
        interface=interface,
        generator=generator,
        destination_mac=guest.mac,
        source_ip=FAR_ADDRESS,
        sink_ip=guest.address,
        udp_source_port=FIRST_SOURCE_PORT + number,
        udp_sink_port=SINK_PORT,
        pkt_size_bytes=requested.payload_bytes + HEADER_BYTES,
        delay_ns=delay_ns,
        count=count,
        duration_s=requested.duration_s * (1 + SLACK_RATIO) + SLACK_S,
        max_count=2 * count,
        cpus=list(cpus) if cpus else None,
    )


def receiver_seen(guest: InwardGuest, window: InwardWindow, payload_bytes: int) -> ReceiverSeen:
    """What is known of one guest."""
    sent = window.sent.get(guest.name)
    before, after = window.counted.get(guest.name, (None, None))

    def difference(name: str) -> int | None:
        first, last = (None if side is None else getattr(side, name) for side in (before, after))
        return None if first is None or last is None or last < first else int(last - first)

    sent_packets = None if sent is None else sent.sent_packets
    sent_s = None if sent is None or not sent.elapsed_ns else sent.elapsed_ns / 1e9
    handed = window.moved(0, guest.host_interface, TX)
    nic, read, full = difference("nic"), difference("udp"), difference("socket_full")
    no_reader, errors = difference("no_reader"), difference("errors")
    # Where another NIC of the guest received, too, its IP layer's count is not of ours alone.
    ip = difference("ip") if difference("others") == 0 else None
    other_errors = None if errors is None or full is None else errors - full
    losses, unplaced = ledger(sent_packets, handed, nic, ip, read, full, no_reader, other_errors)
    return ReceiverSeen(
        guest=guest.name,
        address=guest.address,
        mac=guest.mac,
        host_interface=guest.host_interface,
        sent_packets=sent_packets,
        started_ns=None if sent is None else sent.started_monotonic_ns,
        sent_s=sent_s,
        stopped_by="" if sent is None else sent.stopped_by,
        errors=None if sent is None else sent.errors,
        output="" if sent is None else sent.error_text or "",
        offered_bps=rate_bps(sent_packets, sent_s, payload_bytes),
        handed_packets=handed,
        dropped_packets=window.moved(0, guest.host_interface, TX_DROPPED),
        nic_packets=nic,
        ip_packets=ip,
        udp_packets=read,
        socket_full_packets=full,
        no_reader_packets=no_reader,
        error_packets=other_errors,
        reader=None if before is None or after is None else before.reader and after.reader,
        lost_packets=None if sent_packets is None or read is None else sent_packets - read,
        losses=losses,
        unplaced_packets=unplaced,
        payload_bps=rate_bps(read, sent_s, payload_bytes),
    )


def rate_bps(packets: int | None, sent_s: float | None, payload_bytes: int) -> float | None:
    """Payload of so many packets in the time that the source sent."""
    return None if packets is None or not sent_s else packets * payload_bytes * 8 / sent_s


def ledger(
    sent: int | None,
    handed: int | None,
    nic: int | None,
    ip: int | None,
    read: int | None,
    full: int | None,
    no_reader: int | None,
    errors: int | None,
) -> tuple[tuple[HopLoss, ...], int | None]:
    """What was lost at each place that two counts enclose, and what of all that was lost is at none of them.

    ``guest_unread``: what the guest's IP layer delivered and its UDP layer has neither given to the reader nor refused:
    it waits in a socket.
    """
    found: list[HopLoss] = []
    former = sent
    for hop, count in (("to_guest", handed), ("guest_nic", nic), ("guest_udp", ip)):
        if count is None:
            continue
        if former is not None:
            found.append(HopLoss(hop=hop, packets=former - count))
        former = count
    refused = {"guest_no_reader": no_reader, "guest_socket_full": full, "guest_errors": errors}
    found += [HopLoss(hop=hop, packets=count) for hop, count in refused.items() if count is not None]
    if ip is not None and None not in (read, full, no_reader, errors):
        found.append(
            HopLoss(hop="guest_unread", packets=ip - sum(each or 0 for each in (read, full, no_reader, errors)))
        )
    if sent is None or read is None:
        return tuple(found), None
    return tuple(found), sent - read - sum(each.packets for each in found)


def source_seen(
    node: str, interface: str, mac: str, uut_interface: str, window: InwardWindow, generator: str
) -> SourceSeen:
    """What left the source and came to the UUT, of all kinds."""
    return SourceSeen(
        node=node,
        interface=interface,
        mac=mac,
        address=FAR_ADDRESS,
        generator=generator,
        nic_packets=window.moved(1, interface, TX),
        uut_interface=uut_interface,
        uut_packets=window.moved(0, uut_interface, RX),
    )


def inward_sum(receivers: Sequence[ReceiverSeen]) -> tuple[float | None, float | None]:
    """What all read together, and how equal their parts are by Jain's index; None: it is not known of one."""
    rates = [each.payload_bps for each in receivers if each.payload_bps is not None]
    if not rates or len(rates) < len(receivers):
        return None, None
    return sum(rates), jain_index(rates)


def inward_skew_s(receivers: Sequence[ReceiverSeen]) -> float | None:
    """Between the first and the last beginning of what they are sent; None: there are no two."""
    begun = [each.started_ns for each in receivers if each.started_ns is not None]
    return (max(begun) - min(begun)) / 1e9 if len(begun) > 1 else None


def inward_reasons(
    requested: FlowRequested, receivers: Sequence[ReceiverSeen], source: SourceSeen | None, limits: Tolerances
) -> Iterator[Reason]:
    """What a record shows, so that whoever has it can judge again."""
    for each in receivers:
        yield from _sent(requested, each, limits)
        yield from _read(each)
        yield from _more_than_given(each, limits)
    sent = [each.sent_packets for each in receivers]
    if source is None or not receivers or None in sent:
        return
    total = sum(packets or 0 for packets in sent)
    where = f"{source.node}/{source.interface}"
    if source.nic_packets is not None and source.nic_packets < total:
        detail = f"{where}: {total} packets were sent, and {source.nic_packets} left its NIC"
        yield reason("lost_at_source", detail, node=source.node, packets=total - source.nic_packets)
    if source.uut_packets is not None and source.uut_packets - total > limits.foreign_packets:
        detail = f"{source.uut_packets} packets came in at {source.uut_interface}, of {total} that were sent"
        yield reason("foreign_frames", detail, packets=source.uut_packets - total)


def _sent(requested: FlowRequested, each: ReceiverSeen, limits: Tolerances) -> Iterator[Reason]:
    if each.sent_packets is None or each.sent_s is None or each.stopped_by == "error":
        why = f": {each.output}" if each.output else ""
        yield reason("generator_failed", f"the source did not send to {each.guest} as asked{why}", guest=each.guest)
        return
    if each.sent_packets == 0:
        yield reason("no_packets", f"nothing was sent to {each.guest}", guest=each.guest)
    if each.errors:
        yield reason("generator_errors", f"{each.errors} errors in sending to {each.guest}", guest=each.guest)
    offered_bps = each.offered_bps or 0.0
    if offered_bps < (1 - limits.offered_ratio) * requested.offered_bps:
        detail = (
            f"{each.guest} was sent {offered_bps:.0f} bit/s of payload, of {requested.offered_bps} that were asked for"
        )
        yield reason("offered_short", detail, guest=each.guest, offered_bps=offered_bps)
    if each.sent_s < (1 - limits.duration_ratio) * requested.duration_s:
        detail = f"{each.guest} was sent to for {each.sent_s:.3f} s, of {requested.duration_s:g}"
        yield reason("duration_cut", detail, guest=each.guest, sent_s=each.sent_s)
    elif each.sent_s > (1 + limits.duration_ratio) * requested.duration_s:
        detail = f"{each.guest} was sent to for {each.sent_s:.3f} s instead of {requested.duration_s:g}"
        yield reason("duration_stretched", detail, guest=each.guest, sent_s=each.sent_s)


def _read(each: ReceiverSeen) -> Iterator[Reason]:
    if each.udp_packets is None:
        yield reason("not_measured", f"{each.guest} did not say how many datagrams it read", guest=each.guest)
    elif not each.reader:
        detail = f"{each.guest}: its reader had no socket at both ends of the trial"
        yield reason("reader_missing", detail, guest=each.guest)


def _more_than_given(each: ReceiverSeen, limits: Tolerances) -> Iterator[Reason]:
    """Nobody counts more than was given to it: on the way nothing is made."""
    if None not in (each.handed_packets, each.sent_packets):
        surplus = (each.handed_packets or 0) - (each.sent_packets or 0)
        if surplus > limits.foreign_packets:
            detail = f"{each.guest} was handed {surplus} packets more than were sent to it"
            yield reason("foreign_frames", detail, guest=each.guest, packets=surplus)
    taken = [each.udp_packets, each.socket_full_packets, each.no_reader_packets, each.error_packets]
    at_udp = None if None in taken else sum(count or 0 for count in taken)
    places = [
        ("sent to it", each.sent_packets), ("handed to it", each.handed_packets), ("in at its NIC", each.nic_packets),
        ("delivered by its IP layer", each.ip_packets), ("counted by its UDP layer", at_udp),
    ]  # fmt: skip
    known = [(words, count) for words, count in places if count is not None]
    for (words, count), (more_words, more) in itertools.pairwise(known):
        if more > count and words != "sent to it":
            detail = f"{each.guest}: {more} packets {more_words}, and {count} {words}"
            yield reason("witnesses_disagree", detail, guest=each.guest)
    if None not in (each.udp_packets, each.sent_packets) and (each.udp_packets or 0) > (each.sent_packets or 0):
        detail = f"{each.guest} read {each.udp_packets} datagrams, and was sent {each.sent_packets}"
        yield reason("witnesses_disagree", detail, guest=each.guest)
