"""Jobs on guests' disks: what they write and read is seen at the device, a throttle of the kernel's is felt, and nothing
of a disk is left, whatever becomes of the guests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.guests import guest_image
from labconsole.lab.guests.guest_image import JOB_TOOLS, LARGE_JOB_TOOLS
from labconsole.lab.platforms import DISKS
from labconsole.lab.spec import LabSpec
from support.crew_lab import Nodes, on_lab, on_uut
from support.disk_throttle import BYTES_PER_S, LIMIT, hold_back, limit_of, throttled
from support.live_lab import COMMAND, labconsole, processes, wait_until
from support.requirements import missing, require

MIB = 2**20
MACHINES = [pytest.param(name, marks=pytest.mark.platforms) for name in ("uml", "qemu-virtio")]
EVERY = ["raw", "container", "lxc", *MACHINES]


@pytest.fixture(scope="module")
def guests(lab_home: Path) -> Iterator[lab.LabStatus]:
    require("lxc-start", "busybox", "stress", "mkfs.ext4", guest_image.UML_PROGRAM, *JOB_TOOLS, *LARGE_JOB_TOOLS)
    if os.geteuid() != 0:
        pytest.skip("LXC needs root here")
    name = f"disks{os.getpid()}"
    platforms = ("raw", "container", "lxc", "uml", "qemu-virtio")
    try:
        status = lab.up(LabSpec(name=name, sources=1, link_speed_bps=None, platforms=platforms, jobs=True))
        if os.major(status.hosts_file.stat().st_dev) == 0:
            pytest.skip("the directory for tests is on no disk")
        yield status
    except LabSetupError as exc:
        missing(str(exc))
    finally:
        lab.down(name)


@pytest.fixture
def hosts(guests: lab.LabStatus) -> Iterator[Path]:
    """The lab's inventory; afterwards no disk of a guest is left."""
    yield guests.hosts_file
    wait_until(lambda: left(guests.hosts_file) == [], timeout_s=5, what="a guest's disk was left")


def left(hosts: Path) -> list[str]:
    return sorted(path.name for path in (hosts.parent / DISKS).iterdir())


def name_of(hosts: Path) -> str:
    return hosts.parent.name


def command(hosts: Path, store: Path, platform: str, *words: str) -> list[str]:
    where = ["--hosts", str(hosts), "--store", f"sqlite:///{store}"]
    return [*COMMAND, "experiment", "job", *where, "--platforms", platform, "--json", *words]


