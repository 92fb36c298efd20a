"""The request of one trial, the wiring of its streams, and the requests to generators and captures for each."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from labconsole.contracts.driver import StreamWiring
from labconsole.contracts.ports import StoredMaximum
from labconsole.engine.live.telemetry import Telemetry
from labconsole.errors import ConfigError, NodeError
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import DropReasons, Inventory, PacketTiming, Stream
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import PlanRef, Role, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.wire.capture import StartCapture
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP, SOCKET_FILTER, StreamToTime
from labconsole.wire.stream_spec import StreamSpec

# -- generators and captures -------------------------------------------------------------------------------------------
# Requests to generators and captures for a stream. Pure: design points in, requests to agents out.

UDP_SOURCE_PORT = 9
FIRST_UDP_SINK_PORT = 9
SNAP_BYTES = 64
"""Ethernet, IPv4, UDP and pktgen's 16 bytes are 58; a multiple of four keeps counting fast."""

CEILING_PPS = {"afpacket": 3_000_000, "pktgen": 20_000_000}
"""More than one thread of either generator has ever sent. Only used for the space that a capture may need."""

COUNT_SLACK_RATIO = 0.02
COUNT_SLACK_S = 0.05
"""Tolerance for a generator to send its count, relative and absolute, before it is stopped by time."""

MAX_COUNT = 4_000_000_000


TIMED_BY: dict[PacketTiming, str] = {"on": SOCKET_FILTER, "xdp-generic": GENERIC_XDP, "xdp-native": NATIVE_XDP}
"""The timing method of a sink's kernel by setting; off has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """The settings for taking a trial, from the testbed's defaults or a plan."""

    drain_s: float
    sample_interval_s: float
    capture_buffer_kib: int
    capture_directories: dict[str, str | None] = field(default_factory=dict)
    nic_stamps: frozenset[str] = frozenset()
    """Sinks whose NICs stamp captured frames."""

    drop_reasons: DropReasons = "off"
    """Whether the unit under test's kernel reports why it drops packets; auto: as far as the cost is negligible."""

    packet_times: PacketTiming = "off"
    """Whether the sinks' kernels time every packet, and how."""

    telemetry: bool = False
    """Whether the unit under test reports its processors' work during traffic."""

    spacing: bool = False
    """Whether captures also examine how evenly frames arrive; used in calibrations."""

    @classmethod
    def of(cls, inventory: Inventory, plan: Plan | None = None) -> TrialSettings:
        """The testbed's defaults, overridden by a plan."""
        defaults = inventory.defaults
        drain_s, drops, times = (None,) * 3 if plan is None else (plan.drain_s, plan.drop_reasons, plan.packet_times)
        return cls(
            drain_s=defaults.drain_s if drain_s is None else drain_s,
            sample_interval_s=defaults.sample_interval_s,
            capture_buffer_kib=defaults.capture_buffer_kib,
            capture_directories={name: node.capture_dir for name, node in inventory.nodes.items()},
            nic_stamps=frozenset(name for name, node in inventory.nodes.items() if node.capture_stamps == "nic"),
            drop_reasons=drops or defaults.drop_reasons,
            packet_times=times or defaults.packet_times,
        )

    def of_role(self, role: Role) -> TrialSettings:
        """The settings for a trial of this role: a telemetry trial uses every probe, since it enters no mean."""
        return replace(self, telemetry=True, drop_reasons="on") if role == "telemetry" else self


@dataclass(frozen=True, slots=True)
class Flow:
    """The packets sent over one stream in a trial; ``index`` is the stream's place in the inventory."""

    stream: Stream
    request: DesignPoint
    index: int


def sink_port(index: int) -> int:
    """UDP destination port of the stream with this index in the inventory; identifies the stream in a capture."""
    return FIRST_UDP_SINK_PORT + index


def stream_to_time(stream: Stream, index: int, request: DesignPoint | None = None) -> StreamToTime:
    """How a sink's kernel recognises this stream's packets; with a request, also when each packet is due."""
    return StreamToTime(
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
        udp_sink_port=sink_port(index),
        interval_ns=request.delay_ns if request is not None and request.paced_bps is not None else 0,
    )


def stream_filter(stream: Stream, index: int) -> str:
    """The pcap filter that matches exactly this stream's test frames: addresses, ports and pktgen's magic."""
    return (
        f"udp and src host {stream.source_ip} and dst host {stream.sink_ip} and src port {UDP_SOURCE_PORT} "
        f"and dst port {sink_port(index)} and udp[8:4] = 0xbe9be955"
    )


def longest_s(request: DesignPoint) -> float:
    """Maximum sending time: the generator's count ends it earlier, unless the generator is slowed down."""
    if request.intended_packets is None:
        return request.duration_s
    return request.duration_s * (1 + COUNT_SLACK_RATIO) + COUNT_SLACK_S


def stream_spec(
    flow: Flow, *, interface: str, destination_mac: str, cpus: Sequence[int] | None, options: str | None = None
) -> StreamSpec:
    """The generator's specification for the flow, sent from this interface."""
    request, stream = flow.request, flow.stream
    line_packets = int(request.frame.rate_pps(stream.link_speed_bps) * request.duration_s) + 1
    return StreamSpec(
        stream=stream.name,
        interface=interface,
        generator=request.generator,
        destination_mac=destination_mac,
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
        udp_source_port=UDP_SOURCE_PORT,
        udp_sink_port=sink_port(flow.index),
        pkt_size_bytes=request.frame.pkt_size_bytes,
        delay_ns=request.delay_ns,
        count=request.intended_packets,
        duration_s=longest_s(request),
        # Never endless: if every stop fails, traffic ends by itself after twice what the link can carry.
        max_count=min(2 * max(line_packets, request.intended_packets or 0), MAX_COUNT),
        cpus=list(cpus) if cpus else None,
        options=options,
    )


