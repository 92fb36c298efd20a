"""Frames that are not the streams': what the agent calls them, what its filter lets through, what of them is doubted."""

from __future__ import annotations

import asyncio
import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.agent.reading import port_listeners
from labconsole.agent.reading.port_listeners import build_foreign_filter
from labconsole.engine.check import quiet
from labconsole.engine.trial.setup import Flow
from labconsole.engine.trial.traffic import EVERY_BELOW_PPS, SinkPortHolder, ports_to_watch
from labconsole.errors import AgentError
from labconsole.experiments.route.record import RouteSinkRecord
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.packets.frame import CONTROL, StreamAddresses, classify_frame
from labconsole.verdict.crew_trial import sink_reasons
from labconsole.verdict.foreign_packets import PROTOCOL_NAMES
from labconsole.verdict.observations import TappedFrames, TrialObservations
from labconsole.wire.foreign import MAX_STREAMS, HoldSinkPorts, SinkPortState, SinkPortStates
from support.fake_session import make_inventory
from support.observed_trials import SENT, bump, codes, found, observe, record

OWN = [StreamAddresses(socket.inet_aton("198.18.1.1"), socket.inet_aton("198.19.1.1"), 9 + i) for i in range(3)]
MACS = bytes(12)


def udp(
    source: str = "198.18.1.1", sink: str = "198.19.1.1", port: int = 9, magic: int = 0xBE9BE955, options: bytes = b""
) -> bytes:
    first = 0x45 + len(options) // 4
    head = struct.pack("!BBHHHBBH", first, 0, 46, 0, 0, 32, 17, 0) + socket.inet_aton(source) + socket.inet_aton(sink)
    return MACS + b"\x08\0" + head + options + struct.pack("!HHHHI", 9, port, 26, 0, magic) + bytes(14)


def icmpv6(kind: int, hop_by_hop: bool = False) -> bytes:
    options = bytes([58, 0, 5, 2, 0, 0, 1, 0]) if hop_by_hop else b""
    packet = struct.pack("!IHBB", 6 << 28, 8 + len(options), 0 if hop_by_hop else 58, 255) + bytes(32) + options
    return MACS + b"\x86\xdd" + packet + bytes([kind]) + bytes(7)


def llc(destination: str, body: bytes) -> bytes:
    return bytes.fromhex(destination) + bytes(6) + struct.pack("!H", 38) + body + bytes(40)


def icmp(kind: int, code: int, sender: str = "198.19.1.1", quoted: bytes = b"") -> bytes:
    """RFC 792: type, code, checksum and four bytes, then the header of the packet that it is about, and more of it."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 56, 0, 0, 64, 1, 0) + socket.inet_aton(sender) + bytes([198, 18, 1, 1])
    return MACS + b"\x08\0" + head + bytes([kind, code]) + bytes(6) + (quoted or udp()[14:])


FRAMES = [
    (icmp(3, 3), "icmp_sink"),
    (icmp(3, 3, sender="198.18.1.254"), "icmp_unreachable"),  # a router's own reject
    (icmp(3, 0, sender="198.19.1.254"), "icmp_unreachable"),
    (icmp(3, 1), "icmp_unreachable"),
    (icmp(3, 9), "icmp_prohibited"),  # RFC 1812: administratively prohibited, as firewalld and iptables reject
    (icmp(3, 10), "icmp_prohibited"),
    (icmp(3, 13), "icmp_prohibited"),
    (icmp(5, 1), "icmp_redirect"),
    (icmp(11, 0), "icmp_time_exceeded"),
    (icmp(12, 0), "icmp"),
    (icmp(8, 0), "icmp"),
    (icmp(3, 3, quoted=udp(sink="10.0.0.1")[14:]), "icmp"),  # about somebody else's packet
    (icmp(3, 3, quoted=udp()[14:30]), "icmp"),  # cut off
    (icmp(3, 3)[:34], "icmp"),
    (MACS + b"\x08\x06" + bytes(28), "arp"),
    (MACS + b"\x88\xcc" + bytes(28), "lldp"),
    (MACS + b"\x81\0\0\5\x08\x06" + bytes(28), "arp"),
    (llc("0180c2000000", b"\x42\x42\x03"), "stp"),
    (llc("01000ccccccd", b"\xaa\xaa\x03\x00\x00\x0c\x01\x0b"), "stp"),
    (llc("01000ccccccc", b"\xaa\xaa\x03\x00\x00\x0c\x20\x00"), "llc"),
    (icmpv6(135), "nd"),
    (icmpv6(134), "nd"),
    (icmpv6(143, hop_by_hop=True), "mld"),
    (icmpv6(128), "icmpv6"),
    (MACS + b"\x88\xb5" + bytes(46), "0x88b5"),
    (udp(), "udp_test"),
    (udp(source="10.0.0.1", sink="10.0.0.2"), "udp_test"),
    (udp(magic=1), "udp_stream"),
    (udp(source="10.0.0.1", magic=1), "udp_stream"),
    (udp(source="10.0.0.1", sink="10.0.0.2", magic=1), "udp"),
    (udp(source="10.0.0.1", sink="10.0.0.2", options=bytes(4)), "udp_test"),
    (MACS + b"\x08\0" + bytes(2), "short"),
    (MACS + b"\x08\0" + bytes(10), "ipv4"),
    (b"\1", "short"),
    (b"", "short"),
]


@pytest.mark.parametrize(("frame", "name"), FRAMES)
def test_a_frame_is_called_by_its_first_bytes(frame: bytes, name: str):
    assert classify_frame(frame[: port_listeners.SNAP_BYTES], OWN) == name
    assert name.startswith("0x") or name in PROTOCOL_NAMES


def passes(text: bytes, frame: bytes) -> int:
    """How much of a frame a filter lets through: those of the kernel's instructions that it uses, one by one."""
    lines = [struct.unpack_from("=HBBI", text, at) for at in range(0, len(text), 8)]
    at = held = 0
    while True:
        code, true, false, value = lines[at]
        if code in (0x20, 0x28, 0x30):
            width = {0x20: 4, 0x28: 2, 0x30: 1}[code]
            if value + width > len(frame):
                return 0
            held = int.from_bytes(frame[value : value + width], "big")
        elif code == 0x15:
            at += true if held == value else false
        else:
            return value
        at += 1


