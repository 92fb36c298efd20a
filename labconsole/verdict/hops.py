"""The hops of a stream with their counts, and the assignment of drop counters to hops. Pure.

A counter belongs to the hop that a packet did not reach because of it. Packets that a NIC missed belong to that NIC's
own rx count. Packets that the kernel dropped later (backlog, routing, a queue) belong to the tx count that should have
followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from labconsole.errors import CounterInconsistency
from labconsole.measure.counts import counter_difference
from labconsole.measure.ledger import HopCount
from labconsole.verdict.driver_losses import Loss, losses_of, numberless
from labconsole.verdict.kernel_drops import hop_drops
from labconsole.verdict.observations import CountingPoint, StreamObservations, TrialObservations, counting_points
from labconsole.wire.capture import CaptureResult
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.drops import DropCounters, NamespaceDrops, QdiscCounts
from labconsole.wire.message import field_names

RX_DETAILS = (
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_length_errors",
    "rx_crc_errors",
    "rx_frame_errors",
)
TX_DETAILS = ("tx_fifo_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_window_errors")

_ELSEWHERE = (
    "bytes|octets|fdir|filter|irq|intr|interrupt|doorbell|admin|a[rs]q_|mbx|mailbox|cmd|stamp|ptp|fcoe|roce|rdma|smbus|"
    "bmc"
)
"""Words in names of statistics that count no packets, or no test packets: filters skip frames for others."""

_HARMLESS = (
    r"flow_?(?:dir|tab)|rfs|match|steer|cache|recycl|hash|tcam|lookup|(?:bp|ll)_miss|c(?:heck|hk|k)?_?sum|ip_?hdr|eipe|"
    "corr|recover|ecc|fec|symbol|lane|signal|pci|parity|alloc|refill|duration|link_"
)
"""Words in names of misses and errors without packet loss: look-ups, checksums, repairs, retried allocations."""

_GONE = (
    r"drop|discard|out_?of_?(?:buf|desc|mem)|oob(?![a-z])|allowance_?exceed|"
    r"(?<![a-z])no_?(?:rx_?|dma_?)?(?:buf|mem|desc|resource|space|skb|wqe)"
)
_PERHAPS_GONE = "miss|fifo|overr[ua]n|overflow|(?<![es]f)err(?!u)"
"""Matches err, but not in deferred, transferred or interrupt."""

DROP = re.compile(f"^(?!.*(?:{_ELSEWHERE}))(?:.*(?:{_GONE})|(?!.*(?:{_HARMLESS})).*(?:{_PERHAPS_GONE}))", re.IGNORECASE)
"""Names of statistics that count lost packets, for a driver that is not in the table (verdict/driver_losses.py).

