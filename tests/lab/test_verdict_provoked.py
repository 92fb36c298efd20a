"""What can go wrong with a testbed in the middle of a run, done to a real one: each time the verdict says what it was."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labconsole.engine.trial.setup import TrialRequest
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.measure.counts import rate_error_ratio
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Reason, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import each_place
from support.live_session import BUSY, connected, take_while
from support.requirements import require

pytestmark = pytest.mark.alone

BUFFER_KIB = 512
FOREIGN = (
    "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth1', 0)); "
    "[s.send(b'\\xff' * 12 + b'\\x88\\xb5' + bytes(46)) for _ in range(3)]"
)
CONTROL = r"""
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth1", 0))
macs = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x02"
nd = struct.pack("!IHBB", 6 << 28, 8, 58, 255) + bytes(32) + bytes([135]) + bytes(7)
bridge = b"\x01\x80\xc2\x00\x00\x00" + macs[6:]
for times, frame in (
    (2, macs + b"\x08\x06" + bytes(46)), (3, macs + b"\x86\xdd" + nd), (4, macs + b"\x88\xcc" + bytes(46)),
    (5, bridge + b"\x00\x26\x42\x42\x03" + bytes(43)),
):
    for _ in range(times):
        s.send(frame)
"""
STRANGER = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
    "[s.sendto(bytes(18), ('198.19.1.1', 4000)) for _ in range(6)]"
)
HOST_BUSY = "import time\nwhile time.process_time() < 1.5: pass"
"""On the machine itself, where no node of the lab sees it."""

BUSY_PROGRAM = "import time\nwhile time.process_time() < 0.3: pass"
ADDRESSES = (
    "ip address add 198.19.1.1/24 dev eth1; ip route add 198.18.1.0/24 dev eth1; "
    "ip neighbour add 198.18.1.1 lladdr 02:00:00:00:00:02 dev eth1"
)
"""A sink that has the stream's address, and knows the way back."""

STOPPED = "for p in $(pgrep -x tcpdump); do kill -STOP $p; done; sleep 0.6; for p in $(pgrep -x tcpdump); do kill -CONT $p; done"

REQUEST = DesignPoint(
    platform="raw", frame=FrameSize(64), sources=1, target=20_000_000, duration_s=1.2, generator="afpacket"
)
SCENARIOS: dict[str, tuple[str, list[str], list[str]]] = {
    # name: the node, what is done in the middle of the run, what puts it back afterwards
    "nothing": ("src1", ["true"], ["true"]),
    "settings": ("src1", ["ethtool", "-K", "eth1", "tso", "off"], ["ethtool", "-K", "eth1", "tso", "on"]),
    "foreign": ("snk1", [sys.executable, "-c", FOREIGN], ["true"]),
    "control": ("snk1", [sys.executable, "-c", CONTROL], ["true"]),
    "stranger": (
        "uut",
        [sys.executable, "-c", STRANGER],
        ["true"],
    ),
    "busy": ("src1", [sys.executable, "-c", BUSY_PROGRAM], ["true"]),
    "busy elsewhere": ("", [], []),
    "still busy": (
        "src1",
        ["sh", "-c", "(while :; do :; done) >/dev/null 2>&1 & echo $! > /tmp/busy"],
        ["sh", "-c", "kill -9 $(cat /tmp/busy); rm /tmp/busy"],
    ),
    "shaper": (
        "src1",
        ["tc", "qdisc", "replace", "dev", "eth1", "root", "tbf", "rate", "2mbit", "burst", "3000", "limit", "1000000"],
        ["tc", "qdisc", "del", "dev", "eth1", "root"],
    ),
    "addresses": ("snk1", ["sh", "-c", ADDRESSES], ["ip", "address", "del", "198.19.1.1/24", "dev", "eth1"]),
    "capture": ("snk1", ["sh", "-c", STOPPED], ["true"]),
    "forwarding": ("uut", ["sysctl", "-wq", "net.ipv4.conf.eth1.forwarding=0"], ["true"]),
    "mtu": ("snk1", ["ip", "link", "set", "eth1", "mtu", "1400"], ["ip", "link", "set", "eth1", "mtu", "1500"]),
    "carrier": ("snk1", ["sh", "-c", "ip link set eth1 down; ip link set eth1 up"], ["true"]),
}
STRICT = Tolerances(other_cpu_ratio=0.02)
"""A machine with other work to do may give a busy loop no more than that."""