def most_packets(request: DesignPoint, stream: Stream, generator: str) -> int:
    """Maximum number of packets of a stream at target max: the line rate's, or the generator's if lower."""
    ceiling_pps = CEILING_PPS.get(generator, max(CEILING_PPS.values()))
    return int(min(request.frame.rate_pps(stream.link_speed_bps), ceiling_pps) * request.duration_s) + 1


def capture_request(
    flow: Flow,
    *,
    capture: str,
    generator: str,
    buffer_kib: int,
    directory: str | None,
    run_id: str,
    spacing: bool = False,
    nic_stamps: bool = False,
) -> StartCapture:
    """Capture the flow's stream at its sink. ``spacing``: also examine how evenly frames arrive.

    The sample of frames whose delays are kept is drawn for every run and stream, seeded by their names.
    """
    request, stream = flow.request, flow.stream
    return StartCapture(
        capture=capture,
        interface=stream.sink.interface,
        filter=stream_filter(stream, flow.index),
        snap_bytes=SNAP_BYTES,
        buffer_kib=buffer_kib,
        directory=directory,
        expected_packets=request.intended_packets or most_packets(request, stream, generator),
        spacing_gap_ns=(0 if request.paced_bps is None else request.delay_ns) if spacing else None,
        sampling_seed=zlib.crc32(f"{run_id} {stream.name}".encode()),
        nic_stamps=nic_stamps or None,
    )


# -- request -----------------------------------------------------------------------------------------------------------
# The request of one trial, beyond the testbed's settings for all trials.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """One trial. If ``settings``, ``tolerances`` or ``settle_s`` is None, the testbed's value applies.

    ``repetition`` of ``repetitions`` is only for listeners. ``keep``: store the record. ``reference``: the maximum that
    defines a forwarding second guest's load, or None for the newest stored one.
    """

    request: DesignPoint
    plan: PlanRef | None = None
    repetition: int = 1
    repetitions: int = 1
    settings: TrialSettings | None = None
    tolerances: Tolerances | None = None
    settle_s: float | None = None
    keep: bool = True
    role: Role = "measured"
    reference: StoredMaximum | None = None
    anew: bool = False
    """Undo the current set-up first, so that this trial begins its own."""


Take = Callable[[TrialRequest], Awaitable[RunRecord]]
"""Takes one trial; provided by a session that has leased the testbed."""


# -- stream wiring -----------------------------------------------------------------------------------------------------
# The wiring of a testbed's streams, from its nodes' reports of their interfaces.

ETHERNET_HEADER_BYTES = 14
"""An interface's MTU counts the frame's payload only; the frame size includes this header."""


def find_wiring(stream: Stream, inventory: Inventory, telemetry: Telemetry) -> StreamWiring:
    """A stream with the MAC addresses of its interfaces. Raises ConfigError for a missing interface."""
    uut, place = inventory.uut, inventory.streams.index(stream)

    def mac(key: str, node: str, interface: str) -> str:
        live = telemetry.interfaces.get((node, "", interface))
        if live is None:
            there = ", ".join(sorted(k[2] for k in telemetry.interfaces if k[0] == node and not k[1]))
            location = ("streams", place, key)
            raise inventory.complaint(location, f"{node} has no such interface", interface, there)
        if not live.link.mac:
            raise NodeError(node, f"interface {interface} has no MAC address: it is not an Ethernet interface")
        return live.link.mac

    mac("source", stream.source.node, stream.source.interface)
    return StreamWiring(
        name=stream.name,
        uut_in=stream.uut_in,
        uut_in_mac=mac("uut_in", uut, stream.uut_in),
        uut_out=stream.uut_out,
        uut_out_mac=mac("uut_out", uut, stream.uut_out),
        sink_mac=mac("sink", stream.sink.node, stream.sink.interface),
        source_ip=stream.source_ip,
        sink_ip=stream.sink_ip,
    )


def check_mtu(request: DesignPoint, inventory: Inventory, telemetry: Telemetry) -> None:
    """Refuse a frame that an interface on its path would not carry. Raises ConfigError."""
    for stream in inventory.streams[: request.sources]:
        ends = [
            (stream.source.node, stream.source.interface),
            (inventory.uut, stream.uut_in),
            (inventory.uut, stream.uut_out),
            (stream.sink.node, stream.sink.interface),
        ]
        for node, interface in ends:
            live = telemetry.interfaces.get((node, "", interface))
            mtu = live.link.mtu if live is not None else None
            if mtu is not None and request.frame.pkt_size_bytes - ETHERNET_HEADER_BYTES > mtu:
                fcs = request.frame.bytes - request.frame.pkt_size_bytes
                raise ConfigError(
                    f"is above what {node}/{interface} carries (MTU {mtu})",
                    key="frame_size",
                    value=request.frame.bytes,
                    allowed=f"at most {mtu + ETHERNET_HEADER_BYTES + fcs}",
                )
