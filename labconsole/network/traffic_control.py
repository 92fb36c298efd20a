"""Traffic control before the link: packets redirected into queues that limit guests, or that they share by weights."""

from __future__ import annotations

import os
import socket
import struct
from typing import Annotated, Any, List, Optional, Sequence

from labconsole.network.change import ChangedNode, Entry, InterfaceName, IpAddress, NetworkChange, line
from labconsole.network.iproute import (
    QueueSender,
    delete_link,
    ignore_missing,
    link_index,
    open_route,
    refuse_existing,
    require_link_index,
)
from labconsole.network.sysctl import no_ipv6, silence
from labconsole.wire.codec import WireError
from labconsole.wire.message import Message
from labconsole.wire.queues import MAX_CLASSES, MOST_BURST_S, Burst, ChangeRates, ClassRate, QueueClass
from labconsole.wire.rules import Most, Rule, bad, whole

# -- ingress -----------------------------------------------------------------------------------------------------------
# Redirecting the packets that come in at an interface into a queue.
#
# Only outgoing packets can be queued. So incoming ones are redirected to a device made for this purpose (ifb, kernel
# documentation "Intermediate Functional Block"), wait in its queue, and then come in at the interface as before.

INGRESS, ROOT = 0xFFFF0000, 0x10000
EVERY_PROTOCOL = 0x0003
"""ETH_P_ALL."""


def require_no_ingress(route: Any, interface: str) -> int:
    """Return the number of an interface without an ingress queue. Raises WireError if it has one or does not exist."""
    index = require_link_index(route, interface)
    if _has_ingress(route, index):
        raise WireError("exists", "interface %s already has an ingress queueing discipline" % interface)
    return index


def make_queue_device(route: Any, name: str, **settings: Any) -> int:
    """Make an ifb device of this name, set down, and return its number. Call refuse_existing() before."""
    route.link("add", ifname=name, kind="ifb", **settings)
    silence(name)
    return require_link_index(route, name)


def redirect_ingress(route: Any, index: int, queue: int) -> None:
    """Redirect everything that comes in at an interface through the queue of a device."""
    route.tc("add", "ingress", index, INGRESS)
    everything = {"protocol": EVERY_PROTOCOL, "prio": 1, "target": ROOT, "keys": ["0x0/0x0+0"]}
    redirect = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": queue}
    route.tc("add-filter", "u32", index, parent=INGRESS, action=[redirect], **everything)


def remove_ingress(interface: str) -> None:
    """Remove the ingress discipline and its filter, unless they are gone with the interface."""
    with open_route() as route:
        index = link_index(route, interface)
        if index is not None and _has_ingress(route, index):
            ignore_missing(lambda: route.tc("del", "ingress", index, INGRESS))


def device_commands(name: str, namespace: Optional[str]) -> List[str]:
    """Return the commands that make a queue's device."""
    there = ["-n", namespace] if namespace else []
    return [line("ip", *there, "link", "add", name, "type", "ifb"), *no_ipv6(name, namespace).commands()]


def build_redirect_commands(interface: str, queue: str, namespace: Optional[str]) -> List[str]:
    """Return the commands that redirect incoming packets."""
    there = ["-n", namespace] if namespace else []
    redirect = ["action", "mirred", "egress", "redirect", "dev", queue]
    everything = ["protocol", "all", "prio", "1", "u32", "match", "u32", "0", "0"]
    return [
        line("tc", *there, "qdisc", "add", "dev", interface, "ingress"),
        line("tc", *there, "filter", "add", "dev", interface, "ingress", *everything, *redirect),
    ]


def _has_ingress(route: Any, index: int) -> bool:
    return any(each.get("TCA_KIND") in ("ingress", "clsact") for each in route.get_qdiscs(index=index))


# -- rate limits -------------------------------------------------------------------------------------------------------
# Limits on the traffic that comes in from a guest: a token bucket filter between its interface on this node and the
# bridge.
#
# The netlink library has no 64-bit rate for that filter, so its message is packed here.

