"""What the agent's taps name, against what was sent: every kind of frame in a known number, both ways, on a veth pair."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.agent_process import AgentProcess, Net, eventually

STREAM = {"source_ip": "198.18.1.1", "sink_ip": "198.19.1.1", "udp_sink_port": 9}
SENDER = """
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
macs = b"\\xff" * 6 + b"\\2\\0\\0\\0\\0\\2"
nd = struct.pack("!IHBB", 6 << 28, 8, 58, 255) + bytes(32) + bytes([135]) + bytes(7)
bridge = b"\\1\\x80\\xc2\\0\\0\\0" + macs[6:]
ip = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 32, 17, 0) + bytes([198, 18, 1, 1, 198, 19, 1, 1])
frames = [
    (1, macs + b"\\x08\\x06" + bytes(46)), (2, macs + b"\\x86\\xdd" + nd), (3, macs + b"\\x88\\xcc" + bytes(46)),
    (4, bridge + b"\\0\\x26\\x42\\x42\\3" + bytes(43)), (5, macs + b"\\x88\\xb5" + bytes(46)),
    (6, macs + b"\\x08\\0" + ip + struct.pack("!HHHHI", 9, 9, 26, 0, 7) + bytes(14)),
    (7, macs + b"\\x08\\0" + ip + struct.pack("!HHHHI", 9, 10, 26, 0, 0xBE9BE955) + bytes(14)),
]
for times, frame in frames:
    for _ in range(times):
        s.send(frame)
"""
SENT = {"arp": 1, "nd": 2, "lldp": 3, "stp": 4, "0x88b5": 5, "udp_stream": 6, "udp_test": 7}
CONTROL = ("arp", "nd", "lldp", "stp")


def ports(*interfaces: str, every: bool) -> dict:
    return {"ports": [{"interface": name, "streams": [STREAM], "every": every} for name in interfaces]}


@pytest.mark.parametrize("every", [True, False])
def test_every_foreign_frame_is_named_and_none_of_the_streams(net: Net, agent: AgentProcess, every: bool):
    net.pair("va", "vb")
    agent.ok("foreign.start", **ports("va", "vb", every=every))
    net.run(sys.executable, "-c", SENDER, "va")
    net.send("va", 2000)
    told = {port["interface"]: port for port in agent.ok("foreign.stop")["ports"]}
    expected = SENT if every else {name: SENT[name] for name in CONTROL}
    assert told["vb"]["received"] == expected
    assert told["va"]["received"] == told["vb"]["sent"] == {}
    assert told["va"]["sent"] == (SENT if every else {})  # the kernel's own counts tell what the kernel itself sent
    assert {port["missed_packets"] for port in told.values()} == {0}


def test_discovery_that_the_kernel_sends_is_known_without_looking_at_frames(net: Net, agent: AgentProcess):
    net.pair("va", "vb")
    agent.ok("foreign.start", **ports("va", "vb", every=False))
    net.write_sysctl("ipv6/conf/va/disable_ipv6", "0")
    net.run("ip", "-6", "address", "add", "fd00::1/64", "dev", "va")
    net.run("sleep", "2")
    told = {port["interface"]: port for port in agent.ok("foreign.stop")["ports"]}
    assert told["va"]["sent"] == told["vb"]["received"]
    assert set(told["va"]["sent"]) == {"nd", "mld"}


def test_taps_are_replaced_stopped_twice_and_gone_with_the_agent(net: Net, agent: AgentProcess):
    net.pair("va", "vb")
    for _ in range(2):
        agent.ok("foreign.start", **ports("va", every=True))
    sockets = lambda: len(net.run("cat", "/proc/net/packet").splitlines()) - 1  # noqa: E731
    assert sockets() == 1
    assert len(agent.ok("foreign.stop")["ports"]) == 1
    assert agent.ok("foreign.stop") == {"ports": []}
    agent.ok("foreign.start", **ports("va", "vb", every=False))
    agent.close()
    eventually(lambda: sockets() == 0, "no packet socket is open")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"interface": "nosuch"}, "no_such_interface"),
        ({"interface": "../a"}, "bad_request"),
        ({"streams": [{**STREAM, "sink_ip": "x"}]}, "bad_request"),
        ({"streams": [{**STREAM, "udp_sink_port": 65536}]}, "bad_request"),
        ({"streams": [STREAM] * 17}, "bad_request"),
        ({"every": None}, "bad_request"),
    ],
)
def test_what_cannot_be_watched_is_refused_and_leaves_no_tap(net: Net, agent: AgentProcess, wrong: dict, code: str):
    net.pair("va", "vb")
    good = ports("va", every=True)["ports"][0]
    assert agent.error("foreign.start", ports=[good, {**good, **wrong}])["code"] == code
    assert len(net.run("cat", "/proc/net/packet").splitlines()) == 1


SINK = {"sink_ip": "198.19.1.1", "udp_sink_port": 9}
WHOLE = """
import socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("va", 0))
ip = lambda s: struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 32, 17, s) + bytes([198, 18, 1, 1, 198, 19, 1, 1])
total = sum(struct.unpack("!10H", ip(0)))
udp = struct.pack("!HHHHI", 9, 9, 26, 0, 0xBE9BE955) + bytes(14)
for _ in range(500):
    s.send(b"\\2\\0\\0\\0\\0\\1\\2\\0\\0\\0\\0\\2\\x08\\0" + ip(0xFFFF - (total & 0xFFFF) - (total >> 16)) + udp)
