"""Limits on the traffic that comes in from a guest: a token bucket filter between its interface on this node and the
bridge.

The netlink library has no 64-bit rate for that filter, so its message is packed here.
"""

from __future__ import annotations

import os
import struct
from typing import Annotated, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.network.ingress import (
    build_redirect_commands,
    device_commands,
    make_queue_device,
    redirect_ingress,
    remove_ingress,
    require_no_ingress,
)
from labconsole.network.iproute import QueueSender, delete_link, open_route, refuse_existing
from labconsole.wire.rules import Rule, whole

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