@pytest.mark.parametrize("streams", [0, 1, 3, MAX_STREAMS])
def test_the_filter_drops_the_streams_own_frames_and_no_others(streams: int):
    own = [OWN[0]._replace(udp_sink_port=9 + place) for place in range(streams)]
    text = build_foreign_filter(own)
    assert all(passes(text, udp(port=9 + place)) == 0 for place in range(streams))
    others = [
        udp(port=9 + streams),
        udp(source="198.18.1.2"),
        udp(sink="198.19.1.2"),
        udp(magic=7),
        udp(options=bytes(4)),
        *(frame for frame, name in FRAMES if len(frame) >= 50 and name != "udp_test"),
    ]
    assert all(passes(text, frame) == port_listeners.SNAP_BYTES for frame in others)


def tap(
    seen: TrialObservations, node: str = "snk1", *, received=None, sent=None, every: bool = True
) -> TrialObservations:
    seen.foreign[node, "eth1"] = TappedFrames(every, received or {}, sent or {})
    return seen


def judged(inventory, seen: TrialObservations, tolerated: int = 0) -> RunRecord:
    return record(inventory, seen, tolerances=Tolerances(foreign_packets=tolerated))


def foreigners(run: RunRecord) -> dict[tuple[str, str], dict[str, int]]:
    return {
        (entry["node"], entry["direction"]): entry["protocols"]
        for entry in run.influences
        if entry["kind"] == "foreign_packets"
    }


@pytest.mark.parametrize("name", CONTROL)
def test_a_little_control_traffic_is_told_by_name_and_no_doubt(inventory, name: str):
    seen = observe(inventory)
    bump(seen, "snk1", "eth1", tx_packets=20)
    bump(seen, "uut", "eth5", rx_packets=20)
    run = judged(inventory, tap(seen, sent={name: 20}))
    assert (run.verdict.status, codes(run)) == ("valid", set())
    assert foreigners(run) == {("snk1", "out"): {name: 20}, ("uut", "in"): {name: 20}}


def test_more_of_it_than_every_wire_has_is_a_doubt_by_what_is_beyond(inventory):
    seen = observe(inventory)
    bump(seen, "snk1", "eth1", tx_packets=25)
    tap(seen, sent={"arp": 25})
    assert codes(judged(inventory, seen)) == {"foreign_frames"}
    assert codes(judged(inventory, seen, tolerated=5)) == set()


def test_with_a_long_stream_a_share_of_it_is_allowed(inventory):
    seen = observe(inventory, sent=1_000_000)
    bump(seen, "snk1", "eth1", tx_packets=100)
    run = record(inventory, tap(seen, sent={"nd": 100}), "max")
    assert "foreign_frames" not in codes(run)
    bump(seen, "snk1", "eth1", tx_packets=1)
    assert "foreign_frames" in codes(record(inventory, tap(seen, sent={"nd": 101}), "max"))


@pytest.mark.parametrize("name", ["udp_test", "udp_stream", "udp", "0x88b5", "icmp", "icmp_sink", "llc"])
def test_what_could_be_the_streams_or_is_unknown_is_doubted(inventory, name: str):
    seen = observe(inventory, arrived=SENT + 1, captured=SENT)
    run = judged(inventory, tap(seen, received={name: 1}))
    assert codes(run) == {"foreign_frames"}
    assert found(run, "foreign_frames").evidence["protocols"] == {name: 1}


def test_what_counters_have_beyond_the_names_has_none_and_is_doubted(inventory):
    seen = observe(inventory)
    bump(seen, "src1", "eth1", rx_packets=5)
    run = judged(inventory, tap(seen, "src1", received={"arp": 3}))
    assert found(run, "foreign_frames").evidence["protocols"] == {"arp": 3, "unnamed": 2}
    assert "3 ARP, 2 without a name" in found(run, "foreign_frames").detail


