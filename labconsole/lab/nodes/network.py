"""A node's network: veth pairs, addresses of interfaces, link speed, injected loss.

Data interfaces have no addresses: a sink that owned its test address would answer the UUT's frames with ICMP, and those
answers would load the path under test. All static settings are made here; routes, forwarding and bridges belong to the
platform driver, which undoes them. By ``ip -batch`` and ``tc -batch``: one short process per node takes a third of the
time of a pyroute2 socket in each of two hundred, and leaves no threads and no memory behind in them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab.prerequisites import tool
from labconsole.lab.spec import LabNode, LabSpec, Layout, Link, shaper_burst_bytes
from labconsole.model.design_point import FCS_BYTES, PREAMBLE_AND_GAP_BYTES

TABLE = "labconsole"
TEST_NETWORK = "198.18.0.0/15"
SHAPER_LIMIT_BYTES = 16 * 1024 * 1024
"""Most bytes that wait in a shaper. A sender blocks in its socket's send buffer long before this (212992 bytes by
default, two or three hundred small frames), so nothing is dropped on the sending side. On the UUT's side, where nothing
blocks, it is 64 ms at 1 Gbit/s, far more than one burst that the shaper passes.
"""

_LOSS_SCALE = 10**9
_COMMAND_S = 20.0
_RTMGRP_LINK = 1


def make_links(layout: Layout, processes: Mapping[str, int], links: Sequence[Link] | None = None) -> None:
    """Make veth pairs (default: all of the layout), each end in the network namespace of its node's process; an end
    without a node here.
    """
    macs = {(node.name, i.name): i.mac for node in layout.nodes for i in node.interfaces}
    lines = []
    for link in layout.links if links is None else links:
        ends = [
            f"name {interface} address {macs[node, interface]} netns {processes[node]}" if node else f"name {interface}"
            for node, interface in link
        ]
        lines.append(f"link add {ends[0]} type veth peer {ends[1]}\n")
    _run(["ip", "-batch", "-"], "".join(lines))


def remove_links(node: LabNode) -> None:
    """Remove this node's data interfaces, except those already gone with their other end."""
    for interface in node.interfaces:
        if Path("/sys/class/net", interface.name).exists():
            with contextlib.suppress(LabSetupError):  # its other end may be disappearing at this moment
                _run(["ip", "link", "delete", interface.name], "")
    left = [i.name for i in node.interfaces if Path("/sys/class/net", i.name).exists()]
    if left:
        raise LabSetupError(f"{node.name}: {', '.join(left)} cannot be removed")


def set_defaults() -> None:
    """Set defaults before any interface exists: no IPv6, whose router solicitations would be frames that no test sent,
    and no forwarding, which a new namespace copies from the host (net.core.devconf_inherit_init_net).
    """
    for which in ("all", "default"):
        path = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if path.exists():
            path.write_text("1")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")


def configure(node: LabNode, spec: LabSpec, counted: Mapping[str, Mapping[str, int]] | None = None) -> None:
    """Bring this namespace's interfaces into the state the lab promises. Raises LabSetupError.

    ``counted``: counts of the loss rules from before the interfaces were replaced, at which the new rules start.
    """
    lines = ["link set lo up"]
    for interface in node.interfaces:
        lines.append(f"link set {interface.name} mtu {spec.mtu} up")
        lines += [
            f"neighbour replace {address} lladdr {mac} dev {interface.name} nud permanent"
            for address, mac in interface.neighbours
        ]
    _run(["ip", "-batch", "-"], "\n".join([*lines, ""]))
    if spec.link_speed_bps is not None:
        _shape(node, spec)
    if node.role == "uut" and spec.loss:
        if counted is not None:
            _run(["nft", "delete", "table", "netdev", TABLE], "")
        _run(["nft", "-f", "-"], loss_rules(node, spec.loss, counted or {}))


def ip_batch(lines: Sequence[str]) -> None:
    """Run commands of ``ip`` in one process. Raises LabSetupError."""
    _run(["ip", "-batch", "-"], "\n".join([*lines, ""]))


def read_loss_counts() -> dict[str, dict[str, int]]:
    """Read the counts of the loss rules in this namespace. Raises LabSetupError."""
    return parse_loss_counts(_run(list(LOSS_COUNTS_COMMAND), ""))


