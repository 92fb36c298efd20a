"""Every packet counted and timed in the sink's kernel, against whoever else saw it: a capture, the sender, arithmetic."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent.processes import linux
from labconsole.measure.time_histogram import TimeHistogram, lowest_ns
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP, SOCKET_FILTER
from support import xdp_drop
from support.agent_process import AgentProcess, Net, eventually
from support.bpf_programs import programs
from support.drop_chain import MACS, SINK_IP, SOURCE_IP, DropChain, open_tap
from support.requirements import missing, require
from support.sink_capture import SinkCapture

pytestmark = pytest.mark.alone

PACKETS = 5000
PORT = 9
TUNSETCARRIER = 0x400454E2
XDP_DROP = str(Path(xdp_drop.__file__))
OWN = {"source_ip": SOURCE_IP, "sink_ip": SINK_IP, "udp_sink_port": PORT, "interval_ns": 0}
PORTS = [{"interface": "k0", "streams": [OWN]}]


@pytest.fixture
def chain() -> Iterator[DropChain]:
    if os.geteuid() != 0:
        missing("programs in the kernel are for root")
    require("nft", "tc", "tcpdump")
    made = DropChain()
    yield made
    made.close()


@pytest.fixture
def sink(chain: DropChain) -> Iterator[AgentProcess]:
    agent = AgentProcess(chain.sink)
    yield agent
    agent.close()


def start(sink: AgentProcess, *streams: dict[str, Any], by: str = SOCKET_FILTER) -> None:
    sink.ok("packet_times.start", ports=[{"interface": "k0", "streams": list(streams or (OWN,))}], by=by)


def attached(chain: DropChain, interface: str = "k0") -> tuple[str, int] | None:
    """The mode and the number of the XDP program at one of the sink's ports, as ip tells."""
    (link,) = json.loads(chain.sink.run("ip", "-j", "-d", "link", "show", interface))
    if "xdp" not in link:
        return None
    modes = {1: "native", 2: "generic"}
    return modes[link["xdp"]["mode"]], link["xdp"]["prog"]["id"]


