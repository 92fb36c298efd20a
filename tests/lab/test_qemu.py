"""A guest under a real QEMU as the unit under test: it forwards, saturates, loses where the ledger says, and goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import missing
from support import COMMAND, lab_state, labconsole, processes, records, wait_until

from labconsole import lab
from labconsole.errors import LabSetupError

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def guest_lab(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"qemu{os.getpid()}"
    try:
        yield lab.up(lab.LabSpec(name=name, sources=1, platforms=("raw", "qemu-virtio")))
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


def run(guest_lab: lab.LabStatus, store: Path, *words: str) -> list[dict]:
    return records(
        labconsole("run", "--platform", "qemu-virtio", *words, "--json", hosts=guest_lab.hosts_file, store=store)
    )


def test_a_guest_forwards_without_loss_at_a_low_rate_and_loses_before_itself_at_the_maximum(
    guest_lab, lab_home: Path
) -> None:
    before = lab_state(guest_lab.spec.name)
    store = lab_home / "qemu.sqlite"
    (low,) = run(guest_lab, store, "--target", "1Mbit", "--duration", "1")
    assert low["verdict"]["status"] != "invalid"
    assert low["total"]["loss_packets"] == 0
    platform = low["environment"]["platform"]
    assert (platform["driver"], platform["nic_model"], platform["accel"]) == ("qemu", "virtio", "tcg")
    assert platform["guest_kernel"]
    assert platform["vcpus"] == 1
    assert platform["host_cpus"]
    (high,) = run(guest_lab, store, "--target", "max", "--duration", "1")
    (stream,) = high["streams"]
    assert stream["loss_ratio"] > 0.1
    lost = {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}
    assert lost["to_guest"] == stream["loss_packets"] - sum(
        lost[h] for h in ("from_guest", "uut_out", "sink_nic", "capture")
    )
    assert lost["to_guest"] > 0.9 * stream["loss_packets"]
    assert stream["unplaced_packets"] == 0
    assert lab_state(guest_lab.spec.name) == before


def test_a_guest_that_dies_in_mid_run_voids_the_run_and_leaves_nothing(guest_lab, lab_home: Path) -> None:
    name = guest_lab.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [
            *COMMAND, "run", "--platform", "qemu-virtio", "--target", "1Mbit", "--duration", "6", "--json",
            "--hosts", str(guest_lab.hosts_file), "--store", str(lab_home / "dies.sqlite"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def forwarded() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(lab.exec(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)

    base = forwarded()
    wait_until(
        lambda: forwarded() > base + 1000 and "tcpdump" in processes(name, "snk1"), timeout_s=100, what="it never sent"
    )
    lab.exec(name, "uut", ["pkill", "-9", "qemu-system"])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    (run,) = [json.loads(line) for line in out.splitlines()]
    assert run["verdict"]["status"] == "invalid"
    told = [reason["detail"] for reason in run["verdict"]["reasons"] if reason["code"] == "guest_changed"]
    assert told
    assert "guest" in told[0]
    wait_until(lambda: lab_state(name) == before, timeout_s=5, what="something was left on a node")


def test_the_guest_is_gone_with_a_console_that_is_killed(guest_lab, lab_home: Path) -> None:
    name = guest_lab.spec.name
    before = lab_state(name)
    process = subprocess.Popen(
        [*COMMAND, "run", "--platform", "qemu-virtio", "--target", "1Mbit", "--duration", "30",
         "--hosts", str(guest_lab.hosts_file), "--store", str(lab_home / "killed.sqlite")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: "qemu-system" in processes(name, "uut"), timeout_s=60, what="no guest was started")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: lab_state(name) == before, timeout_s=5, what="something was left on a node")