def await_links(node: LabNode, limit_s: float) -> None:
    """Wait until every link works: until the kernel has seen the carrier, the queueing discipline drops all frames.

    The kernel checks carriers once per second (net/core/link_watch.c) and reports by netlink. Since Linux 6.10 reading
    ``carrier`` makes it check at once. Raises LabSetupError.
    """
    deadline_s = time.monotonic() + limit_s
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
        events.bind((0, _RTMGRP_LINK))
        for interface in node.interfaces:
            directory = Path("/sys/class/net", interface.name)
            while (directory / "carrier").read_text() != "1\n" or (directory / "operstate").read_text() != "up\n":
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise LabSetupError(f"{interface.name} has no carrier after {limit_s:g} s")
                events.settimeout(left_s)
                with contextlib.suppress(TimeoutError):
                    events.recv(65536)


def _shape(node: LabNode, spec: LabSpec) -> None:
    """Shape interfaces that transmit test traffic by tbf. It sees a frame without FCS; stab adds the wire's 24
    bytes.
    """
    overhead = PREAMBLE_AND_GAP_BYTES + FCS_BYTES
    lines = [
        f"qdisc add dev {interface.name} root handle 1: stab overhead {overhead} "
        f"tbf rate {spec.link_speed_bps}bit burst {shaper_burst_bytes(spec)} limit {SHAPER_LIMIT_BYTES}\n"
        for interface in node.interfaces
        if interface.shaped
    ]
    if lines:
        _run(["tc", "-batch", "-"], "".join(lines))


def loss_rules(
    node: LabNode, loss: Mapping[str, float], counted: Mapping[str, Mapping[str, int]] = MappingProxyType({})
) -> str:
    """Build nftables rules that drop the given share of the test frames and count the dropped and the seen ones."""
    lines = [f"table netdev {TABLE} {{"]
    chains = []
    for hop, ratio in loss.items():
        direction = hop.partition("/")[2]
        hook = "ingress" if direction == "in" else "egress"
        share = round(ratio * _LOSS_SCALE)
        if ratio and not share:
            raise LabSetupError(f"loss {hop}={ratio:g} is finer than 1/{_LOSS_SCALE}")
        frames = f"ip protocol udp ip daddr {TEST_NETWORK}"
        for interface in node.interfaces:
            if interface.hop != direction:
                continue
            for kind in ("seen", "dropped"):
                packets = counted.get(interface.name, {}).get(f"{kind}_packets", 0)
                start = f"packets {packets} bytes 0 " if packets else ""
                lines.append(f"  counter {kind}-{interface.name} {{ {start}}}")
            drop = f"counter name dropped-{interface.name} drop"
            if share < _LOSS_SCALE:
                drop = f"numgen random mod {_LOSS_SCALE} < {share} {drop}"
            chains += [
                f"  chain {hook}-{interface.name} {{",
                f'    type filter hook {hook} device "{interface.name}" priority 0; policy accept;',
                f"    {frames} counter name seen-{interface.name}",
            ]
            if share:
                chains.append(f"    {frames} {drop}")
            chains.append("  }")
    return "\n".join([*lines, *chains, "}", ""])


LOSS_COUNTS_COMMAND = ("nft", "-j", "list", "counters", "table", "netdev", TABLE)


def parse_loss_counts(text: str) -> dict[str, dict[str, int]]:
    """Parse nft's counters: interface to frames that met the rule and frames that it dropped."""
    truth: dict[str, dict[str, int]] = {}
    for item in json.loads(text)["nftables"]:
        counter: dict[str, Any] | None = item.get("counter")
        if counter is None:
            continue
        kind, _, interface = counter["name"].partition("-")
        truth.setdefault(interface, {})[f"{kind}_packets"] = int(counter["packets"])
    return truth


def _run(argv: list[str], text: str) -> str:
    path = tool(argv[0])
    if path is None:
        raise LabSetupError(f"{argv[0]} is not installed")
    try:
        done = subprocess.run([path, *argv[1:]], input=text, capture_output=True, text=True, timeout=_COMMAND_S)
    except subprocess.TimeoutExpired as exc:
        raise LabSetupError(f"{argv[0]} did not end within {_COMMAND_S:g} s") from exc
    if done.returncode != 0:
        raise LabSetupError(f"{argv[0]} refused: {' '.join(done.stderr.split()) or f'status {done.returncode}'}")
    return done.stdout
