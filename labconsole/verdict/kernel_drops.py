"""Drops that the unit under test's kernel reports, by hop, compared with the loss that the counters show. Pure.

A packet is dropped at the interface by which it arrived until it has been passed to the one by which it shall leave.
Drops at an interface that sends a stream's packets therefore belong to that hop, and drops at one that receives them
belong to the next hop.

Two kinds of drops appear at the receiving end of a link although neither end has counted the packet: a sender's check
of the other end's ring, and packets for an end that is down. They belong to the hop that counts the sender's packets,
if there is one.

If the unit under test is a virtual machine, its host forwards what it receives and sends. Packets that the host dropped
on the way to a NIC by which a stream enters never reached that NIC. Packets that it dropped on the way from the NIC by
which the stream leaves never reached the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from labconsole.model.inventory import Stream
from labconsole.model.record.extensions import HOST_KERNEL_DROPS, KERNEL_DROPS, KERNEL_DROPS_VERSION
from labconsole.model.record.run import Figures, Reason, StreamRecord
from labconsole.verdict.observations import CountingPoint, KernelWitness, TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.kernel_drops import KernelDrop, KernelDrops, estimated_cost_ns

COST_RATIO = 0.01
"""The share of a processor over the trial above which counting may have changed the measurement."""

MOST_OF_COST_RATIO = 0.5
"""The share of counting's cost above which the reason names packets of other namespaces as its cause."""

MOST_WITHOUT_UUT = 2
"""Length of a path from source to sink without a unit under test in between."""

_RECEIVER_DOWN = ("DEV_READY", "enqueue_to_backlog")
_INTO_GUEST, _OUT_OF_GUEST = "to_guest", "from_guest"
_NO_LOSS = ("pktgen_", "tpacket_rcv", "packet_rcv")
"""Functions of the generator and of captures, which discard no packets of the stream.

The generator returns its own reference to a packet where the packet went; captures discard their copies when they have
no room.
"""


def find_stream_drops(kernel: KernelWitness | None, stream: int) -> list[KernelDrop]:
    """The rows of one stream that are losses."""
    if kernel is None or kernel.drops is None:
        return []
    return [row for row in kernel.drops.rows if row.stream == stream and not (row.function or "").startswith(_NO_LOSS)]


def find_hop(row: KernelDrop, way: Sequence[CountingPoint], uut: str) -> CountingPoint | None:
    """The hop that a dropped packet did not reach, or None if the interface is not on the stream's path."""
    for at, place in enumerate(way):
        if place.node != uut or (place.namespace, place.interface) != (row.namespace, row.interface):
            continue
        if not place.statistic.startswith("rx"):
            return place
        if _is_before_receiver(row):
            sender = way[at - 1] if at else None
            if sender is None or not sender.statistic.startswith("tx"):
                return place
            return place if (sender.hop, place.hop) == (_INTO_GUEST, _OUT_OF_GUEST) else sender
        if at + 1 < len(way):
            return way[at + 1]
    return _find_guest_hop(row, way)


def _is_before_receiver(row: KernelDrop) -> bool:
    return row.function == "veth_xmit" or (row.reason, row.function) == _RECEIVER_DOWN


def _find_guest_hop(row: KernelDrop, way: Sequence[CountingPoint]) -> CountingPoint | None:
    """The hop for a drop in the namespace of a guest, where nothing is counted, or None.

    The packet did not leave the guest, or did not enter it because the ring of its NIC was full.
    """
    if not row.namespace or any(place.namespace == row.namespace for place in way):
        return None
    for before, place in pairwise(way):
        if before.hop == _INTO_GUEST:
            return before if _is_before_receiver(row) else place
    return None


def find_host_hop(
    row: KernelDrop, way: Sequence[CountingPoint], stream: Stream, carries: Mapping[str, Sequence[str]]
) -> CountingPoint | None:
    """The hop for a drop by the unit under test's host, or None."""
    if row.namespace or row.interface is None or len(way) <= MOST_WITHOUT_UUT:
        return None
    if row.interface in carries.get(stream.uut_in, ()):
        return way[1]
    return way[-1] if row.interface in carries.get(stream.uut_out, ()) else None


def label(row: KernelDrop, place: CountingPoint) -> str:
    """``kernel.REASON@function``, after the receiving interface if that is another one."""
    drop_name = _format_drop(row)
    if row.namespace and row.namespace != place.namespace:
        return f"{row.namespace}/{row.interface}.{drop_name}"
    at_the_other_end = _is_before_receiver(row) and place.statistic.startswith("tx")
    return drop_name if row.interface == place.interface and not at_the_other_end else f"{row.interface}.{drop_name}"


def _format_drop(row: KernelDrop) -> str:
    reason_word = row.reason or "NOT_TOLD"
    return f"kernel.{reason_word}@{row.function}" if row.function else f"kernel.{reason_word}"


def hop_drops(
    seen: TrialObservations, stream: int, way: Sequence[CountingPoint], uut: str, hop: CountingPoint
) -> dict[str, int]:
    """The kernels' drops at one hop of one stream, by label."""
    found: dict[str, int] = {}
    for row in find_stream_drops(seen.kernel, stream):
        if find_hop(row, way, uut) is hop:
            name = label(row, hop)
            found[name] = found.get(name, 0) + row.packets
    host = seen.host_kernel
    for row in find_stream_drops(host, stream):
        if host is not None and find_host_hop(row, way, seen.flows[stream].stream, host.carries) is hop:
            name = f"{host.host}/{row.interface}.{_format_drop(row)}"
            found[name] = found.get(name, 0) + row.packets
    return found