"""
"""Test frames that an IP stack takes: the header has its checksum."""

PROGRAM = (
    "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 9)); "
    "print(flush=True); sys.stdin.read()"
)


def a_sink_with_its_address(net: Net) -> None:
    """As people set one up: the port has the address that frames go to, and knows the way back."""
    net.pair("va", "vb")
    for command in (
        "link set vb address 02:00:00:00:00:01",
        "address add 198.19.1.1/24 dev vb",
        "route add 198.18.1.0/24 dev vb",
        "neighbour add 198.18.1.1 lladdr 02:00:00:00:00:02 dev vb",
    ):
        net.run("ip", *command.split())
    for name in ("all", "vb"):
        net.write_sysctl(f"ipv4/conf/{name}/rp_filter", "0")


def snmp(net: Net, table: str) -> dict[str, int]:
    names, numbers = (
        line.split()[1:] for line in net.run("cat", "/proc/net/snmp").splitlines() if line.startswith(table)
    )
    return dict(zip(names, map(int, numbers), strict=True))


def test_a_kernel_that_has_the_sinks_address_answers_unless_the_port_is_held(net: Net, agent: AgentProcess):
    """Linux 6.18 answers up to six datagrams at once (net.ipv4.icmp_ratelimit as it is), then one a second."""
    a_sink_with_its_address(net)
    limit = net.read_sysctl("ipv4/icmp_ratelimit")
    agent.ok("foreign.start", **ports("va", "vb", every=True))
    assert agent.ok("sink_ports.hold", ports=[SINK]) == {"ports": [{"state": "held"}]}
    net.run(sys.executable, "-c", WHOLE)
    held = {port["interface"]: port for port in agent.ok("foreign.stop")["ports"]}
    assert held["vb"]["sent"] == held["va"]["received"] == {}
    assert (snmp(net, "Icmp:")["OutMsgs"], snmp(net, "Udp:")["InErrors"], snmp(net, "Udp:")["RcvbufErrors"]) == (
        0,
        500,
        0,
    )
    agent.ok("sink_ports.release")
    agent.ok("foreign.start", **ports("va", "vb", every=True))
    net.run(sys.executable, "-c", WHOLE)
    told = {port["interface"]: port for port in agent.ok("foreign.stop")["ports"]}
    assert told["vb"]["sent"] == told["va"]["received"] == {"icmp_sink": snmp(net, "Icmp:")["OutDestUnreachs"]}
    assert snmp(net, "Udp:")["NoPorts"] == 500
    assert told["vb"]["sent"]["icmp_sink"] > 0
    assert net.read_sysctl("ipv4/icmp_ratelimit") == limit


def test_ports_that_need_not_or_cannot_be_held_are_said(net: Net, agent: AgentProcess):
    a_sink_with_its_address(net)
    program = subprocess.Popen(
        [*net.prefix, sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout is not None and program.stdout.readline()
    wanted = [SINK, {**SINK, "sink_ip": "198.19.1.2"}, {**SINK, "udp_sink_port": 10}, {**SINK, "udp_sink_port": 10}]
    told = agent.ok("sink_ports.hold", ports=wanted)["ports"]
    assert [each["state"] for each in told] == ["in_use", "not_local", "held", "held"]
    program.communicate()
    assert agent.error("sink_ports.hold", ports=[SINK, {**SINK, "sink_ip": "x"}])["code"] == "bad_request"
    assert len(net.run("cat", "/proc/net/udp").splitlines()) == 1
    assert [each["state"] for each in agent.ok("sink_ports.hold", ports=[SINK])["ports"]] == ["held"]


def test_held_ports_are_free_when_the_agent_has_ended(net: Net, agent: AgentProcess):
    a_sink_with_its_address(net)
    agent.ok("sink_ports.hold", ports=[SINK])
    sockets = lambda: len(net.run("cat", "/proc/net/udp").splitlines()) - 1  # noqa: E731
    assert sockets() == 1
    agent.popen.kill()
    eventually(lambda: sockets() == 0, "no UDP socket is open")