def frame(number: int, *, tagged: bool) -> bytes:
    """A test packet, with or without a VLAN tag."""
    now_ns = time.time_ns()
    ip = (
        struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 32, 17, 0) + socket.inet_aton(SOURCE_IP) + socket.inet_aton(SINK_IP)
    )
    data = struct.pack("!IIII", 0xBE9BE955, number, now_ns // 10**9, now_ns % 10**9 // 1000)
    tag, size_bytes = (b"\x81\x00\x00\x07", 64) if tagged else (b"", 60)
    macs = bytes.fromhex((MACS["k0"] + MACS["u2"]).replace(":", ""))
    return (macs + tag + b"\x08\0" + ip + struct.pack("!HHHH", 9, 9, 26, 0) + data).ljust(size_bytes, b"\0")


def inside(net: Net, work: Callable[[], Any]) -> Any:
    """``work()`` in its namespace."""
    namespace = os.open(f"/proc/{net.pid}/ns/net", os.O_RDONLY)
    try:
        return linux.run_in_namespace(namespace, work)
    finally:
        os.close(namespace)


def timed(sink: AgentProcess, by: str = SOCKET_FILTER) -> list[dict[str, Any]]:
    told = sink.ok("packet_times.stop")
    assert abs(told["clock_moved_ns"]) < 1000
    (port,) = told["ports"]
    assert port["interface"] == "k0"
    # A veth has nothing that would be turned off.
    nothing = {"features": [], "left_features": [], "link_changes": 0, "link_is_back": None}
    assert port["xdp"] == (None if by == SOCKET_FILTER else nothing)
    streams: list[dict[str, Any]] = port["streams"]
    return streams


def packets_in(histogram: list[list[int]]) -> int:
    return sum(packets for _, packets in histogram)


@pytest.mark.parametrize("by", [SOCKET_FILTER, GENERIC_XDP])
def test_every_packet_is_counted_and_its_delay_is_that_of_a_capture_beside(
    chain: DropChain, sink: AgentProcess, tmp_path: Path, by: str
) -> None:
    capture = SinkCapture(chain, tmp_path / "beside.pcap")
    start(sink, by=by)
    assert (attached(chain) or ("none",))[0] == ("none" if by == SOCKET_FILTER else "generic")
    assert chain.send(PACKETS) == PACKETS
    delays_ns = capture.delays_ns()
    (stream,) = timed(sink, by)
    assert attached(chain) is None
    assert len(delays_ns) == PACKETS
    assert {name: stream[name] for name in ("packets", "bytes", "late_packets", "skipped_packets")} == {
        "packets": PACKETS,
        "bytes": 60 * PACKETS,
        "late_packets": 0,
        "skipped_packets": 0,
    }
    assert stream["negative_packets"] == 0
    assert (stream["due"], stream["due_max_ns"]) == ([], None), "nobody said when they were due"
    assert packets_in(stream["delay"]) == PACKETS
    assert packets_in(stream["spacing"]) == packets_in(stream["variation"]) == PACKETS - 1
    assert stream["delay_min_ns"] <= stream["delay_sum_ns"] / PACKETS <= stream["delay_max_ns"]
    found = TimeHistogram.of(stream["delay"])
    for ratio in (0.01, 0.1, 0.5, 0.9):
        beside_ns = delays_ns[int(ratio * PACKETS)]
        assert found.quantile_ns(ratio) == pytest.approx(beside_ns, abs=2000 + beside_ns / 128), ratio
    assert stream["last_ns"] > stream["first_ns"]


def test_packets_are_counted_without_a_program_to_the_last_one(chain: DropChain, sink: AgentProcess) -> None:
    """By a socket that has room for two of them at most."""
    before = programs()
    other = {**OWN, "sink_ip": "198.19.9.9"}
    ports = [{"interface": "k0", "streams": [OWN, other]}]
    sink.ok("packet_count.start", ports=ports)
    assert programs() == before
    assert sink.error("packet_count.start", ports=ports)["code"] == "exists"
    assert chain.send(PACKETS) == PACKETS
    assert sink.ok("packet_count.stop") == {"ports": [{"interface": "k0", "packets": [PACKETS, 0]}]}
    assert sink.error("packet_count.stop")["code"] == "not_counting"
    missing_port = [{"interface": "nowhere", "streams": [OWN]}]
    assert sink.error("packet_count.start", ports=missing_port)["code"] == "no_such_interface"


def test_what_a_stall_of_the_sender_withheld_is_in_the_delay_since_due(chain: DropChain, sink: AgentProcess) -> None:
    """A tenth of a second in which nothing is sent: every packet that was due meanwhile is late by what is left of it."""
    packets, interval_ns, stall_ns = 4000, 100_000, 100_000_000
    start(sink, {**OWN, "interval_ns": interval_ns})
    assert chain.send(packets, interval_ns=interval_ns, stall_s=stall_ns / 1e9) == packets
    (stream,) = timed(sink)
    delay, due = TimeHistogram.of(stream["delay"]), TimeHistogram.of(stream["due"])
    assert packets_in(stream["due"]) == packets
    assert stream["delay_max_ns"] < stall_ns / 2, "by the time stamps there was no stall"
    assert stall_ns <= stream["due_max_ns"] + interval_ns < 2 * stall_ns
    late = sum(count for bucket, count in stream["due"] if lowest_ns(bucket) > stall_ns / 2)
    assert late >= stall_ns / 2 / interval_ns - 2, "those of its first half waited for more than half of it"
    for ratio in (0.1, 0.5, 0.9, 0.99):
        assert due.quantile_ns(ratio) >= delay.quantile_ns(ratio)
    assert due.quantile_ns(0.1) < delay.quantile_ns(0.1) + stall_ns / 10, "and those before it were in time"


def test_what_was_counted_so_far_is_told_and_the_counting_goes_on(chain: DropChain, sink: AgentProcess) -> None:
    before = programs()
    start(sink)
    for sent in (0, 700, 1400):
        (port,) = sink.ok("packet_times.read")["ports"]
        (stream,) = port["streams"]
        assert (packets_in(stream["delay"]), stream["negative_packets"]) == (sent, 0)
        assert sink.error("packet_times.start", ports=[])["code"] == "exists"
        chain.send(700)
    asked = [sink.post("packet_times.read") for _ in range(5)] + [sink.post("packet_times.stop")]
    for number in asked:
        assert packets_in(sink.reply(number)["ok"]["ports"][0]["streams"][0]["delay"]) == 2100
    assert sink.error("packet_times.read")["code"] == "not_counting"
    eventually(lambda: programs() == before, "the program is gone")


def test_what_a_stopped_capture_misses_is_counted(chain: DropChain, sink: AgentProcess, tmp_path: Path) -> None:
    capture = SinkCapture(chain, tmp_path / "beside.pcap", "-B", "128")
    start(sink)
    capture.process.send_signal(signal.SIGSTOP)
    sent = chain.send(PACKETS)
    capture.process.send_signal(signal.SIGCONT)
    assert len(capture.delays_ns()) < sent
    (stream,) = timed(sink)
    assert (stream["packets"], packets_in(stream["delay"])) == (sent, sent)


def test_numbers_that_are_missing_are_those_that_were_dropped(chain: DropChain, sink: AgentProcess) -> None:
    chain.nft("ip", "forward", "numgen inc mod 7 0 counter drop")
    start(sink)
    sent = chain.send(PACKETS)
    dropped = chain.rule_counts()
    (stream,) = timed(sink)
    assert 0 < dropped == sent - stream["packets"]
    # What comes after the last packet has no number to be missed by.
    assert dropped - 1 <= stream["skipped_packets"] <= dropped


def test_streams_are_told_apart_and_strangers_are_not_counted(chain: DropChain, sink: AgentProcess) -> None:
    other_ip = "198.19.1.2"
    chain.ip("route", "add", other_ip, "via", SINK_IP, "dev", "u2", "onlink")
    start(sink, OWN, {**OWN, "sink_ip": other_ip}, {**OWN, "udp_sink_port": PORT + 1})
    chain.send(300)
    chain.send(200, sink_ip=other_ip)
    assert [each["packets"] for each in timed(sink)] == [300, 200, 0]


def test_packets_behind_a_token_bucket_are_as_far_apart_as_it_lets_them(chain: DropChain, sink: AgentProcess) -> None:
    packets, size_bytes, rate_bps = 400, 500, 50_000_000
    chain.tc(f"qdisc replace dev u2 root tbf rate {rate_bps}bit burst {2 * size_bytes} limit 1mb")
    start(sink)
    chain.send(packets, size_bytes=size_bytes)
    (stream,) = timed(sink)
    assert stream["packets"] == packets
    apart_ns = size_bytes * 8 * 1e9 / rate_bps
    assert TimeHistogram.of(stream["spacing"]).quantile_ns(0.5) == pytest.approx(apart_ns, rel=1 / 64)
    # The bucket holds two frames, which leave at once.
    shortest_ns = (packets - 2) * apart_ns
    assert (
        0.99 * shortest_ns < stream["last_ns"] - stream["first_ns"] < 1.5 * shortest_ns
    )  # a busy machine lets it wait


@pytest.mark.parametrize("by", [SOCKET_FILTER, GENERIC_XDP])
def test_an_agent_that_is_killed_leaves_no_program(chain: DropChain, by: str) -> None:
    agent = AgentProcess(chain.sink)
    before = programs()
    start(agent, by=by)
    assert programs() == before + 1
    os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: programs() == before, "the program is gone")
    eventually(lambda: attached(chain) is None, "nothing is attached")
    agent.close()


