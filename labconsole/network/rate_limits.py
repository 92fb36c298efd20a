"""Limits on what comes in from a guest: a token bucket filter between its interface on this node and the bridge."""

from __future__ import annotations

from typing import Annotated, List

from labconsole.network.change import ChangedNode, Entry, InterfaceName, NetworkChange, line
from labconsole.network.ingress import (
    ROOT,
    device_commands,
    hand_over,
    hand_over_commands,
    make_queue_device,
    take_back,
    without_ingress,
)
from labconsole.network.iproute import delete_link, open_route, refuse_existing
from labconsole.wire.rules import Rule, whole

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
            index = without_ingress(route, self.interface)
            refuse_existing(route, self.queue)
            node.promise(self.kind, interface=self.interface, queue=self.queue)
            queue = make_queue_device(route, self.queue)
            rate = self.rate_bps // 8
            route.tc("add", "tbf", queue, ROOT, rate=rate, burst=self.burst_bytes, limit=self.queue_bytes)
            route.link("set", index=queue, state="up")
            hand_over(route, index, queue)

    @staticmethod
    def undo(entry: Entry) -> None:
        take_back(entry["interface"])
        with open_route() as route:
            delete_link(route, entry["queue"])

    def commands(self) -> List[str]:
        there = ["-n", self.namespace] if self.namespace else []
        tbf = ["tbf", "rate", "%dbit" % self.rate_bps, "burst", str(self.burst_bytes), "limit", str(self.queue_bytes)]
        return [
            *device_commands(self.queue, self.namespace),
            line("tc", *there, "qdisc", "add", "dev", self.queue, "root", *tbf),
            self._ip("link", "set", self.queue, "up"),
            *hand_over_commands(self.interface, self.queue, self.namespace),
        ]
