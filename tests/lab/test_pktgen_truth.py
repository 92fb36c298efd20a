"""The main promise once more, with the real pktgen: the whole lab inside a machine whose kernel has it.

Slow: the machine is emulated. It is the only place here where /proc/net/pktgen is not a fake.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.route.record import RouteRecord
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile
from support.live_lab import labconsole, processes, records
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.pktgen]


SEND = """
cd /proc/net/pktgen
echo "add_device eth1" > kpktgend_0
for parameter in "count 50000" "pkt_size 60" "delay {delay_ns}" "dst_min 198.19.1.1" "dst_max 198.19.1.1" \\
    "src_min 198.18.1.1" "src_max 198.18.1.1" "dst_mac {mac}"; do
  echo "$parameter" > eth1
done
echo start > pgctrl
cat eth1
echo rem_device_all > kpktgend_0
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    require("qemu-system-x86_64", "busybox", "apt-get", "dpkg-deb", "ip", "tc", "nft", "tcpdump", "ssh")
    name = f"pktgen{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, generator="pktgen", loss={"uut/out": 0.07}, jobs=True))
    lab.down(name)


def shell(status: lab.LabStatus, node: str, script: str) -> str:
    result = lab.execute(status.spec.name, node, ["sh", "-c", script], timeout_s=60)
    assert result.status == 0, result.stderr
    return result.stdout


def received(status: lab.LabStatus) -> int:
    return int(json.loads(shell(status, "snk1", "ip -s -j link show dev eth1"))[0]["stats64"]["rx"]["packets"])


def dropped(name: str) -> int:
    """Truth: packets that the lab has dropped so far."""
    status = lab.status(name)
    assert status is not None
    return sum(counts["dropped_packets"] for counts in status.truth.values())


