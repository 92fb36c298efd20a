"""Limits on what comes in from a guest: a token bucket filter between its interface on this node and the bridge.

Only what leaves can be queued, so what comes in is handed to a device that is there for nothing else (ifb, kernel
documentation "Intermediate Functional Block"), waits in its queue, and then comes in at the interface as before.
"""

from __future__ import annotations

from typing import Annotated, Any, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.network.iproute import delete_link, existing, link_index, open_route, quietly, refuse_existing
from labconsole.network.sysctl import no_ipv6, silence
from labconsole.wire.codec import WireError
from labconsole.wire.rules import Rule, whole

INGRESS, ROOT = 0xFFFF0000, 0x10000
EVERY_PROTOCOL = 0x0003
"""ETH_P_ALL."""

Rate = Annotated[int, Rule(whole(8_000, 10**12))]
Bytes = Annotated[int, Rule(whole(64, 2**31 - 1))]


class RateLimit(NetworkChange, do="rate_limit"):
    """Let at most ``rate_bps`` come in at an interface, counted in whole frames without their check sequence.

    ``queue`` is the device that is made for it; ``burst_bytes``: how much may come at once after a rest;
    ``queue_bytes``: how much waits at most, the rest is dropped.
    """

    interface: InterfaceName
    queue: InterfaceName
    rate_bps: Rate
    burst_bytes: Bytes
    queue_bytes: Bytes

    def apply(self, node: ChangedNode) -> None:
        with open_route() as route:
            index = existing(route, self.interface)
            refuse_existing(route, self.queue)
            if _has_ingress(route, index):
                raise WireError("exists", "interface %s has an ingress queueing discipline already" % self.interface)
            node.promise(self.kind, interface=self.interface, queue=self.queue)
            route.link("add", ifname=self.queue, kind="ifb")
            silence(self.queue)
            queue = existing(route, self.queue)
            rate = self.rate_bps // 8
            route.tc("add", "tbf", queue, ROOT, rate=rate, burst=self.burst_bytes, limit=self.queue_bytes)
            route.link("set", index=queue, state="up")
            route.tc("add", "ingress", index, INGRESS)
            everything = {"protocol": EVERY_PROTOCOL, "prio": 1, "target": ROOT, "keys": ["0x0/0x0+0"]}
            redirect = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": queue}
            route.tc("add-filter", "u32", index, parent=INGRESS, action=[redirect], **everything)

    @staticmethod
    def undo(entry: Entry) -> None:
        """The filter goes with the ingress discipline, which goes with the interface where that is gone already."""
        with open_route() as route:
            index = link_index(route, entry["interface"])
            if index is not None and _has_ingress(route, index):
                quietly(lambda: route.tc("del", "ingress", index, INGRESS))
            delete_link(route, entry["queue"])

    def commands(self) -> List[str]:
        there = ["-n", self.namespace] if self.namespace else []
        tbf = ["tbf", "rate", "%dbit" % self.rate_bps, "burst", str(self.burst_bytes), "limit", str(self.queue_bytes)]
        redirect = ["action", "mirred", "egress", "redirect", "dev", self.queue]
        everything = ["protocol", "all", "prio", "1", "u32", "match", "u32", "0", "0"]
        return [
            self._ip("link", "add", self.queue, "type", "ifb"),
            *no_ipv6(self.queue, self.namespace).commands(),
            line("tc", *there, "qdisc", "add", "dev", self.queue, "root", *tbf),
            self._ip("link", "set", self.queue, "up"),
            line("tc", *there, "qdisc", "add", "dev", self.interface, "ingress"),
            line("tc", *there, "filter", "add", "dev", self.interface, "ingress", *everything, *redirect),
        ]


def _has_ingress(route: Any, index: int) -> bool:
    return any(each.get("TCA_KIND") in ("ingress", "clsact") for each in route.get_qdiscs(index=index))
