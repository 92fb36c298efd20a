"""Guests that hosts.yaml names work on disks that they have, and forward: here containers of LXC's, through the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.verify import recompute_route
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.changed_starts import inventory_of
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

MIB = 2**20


@pytest.fixture(scope="module")
def made(lab_home: Path) -> Iterator[Path]:
    require("lxc-start", "busybox", "nft", "nsenter")
    status = lab.up(LabSpec(name=f"inst{os.getpid()}", sources=1, platforms=("raw", "lxc")))
    if os.major(status.hosts_file.stat().st_dev) == 0:
        pytest.skip("the directory for tests is on no disk")
    yield status.hosts_file
    lab.down(status.spec.name)


@pytest.fixture
def hosts(made: Path, tmp_path: Path) -> Iterator[Path]:
    """The testbed whose two containers are named; afterwards both are off, and have nothing of ours."""
    data = inventory_of(made)
    options = data["platforms"]["lxc"]
    del options["crew_root"]
    options |= {"guests": [f"{data['testbed']}-{guest}" for guest in ("first", "second")], "bridges": "made"}
    options |= {"guest_nic": 2, "guest_inbound_nic": 1, "guest_directory": "/var", "guest_disk": str(made.parent)}
    path = tmp_path / "hosts.yaml"
    path.write_text(json.dumps(data))
    yield path
    wait_until(lambda: left(made) == [], timeout_s=10, what="something was left on a guest's disk")
    wait_until(lambda: lxc(made, "lxc-ls", "-1", "--active") == "", timeout_s=10, what="a guest runs")


def left(made: Path) -> list[str]:
    return sorted(path.name for path in (made.parent / "lxc").glob("*/rootfs/var/labconsole-*"))


def lxc(made: Path, *argv: str) -> str:
    path = inventory_of(made)["platforms"]["lxc"]["path"]
    return lab.execute(made.parent.name, "uut", [argv[0], "-P", path, *argv[1:]]).stdout


def job(hosts: Path, store: Path, *words: str) -> list[dict[str, Any]]:
    done = labconsole("experiment", "job", "--platforms", "lxc", "--json", *words, hosts=hosts, store=store)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["job"] for line in done.stdout.splitlines()]


def test_what_a_job_writes_and_reads_is_seen_at_the_device_and_in_the_guests(hosts: Path, made: Path, tmp_path: Path):
    words = ("--jobs", "disk-zero,disk-read", "--size", "16", "--guests", "2", "--working", "all")
    for record in job(hosts, tmp_path / "jobs.sqlite", *words):
        seen = record["disk"]
        assert record["verdict"]["status"] != "invalid", record["verdict"]
        assert "buffered_by_host" not in [each["code"] for each in record["verdict"]["reasons"]], record["verdict"]
        assert seen["place"] == str(made.parent)
        if record["requested"]["job"] == "disk-zero":
            assert seen["device_written_bytes"] >= seen["job_written_bytes"] == 2 * 10 * 16 * MIB
        else:
            assert seen["device_read_bytes"] >= seen["job_read_bytes"] == 2 * 16 * MIB
            assert all(each["read_bytes"] >= 16 * MIB for each in seen["guests"])


def test_a_console_that_is_killed_leaves_nothing_on_a_guests_disk(hosts: Path, made: Path, tmp_path: Path):
    words = ["experiment", "job", "--platforms", "lxc", "--jobs", "disk-zero", "--size", "512"]
    where = ["--hosts", str(hosts), "--store", str(tmp_path / "x.sqlite")]
    running = subprocess.Popen([*COMMAND, *words, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    written = "lxc/*/rootfs/var/labconsole-*/1/zero1"
    wait_until(lambda: [*made.parent.glob(written)], timeout_s=60, what="the job")
    running.send_signal(signal.SIGKILL)
    running.wait()


def test_what_a_guest_that_went_off_by_itself_left_is_told_and_removed_when_its_job_is_taken_again(
    hosts: Path, made: Path, tmp_path: Path
) -> None:
    words = ["experiment", "job", "--platforms", "lxc", "--jobs", "disk-zero", "--size", "512"]
    where = ["--hosts", str(hosts), "--store", str(tmp_path / "x.sqlite")]
    running = subprocess.Popen([*COMMAND, *words, *where], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    written = "lxc/*/rootfs/var/labconsole-*/1/zero1"
    wait_until(lambda: [*made.parent.glob(written)], timeout_s=60, what="the job")
    guest = f"{made.parent.name}-first"
    lxc(made, "lxc-stop", "-k", "-n", guest)
    told, _ = running.communicate(timeout=120)
    assert re.search(rf"guest {guest} was turned off before /var/labconsole-disk-[0-9a-f]{{8}}-g1 was removed", told), (
        told
    )
    assert "invalid, so it will be repeated: guests_missing" in told


def test_what_a_crew_that_died_left_is_removed_by_the_next(hosts: Path, made: Path, tmp_path: Path):
    rest = made.parent / "lxc" / f"{made.parent.name}-first" / "rootfs" / "var" / "labconsole-disk-0123abcd-g1"
    (rest / "1").mkdir(parents=True)
    job(hosts, tmp_path / "jobs.sqlite", "--jobs", "disk-read", "--size", "16")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/dev", "/dev is on tmpfs, which is memory: nothing that is written there reaches a disk"),
        ("/nowhere", "nothing can be made in /nowhere (guest_directory in hosts.yaml): "),
    ],
)
def test_a_guest_whose_directory_is_in_memory_or_not_there_is_refused(
    hosts: Path, tmp_path: Path, place: str, said: str
) -> None:
    data = json.loads(hosts.read_text())
    data["platforms"]["lxc"]["guest_directory"] = place
    hosts.write_text(json.dumps(data))
    done = labconsole(
        "experiment", "job", "--platforms", "lxc", "--jobs", "disk-read", hosts=hosts, store=tmp_path / "x.sqlite"
    )
    assert done.returncode != 0
    assert f"platform lxc: guest {json.loads(hosts.read_text())['testbed']}-first: {said}" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("filters", ["0", "200"])
def test_every_packet_comes_through_guests_that_forward_side_by_side(hosts: Path, tmp_path: Path, filters: str):
    words = ["--guests", "2", "--routes", "1000", "--filters", filters, "--targets", "4kpps", "--duration", "2"]
    done = labconsole(
        "experiment", "route", "--platforms", "lxc", "--json", *words, hosts=hosts, store=tmp_path / "x.sqlite"
    )
    assert done.returncode == 0, done.stderr
    (record,) = [RouteRecord.model_validate(json.loads(line)["route"]) for line in done.stdout.splitlines()]
    assert record.verdict.status != "invalid", record.verdict
    for each in record.routers:
        assert each.sent_packets == each.to_packets == each.from_packets == each.packets
        assert each.routes == each.routes_after == 1001
        assert each.filters == each.filters_after == int(filters)
        assert each.inbound_mac.startswith("02:6c:78:00:")
    assert record.in_packets == sum(each.sent_packets or 0 for each in record.routers)
    assert recompute_route(record) == []