Pauses and busy queues delay packets without losing any.
"""

_TX = re.compile(r"(?:^|[^a-z])tx")
_RX = re.compile(r"(?:^|[^a-z])rx")
_TOKENS = re.compile(r"[a-z]+|\d+")
_QUEUE_TOKENS = {"queue": "", "q": "", "ring": "", "cpu": "", "channel": "", "ch": "", "rxq": "rx", "txq": "tx"}


def growth(seen: TrialObservations, node: str, namespace: str, interface: str, statistic: str) -> int | None:
    """The growth of one counter over the trial, or None if it was not read twice or decreased."""
    index = STAT_NAMES.index(statistic)
    first = seen.before.get(node, {}).get((namespace, interface))
    last = seen.after.get(node, {}).get((namespace, interface))
    if first is None or last is None or index >= min(len(first.values), len(last.values)):
        return None
    try:
        return counter_difference(first.values[index], last.values[index], name=statistic)
    except CounterInconsistency:
        return None


def hop_counts(seen: TrialObservations, raw: StreamObservations, uut: str) -> list[HopCount]:
    """Every hop from the generator to the capture. An incomplete capture has no count here, only drops."""
    stream = raw.stream
    sent = raw.generated.sent_packets if raw.generated is not None else None
    counts = [HopCount("generator", stream.source.node, stream.source.interface, sent)]
    previous: CountingPoint | None = None
    way, flow = counting_points(raw, uut), seen.flows.index(raw)
    for place in way:
        packets = growth(seen, place.node, place.namespace, place.interface, place.statistic)
        drops = dict(_port_drops(seen, place, previous))
        before = next((c.packets for c in reversed(counts) if c.packets is not None), None)
        if packets is not None and before is not None and before > packets:
            # Counters of a whole node are assigned to a stream only where that stream lost something.
            drops |= _node_drops(seen, place, previous)
        counts.append(HopCount(place.hop, place.node, place.label, packets, drops))
        drops |= hop_drops(seen, flow, way, uut, place)
        previous = place
    if raw.capture is not None:
        counts.append(
            HopCount(
                "capture",
                stream.sink.node,
                stream.sink.interface,
                raw.capture.analysis.packets if capture_complete(raw.capture) else None,
                capture_drops(raw.capture) | dict(_dropped_after_counting(seen, way[-1])),
            )
        )
    return counts


def moved(counts: list[HopCount], raw: StreamObservations) -> list[HopCount]:
    """The counts with the capture's packets even if it is incomplete: enough to know that packets passed."""
    if raw.capture is None:
        return counts
    return [*counts[:-1], replace(counts[-1], packets=raw.capture.analysis.packets)]


def capture_complete(capture: CaptureResult) -> bool:
    """Whether tcpdump reports no drops, its file is whole, and both counts agree."""
    return (
        capture.dropped_kernel_packets == 0
        and not capture.dropped_interface_packets
        and not capture.analysis.truncated
        and capture.captured_packets == capture.analysis.packets
    )


def capture_drops(capture: CaptureResult) -> dict[str, int]:
    """The packets that tcpdump reports as missed, in its own two categories."""
    found = {
        "capture_buffer": capture.dropped_kernel_packets,
        "capture_interface": capture.dropped_interface_packets,
    }
    return {name: packets for name, packets in found.items() if packets}


def _port_drops(
    seen: TrialObservations, place: CountingPoint, previous: CountingPoint | None
) -> Iterator[tuple[str, int]]:
    """Drops from counters of the hop's own interface, and of the interface on which the packet arrived."""
    receiving = place.statistic.startswith("rx")
    own = _interface_drops(seen, place, RX_DETAILS if receiving else (*TX_DETAILS, "tx_dropped"))
    if not own.keys() - {"tx_dropped"}:  # the sum of all errors, for a driver that does not distinguish them
        own = _interface_drops(seen, place, ("rx_errors",) if receiving else ("tx_errors", "tx_dropped"))
    lost = driver_losses(seen, place)
    for name, packets in subtract_parts(own, lost).items():
        yield name, packets
    if not receiving:
        yield from _qdisc_drops(seen, place, ingress=False)
        for chain, packets in _filtered(seen, place, place.interface, "egress").items():
            yield f"nft.{chain}", packets
    if previous is not None and previous.node == place.node and previous.statistic.startswith("rx"):
        # Received and counted there, then dropped before the next hop: the backlog, or a hook on ingress.
        arrival_drops = _interface_drops(seen, previous, (*RX_DETAILS, "rx_dropped"))
        dropped = subtract_parts(arrival_drops, driver_losses(seen, previous)).get("rx_dropped")
        if dropped:
            yield f"{previous.interface}.rx_dropped", dropped
        yield from _dropped_after_counting(seen, previous)
        for name, packets in _qdisc_drops(seen, previous, ingress=True):
            yield f"{previous.interface}.{name}", packets
        for chain, packets in _filtered(seen, previous, previous.interface, "ingress").items():
            yield f"{previous.interface}.nft.{chain}", packets
    for name, (packets, loss) in lost.items():
        if loss.receiving in (receiving, None) and not loss.handed_on and name not in own:
            yield f"driver.{name}", packets


