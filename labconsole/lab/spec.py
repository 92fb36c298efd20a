"""The specification of a lab, checked before anything is built, and the names, addresses and wiring it implies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from labconsole.errors import ConfigError
from labconsole.model.design_point import PREAMBLE_AND_GAP_BYTES

# -- spec --------------------------------------------------------------------------------------------------------------
# The specification of a lab: the options of ``labconsole lab up``, checked before anything is built.

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}\Z")
MAX_SOURCES = 99
"""Node numbers are the last byte of the management address: sources 1-99, sinks 101-199, the UUT 200."""

MIN_MTU, MAX_MTU = 576, 65535
HOPS = ("uut/in", "uut/out")
"""Hops where loss can be injected. Not ``sink/in``: tcpdump's tap sees a frame before the netdev ingress hook does, so
the capture would count frames that the rule dropped. Not the source's egress: the sender gets the drop as ENOBUFS, and
a frame that was never sent is not lost.
"""

DEFAULT_PLATFORMS = ("raw", "raw-bridge", "container")
UML = "uml"
QEMU_NIC_MODELS = {"qemu-virtio": "virtio", "qemu-e1000": "e1000", "qemu-vmxnet3": "vmxnet3"}
"""Platforms that emulate a machine, and the model of its NIC."""

MACHINE_ONLY_PLATFORMS = ("kvm", "xen")
"""Platforms for a UUT that is a machine: KVM needs its processor's support, and Xen must be what it boots."""

DEFAULT_MACHINE_PLATFORMS = ("raw", "raw-bridge", "lxc", *MACHINE_ONLY_PLATFORMS)
KNOWN_PLATFORMS = (*DEFAULT_PLATFORMS, "lxc", UML, *QEMU_NIC_MODELS, *MACHINE_ONLY_PLATFORMS)
MAX_LXC_STREAMS = 8
"""The driver looks for at most sixteen NICs of a container."""

DEFAULT_LINK_SPEED_BPS = 10**9
MIN_LINK_SPEED_BPS = 10**6
MAX_LINK_SPEED_BPS = 100 * 10**9