U32 = 2**32 - 1
MOST_QUEUE_BYTES = U32
"""Limit of the kernel's field."""

Rate = Annotated[int, Rule(whole(8_000, 10**12))]
Bytes = Annotated[int, Rule(whole(64, MOST_QUEUE_BYTES))]

RTM_NEWQDISC = 36
ROOT_PARENT = 0xFFFFFFFF
REQUEST_ACK_CREATE_EXCL = 0x1 | 0x4 | 0x400 | 0x200
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TC_LINKLAYER_ETHERNET = 1

_HEADER = struct.Struct("=IHHIIB3xiIII")
"""struct nlmsghdr and struct tcmsg."""

_TBF = struct.Struct("=BBHhHI12xIII")
"""struct tc_tbf_qopt: rate, no peak rate, limit, buffer and mtu."""


def tbf_message(index: int, rate_bytes_ps: int, burst_bytes: int, queue_bytes: int) -> bytes:
    """Pack the request for a token bucket filter at the root of the interface with this number.

    The old 32-bit field has as much of the rate as fits. The kernel takes the greater of both.
    """
    rate = (0, TC_LINKLAYER_ETHERNET, 0, 0, 0, min(rate_bytes_ps, U32))
    options = _attribute(TCA_TBF_PARMS, _TBF.pack(*rate, queue_bytes, 0, 0))
    options += _attribute(TCA_TBF_RATE64, struct.pack("=Q", rate_bytes_ps))
    options += _attribute(TCA_TBF_BURST, struct.pack("=I", burst_bytes))
    attributes = _attribute(TCA_KIND, b"tbf\0") + _attribute(TCA_OPTIONS, options)
    length = _HEADER.size + len(attributes)
    return _HEADER.pack(length, RTM_NEWQDISC, REQUEST_ACK_CREATE_EXCL, 1, 0, 0, index, 0, ROOT_PARENT, 0) + attributes


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


class RateLimit(NetworkChange, do="rate_limit"):
    """Limit the traffic that comes in at an interface to ``rate_bps``, counted in whole frames without check sequence.

    ``queue`` is the device that is made for it. ``burst_bytes``: how much may pass at once after a rest.
    ``queue_bytes``: the most that waits; the rest is dropped.
    """

    interface: InterfaceName
    queue: InterfaceName
    rate_bps: Rate
    burst_bytes: Bytes
    queue_bytes: Bytes

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            index = require_no_ingress(route, self.interface)
            refuse_existing(route, self.queue)
            node.promise(self.kind, interface=self.interface, queue=self.queue)
            queue = make_queue_device(route, self.queue)
            for number in QueueSender.ask(tbf_message(queue, self.rate_bps // 8, self.burst_bytes, self.queue_bytes)):
                raise OSError(number, os.strerror(number))
            route.link("set", index=queue, state="up")
            redirect_ingress(route, index, queue)

    @staticmethod
    def undo(entry: Entry) -> None:
        remove_ingress(entry["interface"])
        with open_route() as route:
            delete_link(route, entry["queue"])

    def commands(self) -> List[str]:
        there = ["-n", self.namespace] if self.namespace else []
        tbf = ["tbf", "rate", "%dbit" % self.rate_bps, "burst", str(self.burst_bytes), "limit", str(self.queue_bytes)]
        return [
            *device_commands(self.queue, self.namespace),
            line("tc", *there, "qdisc", "add", "dev", self.queue, "root", *tbf),
            self._ip("link", "set", self.queue, "up"),
            *build_redirect_commands(self.interface, self.queue, self.namespace),
        ]


# -- shared queue ------------------------------------------------------------------------------------------------------
# One queue for guests that share a link by weights, before the link: hierarchical token buckets (htb).
#
# Packets that come in at a guest's interface are redirected to a device that all guests share. Its discipline gives
# each class its rate, and lends unused rate to classes that want more. The NIC's own queueing discipline is not
# touched.

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