def _dropped_after_counting(seen: TrialObservations, place: CountingPoint) -> Iterator[tuple[str, int]]:
    """Packets that a driver dropped after its interface had counted them as received."""
    for name, (packets, loss) in driver_losses(seen, place).items():
        if loss.handed_on:
            yield f"{place.interface}.driver.{name}", packets


def _interface_drops(seen: TrialObservations, place: CountingPoint, names: Sequence[str]) -> dict[str, int]:
    """The interface's own counters that grew."""
    grown = {name: growth(seen, place.node, place.namespace, place.interface, name) for name in names}
    return {name: packets for name, packets in grown.items() if packets}


def driver_losses(seen: TrialObservations, place: CountingPoint) -> dict[str, tuple[int, Loss]]:
    """The growth of those driver statistics that count lost packets."""
    grown = driver_growth(seen, place.node, place.namespace, place.interface)
    driver = _driver(seen, place.node, place.namespace, place.interface)
    known = losses_of(driver) if driver is not None else None
    found = {name: loss for name in grown if (loss := _loss(name, known)) is not None}
    totals = {_kind(name) for name in found if not _numbered(name)}
    return {
        name: (grown[name], loss)
        for name, loss in found.items()
        if known is not None or not _numbered(name) or _kind(name) not in totals
    }


def _loss(name: str, known: Mapping[str, Loss] | None) -> Loss | None:
    if known is not None:
        return known.get(numberless(name))
    if name in STAT_NAMES or not DROP.search(name):
        return None
    receiving = _direction(name)
    # By the kernel's definition (linux/if_link.h) tx_dropped includes what a driver drops on its way out, not errors.
    same = [statistic for statistic in STAT_NAMES if _kind(statistic) == _kind(name)]
    return Loss(receiving, (*same, "tx_dropped") if receiving is False and "err" not in name.lower() else tuple(same))


def _numbered(name: str) -> bool:
    return numberless(name) != " ".join(name.split())


def _kind(name: str) -> tuple[str, ...]:
    """A statistic's name without its queue: equal for a sum over queues and its parts."""
    tokens = (_QUEUE_TOKENS.get(word, word) for word in _TOKENS.findall(name.lower()))
    return tuple(word for word in tokens if word and not word.isdigit())


def subtract_parts(sums: dict[str, int], lost: Mapping[str, tuple[int, Loss]]) -> dict[str, int]:
    """The interface's counters minus the parts that the driver's own counters list.

    A part is subtracted from the first of its sums that is not smaller.
    """
    left = dict(sums)
    for packets, loss in lost.values():
        whole = next((name for name in loss.sums if left.get(name, 0) >= packets), None)
        if whole is not None:
            left[whole] -= packets
    return {name: packets for name, packets in left.items() if packets}


def _driver(seen: TrialObservations, node: str, namespace: str, interface: str) -> str | None:
    """The name of an interface's driver, the same before and after, or None if unknown."""
    names = {
        drops.drivers.get(interface) for drops in _drops(seen, node, namespace) if drops and drops.drivers is not None
    }
    if not names and not namespace:  # an older agent
        ports = (reading.port(interface) for reading in seen.readings(node))
        names = {port.driver for port in ports if port is not None}
    return names.pop() if len(names) == 1 else None


def _direction(name: str) -> bool | None:
    """True for a driver's rx statistic, False for tx, or None if its name does not show it."""
    receiving, sending = _RX.search(name.lower()) is not None, _TX.search(name.lower()) is not None
    return None if receiving == sending else receiving