@dataclass(frozen=True)
class LabSpec:
    """The options of one lab. ``link_speed_bps`` is None for links without shaping, ``python`` is None for this
    interpreter.
    """

    name: str = "local"
    sources: int = 3
    link_speed_bps: int | None = DEFAULT_LINK_SPEED_BPS
    loss: dict[str, float] = field(default_factory=dict)
    ssh_server: Literal["builtin", "openssh"] = "builtin"
    generator: Literal["afpacket", "pktgen"] = "afpacket"
    mtu: int = 1500
    python: str | None = None
    accel: Literal["tcg", "kvm"] = "tcg"
    platforms: tuple[str, ...] = DEFAULT_PLATFORMS
    uut: Literal["namespace", "machine"] = "namespace"
    boot: Literal["linux", "xen"] = "linux"
    """The system that the machine that is the UUT boots."""

    nic: Literal["virtio", "e1000"] = "virtio"
    """The model of the machine's NICs."""

    jobs: bool = False
    """Whether guests have the programs of jobs."""

    def __post_init__(self) -> None:
        """Check the options. Raises ConfigError for the first invalid one."""
        if not NAME.match(self.name):
            raise ConfigError(
                "is not a valid name for a lab",
                key="name",
                value=self.name,
                allowed="1 to 32 letters, digits, '_' or '-', the first a letter or digit",
            )
        _whole("sources", self.sources, 1, MAX_SOURCES)
        _whole("mtu", self.mtu, MIN_MTU, MAX_MTU)
        if self.link_speed_bps is not None:
            _whole("link_speed_bps", self.link_speed_bps, MIN_LINK_SPEED_BPS, MAX_LINK_SPEED_BPS)
        _word("ssh_server", self.ssh_server, ("builtin", "openssh"))
        _word("generator", self.generator, ("afpacket", "pktgen"))
        _word("accel", self.accel, ("tcg", "kvm"))
        _word("uut", self.uut, ("namespace", "machine"))
        _word("boot", self.boot, ("linux", "xen"))
        _word("nic", self.nic, ("virtio", "e1000"))
        self._check_machine()
        if self.generator == "pktgen" and self.ssh_server == "openssh":
            # sshd would log in the host's user, who has no privileges in the machine and may not send.
            raise ConfigError(
                "is not possible in a lab with pktgen", key="ssh_server", value=self.ssh_server, allowed="builtin"
            )
        object.__setattr__(self, "platforms", tuple(self.platforms))  # JSON knows lists only
        for name in self.platforms:
            _word("platforms", name, KNOWN_PLATFORMS)
        if not self.platforms or len(set(self.platforms)) != len(self.platforms):
            raise ConfigError("must be one or more names, each given once", key="platforms", value=self.platforms)
        if self.generator == "pktgen" and needs_guest(self.platforms):
            raise ConfigError(
                "is not possible in a lab with pktgen, which runs in a machine itself",
                key="platforms",
                value=", ".join(self.platforms),
                allowed=", ".join(DEFAULT_PLATFORMS),
            )
        if UML in self.platforms and (self.generator == "pktgen" or self.uut == "machine"):
            raise ConfigError(
                "is not possible on a node inside a machine",
                key="platforms",
                value=UML,
                allowed="uut namespace, generator afpacket",
            )
        if "lxc" in self.platforms and self.sources > MAX_LXC_STREAMS:
            raise ConfigError(
                "is more than an lxc container has NICs for",
                key="sources",
                value=self.sources,
                allowed=f"at most {MAX_LXC_STREAMS} with platform lxc",
            )
        if not isinstance(self.loss, dict):
            raise ConfigError("is not a table of hops and ratios", key="loss", value=self.loss)
        for hop, ratio in self.loss.items():
            _word("loss", hop, HOPS)
            if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
                raise ConfigError("is not a ratio", key=f"loss.{hop}", value=ratio, allowed="0 to 1")

    def _check_machine(self) -> None:
        if self.uut == "namespace":
            if self.boot != "linux":
                raise ConfigError("needs a UUT that is a machine (--uut machine)", key="boot", value=self.boot)
            if self.nic != "virtio":
                raise ConfigError("needs a UUT that is a machine (--uut machine)", key="nic", value=self.nic)
            for name in self.platforms:
                if name in MACHINE_ONLY_PLATFORMS:
                    raise ConfigError("needs a UUT that is a machine (--uut machine)", key="platforms", value=name)
            return
        if self.generator == "pktgen":
            raise ConfigError(
                "is not possible in a lab with pktgen, which runs in a machine itself",
                key="uut",
                value=self.uut,
                allowed="namespace",
            )
        if self.ssh_server == "openssh":
            raise ConfigError(
                "is not possible with a UUT that is a machine",
                key="ssh_server",
                value=self.ssh_server,
                allowed="builtin",
            )

    def injected_digest(self) -> str | None:
        """A digest that distinguishes labs by their faults, or None without faults. Slow, to prevent trying all
        ratios.
        """
        faults = {hop: float(ratio) for hop, ratio in self.loss.items() if ratio}
        if not faults:
            return None
        text = json.dumps(faults, sort_keys=True).encode()
        return hashlib.scrypt(text, salt=b"labconsole injected", n=2**14, r=8, p=1, dklen=8).hex()

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``from_json``."""
        return {
            "name": self.name,
            "sources": self.sources,
            "link_speed_bps": self.link_speed_bps,
            "loss": self.loss,
            "ssh_server": self.ssh_server,
            "generator": self.generator,
            "mtu": self.mtu,
            "python": self.python,
            "accel": self.accel,
            "platforms": self.platforms,
            "uut": self.uut,
            "boot": self.boot,
            "nic": self.nic,
            "jobs": self.jobs,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LabSpec:
        """Build a spec from plain data. Raises ConfigError if the data is not a spec."""
        try:
            return cls(**data)
        except TypeError as exc:
            raise ConfigError(f"is not a valid description of a lab: {exc}") from None

    def differences(self, other: LabSpec) -> list[str]:
        """Return the options in which ``other`` differs, as ``option: this, not other``."""
        mine, theirs = self.to_json(), other.to_json()
        return [f"{key}: {mine[key]!r}, not {theirs[key]!r}" for key in mine if mine[key] != theirs[key]]


def needs_guest(platforms: Sequence[str]) -> bool:
    """Whether one of these platforms boots a kernel of its own."""
    return any(name in QEMU_NIC_MODELS or name in MACHINE_ONLY_PLATFORMS for name in platforms)


def shaper_burst_bytes(spec: LabSpec) -> int:
    """Return one millisecond at link speed, but at least two frames. Ten milliseconds if the UUT is a machine: its
    processors keep ours busy, timers fire some milliseconds late, and the shaper would pass a tenth of the link's
    speed.

    tbf collects no more credit than this, so a timer that fires later costs throughput; and a sender that was idle may
    run over the line rate by this much once. Neither shows in a trial of a second (0.1 %, or 1 %) or more.
    """
    assert spec.link_speed_bps is not None
    frame_bytes = spec.mtu + 14 + 4 + PREAMBLE_AND_GAP_BYTES
    credit_ms = 10 if spec.uut == "machine" else 1
    return max(credit_ms * spec.link_speed_bps // 8000, 2 * frame_bytes)


def _whole(key: str, value: object, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ConfigError("is not possible here", key=key, value=value, allowed=f"whole numbers {lowest} to {highest}")


def _word(key: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError("is not one of the allowed words", key=key, value=value, allowed=", ".join(allowed))


# -- layout ------------------------------------------------------------------------------------------------------------
# Names, addresses and wiring of a lab: everything that follows from its options and its index. Pure.
#
# The management network is 127.18.INDEX.NODE, port 2222. It is the loopback of the machine that runs the lab: clients
# need no route and no root, none of its traffic passes a data interface, and it cannot collide with a network of the
# user's.

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
