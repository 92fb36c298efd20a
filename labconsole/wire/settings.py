"""Settings that decide how a node forwards and how undisturbed it runs: of NICs, processors and network stack."""

from __future__ import annotations

from typing import Annotated, Dict, List, Optional

from labconsole.wire.facts import Governors
from labconsole.wire.links import MAX_INTERFACES, Pause
from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Index, Most, Name, Rule, Sentence, Word, run_length, whole

MAX_SETTINGS = 10_000
MAX_FEATURES = 100
MAX_IRQS = 1024
IRQS_TOLD = 256
"""Most interrupts listed of one interface: as many queues as a fast NIC has. If this many are listed, there may be
more.
"""

MAX_IDLE_STATES = 100

Kilo = Annotated[int, Rule(whole(0, 2**32 - 1))]
"""A driver's 32-bit setting: ring entries, microseconds, queues."""

Sysctls = Annotated[Dict[str, Optional[Sentence]], Most(MAX_SETTINGS)]


class Rings(Message):
    """Entries of the descriptor rings, and their maximum."""

    rx_max: Kilo
    tx_max: Kilo
    rx: Kilo
    tx: Kilo


class Coalesce(Message):
    """How long, and for how many frames, a NIC waits before it interrupts."""

    rx_usecs: Kilo
    rx_frames: Kilo
    tx_usecs: Kilo
    tx_frames: Kilo
    adaptive_rx: Kilo
    adaptive_tx: Kilo


class Queues(Message):
    """Number of queues that a NIC uses."""

    rx: Kilo
    tx: Kilo
    combined: Kilo


class Bus(Message):
    """Where a NIC is attached."""

    address: Name
    kind: Optional[Name]
    link_speed: Optional[Name]
    link_width: Optional[Count]
    numa_node: Optional[Annotated[int, Rule(whole(-1, 2**31))]]


class NicStamping(Message):
    """``all_received``: whether the NIC can stamp every received frame. ``clock``: the number of its own clock."""

    all_received: bool
    clock: Optional[Index]


class InterfaceSettings(Message):
    """Settings of one interface; None is unknown. ``irqs``: the processors that each interrupt may go to. ``qdiscs``:
    all queueing disciplines with their options. ``xdp``: how a program is attached, or "none". ``device``: how its
    packets are received and steered.
    """

    driver: Optional[Name]
    driver_version: Optional[Name]
    firmware: Optional[Name]
    mac: Optional[Name]
    mtu: Optional[Count]
    up: bool
    carrier_changes: Optional[Count]
    queue_length: Optional[Count]
    qdisc: Optional[Name]
    speed_mbps: Optional[Count]
    duplex: Optional[Name]
    autoneg: Optional[bool]
    pause: Optional[Pause]
    offloads: Annotated[Dict[str, Optional[bool]], Most(MAX_FEATURES)]
    rings: Optional[Rings]
    coalesce: Optional[Coalesce]
    queues: Optional[Queues]
    stamps: Optional[NicStamping] = None
    bus: Optional[Bus]
    irqs: Annotated[Dict[str, Optional[Sentence]], Most(MAX_IRQS, run_length)]
    sysctls: Sysctls
    qdiscs: Optional[Sentence] = None
    xdp: Optional[Name] = None
    device: Optional[Sysctls] = None


class IdleState(Message):
    """A sleep state of the first processor."""

    name: Optional[Name]
    exit_latency_us: Optional[Count]
    disabled: bool


class NodeSettings(Message):
    """None is unknown. ``interfaces``: all but loopback. ``boot_options``: the kernel's options that matter here."""

    interfaces: Annotated[Dict[str, InterfaceSettings], Most(MAX_INTERFACES)]
    governors: Optional[Governors]
    turbo: Optional[bool]
    idle_states: Optional[Annotated[List[IdleState], Most(MAX_IDLE_STATES)]]
    irqbalance: bool
    isolated_cpus: Optional[Sentence]
    online_cpus: Optional[Sentence]
    smt: Optional[Name]
    sysctls: Sysctls
    frequencies: Optional[Annotated[Dict[str, Sentence], Most(MAX_FEATURES)]] = None
    boot_options: Optional[Sentence] = None


class ReadSettings(Request[NodeSettings], op="settings"):
    """Request the node's settings; a reading takes milliseconds. ``ports``: only these of its interfaces."""

    namespace: Optional[Word] = None
    ports: Optional[Annotated[List[Name], Most(MAX_INTERFACES)]] = None
