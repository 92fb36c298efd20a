"""One queue for guests that share a link by weights, before the link: hierarchical token buckets (htb).

Packets that come in at a guest's interface are redirected to a device that all guests share. Its discipline gives each
class its rate, and lends unused rate to classes that want more. The NIC's own queueing discipline is not touched.
"""

from __future__ import annotations

import socket
from typing import Annotated, Any, List, Sequence

from labconsole.network.change import ChangedNode, Entry, InterfaceName, IpAddress, NetworkChange, line
from labconsole.network.ingress import (
    ROOT,
    build_redirect_commands,
    device_commands,
    make_queue_device,
    redirect_ingress,
    remove_ingress,
    require_no_ingress,
)
from labconsole.network.iproute import delete_link, open_route, refuse_existing, require_link_index
from labconsole.wire.message import Message
from labconsole.wire.queues import MAX_CLASSES, MOST_BURST_S, Burst, ChangeRates, ClassRate, QueueClass
from labconsole.wire.rules import Most, Rule, bad, whole

LINK, FIRST_CLASS = ROOT + 1, ROOT + 0x10
IPV4 = 0x0800
FRAME_BYTES = 1514
MOST_QUEUE_PACKETS = 1_000_000
MOST_QUANTUM_BYTES = 200_000
"""The kernel warns of higher values."""


class SharingGuest(Message):
    """One guest: its class takes packets that come in at ``interface`` from ``address``, is guaranteed ``rate_bps`` and
    limited to ``most_bps``.
    """

    interface: InterfaceName
    address: IpAddress
    rate_bps: ClassRate
    most_bps: ClassRate

    def check_fields(self) -> None:
        if "." not in self.address:
            raise bad("address", "is not an IPv4 address")
        if self.rate_bps > self.most_bps:
            raise bad("rate_bps", "is more than most_bps")