def test_every_node_has_pktgen_in_its_own_network(testbed: lab.LabStatus) -> None:
    assert testbed.kernel != os.uname().release
    for node in ("src1", "uut", "snk1"):
        assert "pgctrl" in shell(testbed, node, "ls /proc/net/pktgen").split()
    result = subprocess.run(
        ["ssh", "-F", str(testbed.ssh_config), f"{testbed.spec.name}-src1", "hostname; cat; exit 7"],
        input=b"\0binary\xff",
        capture_output=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (7, b"src1\n\0binary\xff")


@pytest.mark.parametrize(("platform", "frame_size"), [("raw", 64), ("container", 1500)])
def test_pktgen_is_measured_packet_for_packet(testbed, lab_home: Path, platform: str, frame_size: int):
    before = dropped(testbed.spec.name)
    done = labconsole(
        "run",
        "--platform",
        platform,
        "--frame-size",
        str(frame_size),
        "--target",
        "1Mbit",
        "--duration",
        "2",
        "--generator",
        "pktgen",
        "--json",
        hosts=testbed.hosts_file,
        store=lab_home / "pktgen.sqlite",
    )
    (run,) = records(done)
    (stream,) = run["streams"]
    learning = run["environment"]["learning"]
    truth = dropped(testbed.spec.name) - before - (learning["sent_packets"] - learning["received_packets"])
    assert stream["generator"] == "pktgen"
    assert stream["generator_version"].startswith("2.")
    assert stream["offered_packets"] == stream["intended_packets"]
    assert stream["offered_pps"] == pytest.approx(stream["intended_pps"], rel=0.005)
    assert stream["loss_packets"] == truth > 0
    assert {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}["uut_out"] == truth
    assert run["verdict"]["status"] != "invalid"


@pytest.mark.parametrize(("target", "delay_ns"), [("max", 0), ("1ns", 1)])
def test_flat_out_sends_as_fast_as_pktgen_can_and_stops_in_time(testbed, lab_home: Path, target: str, delay_ns: int):
    done = labconsole(
        "run",
        "--target",
        target,
        "--duration",
        "1",
        "--json",
        hosts=testbed.hosts_file,
        store=lab_home / "pktgen.sqlite",
    )
    (run,) = records(done)
    assert run["streams"][0]["generator"] == "pktgen"
    assert run["streams"][0]["delay_ns"] == delay_ns
    assert run["streams"][0]["intended_packets"] is None
    assert run["streams"][0]["offered_packets"] > 1000
    assert run["streams"][0]["offered_duration_s"] < 2


def test_it_sends_to_a_router_and_through_it_to_many_addresses(testbed, lab_home: Path):
    before = dropped(testbed.spec.name)
    done = labconsole(
        "experiment",
        "route",
        "--platforms",
        "container",
        "--guests",
        "1",
        "--destinations",
        "16",
        "--targets",
        "max",
        "--duration",
        "2",
        "--json",
        hosts=testbed.hosts_file,
        store=lab_home / "pktgen.sqlite",
    )
    (said,) = records(done)
    route = RouteRecord.model_validate(said["route"])
    (router,) = route.routers
    assert (router.generator, router.routes) == ("pktgen", 16)
    assert (router.sent_packets or 0) - router.packets == dropped(testbed.spec.name) - before > 0


def test_it_sends_to_guests_that_count_to_the_packet(testbed, lab_home: Path):
    done = labconsole(
        "experiment",
        "flow",
        "--platforms",
        "container",
        "--pattern",
        "in",
        "--guests",
        "2",
        "--offered",
        "2Mbit",
        "--duration",
        "3",
        "--json",
        hosts=testbed.hosts_file,
        store=lab_home / "pktgen.sqlite",
    )
    (said,) = records(done)
    flow = FlowRecord.model_validate(said["flow"])
    assert len(flow.receivers) == 2, flow.verdict
    assert all(each.sent_packets == each.udp_packets > 100 for each in flow.receivers)


def test_after_the_runs_pktgen_holds_nothing_of_ours(testbed, lab_home: Path):
    found = lab.execute(testbed.spec.name, "src1", ["sh", "-c", "cat /proc/net/pktgen/kpktgend_*"])
    assert found.status == 0
    running = [line for line in found.stdout.splitlines() if line.startswith(("Running:", "Stopped:"))]
    assert running
    assert all(not line.partition(":")[2].strip() for line in running)
    assert "-I -S" not in processes(testbed.spec.name, "src1")


def test_the_machine_says_what_it_is(testbed):
    done = labconsole("lab", "status", "--name", testbed.spec.name, "--json")
    status = json.loads(done.stdout)
    assert status["spec"]["generator"] == "pktgen"
    assert status["kernel"]


def test_fifty_thousand_frames_of_pktgen_pass_the_uut_or_are_dropped_there(testbed: lab.LabStatus) -> None:
    """Without labconsole; the last test that sends, as routes and forwarding stay."""
    shell(
        testbed,
        "uut",
        "sysctl -qw net.ipv4.conf.eth1.forwarding=1 net.ipv4.conf.eth5.forwarding=1;"
        "ip route replace 198.18.1.1 dev eth1; ip route replace 198.19.1.1 dev eth5",
    )
    mac = shell(testbed, "uut", "cat /sys/class/net/eth1/address").strip()
    before, counted = received(testbed), lab.read_loss_counts(testbed.spec.name)
    result = shell(testbed, "src1", SEND.format(delay_ns=150_000, mac=mac))
    assert "pkts-sofar: 50000" in result, "errors are frames that found no room, which pktgen does not count as sent"
    counts = lab.read_loss_counts(testbed.spec.name)
    assert counts.keys() == {"uut/eth5"}
    seen, lost = (counts["uut/eth5"][name] - counted["uut/eth5"][name] for name in ("seen_packets", "dropped_packets"))
    assert (seen, received(testbed) - before) == (50_000, 50_000 - lost)
    assert lost > 0


def test_kill_9_of_the_supervisor_ends_the_machine_and_down_tidies(testbed: lab.LabStatus) -> None:
    known = LabFile.read(testbed.directory)
    assert known is not None
    assert known.init.alive
    os.kill(known.supervisor.pid, signal.SIGKILL)
    assert known.init.signal_and_wait(0, 10.0)
    assert lab.status(testbed.spec.name).running is False
    assert lab.down(testbed.spec.name)
    assert not testbed.directory.exists()
