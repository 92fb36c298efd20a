"""Whatever ends a run, nothing is left on any node two seconds later, and what was measured before is still there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import COMMAND, lab_state, labconsole, processes, records, wait_until

from labconsole import lab

GONE_S = 2.0
"""The bound that design 3.1 promises."""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"fault{os.getpid()}"
    yield lab.up(lab.LabSpec(name=name, sources=2))
    lab.down(name)


def start_run(testbed: lab.LabStatus, store: Path, platform: str) -> subprocess.Popen:
    """A long run in the background; returns once its senders send and its captures capture."""
    process = subprocess.Popen(
        [
            *COMMAND, "run", "--platform", platform, "--sources", "2", "--target", "20Mbit", "--duration", "60",
            "--hosts", str(testbed.hosts_file), "--store", str(store), "--json",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    name = testbed.spec.name

    def sending() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return received(name) > 1000 and "tcpdump" in processes(name, "snk1")

    base = received(name)
    wait_until(lambda: sending() and received(name) > base + 1000, timeout_s=30, what="the run never began to send")
    return process


def received(name: str) -> int:
    """Packets that the first sink's NIC has received."""
    return int(lab.exec(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)


@pytest.mark.parametrize("platform", ["raw", "raw-bridge", "container"])
def test_kill_9_of_the_console_leaves_nothing_on_any_node(testbed, tmp_path: Path, platform: str):
    before = lab_state(testbed.spec.name)
    process = start_run(testbed, tmp_path / "s.sqlite", platform)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(GONE_S)
    assert lab_state(testbed.spec.name) == before
    count = received(testbed.spec.name)
    time.sleep(0.2)
    assert received(testbed.spec.name) == count


def test_a_console_that_is_not_heard_of_any_more_leaves_nothing(testbed, tmp_path: Path):
    """As after a pulled cable: no end of stdin, no reset, just silence."""
    before = lab_state(testbed.spec.name)
    process = start_run(testbed, tmp_path / "s.sqlite", "container")
    process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=20, what="something was left on a node")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_ctrl_c_once_stops_in_order_and_saves_what_was_measured(testbed, tmp_path: Path):
    before = lab_state(testbed.spec.name)
    store = tmp_path / "s.sqlite"
    process = start_run(testbed, store, "container")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert lab_state(testbed.spec.name) == before
    (run,) = records(labconsole("runs", "--json", store=store))
    assert run["verdict"]["status"] == "invalid"
    assert [reason["code"] for reason in run["verdict"]["reasons"]] == ["aborted"]
    assert run["total"]["offered_packets"] == run["total"]["measured_packets"] > 1000
    assert run["run_id"] in output


def test_ctrl_c_twice_gives_up_at_once_and_still_leaves_nothing(testbed, tmp_path: Path):
    before = lab_state(testbed.spec.name)
    process = start_run(testbed, tmp_path / "s.sqlite", "container")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    time.sleep(GONE_S)
    assert lab_state(testbed.spec.name) == before


def test_a_killed_agent_ends_the_run_and_is_named(testbed, tmp_path: Path):
    before = lab_state(testbed.spec.name)
    store = tmp_path / "s.sqlite"
    process = start_run(testbed, store, "container")
    lab.exec(testbed.spec.name, "snk2", ["pkill", "-9", "-f", "python.*-I -S"])
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1, errors
    assert "snk2" in errors
    time.sleep(GONE_S)
    assert lab_state(testbed.spec.name) == before
    (run,) = records(labconsole("runs", "--json", store=store))
    assert run["failure"]["node"] == "snk2"
    assert "link_lost" in {reason["code"] for reason in run["verdict"]["reasons"]}
    assert run["streams"][0]["measured_packets"] > 1000


def test_two_runs_at_once_are_kept_apart_by_the_lease(testbed, tmp_path: Path):
    process = start_run(testbed, tmp_path / "s.sqlite", "raw")
    try:
        second = labconsole("run", "--duration", "1", hosts=testbed.hosts_file, store=tmp_path / "t.sqlite")
        assert second.returncode == 3
        assert re.search(
            r"uut: .*@.* has this node since .* UTC, until about .* UTC, for raw.*--take-over", second.stderr
        ), second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
