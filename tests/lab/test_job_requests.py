"""Guests that serve files to a client outside: what a link of known rate takes for them is what a request takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, processes, wait_until
from support.requirements import missing, require

MIB, RATE_BPS, SIZE_MIB = 2**20, 50_000_000, 8
REQUEST_S = 8 * SIZE_MIB * MIB / RATE_BPS
"""Without any header; with Ethernet's, IP's and TCP's on every segment 6 % more, of which the link may count fewer. The
link is slow enough for a guest that is emulated, keys and ciphers included, to fill it."""

PLATFORMS = ["raw", "container", "lxc", *(pytest.param(n, marks=pytest.mark.platforms) for n in ("uml", "qemu-virtio"))]


@pytest.fixture(scope="module")
def hosts(lab_home: Path) -> Iterator[Path]:
    require("lxc-start", "busybox", "openssl", "curl", guest_image.UML_PROGRAM, "qemu-system-x86_64")
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"serve{os.getpid()}"
    platforms = ("raw", "container", "lxc", "uml", "qemu-virtio")
    try:
        yield lab.up(LabSpec(name=name, sources=1, link_speed_bps=RATE_BPS, platforms=platforms, jobs=True)).hosts_file
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


def command(hosts: Path, store: Path, platform: str, *words: str) -> list[str]:
    where = ["--hosts", str(hosts), "--store", f"sqlite:///{store}", "--platforms", platform]
    return [*COMMAND, "experiment", "job", *where, "--size", str(SIZE_MIB), "--json", *words]


def nothing_runs(hosts: Path) -> bool:
    told = processes(hosts.parent.name, "uut") + processes(hosts.parent.name, "snk1")
    return not any(word in told for word in ("httpd -f", "s_server", "curl -q"))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_request_takes_what_its_link_takes(hosts: Path, tmp_path: Path, platform: str):
    store = tmp_path / "jobs.sqlite"
    words = ("--jobs", "serve-http,serve-https", "--guests", "2", "--working", "one,one-two")
    done = subprocess.run(command(hosts, store, platform, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line)["job"] for line in done.stdout.splitlines()]
    assert len(records) == 4
    for record in records:
        times_s = [copy["seconds"] for copy in record["copies"]]
        # All that was asked for came over one link: no faster than that, and little later, where TCP filled it.
        assert 0.97 * REQUEST_S * len(times_s) <= max(times_s) <= 1.6 * REQUEST_S * len(times_s), record["requested"]
        assert min(times_s) >= 0.97 * REQUEST_S
        assert all(copy["exit_status"] == 0 and copy["ping_status"] is None for copy in record["copies"])
        assert record["client"]["name"] == "curl"
        assert record["program"]["name"] == ("openssl" if "https" in record["requested"]["job"] else "busybox")
        assert record["in_force"]["tolerances"]["clock_step_s"] > 0
    assert nothing_runs(hosts)
    verified = labconsole("verify", store=store)
    assert verified.returncode == 0, verified.stdout


def test_a_server_that_dies_voids_the_trial_and_the_next_one_is_whole(hosts: Path, tmp_path: Path):
    store = tmp_path / "jobs.sqlite"
    argv = command(hosts, store, "container", "--jobs", "serve-http", "--guests", "2", "--working", "all")
    argv[argv.index(str(SIZE_MIB))] = "20"
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "curl -q -s -S -k" in processes(hosts.parent.name, "snk1"), timeout_s=60, what="requests")
        wait_until(lambda: "/file" in processes(hosts.parent.name, "snk1"), timeout_s=20, what="the files' requests")
        assert lab.execute(hosts.parent.name, "uut", ["pkill", "-f", "httpd -f -p [0-9.]*:8002"]).status == 0
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, err
    listed = labconsole("experiment", "job", "--list", "--json", store=store).stdout.splitlines()
    again, first = (json.loads(line)["job"] for line in listed)
    assert json.loads(out.splitlines()[-1])["job"] == again
    assert again["status"] == "done"
    codes = [reason["code"] for reason in first["verdict"]["reasons"]]
    assert first["verdict"]["status"] == "invalid"
    assert {"job_failed", "guests_missing"} <= set(codes)
    of = {copy["guest"]: copy for copy in first["copies"]}
    assert of["g1"]["exit_status"] == 0
    assert of["g2"]["exit_status"] != 0
    assert "of 20971520 byte" in of["g2"]["output"]


@pytest.mark.parametrize("platform", ["raw", "lxc"])
def test_a_console_that_is_killed_leaves_no_server_and_no_client(hosts: Path, tmp_path: Path, platform: str):
    argv = command(
        hosts, tmp_path / "jobs.sqlite", platform, "--jobs", "serve-https", "--guests", "2", "--working", "all"
    )
    argv[argv.index(str(SIZE_MIB))] = "200"
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "/file" in processes(hosts.parent.name, "snk1"), timeout_s=60, what="the files' requests")
        assert not nothing_runs(hosts)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    wait_until(lambda: nothing_runs(hosts), timeout_s=15, what="the end of servers and clients")
    disks = Path(hosts.parent / "disks")
    wait_until(lambda: not list(disks.glob("labconsole-disks-*")), timeout_s=15, what="the end of disks")