SMALL_BUFFER = ("capture",)
"""With the buffer that the other scenarios have, a capture would have to be stopped for minutes."""

BEFORE = ("shaper", "addresses")
"""Done before the run begins: a queue that is put in place in the middle is a changed setting."""


def doing(name: str, node: str, argv: list[str]) -> Callable[[], None]:
    def run() -> None:
        done = lab.execute(name, node, argv)
        assert done.status == 0, done.stderr

    return run


def busy_here() -> None:
    subprocess.run([sys.executable, "-c", HOST_BUSY], check=True)


@pytest.fixture(scope="module")
def runs(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunRecord]]:
    require("ethtool")
    name = f"provoke{os.getpid()}"
    testbed = lab.up(LabSpec(name=name, sources=1, link_speed_bps=None))
    directory = tmp_path_factory.mktemp("provoked")
    hosts = directory / "hosts.yaml"
    hosts.write_text(Path(testbed.hosts_file).read_text() + f"  capture_buffer_kib: {BUFFER_KIB}\n")

    testbed_nodes = {node for node, _, _ in SCENARIOS.values() if node}

    async def every_scenario() -> dict[str, RunRecord]:
        found = {}
        for inventory, mine in ((Path(testbed.hosts_file), False), (hosts, True)):
            async with connected(inventory, directory / "s.sqlite") as session:
                for scenario, (node, deed, back) in SCENARIOS.items():
                    if (scenario in SMALL_BUFFER) is not mine:
                        continue
                    async with session.batch(REQUEST) as take:
                        if scenario in BEFORE:
                            await asyncio.to_thread(doing(name, node, deed))
                            found[scenario] = await take(TrialRequest(request=REQUEST))
                        else:
                            limits = STRICT if "busy" in scenario else None
                            deeds = doing(name, node, deed) if node in testbed_nodes else busy_here
                            found[scenario] = await take_while(session, take, REQUEST, deeds, tolerances=limits)
                        if node:
                            await asyncio.to_thread(doing(name, node, back))
        return found

    try:
        yield asyncio.run(every_scenario())
    finally:
        lab.down(name)


def codes(run: RunRecord) -> set[str]:
    return {reason.code for reason in run.verdict.reasons} - BUSY


def reason(run: RunRecord, code: str) -> Reason:
    return next(each for each in run.verdict.reasons if each.code == code)


def test_an_undisturbed_run_is_not_doubted(runs):
    assert codes(runs["nothing"]) == set()
    (machine,) = (entry for entry in runs["nothing"].influences if entry["kind"] == "cpu")
    assert set(machine["nodes"]) == {"src1", "uut", "snk1"}  # they share it
    assert machine["used_s"]["ours"] > 0


def test_an_offload_that_was_switched_is_named_with_both_values(runs):
    assert codes(runs["settings"]) == {"settings_changed"}
    changed = reason(runs["settings"], "settings_changed").evidence
    assert {"setting": "eth1 offloads.tso", "before": True, "after": False} in changed["changes"]
    assert changed["node"] == "src1"


def test_frames_of_somebody_else_are_counted_at_both_ends_of_the_cable(runs):
    assert codes(runs["foreign"]) == {"foreign_frames"}
    found = reason(runs["foreign"], "foreign_frames")
    frames = {"packets": 3, "protocols": {"0x88b5": 3}}
    assert found.evidence["places"] == [
        {"node": "uut", "interface": "eth5", "direction": "in", **frames},
        {"node": "snk1", "interface": "eth1", "direction": "out", **frames},
    ]
    assert "snk1/eth1 sent 3 packets that do not belong to the stream (3 of type 0x88b5)" in found.detail
    assert runs["foreign"].total.loss_packets == 0


def foreigners(run: RunRecord) -> dict[tuple[str, str], dict[str, int]]:
    told = (entry for entry in run.influences if entry["kind"] == "foreign_packets")
    return {(entry["node"], entry["direction"]): entry["protocols"] for entry in told}


def test_control_traffic_is_told_by_name_and_is_no_doubt(runs):
    run = runs["control"]
    assert codes(run) == set()
    sent = {"arp": 2, "nd": 3, "lldp": 4, "stp": 5}
    assert foreigners(run) == {("snk1", "out"): sent, ("uut", "in"): sent}


