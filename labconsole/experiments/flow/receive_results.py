"""Results of guests that receive: what each was sent and read, and at which place the rest was lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.experiments.flow.receive import FAR_ADDRESS, ReceiveWindow, ReceivingGuest
from labconsole.experiments.flow.record import HopLoss, ReceiverRecord, SourceRecord
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.wire.codec import STAT_NAMES

RX, TX, TX_DROPPED = map(STAT_NAMES.index, ("rx_packets", "tx_packets", "tx_dropped"))


def build_receiver(guest: ReceivingGuest, window: ReceiveWindow, payload_bytes: int) -> ReceiverRecord:
    """Build the record of one guest."""
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
    # If another NIC of the guest received too, its IP layer counted more than our packets.
    ip = difference("ip") if difference("others") == 0 else None
    other_errors = None if errors is None or full is None else errors - full
    losses, unplaced = ledger(sent_packets, handed, nic, ip, read, full, no_reader, other_errors)
    return ReceiverRecord(
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
    """Payload rate of these packets over the time that the source sent, in bit/s."""
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
    """The packets lost at each place between two counts, and the lost packets that are at none of them.

    ``guest_unread``: packets that the guest's IP layer delivered and that its UDP layer neither gave to the reader nor
    refused. They wait in a socket.
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


def lost_packets(receivers: Sequence[ReceiverRecord]) -> dict[str, tuple[int, int]]:
    """Packets lost at each place, and ``unplaced``, each with the number sent to all guests. Omits a place if a count
    of one guest is not known.
    """
    sent = [each.sent_packets for each in receivers]
    total = 0 if None in sent else sum(each or 0 for each in sent)
    places: list[dict[str, int | None]] = [
        {**{loss.hop: loss.packets for loss in each.losses}, "unplaced": each.unplaced_packets} for each in receivers
    ]
    found: dict[str, tuple[int, int]] = {}
    for place in dict.fromkeys(place for each in places for place in each):
        counts = [each.get(place) for each in places]
        if total and None not in counts:
            found[place] = sum(each or 0 for each in counts), total
    return found


def build_source(
    node: str, interface: str, mac: str, uut_interface: str, window: ReceiveWindow, generator: str
) -> SourceRecord:
    """Build the record of everything that left the source and that arrived at the UUT, of any kind."""
    return SourceRecord(
        node=node,
        interface=interface,
        mac=mac,
        address=FAR_ADDRESS,
        generator=generator,
        nic_packets=window.moved(1, interface, TX),
        uut_interface=uut_interface,
        uut_packets=window.moved(0, uut_interface, RX),
    )


def sum_received(receivers: Sequence[ReceiverRecord]) -> tuple[float | None, float | None]:
    """Sum of the guests' rates, and Jain's index over them; both are None if one rate is not known."""
    rates = [each.payload_bps for each in receivers if each.payload_bps is not None]
    if not rates or len(rates) < len(receivers):
        return None, None
    return sum(rates), jain_index(rates)


def receive_skew_s(receivers: Sequence[ReceiverRecord]) -> float | None:
    """Time between the first and the last start of the streams, or None if there are not two."""
    begun = [each.started_ns for each in receivers if each.started_ns is not None]
    return (max(begun) - min(begun)) / 1e9 if len(begun) > 1 else None
