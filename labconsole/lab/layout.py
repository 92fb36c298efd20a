"""Names, addresses and wiring of a lab: everything that follows from its options and its index. Pure.

The management network is 127.18.INDEX.NODE, port 2222. It is the loopback of the machine that runs the lab: clients
need no route and no root, none of its traffic passes a data interface, and it cannot collide with a network of the
user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from labconsole.lab.spec import LabSpec

SSH_PORT = 2222
UUT_NUMBER = 200
HOST_NUMBER = 201
OWNER_NUMBER = 254
"""The process that listens on this address of an index owns the index; its connections are not served."""

SINK_OFFSET = 100
HIGHEST_INDEX = 255
HOST = "uut-host"
"""Name of the namespace in which a UUT that is a machine runs, a node of its own."""

UUT_PORTS = 4
"""Ports for streams to enter by: the paper's UUT has eight, and streams leave by the other four."""


@dataclass(frozen=True)
class LabInterface:
    """One data interface of a node. ``shaped``: it transmits test traffic, at link speed."""

    name: str
    mac: str
    shaped: bool
    hop: Literal["in", "out"] | None = None
    neighbours: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LabNode:
    """One node of the lab."""

    name: str
    role: Literal["source", "uut", "sink", "host"]
    number: int
    address: str
    interfaces: tuple[LabInterface, ...]


class Link(NamedTuple):
    """A veth pair: (node, interface) at both ends. An end without a node lies in the lab's first process, unused."""

    near: tuple[str, str]
    far: tuple[str, str]


@dataclass(frozen=True)
class LabStream:
    """One stream as hosts.yaml describes it."""

    name: str
    source: str
    uut_in: str
    uut_out: str
    sink: str
    source_ip: str
    sink_ip: str


@dataclass(frozen=True)
class Layout:
    """A whole lab."""

    nodes: tuple[LabNode, ...]
    links: tuple[Link, ...]
    streams: tuple[LabStream, ...]

    def node(self, name: str) -> LabNode:
        """Find a node by its name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


def address_of(index: int, number: int) -> str:
    """Return the management address of a node."""
    return f"127.18.{index}.{number}"


def carriers_of(nic: str) -> tuple[str, str, str]:
    """Return the host's path to a NIC of a UUT that is a machine: the end of the cable, a bridge, the NIC's tap."""
    return nic, f"wire-{nic}", f"nic-{nic}"


def mac_of(number: int, port: int) -> str:
    """Return a locally administered address (02:...), the same in every lab: labs share no link."""
    return f"02:1a:bc:00:{number:02x}:{port:02x}"


def bypass_links(layout: Layout) -> tuple[Link, ...]:
    """Return the wiring without the UUT: every source to its sink, and the UUT's data interfaces unconnected."""
    ends = [(tuple(s.source.split("/")), tuple(s.sink.split("/"))) for s in layout.streams]
    direct = [Link((near[0], near[1]), (far[0], far[1])) for near, far in ends]
    uut = next(node for node in layout.nodes if node.role == "uut")
    return (*direct, *(Link((uut.name, i.name), ("", f"park-{i.name}")) for i in uut.interfaces))


def lay_out(spec: LabSpec, index: int) -> Layout:
    """Lay out nodes src1..N, uut, snk1..N; stream i: src{i}/eth1 - uut/eth{i} - uut/eth{i + max(4, N)} - snk{i}/eth1.

    If the UUT is a machine, its host is a node, too.
    """
    count = spec.sources
    outward = max(UUT_PORTS, count)
    sources, sinks, entries, exits = [], [], [], []
    inward_links, outward_links, streams = [], [], []
    for i in range(1, count + 1):
        source_ip, sink_ip = f"198.18.{i}.1", f"198.19.{i}.1"
        sink_mac = mac_of(SINK_OFFSET + i, 1)
        sources.append(
            LabNode(f"src{i}", "source", i, address_of(index, i), (LabInterface("eth1", mac_of(i, 1), shaped=True),))
        )
        sinks.append(
            LabNode(
                f"snk{i}",
                "sink",
                SINK_OFFSET + i,
                address_of(index, SINK_OFFSET + i),
                (LabInterface("eth1", sink_mac, shaped=False),),
            )
        )
        entries.append(LabInterface(f"eth{i}", mac_of(UUT_NUMBER, i), shaped=False, hop="in"))
        exits.append(
            LabInterface(
                f"eth{i + outward}",
                mac_of(UUT_NUMBER, i + outward),
                shaped=True,
                hop="out",
                neighbours=((sink_ip, sink_mac),),
            )
        )
        inward_links.append(Link((f"src{i}", "eth1"), ("uut", f"eth{i}")))
        outward_links.append(Link(("uut", f"eth{i + outward}"), (f"snk{i}", "eth1")))
        streams.append(
            LabStream(f"s{i}", f"src{i}/eth1", f"eth{i}", f"eth{i + outward}", f"snk{i}/eth1", source_ip, sink_ip)
        )
    uut = LabNode("uut", "uut", UUT_NUMBER, address_of(index, UUT_NUMBER), (*entries, *exits))
    host = LabNode(HOST, "host", HOST_NUMBER, address_of(index, HOST_NUMBER), ())
    below = (host,) if spec.uut == "machine" else ()
    return Layout((*sources, uut, *sinks, *below), (*inward_links, *outward_links), tuple(streams))