def test_udp_of_a_stranger_to_the_streams_sink_is_a_doubt(runs):
    run = runs["stranger"]
    assert codes(run) == {"foreign_frames"}
    named = foreigners(run)
    assert named["snk1", "in"] == named["uut", "out"] == {"udp_stream": 6}
    assert run.total.loss_packets == 0


@pytest.mark.parametrize("scenario", ["busy", "still busy"])
def test_a_process_that_takes_the_processor_is_named_whether_it_still_runs_or_not(runs, scenario: str):
    run = runs[scenario]
    assert "other_cpu" in codes(run)
    evidence = reason(run, "other_cpu").evidence
    (name,) = {process["name"] for process in evidence["processes"][:1]}
    assert evidence["node"] == "src1"
    assert name == "sh" if scenario == "still busy" else name.startswith(("ended below ", "python"))
    assert any(entry["kind"] == "process" and entry["name"] == name for entry in run.influences)


def test_what_runs_on_the_machine_outside_of_all_nodes_is_found(runs):
    found = reason(runs["busy elsewhere"], "unseen_cpu").evidence
    assert set(found["nodes"]) == {"src1", "uut", "snk1"}
    assert found["cpu_ratio"] > 0.3


def test_senders_and_captures_of_other_nodes_of_the_machine_are_ours(runs):
    (machine,) = (entry for entry in runs["nothing"].influences if entry["kind"] == "cpu")
    assert machine["used_s"]["ours"] / machine["window_s"] > Tolerances().other_cpu_ratio
    assert "other_cpu" not in codes(runs["nothing"])


def test_a_source_that_is_held_back_by_a_shaper_says_so(runs):
    causes = reason(runs["shaper"], "offered_short").evidence["causes"]
    assert {"cause": "shaper", "qdisc": "tbf"}.items() <= causes[0].items()
    assert runs["shaper"].total.loss_packets == 0


def test_a_sink_that_has_its_address_does_not_answer_test_frames(runs):
    """Before its port was held, Linux 6.18 answered seven of them: foreign_frames in each run."""
    assert codes(runs["addresses"]) == set()
    assert foreigners(runs["addresses"]) == {}
    assert not [each for each in runs["addresses"].influences if each["kind"] == "sink_port_not_held"]


def test_what_a_stopped_capture_missed_is_its_own_loss_and_nobody_elses(runs):
    run = runs["capture"]
    (stream,) = run.streams
    # Samples of a counter, 0.1 s apart in 1.2 s, leave the rate open, unless they happen to show that nothing was late.
    left_open = {"rate_uncertain"} if rate_error_ratio(stream.arrivals, stream.offered_duration_s) > 0.01 else set()
    assert codes(run) == {"capture_incomplete", *left_open}
    assert {each.follows for each in run.verdict.reasons if each.code in left_open} <= {"capture_incomplete"}
    assert (stream.measured_from, stream.loss_packets, stream.unplaced_packets) == ("counters", 0, 0)
    hop = stream.ledger[-1]
    missed = stream.measured_packets - stream.capture.captured_packets
    assert (hop.hop, hop.packets, hop.lost_packets, hop.drops) == ("capture", None, None, {"capture_buffer": missed})


def test_a_platform_that_stops_forwarding_is_not_as_attested(runs):
    run = runs["forwarding"]
    assert (run.verdict.status, "guest_changed" in codes(run)) == ("invalid", True)
    assert "interfaces.eth1.forwarding was 1 and is 0" in reason(run, "guest_changed").detail
    lost = {hop.hop: hop.lost_packets for hop in run.streams[0].ledger if hop.lost_packets}
    assert lost == {"uut_out": run.total.loss_packets}


def test_another_mtu_voids_the_run(runs):
    assert runs["mtu"].verdict.status == "invalid"
    assert reason(runs["mtu"], "mtu_changed").evidence == {
        "node": "snk1",
        "interface": "eth1",
        "before": 1500,
        "after": 1400,
    }


def test_a_cable_that_was_pulled_and_put_back_voids_the_run(runs):
    assert runs["carrier"].verdict.status == "invalid"
    ends = {(each["node"], each["interface"]) for each in each_place(reason(runs["carrier"], "carrier_changed"))}
    assert ("uut", "eth5") in ends
    assert runs["carrier"].verdict.reasons[0].code == "carrier_changed"
