"""Explains the kernel's drop reasons and where to look, for display next to the ledger. Pure.

``docs/drop-reasons.md`` has the same table, and a test compares the two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from labconsole.model.record.extensions import HOST_KERNEL_DROPS, KERNEL_DROPS, DropsRecord, read_extension
from labconsole.model.record.run import RunRecord
from labconsole.units import format_count


class DropCause(NamedTuple):
    """What happened to the packet, and where to look."""

    happened: str
    look: str


_NEIGHBOUR = DropCause(
    "the next hop does not answer for its MAC address", "ip neigh: does it have an entry? ip route get SINK"
)
_XDP = DropCause("an XDP program dropped it", "ip link, bpftool net")
_BRIDGE_PORT = DropCause("the bridge port is not forwarding", "bridge link: its state; STP")
_BRIDGE_TARGET = DropCause(
    "the bridge has no port to send it to", "bridge fdb: which port is the sink's address behind?"
)

CAUSES: dict[tuple[str, str | None], DropCause] = {
    ("NETFILTER_DROP", None): DropCause("a firewall rule dropped it", "nft list ruleset, iptables-save -c"),
    ("TC_INGRESS", None): DropCause("a tc filter dropped it on its way in", "tc -s filter show dev PORT ingress"),
    ("TC_EGRESS", None): DropCause("a tc filter dropped it on its way out", "tc -s filter show dev PORT egress"),
    ("QDISC_DROP", None): DropCause(
        "the output port's queue refused it",
        "tc -s qdisc: full, or netem? does the port have a carrier?",
    ),
    ("QDISC_OVERLIMIT", None): DropCause(
        "more was offered than the output port can send", "tc -s qdisc; the port's speed"
    ),
    ("QDISC_CONGESTED", None): DropCause(
        "packets waited too long for the output port", "tc -s qdisc; the port's speed"
    ),
    ("CPU_BACKLOG", None): DropCause(
        "one processor received more packets than it could handle",
        "net.core.netdev_max_backlog; spread interrupts or RPS over processors",
    ),
    ("FULL_RING", None): DropCause("the guest's queue was full", "the guest takes fewer packets than were offered"),
    ("IP_INNOROUTES", None): DropCause("there is no route to the sink", "ip route get SINK; is the port up?"),
    ("NOT_SPECIFIED", "ip_error"): DropCause("a route forbids it", "ip route: blackhole, unreachable, prohibit"),
    ("IP_INADDRERRORS", None): DropCause(
        "the port does not forward", "net.ipv4.conf.PORT.forwarding, net.ipv4.ip_forward"
    ),
    ("IP_RPFILTER", None): DropCause(
        "no route leads back to the source by that port", "net.ipv4.conf.{all,PORT}.rp_filter; routes to the source"
    ),
    ("IP_LOCALNET", None): DropCause(
        "one of its addresses is in 127.0.0.0/8", "something on the path rewrites addresses"
    ),
    ("IP_LOCAL_SOURCE", None): DropCause("its source address is the UUT's own", "hosts.yaml: source_ip"),
    ("IP_INHDR", "ip_forward"): DropCause(
        "its time to live expired here", "a loop, or one hop more than the frames allow"
    ),
    ("IP_INHDR", None): DropCause("its IP header is broken", "something on the path changes frames"),
    ("IP_CSUM", None): DropCause("its IP checksum is wrong", "something on the path changes frames"),
    ("OTHERHOST", None): DropCause(
        "it was sent to another MAC address", "a guest's MAC address, a bridge that floods; the UUT's ip neigh"
    ),
    ("NO_SOCKET", None): DropCause("it was addressed to this machine, where no program listens", "hosts.yaml: sink_ip"),
    ("PKT_TOO_BIG", None): DropCause("it is larger than the output port's MTU", "ip link: mtu"),
    ("NOT_SPECIFIED", "__dev_forward_skb2"): DropCause(
        "it is larger than the other end's MTU, or the other end is down", "ip link"
    ),
    ("NOT_SPECIFIED", "veth_xmit"): DropCause(
        "the ring of the other end (256 packets) was full", "the receiver's processor has too much to do"
    ),
    ("NEIGH_QUEUEFULL", None): _NEIGHBOUR,
    ("NEIGH_FAILED", None): _NEIGHBOUR,
    ("BRIDGE_INGRESS_STP_STATE", None): _BRIDGE_PORT,
    ("NOT_SPECIFIED", "br_handle_frame"): _BRIDGE_PORT,
    ("NO_TX_TARGET", None): _BRIDGE_TARGET,
    ("NOT_SPECIFIED", "br_handle_frame_finish"): _BRIDGE_TARGET,
    ("NOT_SPECIFIED", "tun_queue_purge"): DropCause("the guest ended before reading it", "did the guest crash?"),
    ("QUEUE_PURGE", None): DropCause("a queue was flushed with the packet in it", "did a guest or a port disappear?"),
    ("XDP", None): _XDP,
    ("NOT_SPECIFIED", "do_xdp_generic"): _XDP,
    ("NOT_SPECIFIED", "veth_xdp_rcv_skb"): _XDP,
    ("DEV_READY", "enqueue_to_backlog"): DropCause("the input port was down", "ip link: is it up?"),
    ("DEV_READY", None): DropCause("the output port was not up", "ip link; does it have a carrier?"),
}
"""Causes by drop reason and, where the reason is too general, the function that dropped the packet."""


def kernel_doubt(record: RunRecord) -> str | None:
    """Why the kernel's counts are missing or may be too low, or None if they are complete or were not requested."""
    doubts = [
        _doubt(record.extensions[name]) for name in (KERNEL_DROPS, HOST_KERNEL_DROPS) if name in record.extensions
    ]
    return "; ".join(doubt for doubt in doubts if doubt is not None) or None


