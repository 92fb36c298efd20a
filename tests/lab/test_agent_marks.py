"""Time marks as they are: busybox's ping from a guest, the kernel's answers, and what somebody else puts on the wire."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labconsole.wire.marks import MAX_MARKS, SeenMarks
from support.agent_process import AgentProcess, Net, eventually, processes_in
from support.requirements import require

ADDRESS, OTHER, GUEST = "198.18.127.1", "198.18.127.2", "198.18.64.7"
MAC, GUEST_MAC = "02:00:00:00:00:01", "02:00:00:00:00:07"

FORGER = """
import socket, struct, sys
def summed(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)
times, number, wrong = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
icmp = struct.pack("!BBHHH", 8, 0xa5, 0, number, 0) + bytes(4) + b"\\xa5" * 36
icmp = icmp[:2] + summed(icmp) + icmp[4:]
icmp = icmp[:-1] + bytes([icmp[-1] ^ wrong])
ip = struct.pack("!BBHHHBBH4B4B", 0x45, 0, 20 + len(icmp), 0, 0, 64, 1, 0, 198, 18, 64, 7, 198, 18, 127, 1)
ip = ip[:10] + summed(ip) + ip[12:]
frame = bytes.fromhex("020000000001020000000007") + b"\\x08\\0" + ip + icmp
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("guest0", 0))
for _ in range(times):
    s.send(frame)
"""


@pytest.fixture
def guest(net: Net, agent: AgentProcess) -> AgentProcess:
    """The agent of a timekeeper, with a guest in a namespace that nothing but marks leaves."""
    require("busybox")
    agent.ok(
        "net.apply",
        token="t",
        changes=[
            {"do": "namespace", "name": "guest"},
            {
                "do": "veth",
                "name": "port0",
                "mac": MAC,
                "peer": "guest0",
                "peer_mac": GUEST_MAC,
                "peer_namespace": "guest",
            },
            {"do": "address", "interface": "port0", "address": f"{ADDRESS}/16"},
            {"do": "address", "interface": "guest0", "address": f"{GUEST}/16", "namespace": "guest"},
            {"do": "link_up", "interface": "port0"},
            {"do": "link_up", "interface": "guest0", "namespace": "guest"},
            {"do": "neighbour", "address": GUEST, "mac": GUEST_MAC, "interface": "port0"},
            {"do": "neighbour", "address": ADDRESS, "mac": MAC, "interface": "guest0", "namespace": "guest"},
        ],
    )
    return agent


def start(agent: AgentProcess, **more: Any) -> None:
    agent.ok("marks.start", **{"marks": "m", "interface": "port0", "address": ADDRESS, **more})


def stop(agent: AgentProcess) -> SeenMarks:
    """As the console reads it."""
    return SeenMarks.parse(agent.ok("marks.stop", marks="m"))


def run(agent: AgentProcess, *argv: str) -> None:
    """In the guest."""
    done = agent.ok("exec", argv=list(argv), namespace="guest", timeout_s=60)
    assert done["exit_status"] == 0, done


def ping(size: int, pattern: str, to: str = ADDRESS) -> str:
    return f"busybox ping -c 1 -W 1 -s {size} -p {pattern} {to}"


def forge(agent: AgentProcess, times: int, number: int, wrong: int = 0) -> None:
    run(agent, sys.executable, "-c", FORGER, str(times), str(number), str(wrong))


def open_sockets(net: Net) -> int:
    return len(net.run("cat", "/proc/net/packet").splitlines()) - 1


def test_the_time_between_two_marks_is_the_works(guest: AgentProcess) -> None:
    start(guest)
    before_s = time.monotonic()
    run(guest, "sh", "-c", f"{ping(40, 'a5')} && sleep 0.5 && {ping(41, '5a')}")
    took_s = time.monotonic() - before_s
    seen = stop(guest)
    assert [(mark.reply, mark.payload_bytes, mark.pattern) for mark in seen.marks] == [
        (False, 40, 0xA5),
        (True, 40, 0xA5),
        (False, 41, 0x5A),
        (True, 41, 0x5A),
    ]
    assert {(mark.address, mark.mac) for mark in seen.marks} == {(GUEST, GUEST_MAC)}
    assert all((mark.pattern_from_byte or 0) <= 4 and mark.icmp_code == mark.pattern for mark in seen.marks)
    first, begun, ended, last = (mark.wall_ns for mark in seen.marks)
    assert first < begun < ended < last
    assert 0.5 <= (ended - begun) / 1e9 < took_s
    assert (seen.untold_marks, seen.strange_packets, seen.dropped_kernel_packets, seen.unread_packets) == (0, 0, 0, 0)
    assert seen.started.wall_ns < first and last < seen.stopped.wall_ns
    assert seen.interrupted is None
    told = [event for event in guest.events if event["event"] == "mark.seen"]
    assert [event["mark"] for event in told] == [mark.to_wire() for mark in seen.marks]
    assert {event["marks"] for event in told} == {"m"}


def test_a_forged_mark_a_repeated_one_and_what_is_none_are_told_apart(net: Net, guest: AgentProcess) -> None:
    start(guest)
    run(guest, "sh", "-c", ping(40, "a5"))
    run(guest, "sh", "-c", ping(44, "a5"))  # of another size
    net.run("ip", "address", "add", OTHER, "dev", "port0")
    run(guest, "sh", "-c", ping(40, "a5", OTHER))  # to another address
    forge(guest, 2, 4711)  # the same one twice
    forge(guest, 3, 4712, wrong=1)  # with a wrong checksum: the kernel does not answer either
    seen = stop(guest)
    numbers = Counter((mark.reply, mark.icmp_id, mark.icmp_sequence, mark.payload_bytes) for mark in seen.marks)
    assert numbers[False, 4711, 0, 40] == numbers[True, 4711, 0, 40] == 2
    rest = {key: times for key, times in numbers.items() if key[1] != 4711}
    assert sorted((reply, size) for reply, _, _, size in rest) == [(False, 40), (False, 44), (True, 40), (True, 44)]
    assert set(rest.values()) == {1}
    assert seen.strange_packets == 3


def passed(net: Net) -> int:
    """Packets at the timekeeper's port, those included for which the guest had no room."""
    (link,) = json.loads(net.run("ip", "-s", "-j", "link", "show", "port0"))
    stats = link["stats64"]
    return int(stats["rx"]["packets"] + stats["tx"]["packets"] + stats["tx"]["dropped"])


