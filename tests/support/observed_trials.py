"""Observations of a trial, made up by hand, and the record that is made of them."""

from __future__ import annotations

from typing import Any

from labconsole.contracts.driver import PathPoint, StreamPath
from labconsole.measure.counts import CounterSample
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Environment, Reason, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observations import NodeReading, StreamObservations, TrialObservations
from labconsole.verdict.record import build_record
from labconsole.wire.capture import AnalyzedCapture, CapturedStream, CaptureResult, CountedSequence
from labconsole.wire.drops import DropCounters
from labconsole.wire.generator import SentStream
from labconsole.wire.host_activity import NodeSurroundings
from labconsole.wire.message import M
from labconsole.wire.settings import NodeSettings

SENT = 14205  # round(1 s / 7040 ns * 0.1), of 64-byte frames at 10 Mbit/s: delay 70400 ns
PATH = StreamPath(
    destination_mac="02:00:00:00:00:01",
    points=(PathPoint("uut_in", "", "eth1", "rx_packets"), PathPoint("uut_out", "", "eth5", "tx_packets")),
)


def counters(*, rx: int, tx: int, at_ns: int = 0) -> CounterSample:
    return CounterSample(at_ns, (rx, tx) + (0,) * 23)


def observe(
    inventory: Inventory,
    *,
    sent: int = SENT,
    nic: int | None = None,
    uut_out: int | None = None,
    arrived: int | None = None,
    captured: int | None = None,
    dropped: int = 0,
    **generated: Any,
) -> TrialObservations:
    """A trial in which ``sent`` packets left and ``arrived`` came; every count may be bent."""
    nic = sent if nic is None else nic
    uut_out = sent if uut_out is None else uut_out
    arrived = uut_out if arrived is None else arrived
    captured = arrived if captured is None else captured
    seen = TrialObservations(run_id="20261121T000000Z-000000", started_at="2026-11-21T00:00:00.000Z")
    stream = StreamObservations(inventory.streams[0], PATH)
    stream.generated = SentStream.parse(
        {
            "stream": "s1",
            "generator": "afpacket",
            "version": "1",
            "interface": "eth1",
            "sent_packets": sent,
            "errors": 0,
            "error_text": None,
            "started_monotonic_ns": 0,
            "stopped_monotonic_ns": 1_000_000_000,
            "started_wall_ns": 0,
            "elapsed_ns": 1_000_000_000,
            "idle_ns": None,
            "delay_ns": 70_400,
            "burst_packets": 1,
            "requested_count": None,
            "stopped_by": "count",
            "raw": None,
            **generated,
        }
    )
    stream.capture = CaptureResult(
        captured_packets=captured,
        received_by_filter_packets=None,
        dropped_kernel_packets=dropped,
        dropped_interface_packets=0,
        file_bytes=0,
        sha256=None,
        analysis=AnalyzedCapture(
            format="pcap",
            link_type=None,
            packets=captured,
            bytes=0,
            first_at_ns=None,
            last_at_ns=None,
            duration_ns=None,
            truncated=False,
            corrupt_at_byte=None,
            corrupt_reason=None,
            read_bytes=0,
            other_packets=0,
            unlisted_stream_packets=0,
            untimed_packets=0,
            pps=None,
            frame_bps=None,
            streams=[counted(captured)],
        ),
    )
    seen.streams = [stream]
    seen.before = {
        "src1": {("", "eth1"): counters(rx=5, tx=7)},
        "uut": {("", "eth1"): counters(rx=1, tx=2), ("", "eth5"): counters(rx=3, tx=4)},
        "snk1": {("", "eth1"): counters(rx=9, tx=9)},
    }
    seen.after = {
        "src1": {("", "eth1"): counters(rx=5, tx=7 + nic)},
        "uut": {("", "eth1"): counters(rx=1 + nic, tx=2), ("", "eth5"): counters(rx=3, tx=4 + uut_out)},
        "snk1": {("", "eth1"): counters(rx=9 + arrived, tx=9)},
    }
    seen.drained = True
    seen.start_skew_s = 0.0
    return seen


def counted(packets: int) -> CapturedStream:
    """A stream in a capture of a second."""
    return CapturedStream(
        source_ip="198.18.1.1",
        sink_ip="198.19.1.1",
        udp_source_port=9,
        udp_sink_port=9,
        packets=packets,
        bytes=0,
        first_at_ns=10**18,
        last_at_ns=10**18 + 999_000_000,
        late_packets=0,
        queued_packets=0,
        sequence_error=None,
        sequence=CountedSequence(
            first=0,
            last=0,
            expected_packets=packets,
            lost_packets=0,
            lost_runs={},
            reordered_packets=0,
            duplicate_packets=0,
        ),
        gap_ns=None,
        gaps_exact=False,
        backward_steps=0,
        delay=None,
        delay_error=None,
        pps=None,
        frame_bps=None,
    )


def bent(message: M, **changes: Any) -> M:
    """The message with other values."""
    return type(message)(**{**vars(message), **changes})


def recounted(seen: TrialObservations, *streams: CapturedStream) -> None:
    """Let the first stream's capture hold these."""
    capture = seen.streams[0].capture
    assert capture is not None
    seen.streams[0].capture = bent(capture, analysis=bent(capture.analysis, streams=list(streams)))