class SharedQueue(NetworkChange, do="shared_queue"):
    """Let guests share ``rate_bps``, counted in whole frames without their check sequence.

    ``queue`` is the device that is made for it. ``burst_bytes``: how much may pass at once after a rest.
    ``queue_packets``: the most of each guest that waits; the rest is dropped. Other frames do not wait.
    """

    queue: InterfaceName
    rate_bps: ClassRate
    burst_bytes: Burst
    queue_packets: Annotated[int, Rule(whole(1, MOST_QUEUE_PACKETS))]
    guests: Annotated[List[SharingGuest], Most(MAX_CLASSES)]

    def check_fields(self) -> None:
        if not self.guests or len({each.interface for each in self.guests}) < len(self.guests):
            raise bad("guests", "is not a list of different interfaces, at least one")
        if self.burst_bytes * 8 > MOST_BURST_S * min(each.rate_bps for each in self.guests):
            raise bad("burst_bytes", "is more than a guest gets in %d s" % MOST_BURST_S)

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            indices = [require_no_ingress(route, each.interface) for each in self.guests]
            refuse_existing(route, self.queue)
            node.promise(self.kind, queue=self.queue, interfaces=[each.interface for each in self.guests])
            # The length of each class's queue, too.
            queue = make_queue_device(route, self.queue, txqlen=self.queue_packets)
            route.tc("add", "htb", queue, ROOT, default=0)
            route.link("set", index=queue, state="up")
            burst = {"burst": self.burst_bytes, "cburst": self.burst_bytes}
            link = {"rate": self.rate_bps // 8, "ceil": self.rate_bps // 8, "quantum": FRAME_BYTES}
            route.tc("add-class", "htb", queue, LINK, parent=ROOT, **link, **burst)
            quanta = quantum_bytes([each.rate_bps for each in self.guests])
            for number, (each, quantum) in enumerate(zip(self.guests, quanta)):
                rates = {"rate": each.rate_bps // 8, "ceil": each.most_bps // 8, "quantum": quantum}
                route.tc("add-class", "htb", queue, FIRST_CLASS + number, parent=LINK, **rates, **burst)
                keys = ["0x%s/0xffffffff+12" % socket.inet_aton(each.address).hex()]
                of = {"protocol": IPV4, "prio": 1, "target": FIRST_CLASS + number, "keys": keys}
                route.tc("add-filter", "u32", queue, parent=ROOT, **of)
            for index in indices:
                redirect_ingress(route, index, queue)

    @staticmethod
    def undo(entry: Entry) -> None:
        for interface in entry["interfaces"]:
            remove_ingress(interface)
        with open_route() as route:
            delete_link(route, entry["queue"])

    def commands(self) -> List[str]:
        there = ["-n", self.namespace] if self.namespace else []
        burst = ["burst", str(self.burst_bytes), "cburst", str(self.burst_bytes)]
        link = ["rate", "%dbit" % self.rate_bps, "ceil", "%dbit" % self.rate_bps, "quantum", str(FRAME_BYTES)]
        dev = ["dev", self.queue]
        lines = [
            *device_commands(self.queue, self.namespace),
            self._ip("link", "set", self.queue, "txqueuelen", str(self.queue_packets), "up"),
            line("tc", *there, "qdisc", "add", *dev, "root", "handle", "1:", "htb", "default", "0"),
            line("tc", *there, "class", "add", *dev, "parent", "1:", "classid", "1:1", "htb", *link, *burst),
        ]
        quanta = quantum_bytes([each.rate_bps for each in self.guests])
        for number, (each, quantum) in enumerate(zip(self.guests, quanta)):
            own, parent = "1:%x" % (0x10 + number), ["parent", "1:1", "classid"]
            rates = ["rate", "%dbit" % each.rate_bps, "ceil", "%dbit" % each.most_bps, "quantum", str(quantum)]
            match = ["protocol", "ip", "prio", "1", "u32", "match", "ip", "src", each.address, "flowid", own]
            lines += [
                line("tc", *there, "class", "add", *dev, *parent, own, "htb", *rates, *burst),
                line("tc", *there, "filter", "add", *dev, "parent", "1:", *match),
            ]
        for each in self.guests:
            lines += build_redirect_commands(each.interface, self.queue, self.namespace)
        return lines


def quantum_bytes(rates_bps: Sequence[int]) -> List[int]:
    """Return how much unused rate each class takes before the next one's turn, in proportion to the rates."""
    least = min(rates_bps)
    return [min(MOST_QUANTUM_BYTES, FRAME_BYTES * round(rate / least)) for rate in rates_bps]


class QueueInUse:
    """An existing shared queue, by its device's number: a later one of the same name is not mistaken for it."""

    def __init__(self, route: Any, queue: str) -> None:
        """Raises WireError if there is no queue of this name."""
        self._route, self._index = route, require_link_index(route, queue)

    def classes(self, number: int) -> List[QueueClass]:
        """Return the first ``number`` classes, in order."""
        found = {each["handle"]: each for each in self._route.get_classes(index=self._index)}
        return [_parse_class(found.get(FIRST_CLASS + place)) for place in range(number)]

    def compiled(self, wanted: ChangeRates) -> List[bytes]:
        """Compile the requests for each set of rates in advance: compiling takes a hundred times as long as sending.
        Classes whose rate falls come first, so that the sum never exceeds the link's rate.
        """
        from pyroute2.iproute.linux import IPBatch

        found, former, burst = [], wanted.rates_bps[0], {"burst": wanted.burst_bytes, "cburst": wanted.burst_bytes}
        with IPBatch() as batch:
            for rates in wanted.rates_bps:
                quanta, gains = quantum_bytes(rates), [new - old for new, old in zip(rates, former)]
                batch.reset()
                for place in sorted(range(len(rates)), key=gains.__getitem__):
                    own = {"rate": rates[place] // 8, "ceil": wanted.most_bps[place] // 8, "quantum": quanta[place]}
                    own.update(burst, parent=LINK)
                    batch.tc("change-class", "htb", self._index, FIRST_CLASS + place, **own)
                found.append(bytes(batch.batch))
                former = rates
        return found


def _parse_class(said: Any) -> QueueClass:
    """Parse a class of the kernel's answer; None if it is not in it."""
    options = None if said is None else said.get_attr("TCA_OPTIONS")
    limits = None if options is None else options.get_attr("TCA_HTB_PARMS")
    stats = None if said is None else said.get_attr("TCA_STATS2")
    basic, queue = (None if stats is None else stats.get_attr("TCA_STATS_" + each) for each in ("BASIC", "QUEUE"))
    # Values that do not fit the old fields are in the others, which are otherwise absent.
    rate, most = (None if options is None else options.get_attr("TCA_HTB_" + each) for each in ("RATE64", "CEIL64"))
    return QueueClass(
        rate_bps=None if limits is None else (rate or limits["rate"]) * 8,
        most_bps=None if limits is None else (most or limits["ceil"]) * 8,
        packets=None if basic is None else basic["packets"],
        dropped_packets=None if queue is None else queue["drops"],
    )