def test_a_flood_is_counted_to_the_packet_and_kept_in_bounds(net: Net, guest: AgentProcess) -> None:
    for doubled in range(2, 9):  # how much is dropped, and not looked at, depends on the machine
        guest.events.clear()
        start(guest)
        before = passed(net)
        forge(guest, 2**doubled * MAX_MARKS, 1)
        eventually(lambda: passed(net) == passed(net), "the kernel has answered what it will answer")
        seen = stop(guest)
        assert len(seen.marks) + seen.dropped_kernel_packets + seen.unread_packets == passed(net) - before
        told = sum(event["event"] == "mark.seen" for event in guest.events)
        assert told + seen.untold_marks == len(seen.marks) <= MAX_MARKS
        if seen.unread_packets:
            break
    assert len(seen.marks) == MAX_MARKS
    assert seen.unread_packets > 0
    start(guest)
    run(guest, "sh", "-c", ping(40, "a5"))
    assert len(stop(guest).marks) == 2


def test_marks_are_seen_inside_a_namespace_and_do_not_keep_it_alive(net: Net, guest: AgentProcess) -> None:
    inside = guest.ok("exec", argv=["stat", "-Lc", "%i", "/proc/self/ns/net"], timeout_s=5, namespace="guest")
    start(guest, interface="guest0", address=GUEST, namespace="guest")
    net.run("sh", "-c", ping(40, "a5", GUEST))
    (holder,) = processes_in(int(inside["stdout"]))
    os.kill(holder, signal.SIGKILL)
    assert guest.event("notice")["code"] == "namespace_gone"
    eventually(lambda: "port0" not in net.links(), "the namespace is gone, and with it both ends of the pair")
    seen = stop(guest)
    assert [(mark.reply, mark.address) for mark in seen.marks] == [(False, ADDRESS), (True, ADDRESS)]
    assert seen.interrupted == "the namespace is gone"


def test_an_interface_that_went_down_is_told(net: Net, guest: AgentProcess) -> None:
    start(guest)
    net.run("ip", "link", "set", "port0", "down")
    assert stop(guest).interrupted == "Network is down"


@pytest.mark.parametrize("end", ["stdin", "agent killed"])
def test_nothing_is_left_when_the_agent_ends(net: Net, guest: AgentProcess, end: str) -> None:
    start(guest)
    assert open_sockets(net) == 1
    if end == "stdin":
        guest.stdin.close()
    else:
        os.kill(guest.hello["pid"], signal.SIGKILL)
    eventually(lambda: open_sockets(net) == 0 and not net.processes(), "no socket and no process is left")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"interface": "nosuch"}, "no_such_interface"),
        ({"interface": "../a"}, "bad_request"),
        ({"interface": "tun0"}, "not_supported"),
        ({"address": "198.18.1"}, "bad_request"),
        ({"address": "fd00::1"}, "bad_request"),
        ({"namespace": "nosuch"}, "no_such_namespace"),
        ({"marks": "n"}, "exists"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_socket(
    net: Net, agent: AgentProcess, wrong: dict[str, str], code: str
) -> None:
    if not Path("/dev/net/tun").exists() and "tun0" in wrong.values():
        pytest.skip("this machine has no tun")
    net.run("ip", "tuntap", "add", "dev", "tun0", "mode", "tun")
    net.pair("port0", "peer0")
    start(agent, marks="n")
    refused = agent.error("marks.start", **{"marks": "m", "interface": "port0", "address": ADDRESS, **wrong})
    assert refused["code"] == code
    assert open_sockets(net) == 1
    assert agent.error("marks.stop", marks="m")["code"] == "no_such_marks"
