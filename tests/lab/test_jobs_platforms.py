"""Jobs in guests of LXC, User-mode Linux and QEMU, held against what is known beforehand: how long a wait takes, what a
quota and a weight make of a job, and whose clock is to be believed.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.guests import uml
from labconsole.lab.spec import LabSpec
from support.live_lab import labconsole
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

GUESTS = ("lxc", "uml", "qemu-virtio")
SIZE = {"lxc": "3000", "uml": "3000", "qemu-virtio": "1300"}
"""Digits that take one to three seconds."""
ROUNDS = 5
"""How often times are taken in turn where one is held against another: a processor that is shared with others unseen
runs by a fifth faster or slower from one second to the next, and the median of ratios within rounds does not.
"""


@pytest.fixture(scope="module")
def hosts(lab_home: Path) -> Iterator[Path]:
    require("lxc-start", "busybox", "stress", uml.PROGRAM, "qemu-system-x86_64")
    name = f"work{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, platforms=("raw", *GUESTS)))
    path = lab_home / "work.yaml"
    text = status.hosts_file.read_text()
    slowed = text[text.index("  qemu-virtio: ") : text.index("\ndefaults:")].rstrip()
    slowed = slowed.replace("qemu-virtio:", "qemu-icount:").replace("driver: qemu,", "driver: qemu, icount: 6,")
    path.write_text(text.replace("\ndefaults:", f"\n{slowed}\ndefaults:"))
    yield path
    lab.down(name)


def taken(hosts: Path, store: Path, platform: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
    argv = ["experiment", "job", "--platforms", platform, "--json", *words]
    done = labconsole(*argv, hosts=hosts, store=store, timeout_s=300)
    assert done.returncode == status, done.stderr
    return [json.loads(line)["job"] for line in done.stdout.splitlines()]


def alone_s(hosts: Path, store: Path, platform: str, *words: str) -> float:
    size = ("--jobs", "cpu-sqrt2", "--size", SIZE[platform], "--cpu", "same")
    (record,) = taken(hosts, store, platform, *size, *words)
    seconds: float = record["copies"][0]["seconds"]
    return seconds


@pytest.mark.parametrize(("platform", "within_s"), [("lxc", 0.005), ("uml", 0.1), ("qemu-virtio", 0.1)])
def test_a_wait_takes_as_long_as_it_takes(hosts: Path, tmp_path: Path, platform: str, within_s: float):
    (record,) = taken(hosts, tmp_path / "jobs.sqlite", platform, "--jobs", "wait", "--size", "5")
    (copy,) = record["copies"]
    assert abs(copy["seconds"] - 5.0) <= max(within_s, 3 * record["empty"]["sd_s"])
    assert abs(copy["clock_ratio"] - 1) <= 0.02
    assert record["program"]["sha256"], "the guest's own word for the program that it ran"


@pytest.mark.parametrize("platform", GUESTS)
def test_half_a_processor_takes_twice_as_long_and_a_quarter_four_times(hosts: Path, tmp_path: Path, platform: str):
    store = tmp_path / "jobs.sqlite"
    rounds = []
    for _ in range(ROUNDS):
        alone = alone_s(hosts, store, platform)
        half = alone_s(hosts, store, platform, "--cpu-quota", "0.5") / alone
        rounds.append((half, alone_s(hosts, store, platform, "--cpu-quota", "0.25") / alone))
    half, quarter = (statistics.median(ratios) for ratios in zip(*rounds, strict=True))
    assert half == pytest.approx(2, rel=0.15), rounds
    assert quarter == pytest.approx(4, rel=0.15), rounds


@pytest.mark.parametrize("platform", GUESTS)
def test_weights_share_a_processor_as_reckoned(hosts: Path, tmp_path: Path, platform: str):
    """Two to one: the first guest's copy takes 1.5 times as long as alone, the second's two copies three times."""
    size = ("--jobs", "cpu-sqrt2", "--size", SIZE[platform], "--cpu", "same", "--guests", "2")
    words = (*size, "--working", "one,one-two", "--cpu-shares", "2048,1024", "--set-ups", str(ROUNDS))
    times_s: dict[str, list[list[float]]] = {"one": [], "one-two": []}
    for record in taken(hosts, tmp_path / "jobs.sqlite", platform, *words):
        times_s[record["requested"]["working"]].append([copy["seconds"] for copy in record["copies"]])
    rounds = [(alone, *shared) for (alone,), shared in zip(*times_s.values(), strict=True)]
    assert len(rounds) == ROUNDS
    ratios = [(first / alone, (second + third) / 2 / alone) for alone, first, second, third in rounds]
    assert statistics.median(first for first, _ in ratios) == pytest.approx(1.5, rel=0.15), ratios
    assert statistics.median(second for _, second in ratios) == pytest.approx(3, rel=0.15), ratios


def test_the_clock_outside_is_right_where_the_guests_own_is_wrong(hosts: Path, tmp_path: Path):
    """Of a job that takes some seconds, so that the few hundredths that a mark takes on its way weigh little."""
    store, words = tmp_path / "jobs.sqlite", ("--jobs", "cpu-sqrt2", "--size", SIZE["qemu-virtio"])
    (record,) = taken(hosts, store, "qemu-icount", *words)
    (copy,) = record["copies"]
    assert abs(copy["clock_ratio"] - 1) > 0.05
    around_s = 2 * (record["empty"]["mean_s"] + 0.1)
    assert abs(copy["host_s"] - copy["outside_s"]) <= 0.01 * copy["outside_s"] + around_s
    assert "clock_distorted" in [note["kind"] for note in record["influences"]]
    (record,) = taken(hosts, store, "qemu-virtio", *words)
    assert abs(record["copies"][0]["clock_ratio"] - 1) < 0.05


@pytest.mark.parametrize("platform", GUESTS)
def test_a_mark_that_is_not_answered_voids_the_trial(hosts: Path, tmp_path: Path, platform: str):
    """The timekeeper's node drops every ping after those of the eleven empty jobs."""
    name = hosts.read_text().partition("testbed: ")[2].split()[0]
    rule = "icmp type echo-request limit rate over 1/day burst 22 packets drop"
    table = f"table ip marks {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"
    assert lab.execute(name, "snk1", ["nft", table]).status == 0
    store = tmp_path / "jobs.sqlite"
    try:
        taken(hosts, store, platform, "--jobs", "wait", "--size", "1", status=1)
    finally:
        lab.execute(name, "snk1", ["nft", "delete", "table", "ip", "marks"])
    listed = labconsole("experiment", "job", "--list", "--json", store=store)
    first = json.loads(listed.stdout.splitlines()[-1])["job"]
    assert first["status"] == "failed"
    assert "mark_lost" in [reason["code"] for reason in first["verdict"]["reasons"]]
