"""Starts of containers that hosts.yaml names, held against what is known beforehand: their files, a wait, one that runs,
one that never comes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.changed_starts import inventory_of
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

Told = Callable[..., Path]
Begun = Callable[[str, str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def made(lab_home: Path) -> Iterator[Path]:
    require("lxc-start", "busybox", "fincore")
    name = f"installed{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, platforms=("raw", "lxc")))
    yield status.hosts_file
    lab.down(name)


@pytest.fixture
def hosts(made: Path, tmp_path: Path) -> Told:
    """The testbed whose two containers are for jobs, with more options."""

    def told(**more: Any) -> Path:
        data = inventory_of(made)
        options = data["platforms"]["lxc"]
        del options["crew_root"]
        names = [f"{data['testbed']}-first", f"{data['testbed']}-second"]
        files = [f"{options['path']}/{{guest}}/{part}" for part in ("rootfs", "config")]
        options |= {"guests": names, "guest_nic": 2, "guest_files": files, **more}
        data["platforms"]["lxc"] = {key: value for key, value in options.items() if value is not None}
        path = tmp_path / "hosts.yaml"
        path.write_text(json.dumps(data))
        return path

    return told


@pytest.fixture
def begun(made: Path) -> Begun:
    """A line of shell that a container's shells begin with."""

    @contextmanager
    def change(guest: str, line: str) -> Iterator[None]:
        shell = containers(made) / f"{inventory_of(made)['testbed']}-{guest}" / "rootfs" / "bin" / "sh"
        original = os.readlink(shell)
        shell.unlink()
        shell.write_text(f'#!/bin/busybox sh\n{line}\nexec /bin/busybox sh "$@"\n')
        shell.chmod(0o755)
        try:
            yield
        finally:
            shell.unlink()
            shell.symlink_to(original)

    return change


def containers(hosts: Path) -> Path:
    return Path(inventory_of(hosts)["platforms"]["lxc"]["path"])


def in_uut(hosts: Path, *argv: str) -> str:
    return lab.execute(inventory_of(hosts)["testbed"], "uut", list(argv)).stdout


def states(hosts: Path) -> list[str]:
    """What LXC says of both containers."""
    told = inventory_of(hosts)
    path = told["platforms"]["lxc"]["path"]
    return [
        in_uut(hosts, "lxc-info", "-P", path, "-n", f"{told['testbed']}-{name}", "-sH").strip()
        for name in ("first", "second")
    ]


def taken(hosts: Path, store: Path, *words: str, status: int = 0) -> list[dict[str, Any]]:
    argv = ["experiment", "boot", "--platforms", "lxc", "--json", *words]
    done = labconsole(*argv, hosts=hosts, store=store)
    assert done.returncode == status, done.stderr
    return [json.loads(line)["boot"] for line in done.stdout.splitlines()]