def taken(hosts: Path, store: Path, platform: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
    done = labconsole("experiment", "job", "--platforms", platform, "--json", *words, hosts=hosts, store=store)
    assert done.returncode == status, done.stderr
    return [json.loads(line)["job"] for line in done.stdout.splitlines()]


def codes(record: dict[str, Any]) -> list[str]:
    return [each["code"] for each in record["verdict"]["reasons"]]


def with_options(hosts: Path, path: Path, platform: str, options: str) -> Path:
    """An inventory whose platform has these options, too."""
    text = hosts.read_text()
    begin = text.index(f"  {platform}: {{") + len(f"  {platform}: {{")
    path.write_text(text[:begin] + options + ", " + text[begin:])
    return path


@pytest.mark.parametrize("platform", EVERY)
def test_what_a_job_writes_and_reads_is_seen_at_the_device(hosts: Path, tmp_path: Path, platform: str):
    words = ("--jobs", "disk-zero,disk-read", "--size", "16", "--guests", "2", "--working", "all", "--repetitions", "2")
    records = taken(hosts, tmp_path / "jobs.sqlite", platform, *words)
    assert len(records) == 4
    for record in records:
        seen, asked = record["disk"], record["requested"]
        assert record["status"] == "done"
        assert "buffered_by_host" not in codes(record)
        assert asked["disk_mib"] >= 160 + 64
        if asked["job"] == "disk-zero":
            assert seen["job_written_bytes"] == 2 * 10 * 16 * MIB
            assert seen["device_written_bytes"] >= seen["job_written_bytes"]
        else:
            assert seen["job_read_bytes"] == 2 * 16 * MIB
            assert seen["device_read_bytes"] >= seen["job_read_bytes"]
            assert all(each["read_bytes"] >= 16 * MIB for each in seen["guests"])
    verified = labconsole("verify", "--store", f"sqlite:///{tmp_path / 'jobs.sqlite'}")
    assert verified.returncode == 0, verified.stdout


@pytest.mark.alone
@pytest.mark.parametrize("platform", ["lxc", *MACHINES])
def test_a_throttle_of_the_kernels_is_felt_by_who_reads_past_every_cache(hosts: Path, tmp_path: Path, platform: str):
    """64 MiB at 10 MB/s take 6.71 s. User-mode Linux reads through its host's page cache, which reads ahead."""
    if not LIMIT.exists():
        pytest.skip("no control groups of version 1 for devices here")
    limit = limit_of(hosts)
    words = ("--jobs", "disk-read", "--size", "64")
    with throttled(limit):
        running = subprocess.Popen(command(hosts, tmp_path / "x.sqlite", platform, *words), stdout=subprocess.PIPE)
        try:
            hold_back(name_of(hosts), platform, limit)
            out, _ = running.communicate(timeout=120)
        finally:
            running.kill()
            running.wait()
    (record,) = [json.loads(line)["job"] for line in out.splitlines()]
    seconds, most_s = record["copies"][0]["seconds"], 6.711
    if platform == "uml":
        read_bytes = record["disk"]["guests"][0]["read_bytes"]
        assert 64 * MIB <= read_bytes < 90 * MIB
        most_s = read_bytes / BYTES_PER_S  # what is read ahead of the end may be under way then
    assert 0.95 * 6.711 <= seconds <= 1.05 * most_s
    assert "buffered_by_host" not in codes(record)


@pytest.mark.alone
def test_what_others_write_to_the_device_is_told_and_not_taken_off(hosts: Path, tmp_path: Path):
    words = ("--jobs", "disk-mixed", "--size", "4")
    running = subprocess.Popen(command(hosts, tmp_path / "x.sqlite", "lxc", *words), stdout=subprocess.PIPE)
    try:
        wait_until(lambda: "fio --name=mixed" in processes(name_of(hosts), "uut"), timeout_s=60, what="the job")
        other = ["dd", "if=/dev/zero", f"of={hosts.parent / 'other'}", "bs=1M", "count=200", "conv=fsync"]
        subprocess.run(other, check=True, capture_output=True)
        out, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
        (hosts.parent / "other").unlink(missing_ok=True)
    (record,) = [json.loads(line)["job"] for line in out.splitlines()]
    seen = record["disk"]
    assert seen["job_written_bytes"] > 0
    assert seen["device_written_bytes"] >= seen["job_written_bytes"] + 200 * MIB
    (note,) = [note for note in record["influences"] if note["kind"] == "disk_shared"]
    assert note["written_bytes"] == seen["device_written_bytes"] - seen["job_written_bytes"]


@pytest.mark.alone
def test_the_page_cache_of_a_guest_with_little_memory_hides_little_of_bonnie(hosts: Path, tmp_path: Path):
    """It reads its files of twice the memory two times, and more in between."""
    words = ("--jobs", "disk-bonnie", "--size", "128")
    (held,) = taken(hosts, tmp_path / "jobs.sqlite", "lxc", "--memory-mib", "64", *words)
    assert held["program"]["sha256"]
    assert held["disk"]["device_read_bytes"] >= 2 * 64 * MIB
    assert "buffered_by_host" not in codes(held)
    (free,) = taken(hosts, tmp_path / "jobs.sqlite", "lxc", *words)
    assert free["disk"]["device_read_bytes"] < held["disk"]["device_read_bytes"]
    assert "read_from_memory" in [note["kind"] for note in free["influences"]]


@pytest.mark.platforms
def test_a_guest_whose_disk_is_in_the_hosts_memory_is_found_out(hosts: Path, tmp_path: Path):
    """User-mode Linux says that what is in its host's page cache is on the disk."""
    lying = with_options(hosts, tmp_path / "hosts.yaml", "uml", "disk_cache: writeback")
    (record,) = taken(lying, tmp_path / "jobs.sqlite", "uml", "--jobs", "disk-zero", "--size", "16")
    assert "buffered_by_host" in codes(record)
    assert record["attestation"]["disk_cache"] == "writeback"
    assert record["disk"]["device_written_bytes"] < 160 * MIB


@pytest.mark.parametrize("platform", ["raw", "lxc", *MACHINES])
def test_two_copies_in_one_guest_have_files_of_their_own(hosts: Path, tmp_path: Path, platform: str):
    words = ("--jobs", "disk-read", "--size", "16", "--guests", "2", "--working", "one-two")
    (record,) = taken(hosts, tmp_path / "jobs.sqlite", platform, *words)
    assert [copy["exit_status"] for copy in record["copies"]] == [0, 0, 0]
    assert record["disk"]["job_read_bytes"] == 48 * MIB
    assert record["disk"]["device_read_bytes"] >= 48 * MIB


PLAN = """\
plan: no-room
platforms: [raw]
settle_s: 0
order: as-listed
job:
  jobs: [{job: disk-read, size: 8}, {job: wait, size: 1}]
  guests: [200, 1]
  disk_mib: DISK_MIB
"""


def test_guests_without_room_on_disk_have_a_record_that_says_so_and_the_plan_goes_on(hosts: Path, tmp_path: Path):
    """For two hundred there is not enough, whatever their jobs, for one there is."""
    free = os.statvfs(hosts.parent)
    share_mib = free.f_bavail * free.f_frsize // MIB // 100
    (tmp_path / "plan.yaml").write_text(PLAN.replace("DISK_MIB", str(share_mib)))
    store = tmp_path / "jobs.sqlite"
    done = labconsole("replay", str(tmp_path / "plan.yaml"), "--json", hosts=hosts, store=store)
    assert done.returncode != 0
    told = [json.loads(line) for line in done.stdout.splitlines()]
    taken = [each["job"] for each in told if each["event"] == "job_finished"]
    assert sorted((each["requested"]["guests"], each["requested"]["job"]) for each in taken) == [
        (guests, job) for guests in (1, 200) for job in ("disk-read", "wait")
    ]
    for record in taken:
        codes = [each["code"] for each in record["verdict"]["reasons"]]
        assert ("no_space" in codes, record["status"] == "failed") == ((record["requested"]["guests"] == 200,) * 2)
        assert "no_space" not in codes or "no room on disk" in record["failure"]


def test_a_disk_that_is_too_small_for_the_job_is_refused_before_anything_is_touched(hosts: Path, tmp_path: Path):
    done = labconsole(
        "experiment",
        "job",
        "--platforms",
        "raw",
        "--jobs",
        "disk-read",
        "--size",
        "100",
        "--disk-mib",
        "90",
        hosts=hosts,
        store=tmp_path / "jobs.sqlite",
    )
    assert done.returncode == 2
    assert "is too little for disk-read (100 MiB), got 90; allowed: 169 or more" in done.stderr


def test_a_place_in_memory_is_refused(hosts: Path, tmp_path: Path):
    text = hosts.read_text().replace(f"guest_disk: '{hosts.parent / DISKS}'", "guest_disk: /run")
    (tmp_path / "hosts.yaml").write_text(text)
    done = labconsole(
        "experiment",
        "job",
        "--platforms",
        "raw",
        "--jobs",
        "disk-read",
        hosts=tmp_path / "hosts.yaml",
        store=tmp_path / "jobs.sqlite",
    )
    assert done.returncode != 0
    assert "/run on the UUT is on tmpfs, below which there is no disk" in done.stderr


def test_a_console_that_is_killed_leaves_no_disk(hosts: Path, tmp_path: Path):
    words = ("--jobs", "disk-mixed", "--size", "60", "--guests", "2", "--working", "all")
    running = subprocess.Popen(command(hosts, tmp_path / "x.sqlite", "lxc", *words), stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: "fio --name=mixed" in processes(name_of(hosts), "uut"), timeout_s=60, what="the job")
        assert len(left(hosts)) == 1
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    wait_until(lambda: left(hosts) == [], timeout_s=10, what="the disks")
    wait_until(lambda: "fio" not in processes(name_of(hosts), "uut"), timeout_s=10, what="the job")


@pytest.mark.parametrize("platform", ["container", "lxc", *MACHINES])
@pytest.mark.parametrize("end", ["restore", "kill"])
def test_no_disk_of_a_crew_is_left(guests: lab.LabStatus, hosts: Path, platform: str, end: str):
    async def work(there: Nodes) -> None:
        driver = there.driver(platform)
        crew = await driver.prepare_crew(there.uut, there.wanted(3, disk_mib=80))
        below = crew.disks
        assert below is not None
        assert len(left(hosts)) == 1
        for member in crew.members:
            await member.ask(there.uut, f"cd {member.disk} && busybox dd if=/dev/zero of=z bs=1M count=8 conv=fsync")
        if platform in ("uml", "qemu-virtio"):
            assert len(below.files) == 3
        else:
            assert on_uut(guests, f"cat {hosts.parent / DISKS}/*/g2/z | wc -c").strip() == str(8 * MIB)
        if end == "restore":
            await driver.restore(there.uut)
        else:
            on_uut(guests, f"kill -9 {there.uut.hello.pid}")
            await there.uut.wait_lost()

    on_lab(guests, work)