def test_xdp_counts_frames_that_still_have_their_vlan_tag(chain: DropChain, sink: AgentProcess) -> None:
    start(sink, by=GENERIC_XDP)
    with inside(chain.host, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sender:
        sender.bind(("u2", 0))
        for number in range(1, 301):
            sender.send(frame(number, tagged=True))
    chain.send(200)
    (stream,) = timed(sink, GENERIC_XDP)
    assert (stream["packets"], packets_in(stream["delay"])) == (500, 500)
    assert stream["bytes"] == 300 * 64 + 200 * 60, "with the tag"


def test_another_xdp_program_is_not_replaced(chain: DropChain, sink: AgentProcess) -> None:
    before = programs()
    for words, mode in (([], "generic"), (["native"], "native")):
        chain.sink.run(sys.executable, XDP_DROP, "k0", "on", *words)
        there = attached(chain)
        assert there is not None and there[0] == mode
        refused = sink.error("packet_times.start", ports=PORTS, by=GENERIC_XDP)
        assert refused["code"] == "busy" and "k0 already has an XDP program" in refused["message"]
        assert (attached(chain), programs()) == (there, before)
        chain.sink.run(sys.executable, XDP_DROP, "k0", "off", *words)
    start(sink, by=GENERIC_XDP)


def test_native_xdp_counts_at_a_port_whose_driver_has_it(chain: DropChain, sink: AgentProcess) -> None:
    """A tap: what is written to it has come in by it."""
    before = programs()
    tap = inside(chain.sink, open_tap)
    try:
        chain.sink.run("ip", "link", "set", "tap0", "up")
        sink.ok("packet_times.start", ports=[{"interface": "tap0", "streams": [OWN]}], by=NATIVE_XDP)
        assert (attached(chain, "tap0") or ("none",))[0] == "native"
        for number in range(1, 401):
            os.write(tap, frame(number, tagged=number > 300))
        told = sink.ok("packet_times.stop")
        (port,) = told["ports"]
        (stream,) = port["streams"]
        counts = {name: stream[name] for name in ("packets", "bytes", "late_packets", "skipped_packets")}
        assert counts == {"packets": 400, "bytes": 300 * 60 + 100 * 64, "late_packets": 0, "skipped_packets": 0}
        assert packets_in(stream["delay"]) == packets_in(stream["spacing"]) + 1 == 400
        assert port["xdp"] == {"features": [], "left_features": [], "link_changes": 0, "link_is_back": True}
        assert (attached(chain, "tap0"), programs()) == (None, before)
    finally:
        os.close(tap)


def test_native_xdp_waits_for_a_link_that_went_down_and_wants_one_that_is_up(
    chain: DropChain, sink: AgentProcess
) -> None:
    ports = [{"interface": "tap0", "streams": [OWN]}]
    tap = inside(chain.sink, open_tap)
    try:
        chain.sink.run("ip", "link", "set", "tap0", "up")
        sink.ok("packet_times.start", ports=ports, by=NATIVE_XDP)
        fcntl.ioctl(tap, TUNSETCARRIER, struct.pack("=i", 0))
        began_s, asked = time.monotonic(), sink.post("packet_times.stop")
        eventually(lambda: attached(chain, "tap0") is None, "the program is gone")
        time.sleep(1)
        fcntl.ioctl(tap, TUNSETCARRIER, struct.pack("=i", 1))
        (port,) = sink.reply(asked)["ok"]["ports"]
        assert time.monotonic() - began_s > 1
        assert (port["xdp"]["link_is_back"], port["xdp"]["link_changes"]) == (True, 2)
        fcntl.ioctl(tap, TUNSETCARRIER, struct.pack("=i", 0))
        refused = sink.error("packet_times.start", ports=ports, by=NATIVE_XDP)
        assert refused["code"] == "no_carrier" and "tap0 has no carrier" in refused["message"]
        sink.ok("packet_times.start", ports=ports, by=GENERIC_XDP)  # which resets nothing
        assert sink.ok("packet_times.stop")["ports"][0]["xdp"]["link_is_back"] is None
    finally:
        os.close(tap)


def test_native_xdp_is_refused_at_a_veth_and_where_a_driver_has_none(chain: DropChain, sink: AgentProcess) -> None:
    before = programs()
    refused = sink.error("packet_times.start", ports=PORTS, by=NATIVE_XDP)
    assert (refused["code"], refused["message"]) == (
        "not_supported",
        "native XDP loses and reorders packets at a veth, which k0 is; generic XDP does not",
    )
    chain.sink.run("ip", "link", "add", "ifb7", "type", "ifb")
    chain.sink.run("ip", "link", "set", "ifb7", "up")
    none = [{"interface": "ifb7", "streams": [OWN]}]
    refused = sink.error("packet_times.start", ports=none, by=NATIVE_XDP)
    assert (refused["code"], refused["message"]) == (
        "not_supported",
        "the driver of ifb7 has no native XDP, or not with the port's offloads and MTU as they are",
    )
    chain.sink.run("ip", "link", "add", "br0", "type", "bridge")
    bridge = [{"interface": "br0", "streams": [OWN]}]
    # What lies on a veth, or consists of one, hands the program on to it.
    chain.sink.run("ip", "link", "set", "k0", "master", "br0")
    assert "which k0 is" in sink.error("packet_times.start", ports=bridge, by=NATIVE_XDP)["message"]
    assert sink.error("packet_times.start", ports=PORTS, by="magic")["code"] == "bad_request"
    assert (attached(chain), programs()) == (None, before)


def test_what_cannot_be_asked_is_refused(chain: DropChain, sink: AgentProcess) -> None:
    def refused(interface: str = "k0", **stream: Any) -> str:
        ports = [{"interface": interface, "streams": [{**OWN, **stream}]}]
        code: str = sink.error("packet_times.start", ports=ports)["code"]
        return code

    assert refused(sink_ip="nowhere") == "bad_request"
    assert refused(udp_sink_port=70_000) == "bad_request"
    assert refused("nothing0") == "no_such_interface"
    assert sink.error("packet_times.stop")["code"] == "not_counting"
    start(sink)
    assert refused() == "exists"
    assert [each["packets"] for each in timed(sink)] == [0]
