"""Starts of guests of LXC, User-mode Linux and QEMU, held against what is known beforehand: a wait in the start, memory
that is touched, a guest that never comes, files that are in memory or not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.spec import LabSpec
from support.changed_starts import MIB, TOUCH, inventory_of, told_otherwise, with_start
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

WAIT = "sleep 2"
NEVER = "if [ $(hostname) = g2 ]; then sleep 1000; fi"

Changed = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def hosts(lab_home: Path) -> Iterator[Path]:
    require("lxc-start", "busybox", "stress", "fincore", guest_image.UML_PROGRAM, "qemu-system-x86_64")
    name = f"starts{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, platforms=("raw", "lxc", "uml", "qemu-virtio")))
    yield status.hosts_file
    lab.down(name)


@pytest.fixture
def changed(hosts: Path, tmp_path: Path) -> Changed:
    """The testbed with guests of a platform that do something more in their start."""

    def change(platform: str, line: str) -> Path:
        return with_start(hosts, tmp_path, platform, line)

    return change


def taken(hosts: Path, store: Path, platform: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
    argv = ["experiment", "boot", "--platforms", platform, "--json", *words]
    done = labconsole(*argv, hosts=hosts, store=store)
    assert done.returncode == status, done.stderr
    return [json.loads(line)["boot"] for line in done.stdout.splitlines()]


def place(hosts: Path) -> Path:
    """Where copies of what guests start from are."""
    return Path(inventory_of(hosts)["platforms"]["lxc"]["guest_disk"])


def nothing_left(hosts: Path) -> bool:
    return not list(place(hosts).glob("labconsole-disks-*"))


@pytest.mark.parametrize(("platform", "within_s"), [("lxc", 0.1), ("uml", 0.3)])
def test_a_wait_in_the_start_is_as_much_longer(
    hosts: Path, changed: Changed, tmp_path: Path, platform: str, within_s: float
):
    store, often = tmp_path / "boots.sqlite", ("--repetitions", "3")
    usual = min(each["startup_s"] for each in taken(hosts, store, platform, *often))
    slow = min(each["startup_s"] for each in taken(changed(platform, WAIT), store, platform, *often))
    assert slow - usual == pytest.approx(2.0, abs=within_s)
    assert labconsole("verify", store=store).returncode == 0


def test_memory_that_a_guest_touches_is_found(hosts: Path, changed: Changed, tmp_path: Path):
    store = tmp_path / "boots.sqlite"
    words = ("--guests", "2")
    (usual,), (more,) = taken(hosts, store, "lxc", *words), taken(changed("lxc", TOUCH), store, "lxc", *words)
    for key in ("pss_bytes", "cgroup_bytes"):
        each_bytes = [b[key] - a[key] for a, b in zip(usual["guests"], more["guests"], strict=True)]
        assert each_bytes == pytest.approx([64 * MIB] * 2, abs=2 * MIB), key
    assert more["memory"]["pss_bytes"] - usual["memory"]["pss_bytes"] == pytest.approx(128 * MIB, abs=4 * MIB)


def test_a_guest_that_never_comes_is_missing_and_all_are_ended(changed: Changed, tmp_path: Path):
    hosts, store = changed("lxc", NEVER), tmp_path / "boots.sqlite"
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "plan: missing\nplatforms: [lxc]\nsettle_s: 0\norder: as-listed\nmax_redo: 0\nboot: {guests: [3, 1], limit_s: 5}\n"
    )
    done = labconsole("replay", str(plan), "--json", hosts=hosts, store=store)
    assert done.returncode == 1, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    missing, came = [each["boot"] for each in told if each["event"] == "boot_finished"]
    assert missing["verdict"]["reasons"][0]["code"] == "guests_missing"
    assert "g2" in missing["failure"]
    assert [guest["mark_ns"] is None for guest in missing["guests"]] == [False, True, False]
    assert missing["startup_s"] is None
    assert came["startup_s"] is not None
    assert nothing_left(hosts)
    assert labconsole("verify", store=store).returncode == 0


@pytest.mark.parametrize("platform", ["lxc", "uml", "qemu-virtio"])
def test_cold_files_are_not_in_memory_and_hot_ones_are(hosts: Path, tmp_path: Path, platform: str):
    records = taken(hosts, tmp_path / "boots.sqlite", platform, "--start", "cold,hot")
    found = {record["requested"]["start"]: record for record in records}
    for start, record in found.items():
        assert record["files"]
        for file in record["files"]:
            assert file["pages"] > 0
            assert file["cached_pages"] == (0 if start == "cold" else file["pages"])
            assert file["path"].startswith(str(place(hosts)))
        assert record["memory"]["pss_bytes"] > 0
    assert nothing_left(hosts)


def test_what_is_in_memory_anyway_is_never_cold(hosts: Path, tmp_path: Path):
    path = told_otherwise(hosts, tmp_path, "lxc", guest_disk="/dev/shm")
    argv = ["experiment", "boot", "--platforms", "lxc", "--start", "cold"]
    done = labconsole(*argv, hosts=path, store=tmp_path / "boots.sqlite")
    assert done.returncode not in (0, 2)
    assert "is on tmpfs, which is memory" in done.stderr


def test_more_memory_than_there_is_is_refused_in_words(hosts: Path, tmp_path: Path):
    argv = ["experiment", "boot", "--platforms", "uml", "--guests", "50", "--memory-mib", "100000"]
    done = labconsole(*argv, hosts=hosts, store=tmp_path / "boots.sqlite")
    assert done.returncode == 1
    assert "50 guests are given 5000000 MiB of memory" in done.stdout
    assert nothing_left(hosts)


def test_a_console_that_is_killed_leaves_nothing(changed: Changed, tmp_path: Path):
    hosts = changed("lxc", "sleep 60")
    name: str = inventory_of(hosts)["testbed"]
    argv = ["experiment", "boot", "--platforms", "lxc", "--guests", "3", "--hosts", str(hosts)]
    argv += ["--start", "cold", "--store", str(tmp_path / "boots.sqlite")]
    console = subprocess.Popen([*COMMAND, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def guests() -> bool:
        return "lxc-start" in lab.execute(name, "uut", ["ps", "-eo", "args="]).stdout

    try:
        wait_until(guests, timeout_s=60, what="no guest was started")
    finally:
        console.send_signal(signal.SIGKILL)
        console.wait()
    wait_until(lambda: not guests() and nothing_left(hosts), timeout_s=20, what="something is left")
    assert "198.18.64." not in lab.execute(name, "snk1", ["ip", "-4", "-o", "address"]).stdout