def record(
    inventory: Inventory,
    seen: TrialObservations,
    target: str = "10Mbit",
    tolerances: Tolerances | None = None,
    environment: Environment | None = None,
) -> RunRecord:
    request = DesignPoint(
        platform="raw",
        frame=FrameSize(64),
        sources=1,
        target="max" if target == "max" else 10**7,
        duration_s=1.0,
    )
    return build_record(
        seen,
        inventory=inventory,
        request=request,
        operator="t",
        plan=None,
        environment=environment or {},
        finished_at="2026-11-21T00:00:01.000Z",
        tolerances=tolerances or Tolerances(),
    )


def codes(run: RunRecord) -> set[str]:
    return {reason.code for reason in run.verdict.reasons}


PORT = {
    "driver": None,
    "driver_version": None,
    "firmware": None,
    "mac": None,
    "mtu": 1500,
    "up": True,
    "carrier_changes": 2,
    "queue_length": 1000,
    "qdisc": "fq_codel",
    "speed_mbps": 1000,
    "duplex": "full",
    "autoneg": True,
    "pause": {"autoneg": False, "rx": True, "tx": True},
    "offloads": {"tso": True, "gro": True},
    "rings": {"rx_max": 4096, "tx_max": 4096, "rx": 1, "tx": 256},
    "coalesce": {"rx_usecs": 3, "rx_frames": 0, "tx_usecs": 0, "tx_frames": 0, "adaptive_rx": 0, "adaptive_tx": 0},
    "queues": None,
    "bus": None,
    "irqs": {"30": "0"},
    "sysctls": {},
}
SETTINGS = {
    "governors": {"performance": 4},
    "turbo": None,
    "idle_states": None,
    "irqbalance": False,
    "isolated_cpus": None,
    "online_cpus": "0-3",
    "smt": None,
    "sysctls": {"net/ipv4/ip_forward": "0"},
}
PORTS = {"src1": ["eth1"], "uut": ["eth1", "eth5", "eth9"], "snk1": ["eth1"]}
WINDOW = {
    "elapsed_s": 2.0,
    "cpu": {"busy_ratio": 0.5, "interrupt_ratio": 0.1, "steal_ratio": 0.0},
    "hottest": {"cpu": "cpu1", "busy_ratio": 0.9, "interrupt_ratio": 0.2, "steal_ratio": 0.0},
    "used_s": {"ours": 1.0, "kernel": 0.4, "other": 0.02},
    "processes": [{"pid": 7, "name": "python3", "whose": "ours", "cpu_s": 1.0}],
}


def reading(node: str, *, at_s: float, window: dict[str, Any] | None = None) -> NodeReading:
    at_ns = int(at_s * 1e9)
    qdiscs = [[name, "tbf", {"drops": 5, "requeues": 0, "overlimits": 9}] for name in PORTS[node]]
    here: dict[str, Any] = {
        "ip": {"InDiscards": 1},
        "filters": None,
        "qdiscs": qdiscs,
        "driver": {name: {} for name in PORTS[node]},
    }
    return NodeReading(
        drops=DropCounters.parse({"monotonic_ns": at_ns, "softnet": [[0, 100, 3, 0]], "namespaces": {"": here}}),
        settings=NodeSettings.parse({**SETTINGS, "interfaces": dict.fromkeys(PORTS[node], PORT)}),
        surroundings=NodeSurroundings.parse(
            {
                "monotonic_ns": at_ns,
                "wall_ns": 1_800_000_000_000_000_000 + at_ns,
                "logins": [],
                "load": [0.5, 0.4, 0.3],
                "cpus": 4,
                "boot_id": f"boot of {node}",
                "pid_namespace": None,
                "guests": [],
                "sessions": [],
                "window": window,
            }
        ),
    )


def tell(said: NodeReading, what: str, value: Any) -> None:
    """Let a node say something else that an agent could say; ``what`` is like ``settings.interfaces.eth1.mtu``."""
    part, *way, last = what.split(".")
    message = getattr(said, part)
    whole = inner = message.to_wire()
    for key in way:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value
    setattr(said, part, type(message).parse(whole))


def busy(said: NodeReading, process: dict[str, Any]) -> None:
    """Let a process have used a node's processors."""
    assert said.surroundings is not None and said.surroundings.window is not None
    window = said.surroundings.window.to_wire()
    used_s = {**window["used_s"], process["whose"]: process["cpu_s"]}
    tell(said, "surroundings.window", {**window, "used_s": used_s, "processes": [*window["processes"], process]})


def undisturbed(inventory: Inventory, **bend: Any) -> TrialObservations:
    """A trial at whose end every node said the same as at its begin."""
    seen = observe(inventory, **bend)
    seen.begin = {node: reading(node, at_s=10) for node in PORTS}
    seen.end = {node: reading(node, at_s=12, window=WINDOW) for node in PORTS}
    return seen


def found(run: RunRecord, code: str) -> Reason:
    return next(each for each in run.verdict.reasons if each.code == code)


def bump(seen: TrialObservations, node: str, interface: str, **statistics: int) -> None:
    from labconsole.wire.codec import STAT_NAMES

    sample = seen.after[node][("", interface)]
    values = list(sample.values)
    for name, by in statistics.items():
        values[STAT_NAMES.index(name)] += by
    seen.after[node][("", interface)] = CounterSample(sample.monotonic_ns, tuple(values))