def contents(place: Path) -> dict[str, tuple[str, int]]:
    """Every file's digest and when it was written."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_their_files_are_cold_or_hot_where_they_are_and_nothing_of_them_changes(hosts: Told, tmp_path: Path) -> None:
    testbed, store = hosts(), tmp_path / "boots.sqlite"
    before = contents(containers(testbed))
    records = taken(testbed, store, "--guests", "1,2", "--start", "cold,hot")
    assert len(records) == 4
    for record in records:
        start, guests = record["requested"]["start"], record["requested"]["guests"]
        assert len(record["files"]) == 2 * guests
        for file in record["files"]:
            assert file["pages"] > 0
            assert file["cached_pages"] == (0 if start == "cold" else file["pages"])
            assert file["path"].startswith(str(containers(testbed)))
        assert 0 < record["startup_s"] < 5
        for guest in record["guests"]:
            assert guest["way_in"]["tries"] >= 1
            assert 0 < guest["way_in"]["joined_s"] < 5
            assert guest["mac"].startswith("02:6c:78:")
            assert guest["pss_bytes"] > 0
        assert record["memory"]["hypervisor_bytes"] is None
    assert contents(containers(testbed)) == before
    assert states(testbed) == ["STOPPED", "STOPPED"]
    assert not list(Path(inventory_of(testbed)["platforms"]["lxc"]["guest_disk"]).glob("labconsole-disks-*"))
    assert labconsole("verify", store=store).returncode == 0


def test_without_their_files_nothing_is_cold_and_nothing_is_said_of_hot(hosts: Told, tmp_path: Path) -> None:
    testbed, store = hosts(guest_files=None), tmp_path / "boots.sqlite"
    argv = ["experiment", "boot", "--platforms", "lxc", "--start", "cold"]
    done = labconsole(*argv, hosts=testbed, store=store)
    assert done.returncode == 2
    assert "nothing can be cold; name them as `guest_files` in hosts.yaml" in done.stderr
    (record,) = taken(testbed, store, "--start", "hot")
    assert record["files"] is None


@pytest.mark.parametrize(
    ("file", "why"), [("/no/such/{guest}", "/no/such/"), ("/dev/null", "/dev/null of guest_files is neither a file")]
)
def test_files_that_are_not_there_are_told(hosts: Told, tmp_path: Path, file: str, why: str) -> None:
    testbed = hosts(guest_files=[file])
    argv = ["experiment", "boot", "--platforms", "lxc", "--start", "cold"]
    done = labconsole(*argv, hosts=testbed, store=tmp_path / "boots.sqlite")
    assert done.returncode not in (0, 2)
    assert why in done.stderr
    assert states(testbed) == ["STOPPED", "STOPPED"]


def test_a_wait_in_the_start_is_as_much_longer(hosts: Told, begun: Begun, tmp_path: Path) -> None:
    testbed, store, often = hosts(), tmp_path / "boots.sqlite", ("--repetitions", "3")
    usual = min(each["startup_s"] for each in taken(testbed, store, *often))
    with begun("first", "sleep 2"):
        slow = min(each["startup_s"] for each in taken(testbed, store, *often))
    assert slow - usual == pytest.approx(2.0, abs=0.5)


COUNTED = """\
echo tried >>/tmp/tries
test $(wc -l </tmp/tries) -gt 3 || { echo not yet >&2; exit 1; }
exec lxc-attach -P PATH -n {guest} -- "$@"
"""


def test_a_way_in_that_fails_at_first_is_tried_again_and_counted(hosts: Told, tmp_path: Path) -> None:
    told = COUNTED.replace("PATH", str(containers(hosts()))).strip().replace("\n", "; ")
    testbed = hosts(guest_shell=["sh", "-c", told, "sh"])
    in_uut(testbed, "rm", "-f", "/tmp/tries")
    (record,) = taken(testbed, tmp_path / "boots.sqlite", "--start", "cold")
    way_in = record["guests"][0]["way_in"]
    assert way_in["tries"] == 4
    assert 0.1 <= way_in["gap_s"] < record["startup_s"] - 0.2
    assert states(testbed) == ["STOPPED", "STOPPED"]


def test_a_container_that_runs_already_is_refused_and_goes_on(hosts: Told, tmp_path: Path) -> None:
    testbed = hosts()
    path, name = containers(testbed), f"{inventory_of(testbed)['testbed']}-second"
    in_uut(testbed, "lxc-start", "-P", str(path), "-n", name, "-d")
    try:
        argv = ["experiment", "boot", "--platforms", "lxc", "--guests", "2", "--start", "cold"]
        done = labconsole(*argv, hosts=testbed, store=tmp_path / "boots.sqlite")
        assert done.returncode not in (0, 2)
        assert f"{name} runs already, but a start-up time is measured only from guests that are off" in done.stderr
        assert states(testbed) == ["STOPPED", "RUNNING"]
    finally:
        in_uut(testbed, "lxc-stop", "-P", str(path), "-n", name, "-k")


def test_one_that_never_comes_is_missing_and_both_are_stopped(hosts: Told, begun: Begun, tmp_path: Path) -> None:
    testbed, store, plan = hosts(), tmp_path / "boots.sqlite", tmp_path / "plan.yaml"
    plan.write_text(
        "plan: missing\nplatforms: [lxc]\nsettle_s: 0\nmax_redo: 0\nboot: {guests: [2], start: [cold], limit_s: 5}\n"
    )
    with begun("second", "sleep 1000"):
        done = labconsole("replay", str(plan), "--json", hosts=testbed, store=store)
    assert done.returncode == 1, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (missing,) = [each["boot"] for each in told if each["event"] == "boot_finished"]
    assert missing["verdict"]["reasons"][0]["code"] == "guests_missing"
    assert "second" in missing["failure"]
    assert [guest["mark_ns"] is None for guest in missing["guests"]] == [False, True]
    assert states(testbed) == ["STOPPED", "STOPPED"]
    assert labconsole("verify", store=store).returncode == 0


@pytest.mark.parametrize(
    "key", ["boot: {guests: [1], start: [cold]}", "job: {jobs: [{job: wait, size: 1}, cpu-sqrt2]}"]
)
def test_a_guest_without_busybox_is_told_as_such_and_the_plan_goes_on(
    hosts: Told, begun: Begun, tmp_path: Path, key: str
) -> None:
    testbed, store, plan = hosts(), tmp_path / "guests.sqlite", tmp_path / "plan.yaml"
    plan.write_text(f"plan: bare\nplatforms: [lxc]\nsettle_s: 0\nmax_redo: 0\nset_ups: 2\n{key}\n")
    other = shutil.which("dash") or pytest.skip("needs a shell that is not busybox's")
    linked = subprocess.run(["ldd", other], capture_output=True, text=True, check=True).stdout
    root = containers(testbed) / f"{inventory_of(testbed)['testbed']}-first" / "rootfs"
    for needed in {other, *re.findall(r"(/\S+) \(0x", linked)}:
        (root / needed[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, root / needed[1:])
    with begun("first", f'PATH=/nowhere exec {other} "$@"'):
        done = labconsole("replay", str(plan), "--json", hosts=testbed, store=store, timeout_s=60)
    assert done.returncode == 1, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    kind = key.partition(":")[0]
    taken = [each[kind] for each in told if each["event"] == f"{kind}_finished"]
    assert len(taken) == (2 if kind == "boot" else 4)
    for record in taken:
        assert record["verdict"]["reasons"][0]["code"] == "guests_missing"
        assert "has no busybox" in record["failure"]
    assert states(testbed) == ["STOPPED", "STOPPED"]
    assert labconsole("verify", store=store).returncode == 0


def test_why_a_start_is_taken_again_is_told_also_of_the_one_that_is_thrown_away(
    hosts: Told, begun: Begun, tmp_path: Path
) -> None:
    testbed, plan, store = hosts(), tmp_path / "plan.yaml", tmp_path / "boots.sqlite"
    plan.write_text(
        "plan: missing\nplatforms: [lxc]\nsettle_s: 0\nmax_redo: 1\nretry: {pause_s: 0}\n"
        "boot: {guests: [1], start: [cold, hot], limit_s: 5}\n"
    )
    with begun("first", "sleep 1000"):
        done = labconsole("replay", str(plan), hosts=testbed, store=store)
    assert "Traceback" not in done.stderr
    again = [line for line in done.stderr.splitlines() if "invalid, so it will be repeated: " in line]
    assert len(again) == 2, done.stderr
    assert any("guests_missing" in line for line in again)
    assert any("the guest that is discarded before a hot start: " in line for line in again)
    listed = labconsole("experiment", "boot", "--list", store=store).stdout
    assert "not_measured" in listed and "guests_missing" in listed
    assert labconsole("verify", store=store).returncode == 0
    assert states(testbed) == ["STOPPED", "STOPPED"]


def test_a_job_whose_guest_does_not_come_has_a_record_that_says_so(hosts: Told, begun: Begun, tmp_path: Path) -> None:
    testbed, store = hosts(start_s=5), tmp_path / "jobs.sqlite"
    with begun("first", "sleep 1000"):
        argv = ["experiment", "job", "--platforms", "lxc", "--jobs", "wait", "--size", "1", "--json"]
        done = labconsole(*argv, hosts=testbed, store=store)
    assert done.returncode == 1, done.stderr
    (record,) = [json.loads(line)["job"] for line in done.stdout.splitlines()]
    assert (record["status"], record["set_up"], record["copies"]) == ("failed", None, [])
    assert [each["code"] for each in record["verdict"]["reasons"]] == ["guests_missing"]
    assert "first" in record["failure"]
    assert "guests_missing" in labconsole("experiment", "job", "--list", store=store).stdout
    assert "guests_missing" in labconsole("experiment", "job", "--show", record["job_id"], store=store).stdout
    assert labconsole("verify", store=store).returncode == 0
    assert states(testbed) == ["STOPPED", "STOPPED"]


def test_a_console_that_is_killed_leaves_nothing(hosts: Told, begun: Begun, tmp_path: Path) -> None:
    testbed = hosts()
    argv = ["experiment", "boot", "--platforms", "lxc", "--guests", "2", "--hosts", str(testbed)]
    with begun("first", "sleep 60"):
        console = subprocess.Popen(
            [*COMMAND, *argv, "--start", "cold", "--store", str(tmp_path / "boots.sqlite")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: "RUNNING" in states(testbed), timeout_s=60, what="no container was started")
        finally:
            console.send_signal(signal.SIGKILL)
            console.wait()
        wait_until(lambda: states(testbed) == ["STOPPED", "STOPPED"], timeout_s=20, what="a container still runs")
    name = inventory_of(testbed)["testbed"]
    assert "198.18.64." not in lab.execute(name, "snk1", ["ip", "-4", "-o", "address"]).stdout
