"""Loss injected into a running lab, and the exact count of it: ``--loss`` supports two hops, this module all hops.

For tests and validation. A rule of nftables drops a share of the test frames at a hook of an interface, also inside a
guest's network stack; a queue drops packets for which a slow shaper has no room. Both count their drops, and that count
is the truth that the ledger is compared with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from labconsole.errors import LabSetupError
from labconsole.lab.commands import execute
from labconsole.lab.nodes.network import TEST_NETWORK

TABLE = "labconsole_injection"
_SCALE = 10**9
_FIND_GUEST = """
own=$(readlink /proc/self/ns/net)
for process in /proc/[0-9]*; do
    other=$(readlink $process/ns/net) && [ "$other" != "$own" ] && echo ${process#/proc/} && exit 0
done
exit 1
"""


@dataclass(frozen=True, slots=True)
class LossRule:
    """A share of the test frames dropped at a hook of an interface. ``inside``: a process in the guest's namespace."""

    lab: str
    node: str
    interface: str
    inside: int | None = None

    def dropped(self) -> int:
        """Number of frames dropped so far."""
        listed = json.loads(_run(self.lab, self.node, self.inside, ["nft", "-j", "list", "table", "netdev", TABLE]))
        counters = [item["counter"] for item in listed["nftables"] if "counter" in item]
        return sum(int(counter["packets"]) for counter in counters)

    def remove(self) -> None:
        """Remove the rule."""
        _run(self.lab, self.node, self.inside, ["nft", "delete", "table", "netdev", TABLE])


def drop_share(
    lab: str, node: str, interface: str, hook: Literal["ingress", "egress"], ratio: float, *, in_guest: bool = False
) -> LossRule:
    """Start to drop this share of the test frames; one rule per node (and one per guest) at a time.

    ingress: frames that the interface has received and counted. egress: frames that it is about to send and has not
    counted.
    """
    inside = guest_process(lab, node) if in_guest else None
    drop = "counter name dropped drop"
    if ratio < 1:
        drop = f"numgen random mod {_SCALE} < {round(ratio * _SCALE)} {drop}"
    text = (
        f"table netdev {TABLE} {{ counter dropped {{ }}; chain loss {{ "
        f'type filter hook {hook} device "{interface}" priority 10; policy accept; '
        f"ip protocol udp ip daddr {TEST_NETWORK} {drop}; }}; }}"
    )
    _run(lab, node, inside, ["nft", text])
    return LossRule(lab, node, interface, inside)


@dataclass(frozen=True, slots=True)
class Queue:
    """A shaper so slow and so short that it drops. ``handle``: identifies it for removal."""

    lab: str
    node: str
    interface: str
    before: str

    def dropped(self) -> int:
        """Number of frames dropped so far, by its own count."""
        shown = json.loads(_run(self.lab, self.node, None, ["tc", "-j", "-s", "qdisc", "show", "dev", self.interface]))
        return sum(int(each["drops"]) for each in shown if each.get("root"))

    def remove(self) -> None:
        """Restore the lab's own shaper."""
        _run(self.lab, self.node, None, ["sh", "-c", f"tc qdisc del dev {self.interface} root; {self.before}"])


def drop_by_queue(
    lab: str,
    node: str,
    interface: str,
    rate_bps: int,
    *,
    limit_packets: int,
    burst_bytes: int = 3000,
    put_back: str = "",
) -> Queue:
    """Limit an interface to ``rate_bps``, with room for few packets.

    ``burst_bytes``: how much it may send at once after it was woken late, as on a busy machine. The oldest packet is
    dropped when there is no room for the next: its sender counts it as sent, as with most real queues.
    """
    shaper = f"tc qdisc replace dev {interface} root handle 1: tbf rate {rate_bps}bit burst {burst_bytes} limit 100000"
    inner = f"tc qdisc add dev {interface} parent 1:1 handle 10: pfifo_head_drop limit {limit_packets}"
    _run(lab, node, None, ["sh", "-c", f"{shaper} && {inner}"])
    return Queue(lab, node, interface, put_back or "true")


def guest_process(lab: str, node: str) -> int:
    """Find a process in a network namespace of the node that is not the node's own. Raises LabSetupError."""
    return int(_run(lab, node, None, ["sh", "-c", _FIND_GUEST]))


def _run(lab: str, node: str, inside: int | None, argv: list[str]) -> str:
    entered = [] if inside is None else ["nsenter", "-t", str(inside), "-n"]
    done = execute(lab, node, [*entered, *argv])
    if done.status != 0:
        raise LabSetupError(f"{node}: {argv[0]}: {done.stderr.strip() or f'status {done.status}'}")
    return done.stdout