def test_a_stranger_that_no_counter_shows_is_doubted_by_name(inventory):
    # The unit under test lost a packet of the stream and sent one of somebody else's: every count agrees.
    seen = observe(inventory, uut_out=SENT, captured=SENT)
    run = judged(inventory, tap(seen, received={"udp_stream": 1}))
    assert codes(run) == {"foreign_frames"}


def test_at_the_unit_under_test_no_more_is_told_than_its_own_counters_have(inventory):
    seen = observe(inventory)
    bump(seen, "snk1", "eth1", tx_packets=4)
    bump(seen, "uut", "eth5", rx_packets=2)
    run = judged(inventory, tap(seen, sent={"arp": 3, "0x88b5": 1}))
    assert foreigners(run)["uut", "in"] == {"0x88b5": 1, "arp": 1}


def flow(inventory, target_bps) -> Flow:
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=target_bps, duration_s=1.0)
    return Flow(inventory.streams[0], request, 0)


def test_the_ends_are_watched_and_never_the_unit_under_test(inventory):
    watched = ports_to_watch([flow(inventory, 10**7)])
    assert {node: [port.interface for port in ports] for node, ports in watched.items()} == {
        "src1": ["eth1"],
        "snk1": ["eth1"],
    }
    assert all(port.every for ports in watched.values() for port in ports)


@pytest.mark.parametrize("target", ["max", 10**8])
def test_a_fast_stream_is_not_looked_at_frame_by_frame(inventory, target):
    fast = flow(inventory, target)
    assert target == "max" or fast.request.intended_pps > EVERY_BELOW_PPS
    assert not any(port.every for ports in ports_to_watch([fast]).values() for port in ports)


class SinkLink:
    """A sink's agent that answers as it is told, or refuses."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[str]()

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        self.asked.append(request.op)
        if isinstance(self.answer, Exception) and isinstance(request, HoldSinkPorts):
            raise self.answer
        return SinkPortStates(ports=[SinkPortState(state=self.answer, message="Permission denied")])


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("held", "pass", "the node has 198.19.1.1: during trials the agent holds"),
        ("not_local", "pass", "does not have the streams' sink_ip"),
        ("in_use", "warn", "UDP port 9 of 198.19.1.1 is in use by another program"),
        ("refused", "warn", "UDP port 9 of 198.19.1.1 cannot be bound: Permission denied; the kernel answers"),
        (AgentError("snk1", "too many files", code="internal"), "warn", "are not bound: too many files"),
    ],
)
def test_a_sink_that_would_answer_is_foreseen_and_noted(answer: Any, status: str, said: str):
    inventory = make_inventory()
    stream = inventory.streams[0]
    inventory = inventory.model_copy(update={"streams": (stream,)})
    link = SinkLink(answer)
    seen = observe(inventory)
    seen.notes.clear()
    flow = Flow(stream, DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=1, duration_s=1.0), 0)
    holder = SinkPortHolder(seen, {stream.sink.node: link}, [flow])  # type: ignore[dict-item]

    async def hold() -> None:
        await holder.hold()
        await holder.release()

    asyncio.run(hold())
    assert link.asked == ["sink_ports.hold", "sink_ports.release"]
    assert [note["kind"] for note in seen.notes] == ([] if status == "pass" else ["sink_port_not_held"])
    assert status == "pass" or said in seen.notes[0]["detail"]

    settings = SimpleNamespace(interfaces={"eth1": SimpleNamespace(sysctls={"forwarding": "0"})})

    async def read(node: str) -> Any:
        return settings

    leased = [stream.sink.node]
    bench: Any = SimpleNamespace(inventory=inventory, link=lambda node: link, settings=read, leased=leased)
    check: Any = quiet.answers
    finding = asyncio.run(check(bench, stream.sink.node))
    assert (finding.status.value, said in finding.evidence) == (status, True), finding
    if answer == "not_local":
        settings.interfaces["eth1"].sysctls["forwarding"] = "1"
        assert "eth1 forwards" in asyncio.run(check(bench, stream.sink.node)).evidence
    leased.clear()
    link.asked.clear()
    assert (asyncio.run(check(bench, stream.sink.node)).status.value, link.asked) == ("skipped", [])


@pytest.mark.parametrize(
    ("other", "control", "doubted"), [(0, 0, False), (1, 0, True), (20, 20, False), (21, 21, True), (21, 20, True)]
)
def test_a_sink_of_flows_tolerates_the_control_traffic_that_every_wire_has(other: int, control: int, doubted: bool):
    sink = RouteSinkRecord(
        node="snk1",
        interface="eth1",
        mac="02:00:00:00:00:01",
        captured_packets=1000 + other,
        dropped_packets=0,
        nic_packets=1000 + other,
        other_packets=other,
        foreign_packets=0,
        control_packets=control,
    )
    assert [each.code for each in sink_reasons(sink, "the routers'", Tolerances())] == ["foreign_frames"] * doubted