def _node_drops(seen: TrialObservations, place: CountingPoint, previous: CountingPoint | None) -> dict[str, int]:
    """Drops from counters of a whole node or network stack, for a hop where a packet should have been passed on."""
    if previous is None or previous.node != place.node or place.statistic.startswith("rx"):
        return {}
    found = {}
    squeezed = _softnet(*(reading.drops for reading in seen.readings(place.node)))
    if squeezed:
        found["node.softnet_dropped"] = squeezed
    for chain, packets in _filtered(seen, place, None, None).items():
        found[f"node.nft.{chain}"] = packets
    before, after = (drops.ip or {} if drops else {} for drops in _drops(seen, place.node, place.namespace))
    for name, packets in after.items():
        if name in before and packets > before[name]:
            found[f"node.ip.{name}"] = packets - before[name]
    return found


def _filtered(seen: TrialObservations, place: CountingPoint, interface: str | None, hook: str | None) -> dict[str, int]:
    """Packets that a firewall's rules counted and dropped, by table and chain. ``interface`` None: rules for none."""
    first, last = (drops.filters if drops else None for drops in _drops(seen, place.node, place.namespace))
    if first is None or last is None:
        return {}  # the earlier counts of the rules are unknown, not zero
    before, after = (
        {
            (rule.family, rule.table, rule.chain, rule.handle): rule.packets
            for rule in rules
            if (rule.interface, rule.hook) == (interface, hook)
        }
        for rules in (first, last)
    )
    found: dict[str, int] = {}
    for key, packets in after.items():
        # A handle is not reused during the life of a table; a rule that is new began at zero.
        moved = packets - before.get(key, 0)
        if moved > 0:
            chain = f"{key[1]}.{key[2]}"
            found[chain] = found.get(chain, 0) + moved
    return found


def _softnet(first: DropCounters | None, last: DropCounters | None) -> int | None:
    """Packets that no backlog had room for, over all processors, or None if unknown."""
    before, after = (None if drops is None else drops.softnet for drops in (first, last))
    if before is None or after is None or len(before) != len(after):
        return None
    dropped: int = sum(new[2] - old[2] for old, new in zip(before, after, strict=True))
    return dropped if dropped >= 0 else None


def qdisc_growth(seen: TrialObservations, node: str, namespace: str, interface: str) -> list[tuple[str, QdiscCounts]]:
    """(kind, growth of its counts) of one interface's queueing disciplines that are the same as before."""
    before, after = (
        [row for row in (drops.qdiscs if drops else ()) if row[0] == interface]
        for drops in _drops(seen, node, namespace)
    )
    if [row[1] for row in before] != [row[1] for row in after]:
        return []
    found = []
    for (_, kind, first), (_, _, last) in zip(before, after, strict=True):
        grown = {name: getattr(last, name) - getattr(first, name) for name in field_names(QdiscCounts)}
        if min(grown.values()) >= 0:  # else it was replaced by one of the same kind
            found.append((kind, QdiscCounts(**grown)))
    return found


def _qdisc_drops(seen: TrialObservations, place: CountingPoint, *, ingress: bool) -> Iterator[tuple[str, int]]:
    for kind, grown in qdisc_growth(seen, place.node, place.namespace, place.interface):
        if (kind in ("ingress", "clsact")) == ingress and grown.drops:
            yield f"qdisc_{kind}", grown.drops


def driver_growth(seen: TrialObservations, node: str, namespace: str, interface: str) -> dict[str, int]:
    """A driver's statistics that indicate trouble and grew over the trial."""
    before, after = (drops.driver.get(interface) if drops else None for drops in _drops(seen, node, namespace))
    if before is None or after is None:
        return {}
    # A counter that was 0 before is not listed there.
    return {name: packets - before.get(name, 0) for name, packets in after.items() if packets > before.get(name, 0)}


def _drops(seen: TrialObservations, node: str, namespace: str) -> list[NamespaceDrops | None]:
    """The drop counters of one namespace, before and after."""
    counters = (reading.drops for reading in seen.readings(node))
    return [None if drops is None else drops.namespaces.get(namespace) for drops in counters]
