"""Redirecting the packets that come in at an interface into a queue.

Only outgoing packets can be queued. So incoming ones are redirected to a device made for this purpose (ifb, kernel
documentation "Intermediate Functional Block"), wait in its queue, and then come in at the interface as before.
"""

from __future__ import annotations

from typing import Any, List, Optional

from labconsole.network.change import line
from labconsole.network.iproute import ignore_missing, link_index, open_route, require_link_index
from labconsole.network.sysctl import no_ipv6, silence
from labconsole.wire.codec import WireError

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
