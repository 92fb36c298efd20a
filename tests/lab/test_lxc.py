"""A container of LXC's own tools as the unit under test, set up on the UUT as an operator would have."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import require
from support import COMMAND, lab_state, labconsole, processes, records, wait_until

from labconsole import lab

CONTAINERS = "/tmp/lxc"  # a node's own /tmp
FW = ["-P", CONTAINERS, "-n", "fw"]


@pytest.fixture(scope="module")
def lxc_lab(lab_home: Path) -> Iterator[tuple[lab.LabStatus, Path]]:
    require("lxc-start", "busybox")
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"lxc{os.getpid()}"
    status = lab.up(lab.LabSpec(name=name, sources=1, platforms=("raw",)))
    try:
        sink = lab.exec(name, "snk1", ["cat", "/sys/class/net/eth1/address"]).stdout.strip()
        script = Path(__file__).with_name("lxc_guest.sh").read_text()
        made = lab.exec(name, "uut", ["sh", "-c", script, "lxc_guest.sh", CONTAINERS, sink])
        assert made.status == 0, made.stderr
        tried = lab.exec(name, "uut", ["sh", "-c", f"lxc-start {' '.join(FW)} -d && lxc-stop {' '.join(FW)} -k"])
        if tried.status != 0:
            pytest.skip(f"this machine's cgroups do not let LXC start a container: {tried.stderr[-300:]}")
        hosts = lab_home / "lxc-hosts.yaml"
        told = f"platforms:\n  lxc: {{driver: lxc, guest: fw, path: {CONTAINERS}, cpu: 0, graceful_s: 5}}\n"
        hosts.write_text(status.hosts_file.read_text().replace("platforms:\n", told))
        yield status, hosts
    finally:
        lab.down(name)


def state_of(name: str) -> str:
    return lab.exec(name, "uut", ["lxc-info", *FW, "-sH"]).stdout.strip()


def test_a_container_is_started_measured_attested_and_stopped_again(lxc_lab, lab_home: Path) -> None:
    status, hosts = lxc_lab
    name, store = status.spec.name, lab_home / "lxc.sqlite"
    before = lab_state(name)
    words = ("run", "--platform", "lxc", "--target", "1Mbit", "--duration", "1", "--json")
    (record,) = records(labconsole(*words, hosts=hosts, store=store))
    assert record["verdict"]["status"] != "invalid", record["verdict"]
    assert record["total"]["loss_packets"] == 0
    platform = record["environment"]["platform"]
    assert platform["guests"] == ["fw"]
    assert platform["machines"]["fw"]["pinning"] == {"all": "0"}
    assert platform["guest_kernel"] == os.uname().release
    assert platform["interfaces"]["vc-in"] == {"master": "br-in"}
    hops = {hop["hop"]: hop["packets"] for hop in record["streams"][0]["ledger"]}
    assert hops["to_guest"] == hops["from_guest"] == hops["generator"]
    assert lab_state(name) == before


def test_a_container_that_runs_already_is_measured_and_left_running(lxc_lab, lab_home: Path) -> None:
    status, hosts = lxc_lab
    name = status.spec.name
    assert lab.exec(name, "uut", ["lxc-start", *FW, "-d"]).status == 0
    try:
        words = ("run", "--platform", "lxc", "--target", "1Mbit", "--duration", "1", "--json")
        (record,) = records(labconsole(*words, hosts=hosts, store=lab_home / "lxc.sqlite"))
        assert record["total"]["loss_packets"] == 0
        assert state_of(name) == "RUNNING"
        pinned = lab.exec(name, "uut", ["lxc-cgroup", *FW, "cpuset.cpus"]).stdout.strip()
        assert pinned != "0" or os.cpu_count() == 1
    finally:
        lab.exec(name, "uut", ["lxc-stop", *FW, "-k"])


def test_a_container_that_dies_in_mid_run_voids_the_run_and_leaves_nothing(lxc_lab, lab_home: Path) -> None:
    status, hosts = lxc_lab
    name = status.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [*COMMAND, "run", "--platform", "lxc", "--target", "1Mbit", "--duration", "5", "--json",
         "--hosts", str(hosts), "--store", str(lab_home / "lxc.sqlite")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def forwarded() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(lab.exec(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    base = forwarded()
    wait_until(
        lambda: "tcpdump" in processes(name, "snk1") and forwarded() > base + 1000, timeout_s=40, what="it never sent"
    )
    assert lab.exec(name, "uut", ["lxc-stop", *FW, "-k"]).status == 0
    out, err = process.communicate(timeout=60)
    assert process.returncode in (1, 3), err
    assert "Traceback" not in err
    assert "fw is STOPPED" in err + out
    wait_until(lambda: lab_state(name) == before, timeout_s=5, what="something was left on a node")


def test_a_container_is_gone_with_a_console_that_is_killed(lxc_lab, lab_home: Path) -> None:
    status, hosts = lxc_lab
    name = status.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [*COMMAND, "run", "--platform", "lxc", "--target", "1Mbit", "--duration", "30",
         "--hosts", str(hosts), "--store", str(lab_home / "killed.sqlite")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: state_of(name) == "RUNNING", timeout_s=40, what="no container was started")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: lab_state(name) == before, timeout_s=10, what="something was left on a node")
    assert state_of(name) == "STOPPED"