def _doubt(extension: Mapping[str, Any]) -> str | None:
    refused, of = extension.get("refused"), "" if extension.get("node") is None else f"on the host {extension['node']} "
    if isinstance(refused, dict):
        return f"{of}it did not say why packets were dropped: {' '.join(str(refused.get('message')).split())}"
    if extension.get("ended_early") is True:
        return f"{of}tracing ended when its budget was spent (drop_reasons: auto); there may be more than are shown"
    if extension.get("complete") is not True:
        return f"{of}not every dropped packet was counted with its reason; there may be more than are shown"
    return None


def lower_bounds(extensions: Mapping[str, Any]) -> bool:
    """Whether the kernel's counts in this record may be too low: a kernel that was queried did not count all."""
    queried = [
        extension
        for name in (KERNEL_DROPS, HOST_KERNEL_DROPS)
        if isinstance(extension := extensions.get(name), Mapping)
    ]
    return any("refused" not in extension and extension.get("complete") is not True for extension in queried)


class OffPath(NamedTuple):
    """Packets dropped at no hop of a stream. ``label``: the name that such a counter would have in the ledger."""

    place: str
    stream: str | None
    label: str
    packets: int


def find_off_path_drops(extensions: Mapping[str, Any]) -> list[OffPath]:
    """Packets that the kernel dropped at no hop of a stream of this record, the most first."""
    records = [read_extension(extensions, name, DropsRecord) for name in (KERNEL_DROPS, HOST_KERNEL_DROPS)]
    rows = []
    for node, row in ((each.node, row) for each in records if each is not None for row in each.elsewhere):
        place = f"{node}/" if node else ""
        place += row.interface or "an interface that is gone"
        place += f" in {row.namespace}" if row.namespace else ""
        label = f"kernel.{row.reason or 'NOT_TOLD'}" + (f"@{row.function}" if row.function else "")
        rows.append(OffPath(place, row.stream, label, row.packets))
    return sorted(rows, key=lambda row: -row.packets)


def kernel_counts(record: RunRecord) -> Counter[tuple[str, str]]:
    """The kernel's drops in the ledgers: packets by interface (``uut/eth2``) and reason."""
    found: Counter[tuple[str, str]] = Counter()
    second = record.background.streams if record.background is not None else ()
    for stream in (*record.streams, *second):
        for hop in stream.ledger:
            of_hop = f"{hop.node}/{hop.interface}"
            found.update({(of_hop, name): packets for name, packets in hop.drops.items() if is_kernels(name)})
    return found


def drops_of_run(record: RunRecord) -> dict[str, int | bool | str] | None:
    """The drops by column of a table with one row per run, without empty ones, or None if no kernel reported drops."""
    records = [read_extension(record.extensions, name, DropsRecord) for name in (KERNEL_DROPS, HOST_KERNEL_DROPS)]
    if not any(records):
        return None
    found = kernel_counts(record)
    for row in find_off_path_drops(record.extensions):
        found[f"off the path, at {row.place}", row.label] += row.packets
    listed = "; ".join(f"{place} {label} {packets}" for (place, label), packets in found.most_common())
    values = {"kernel_drops_packets": found.total(), "kernel_drops_complete": not lower_bounds(record.extensions)}
    return {**values, "kernel_drops": listed} if listed else {**values}


def describe_off_path_drops(record: RunRecord) -> list[str]:
    """A line for each kind of packets that the kernel dropped at no hop of a stream, the most first."""
    lines = []
    for row in find_off_path_drops(record.extensions):
        noun = "packet" if row.packets == 1 else "packets"
        whose = f"test {noun} of no stream" if row.stream is None else f"{noun} of {row.stream}"
        cause = cause_of(row.label)
        meant = f": {cause.happened} ({cause.look})" if cause else ""
        lines.append(
            f"{format_count(row.packets)} {whose}, off every stream's path, at {row.place}: {row.label}{meant}"
        )
    return lines


_KERNELS = re.compile(r"(?!(?:.+\.)?nft\.)(?:.+\.)?kernel\.([A-Za-z0-9_]+)(?:@(.+))?")
"""Preceded by an interface's name at most. Excludes rules of a firewall, whose table may have any name."""


def is_kernels(label: str) -> bool:
    """Whether a counter in the ledger is one of the kernel's drop reasons."""
    return _KERNELS.fullmatch(label) is not None


def function_of(label: str) -> str | None:
    """The function that dropped the packets of such a counter, or None if it has none or is no drop reason."""
    match = _KERNELS.fullmatch(label)
    return None if match is None else match[2]


def cause_of(label: str) -> DropCause | None:
    """The cause for a counter in the ledger, or None if it is no drop reason or nothing more is known."""
    match = _KERNELS.fullmatch(label)
    if match is None:
        return None
    reason, function = match.groups()
    if reason == "NOT_TOLD":  # before Linux 5.17 only the function is known
        reason = "NOT_SPECIFIED"
    return CAUSES.get((reason, function)) or CAUSES.get((reason, None))


def causes_of(labels: Iterable[str]) -> list[DropCause]:
    """The causes for these counters, each once, in their order."""
    return list(dict.fromkeys(cause for label in labels if (cause := cause_of(label)) is not None))
