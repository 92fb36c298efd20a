"""A source, a forwarding host and a sink as namespaces, and every way in which the host's kernel can be made to drop.

Each case says what is set up, what is sent, and who else knows how many packets were dropped: the truth against which
the kernel's word is held. Nothing here reads what labconsole says.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labconsole.agent.processes import linux
from support.agent_process import Net

SOURCE_IP, SINK_IP = "198.18.1.1", "198.19.1.1"
MACS = {"s0": "02:00:00:00:01:01", "u1": "02:00:00:00:01:02", "u2": "02:00:00:00:01:03", "k0": "02:00:00:00:01:04"}

SENDER = """
import json, socket, struct, sys, time
wanted = json.loads(sys.argv[1])
def summed(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
size = wanted["size_bytes"]
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size - 14, 0, wanted["flags"], wanted["ttl"], 17, 0,
                 socket.inet_aton(wanted["source_ip"]), socket.inet_aton(wanted["sink_ip"]))
ip = ip[:10] + struct.pack("!H", summed(ip) ^ wanted["checksum_error"]) + ip[12:]
macs = bytes.fromhex((wanted["mac"] + wanted["own_mac"]).replace(":", ""))
head = macs + b"\\x08\\x00" + ip + struct.pack("!HHHH", 9, 9, size - 34, 0)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.bind(("s0", 0))
sent = refused = 0
start = time.monotonic_ns()
for number in range(1, wanted["packets"] + 1):
    if number == wanted["packets"] // 2:
        time.sleep(wanted["stall_s"])
    while time.monotonic_ns() < start + (number - 1) * wanted["interval_ns"]:
        pass
    now = time.time_ns()
    data = struct.pack("!IIII", 0xBE9BE955, number, now // 10**9, now % 10**9 // 1000)
    try:
        s.send((head + data).ljust(size, b"\\0"))
        sent += 1
    except OSError:
        refused += 1
print(sent, refused)
"""


class DropChain:
    """src/s0 - u1/uut/u2 - k0/snk; the host in the middle routes."""

    def __init__(self) -> None:
        self.source, self.host, self.sink = Net(), Net(), Net()
        self._kept: list[int] = []
        for net in (self.source, self.host, self.sink):
            for path in ("ipv6/conf/all/disable_ipv6", "ipv6/conf/default/disable_ipv6"):
                net.write_sysctl(path, "1")
        for net, name, peer in ((self.source, "s0", "u1"), (self.sink, "k0", "u2")):
            net.run(
                "ip",
                "link",
                "add",
                name,
                "address",
                MACS[name],
                "type",
                "veth",
                "peer",
                "name",
                peer,
                "address",
                MACS[peer],
                "netns",
                str(self.host.pid),
            )
            net.run("ip", "link", "set", name, "up")
            self.host.run("ip", "link", "set", peer, "up")
        for path in ("all/rp_filter", "default/rp_filter", "u1/rp_filter", "u2/rp_filter"):
            self.host.write_sysctl(f"ipv4/conf/{path}", "0")
        self.host.write_sysctl("ipv4/ip_forward", "1")
        self.ip("address", "add", "198.18.1.2/32", "dev", "u1")
        self.ip("route", "add", SOURCE_IP, "dev", "u1")
        self.ip("route", "add", SINK_IP, "dev", "u2")
        self.ip("neigh", "add", SINK_IP, "lladdr", MACS["k0"], "dev", "u2", "nud", "permanent")

    def close(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)
        for net in (self.source, self.host, self.sink):
            net.close()

    def ip(self, *words: str) -> str:
        return self.host.run("ip", *words)

    def tc(self, words: str) -> None:
        self.host.run("tc", *words.split(" "))

    def nft(self, family: str, hook: str, rules: str) -> None:
        """One chain of the host's packet filter."""
        made = f"add table {family} t; add chain {family} t c {{ type filter hook {hook} priority 0; }}"
        self.host.run("nft", "; ".join([made, *(f"add rule {family} t c {rule}" for rule in rules.split("; "))]))

    def send(
        self,
        packets: int,
        *,
        size_bytes: int = 60,
        ttl: int = 32,
        sink_ip: str = SINK_IP,
        source_ip: str = SOURCE_IP,
        mac: str = MACS["u1"],
        checksum_error: int = 0,
        keep_whole: bool = False,
        interval_ns: int = 0,
        stall_s: float = 0,
    ) -> int:
        """Send test packets, one call each; how many the kernel took. With an interval each when it is due, or as soon
        after as can be; half-way the sender stalls.
        """
        wanted = {
            "packets": packets,
            "size_bytes": size_bytes,
            "ttl": ttl,
            "sink_ip": sink_ip,
            "source_ip": source_ip,
            "mac": mac,
            "own_mac": MACS["s0"],
            "checksum_error": checksum_error,
            "flags": 0x4000 if keep_whole else 0,
            "interval_ns": interval_ns,
            "stall_s": stall_s,
        }
        said = self.source.run(sys.executable, "-c", SENDER, json.dumps(wanted))
        time.sleep(0.1)
        return int(said.split()[0])

    def counter(self, net: Net, interface: str, name: str) -> int:
        (link,) = json.loads(net.run("ip", "-j", "-s", "link", "show", interface))
        side, _, word = name.partition("_")
        found: int = link["stats64"][side][word]
        return found

    def snmp(self, group: str, name: str) -> int:
        """One of the host's counters of its IP stack."""
        for path in ("/proc/net/snmp", "/proc/net/netstat"):
            rows = [line.split() for line in self.host.run("cat", path).splitlines()]
            for head, values in zip(rows[::2], rows[1::2], strict=True):
                if head[0] == f"{group}:" and name in head:
                    return int(values[head.index(name)])
        raise LookupError(name)

    def rule_counts(self) -> int:
        """What all rules with a counter have counted."""
        return sum(int(each) for each in re.findall(r"counter packets (\d+)", self.host.run("nft", "list", "ruleset")))

    def qdisc_drops(self, interface: str, kind: str) -> int:
        for qdisc in json.loads(self.host.run("tc", "-j", "-s", "qdisc", "show", "dev", interface)):
            if qdisc["kind"] == kind:
                return int(qdisc["drops"])
        raise LookupError(kind)

    def tap(self, queue: int) -> None:
        """A tap whose queue nobody reads, as of a guest that does not take its packets; there until ``close``."""
        inside = os.open(f"/proc/{self.host.pid}/ns/net", os.O_RDONLY)
        try:
            self._kept.append(linux.run_in_namespace(inside, open_tap))
        finally:
            os.close(inside)
        self.ip("link", "set", "tap0", "txqueuelen", str(queue), "up")
        self.tc("qdisc replace dev tap0 root noqueue")
        self.ip("route", "replace", SINK_IP, "dev", "tap0")
        self.ip("neigh", "replace", SINK_IP, "lladdr", "02:00:00:00:00:07", "dev", "tap0", "nud", "permanent")

    def end_of_guest(self) -> None:
        """Whoever had the tap lets go of it."""
        while self._kept:
            os.close(self._kept.pop())

    def xdp(self, interface: str, *mode: str) -> None:
        """A program at the host's interface that drops every eighth test packet, by their numbers."""
        self.host.run(sys.executable, str(Path(__file__).with_name("xdp_drop.py")), interface, "on", *mode)

    def bridge(self) -> None:
        """The host bridges instead."""
        self.ip("link", "add", "br0", "type", "bridge")
        self.ip("link", "set", "br0", "up")
        for port in ("u1", "u2"):
            self.ip("link", "set", port, "master", "br0")


def open_tap() -> int:
    """tap0 in the calling thread's namespace, which outlives whoever has it; its descriptor is the other end."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"tap0", 0x1002))
    fcntl.ioctl(tap, 0x400454CB, 1)  # it outlives its guest
    return tap


@dataclass(frozen=True)
class DropCase:
    """One way to drop. ``provoke`` sets it up, sends, and returns the truth; ``witness`` says whose word that is.

    ``told``: (interface, function) to the reasons by which kernels call it, of the rows that together are the truth.
    """

    name: str
    provoke: Callable[[DropChain, int], int]
    witness: str
    told: dict[tuple[str, str], Sequence[str]] = field(hash=False)


CASES: list[DropCase] = []


def _case(witness: str, told: dict[tuple[str, str], Sequence[str]]) -> Callable[[Any], Any]:
    def keep(provoke: Callable[[DropChain, int], int]) -> Callable[[DropChain, int], int]:
        CASES.append(DropCase(provoke.__name__.lstrip("_").replace("_", "-"), provoke, witness, told))
        return provoke

    return keep


NETFILTER, UNNAMED = ("NETFILTER_DROP",), ("NOT_SPECIFIED",)


@_case("the rule's counter", {("u1", "nft_do_chain"): NETFILTER})
def _filter_at_ingress(chain: DropChain, packets: int) -> int:
    chain.nft("netdev", "ingress device u1", "udp dport 9 counter drop")
    chain.send(packets)
    return chain.rule_counts()


@_case("the rule's counter", {("u1", "nft_do_chain"): NETFILTER})
def _filter_before_routing(chain: DropChain, packets: int) -> int:
    chain.nft("ip", "prerouting", "udp dport 9 counter drop")
    chain.send(packets)
    return chain.rule_counts()


@_case("the rule's counter", {("u1", "nft_do_chain"): NETFILTER})
def _filter_of_forwarded(chain: DropChain, packets: int) -> int:
    chain.nft("ip", "forward", "udp dport 9 numgen random mod 100 < 7 counter drop")
    chain.send(packets)
    return chain.rule_counts()


@_case("the rule's counter", {("u2", "nft_do_chain"): NETFILTER})
def _filter_at_egress(chain: DropChain, packets: int) -> int:
    chain.nft("netdev", "egress device u2", "udp dport 9 counter drop")
    chain.send(packets)
    return chain.rule_counts()


@_case("IpInNoRoutes", {("u1", "ip_error"): ("IP_INNOROUTES",)})
def _no_route(chain: DropChain, packets: int) -> int:
    chain.ip("route", "del", SINK_IP)
    chain.send(packets)
    return chain.snmp("IpExt", "InNoRoutes")


@_case("sent", {("u1", "ip_error"): UNNAMED})
def _blackhole(chain: DropChain, packets: int) -> int:
    chain.ip("route", "replace", "blackhole", SINK_IP)
    return chain.send(packets)


@_case("sent", {("u1", "ip_error"): UNNAMED})
def _unreachable(chain: DropChain, packets: int) -> int:
    chain.ip("route", "replace", "unreachable", SINK_IP)
    return chain.send(packets)


@_case("IpInAddrErrors", {("u1", "ip_error"): ("IP_INADDRERRORS",)})
def _no_forwarding(chain: DropChain, packets: int) -> int:
    chain.host.write_sysctl("ipv4/ip_forward", "0")
    chain.send(packets)
    return chain.snmp("Ip", "InAddrErrors")


@_case("sent", {("u2", "__neigh_event_send"): ("NEIGH_QUEUEFULL",), ("u2", "neigh_invalidate"): ("NEIGH_FAILED",)})
def _no_neighbour(chain: DropChain, packets: int) -> int:
    chain.ip("address", "add", "198.19.1.2/32", "dev", "u2")
    chain.ip("neigh", "del", SINK_IP, "dev", "u2")
    chain.sink.run("ip", "link", "set", "k0", "arp", "off")
    sent = chain.send(packets)
    time.sleep(4)  # three questions, a second apart
    return sent


@_case("IPReversePathFilter", {("u1", "ip_rcv_finish_core"): ("IP_RPFILTER",)})
def _reverse_path(chain: DropChain, packets: int) -> int:
    chain.host.write_sysctl("ipv4/conf/u1/rp_filter", "1")
    chain.ip("route", "replace", SOURCE_IP, "dev", "u2")
    chain.send(packets)
    return chain.snmp("TcpExt", "IPReversePathFilter")


@_case("IpInHdrErrors", {("u1", "ip_forward"): ("IP_INHDR",)})
def _time_to_live(chain: DropChain, packets: int) -> int:
    chain.send(packets, ttl=1)
    return chain.snmp("Ip", "InHdrErrors")


@_case("InCsumErrors", {("u1", "ip_rcv_core"): ("IP_CSUM",)})
def _ip_checksum(chain: DropChain, packets: int) -> int:
    chain.send(packets, checksum_error=0x55)
    return chain.snmp("IpExt", "InCsumErrors")


@_case("sent", {("u1", "ip_rcv_core"): ("OTHERHOST",)})
def _other_station(chain: DropChain, packets: int) -> int:
    return chain.send(packets, mac="02:00:00:00:99:99")


@_case("sent", {("u1", "ip_rcv_finish_core"): ("IP_LOCALNET", "NOT_SPECIFIED")})
def _source_of_loopback(chain: DropChain, packets: int) -> int:
    return chain.send(packets, source_ip="127.0.0.1")


@_case("UdpNoPorts", {("u1", "__udp4_lib_rcv"): ("NO_SOCKET",)})
def _no_socket(chain: DropChain, packets: int) -> int:
    chain.ip("route", "del", SINK_IP)
    chain.ip("address", "add", f"{SINK_IP}/32", "dev", "u2")
    chain.send(packets)
    return chain.snmp("Udp", "NoPorts")


@_case("IpFragFails", {("u1", "ip_forward"): ("PKT_TOO_BIG",)})
def _too_big(chain: DropChain, packets: int) -> int:
    chain.ip("link", "set", "u2", "mtu", "600")
    chain.send(packets, size_bytes=1000, keep_whole=True)
    return chain.snmp("Ip", "FragFails")


@_case("tx_dropped of u2", {("u2", "__dev_forward_skb2"): UNNAMED})
def _over_the_others_mtu(chain: DropChain, packets: int) -> int:
    chain.sink.run("ip", "link", "set", "k0", "mtu", "600")
    chain.send(packets, size_bytes=1000)
    return chain.counter(chain.host, "u2", "tx_dropped")


@_case("the queue's drops", {("u2", "__dev_queue_xmit"): ("QDISC_DROP", "QDISC_OVERLIMIT")})
def _token_bucket(chain: DropChain, packets: int) -> int:
    chain.tc("qdisc replace dev u2 root tbf rate 20mbit burst 4kb limit 20kb")
    chain.send(packets, size_bytes=500)
    return chain.qdisc_drops("u2", "tbf")


@_case("the queue's drops", {("u2", "__dev_queue_xmit"): ("QDISC_DROP", "QDISC_OVERLIMIT")})
def _queue_drops_its_oldest(chain: DropChain, packets: int) -> int:
    chain.tc("qdisc replace dev u2 root handle 1: tbf rate 20mbit burst 4kb limit 2000kb")
    chain.tc("qdisc add dev u2 parent 1:1 handle 2: pfifo_head_drop limit 20")
    chain.send(packets, size_bytes=500)
    return chain.qdisc_drops("u2", "tbf")


@_case("sent", {("u1", "ip_error"): ("IP_INNOROUTES",)})
def _own_link_down(chain: DropChain, packets: int) -> int:
    chain.ip("link", "set", "u2", "down")
    return chain.send(packets)


@_case("sent", {("u2", "__dev_queue_xmit"): ("QDISC_DROP", "DEV_READY")})
def _other_end_down(chain: DropChain, packets: int) -> int:
    chain.sink.run("ip", "link", "set", "k0", "down")
    time.sleep(0.3)
    return chain.send(packets)


@_case("sent", {("u1", "br_handle_frame"): ("BRIDGE_INGRESS_STP_STATE", "NOT_SPECIFIED")})
def _bridge_takes_nothing_in(chain: DropChain, packets: int) -> int:
    chain.bridge()
    chain.host.run("bridge", "link", "set", "dev", "u1", "state", "0")
    return chain.send(packets, mac=MACS["k0"])


@_case("sent", {("u1", "br_handle_frame_finish"): ("NO_TX_TARGET", "NOT_SPECIFIED")})
def _bridge_lets_nothing_out(chain: DropChain, packets: int) -> int:
    chain.bridge()
    chain.host.run("bridge", "link", "set", "dev", "u2", "state", "0")
    return chain.send(packets, mac=MACS["k0"])


@_case("sent", {("u1", "br_handle_frame_finish"): ("NO_TX_TARGET", "NOT_SPECIFIED")})
def _bridge_does_not_flood(chain: DropChain, packets: int) -> int:
    chain.bridge()
    chain.host.run("bridge", "link", "set", "dev", "u2", "flood", "off")
    return chain.send(packets, mac="02:00:00:00:99:99")


@_case("sent", {("u1", "br_handle_frame_finish"): UNNAMED})
def _bridge_would_send_back(chain: DropChain, packets: int) -> int:
    chain.bridge()
    chain.host.run("bridge", "fdb", "add", "02:00:00:00:99:99", "dev", "u1", "master", "static")
    return chain.send(packets, mac="02:00:00:00:99:99")


@_case("tx_dropped of the tap", {("tap0", "tun_net_xmit"): ("FULL_RING", "NOT_SPECIFIED")})
def _tap_full(chain: DropChain, packets: int) -> int:
    chain.tap(queue=100)
    chain.send(packets)
    return chain.counter(chain.host, "tap0", "tx_dropped")


@_case("sent", {("tap0", "tun_queue_purge"): UNNAMED})
def _guest_ends_with_packets_in_its_queue(chain: DropChain, packets: int) -> int:
    chain.tap(queue=2 * packets)
    sent = chain.send(packets)
    chain.end_of_guest()
    return sent


@_case("sent, every eighth", {("u1", "do_xdp_generic"): ("XDP", "NOT_SPECIFIED")})
def _xdp_of_the_kernel(chain: DropChain, packets: int) -> int:
    chain.xdp("u1")
    return chain.send(packets) // 8


@_case("sent, every eighth", {("u1", "veth_xdp_rcv_skb"): ("XDP", "NOT_SPECIFIED")})
def _xdp_of_the_driver(chain: DropChain, packets: int) -> int:
    chain.xdp("u1", "native")
    return chain.send(packets) // 8