def complete(drops: KernelDrops) -> bool:
    """Whether everything was counted from begin to end."""
    return not (drops.ended_early or drops.unlisted_packets or drops.missed_packets or drops.unreadable_packets)


def cost_ns(kernel: KernelWitness, drops: KernelDrops) -> int:
    """The estimated processor time that counting took."""
    return estimated_cost_ns(_mode(kernel), drops.looked_packets, drops.passed_packets)


def _mode(kernel: KernelWitness) -> str:
    return kernel.started.mode if kernel.started is not None else ""


def _strangers(kernel: KernelWitness, drops: KernelDrops) -> str:
    """A note on whose packets most of the cost was for, if they are not the unit under test's; else empty."""
    share = 1 - estimated_cost_ns(_mode(kernel), drops.looked_packets, 0) / max(cost_ns(kernel, drops), 1)
    if share <= MOST_OF_COST_RATIO:
        return ""
    return (
        f", {share:.1%} of it for {drops.passed_packets} packets that were freed in other namespaces of its machine: "
        "a lab's sinks, or other programs there"
    )


def judged(
    seen: TrialObservations, streams: Sequence[StreamRecord], ways: Sequence[Sequence[CountingPoint]], duration_s: float
) -> Iterator[Reason]:
    """Doubts: the kernels report more packets than were lost, or counting cost too much."""
    for kernel, drops in _recorded_drops(seen):
        share = cost_ns(kernel, drops) / (duration_s * 1e9)
        if kernel.asked == "on" and share > COST_RATIO:
            where = "the kernel" if kernel.host is None else f"the kernel of {kernel.host}"
            yield reason(
                "tracing_cost",
                f"counting dropped packets in {where} took an estimated {share:.1%} of a processor"
                f"{_strangers(kernel, drops)}",
                estimated_cost_ratio=share,
                looked_packets=drops.looked_packets,
                passed_packets=drops.passed_packets,
            )
    if seen.aborted or seen.failure is not None:
        return
    for number, (record, way) in enumerate(zip(streams, ways, strict=False)):
        # Packets that never got into the unit under test are a loss of the sender.
        located = [*_located(seen, number, way, way[1].node)] if len(way) > MOST_WITHOUT_UUT else []
        if any(row.function is None for row, _ in located):
            continue  # a kernel that hides its functions' names: it is unknown which rows are no losses
        dropped = sum(row.packets for row, hop in located if hop is not way[0])
        off_way = sum(row.packets for row, hop in located if hop is None)
        where = f", {off_way} of them off the way" if off_way else ""
        lost = record.uut_lost_packets
        if lost is not None and dropped > max(lost, 0):
            yield reason(
                "kernel_drops_disagree",
                f"{record.name}: the kernel dropped {dropped} packets{where}; {lost} were lost in the unit under test",
                stream=record.name,
                kernel_drops_packets=dropped,
                off_way_packets=off_way,
                uut_lost_packets=lost,
            )


def _recorded_drops(seen: TrialObservations) -> Iterator[tuple[KernelWitness, KernelDrops]]:
    for kernel in (seen.kernel, seen.host_kernel):
        if kernel is not None and kernel.drops is not None:
            yield kernel, kernel.drops


def _hop(
    seen: TrialObservations, kernel: KernelWitness, row: KernelDrop, way: Sequence[CountingPoint], uut: str
) -> CountingPoint | None:
    if kernel.host is None or row.stream is None:
        return find_hop(row, way, uut)
    return find_host_hop(row, way, seen.flows[row.stream].stream, kernel.carries)


def _located(
    seen: TrialObservations, stream: int, way: Sequence[CountingPoint], uut: str
) -> Iterator[tuple[KernelDrop, CountingPoint | None]]:
    for kernel, _ in _recorded_drops(seen):
        for row in find_stream_drops(kernel, stream):
            yield row, _hop(seen, kernel, row, way, uut)


def _elsewhere(
    seen: TrialObservations,
    kernel: KernelWitness,
    drops: KernelDrops,
    ways: Sequence[Sequence[CountingPoint]],
    uut: str,
) -> Iterator[Figures]:
    """Rows that belong to no hop: test packets of none of the streams, and drops at interfaces off the path."""
    for row in drops.rows:
        stream = row.stream if row.stream is not None and row.stream < len(ways) else None
        if (row.function or "").startswith(_NO_LOSS):
            continue
        if stream is not None and _hop(seen, kernel, row, ways[stream], uut):
            continue
        yield {**row.to_wire(), "stream": None if stream is None else seen.flows[stream].stream.name}


def extensions(seen: TrialObservations, ways: Sequence[Sequence[CountingPoint]], uut: str) -> dict[str, Figures]:
    """The extensions of the record with what the ledger's rows do not contain, for each kernel that was queried."""
    found: dict[str, Figures] = {}
    for name, kernel in ((KERNEL_DROPS, seen.kernel), (HOST_KERNEL_DROPS, seen.host_kernel)):
        if kernel is None:
            continue
        extension: Figures = {"version": KERNEL_DROPS_VERSION, "asked": kernel.asked, "budget_ns": kernel.budget_ns}
        if kernel.host is not None:
            extension["node"] = kernel.host
        if kernel.started is not None:
            extension |= kernel.started.to_wire()
        if kernel.refused is not None:
            extension["refused"] = dict(zip(("code", "message"), kernel.refused, strict=True))
        if kernel.drops is not None:
            extension |= {key: value for key, value in kernel.drops.to_wire().items() if key != "rows"}
            extension |= {"complete": complete(kernel.drops), "estimated_cost_ns": cost_ns(kernel, kernel.drops)}
            extension["elsewhere"] = list(_elsewhere(seen, kernel, kernel.drops, ways, uut))
        found[name] = extension
    return found
