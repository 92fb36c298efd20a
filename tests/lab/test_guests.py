"""The contract of every platform with guests, held to the real thing: LXC's containers and QEMU's machines.

What one run needs of another kind of guest is in test_platforms.py, which takes longer and is run by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from support.guest_labs import begun, lab_with, on_uut, refused, taken
from support.live_lab import COMMAND, lab_state, labconsole, processes, wait_until

SLOWER = pytest.param("qemu-virtio", marks=pytest.mark.platforms)
BOTH = pytest.mark.parametrize("platform", ["lxc", "qemu-virtio"])
KILLS = {"lxc": "lxc-stop -P {path} -n {first} -k", "qemu-virtio": "pkill -9 qemu-system"}


@pytest.fixture(scope="module")
def guests(lab_home: Path) -> Iterator[lab.LabStatus]:
    with lab_with(("raw", "lxc", "qemu-virtio")) as status:
        yield status


@pytest.fixture
def store(lab_home: Path) -> Path:
    return lab_home / "guests.sqlite"


def names(status: lab.LabStatus) -> dict[str, str]:
    name = status.spec.name
    return {"path": str(status.directory / "lxc"), "first": f"{name}-first", "second": f"{name}-second"}


def altered(status: lab.LabStatus, directory: Path, old: str, new: str) -> Path:
    """The lab's hosts.yaml with something else in it."""
    text = status.hosts_file.read_text()
    assert old in text
    hosts = directory / "hosts.yaml"
    hosts.write_text(text.replace(old, new))
    return hosts


@pytest.mark.alone
@BOTH
def test_a_guest_forwards_without_loss_is_attested_and_leaves_nothing(guests, store: Path, platform: str) -> None:
    before = lab_state(guests.spec.name)
    for size in ("64", "1500") if platform == "lxc" else ("64",):  # the rest: test_platforms.py
        record = taken(guests, store, platform, "--target", "1Mbit", "--frame-size", size)
        assert record["total"]["loss_packets"] == 0
        hops = {hop["hop"]: hop["packets"] for hop in record["streams"][0]["ledger"]}
        assert hops["to_guest"] == hops["from_guest"] == hops["generator"]
    attested = record["environment"]["platform"]
    assert attested["guests"] == [names(guests)["first"] if platform == "lxc" else "first"]
    assert attested["guest_kernel"]
    if platform == "qemu-virtio":
        assert (attested["nic_model"], attested["accel"], attested["vcpus"]) == ("virtio", "tcg", 1)
        assert attested["host_cpus"]
    assert lab_state(guests.spec.name) == before


@pytest.mark.alone
@BOTH
def test_a_second_guest_is_loaded_beside_the_first_and_both_are_attested(guests, store: Path, platform: str) -> None:
    before = lab_state(guests.spec.name)
    record = taken(guests, store, platform, "--target", "1Mbit", "--background", "light", "--duration", "3")
    beside, second = record["background"], names(guests)["second"] if platform == "lxc" else "second"
    assert (beside["guest"], beside["achieved"]["workers"]) == (second, 1)
    assert beside["achieved"]["guest_cpu_s"] > 0
    assert beside["achieved"]["host_cpu_s"] > 0
    assert beside["cpus"] == (str(sorted(os.sched_getaffinity(0))[-1]) if len(os.sched_getaffinity(0)) > 1 else None)
    attested = record["environment"]["platform"]
    assert len(attested["guests"]) == 2
    assert second in attested["guests"]
    assert lab_state(guests.spec.name) == before


@pytest.mark.alone
def test_what_is_too_much_for_a_guest_is_lost_before_it_and_placed_there(guests, store: Path) -> None:
    (stream,) = taken(guests, store, "qemu-virtio", "--target", "max")["streams"]
    assert stream["loss_ratio"] > 0.1
    lost = {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}
    assert lost["to_guest"] > 0.9 * stream["loss_packets"]
    assert lost["to_guest"] == stream["loss_packets"] - sum(
        lost[hop] for hop in ("from_guest", "uut_out", "sink_nic", "capture")
    )
    assert stream["unplaced_packets"] == 0


@BOTH
def test_a_guest_that_dies_in_mid_run_voids_the_run_and_leaves_nothing(guests, store: Path, platform: str) -> None:
    before = lab_state(guests.spec.name)
    process = begun(guests, store, platform)
    lab.execute(guests.spec.name, "uut", KILLS[platform].format(**names(guests)).split())
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    (record,) = [json.loads(line) for line in out.splitlines()]
    assert record["verdict"]["status"] == "invalid"
    told = [reason["detail"] for reason in record["verdict"]["reasons"] if reason["code"] == "guest_changed"]
    assert told
    assert "guest" in told[0]
    wait_until(lambda: lab_state(guests.spec.name) == before, timeout_s=10, what="something was left on a node")


@pytest.mark.parametrize("platform", ["lxc", SLOWER])
def test_a_guest_is_gone_with_a_console_that_is_killed(guests, lab_home: Path, platform: str) -> None:
    before = lab_state(guests.spec.name)
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--platform",
            platform,
            "--target",
            "1Mbit",
            "--duration",
            "30",
            "--background",
            "idle",
            "--hosts",
            str(guests.hosts_file),
            "--store",
            str(lab_home / "killed.sqlite"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shown = "bin/start" if platform == "lxc" else "qemu-system"
    wait_until(lambda: shown in processes(guests.spec.name, "uut"), timeout_s=60, what="no guest was started")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: lab_state(guests.spec.name) == before, timeout_s=20, what="something was left on a node")


@pytest.mark.alone
def test_a_container_that_runs_already_is_measured_and_left_running(guests, store: Path) -> None:
    told = names(guests)
    on_uut(guests, "lxc-start -P {path} -n {first} -d".format(**told))
    try:
        record = taken(guests, store, "lxc", "--target", "1Mbit")
        assert record["total"]["loss_packets"] == 0
        assert not [each for each in record["influences"] if each["kind"] == "guests"], "it is nobody else's"
        assert on_uut(guests, "lxc-info -P {path} -n {first} -sH".format(**told)).strip() == "RUNNING"
    finally:
        on_uut(guests, "lxc-stop -P {path} -n {first} -k".format(**told))


def test_a_second_container_that_runs_where_there_is_to_be_none_is_refused(guests, store: Path) -> None:
    told = names(guests)
    on_uut(guests, "lxc-start -P {path} -n {second} -d".format(**told))
    try:
        said = refused(guests.hosts_file, store, "lxc")
        assert "{second} runs next to {first}, and {second} may run only with a background load".format(**told) in said
    finally:
        on_uut(guests, "lxc-stop -P {path} -n {second} -k".format(**told))


def test_a_guest_that_does_not_boot_is_told_with_its_last_words(guests, store: Path, tmp_path: Path) -> None:
    before = lab_state(guests.spec.name)
    text = guests.hosts_file.read_text()
    kernel = text.partition("kernel: '")[2].partition("'")[0]
    hosts = altered(guests, tmp_path, kernel, "/etc/hostname")
    assert "guest first ended with status" in refused(hosts, store, "qemu-virtio")
    config = guests.directory / "lxc" / names(guests)["first"] / "config"
    told = config.read_text()
    try:
        config.write_text(told.replace("/bin/start", "/bin/nothing"))
        assert "expected: running" in refused(guests.hosts_file, store, "lxc")
    finally:
        config.write_text(told)
    assert lab_state(guests.spec.name) == before


@pytest.mark.platforms
def test_a_guest_that_boots_but_does_not_forward_is_told_and_ended(guests, store: Path) -> None:
    before = lab_state(guests.spec.name)
    config = guests.directory / "lxc" / names(guests)["first"] / "config"
    told = config.read_text()
    try:
        config.write_text(told.replace("ip_forward = 1", "ip_forward = 0"))
        assert "no test frame of stream s1 reached its sink" in refused(guests.hosts_file, store, "lxc")
    finally:
        config.write_text(told)
    assert lab_state(guests.spec.name) == before


@pytest.mark.parametrize("platform", ["raw", "lxc", SLOWER])
def test_a_nic_in_somebody_elses_bridge_is_refused_and_left_there(guests, store: Path, platform: str) -> None:
    on_uut(guests, "ip link add theirs type bridge && ip link set eth1 master theirs")
    try:
        said = refused(guests.hosts_file, store, platform)
        assert "eth1 is a port of theirs, which something else has set up" in said
        assert "master theirs" in on_uut(guests, "ip -o link show eth1")
        assert "lcb" not in on_uut(guests, "ip -o link")
    finally:
        on_uut(guests, "ip link del theirs")


def test_what_a_half_started_guest_left_is_in_the_way_and_a_check_clears_it(guests, store: Path) -> None:
    on_uut(guests, "ip link add lcbi1 type bridge")
    try:
        said = refused(guests.hosts_file, store, "qemu-virtio")
        assert "interface lcbi1 already exists and does not belong to this session" in said
        labconsole("check", "--fix", "--brief", hosts=guests.hosts_file, store=store)
        assert "lcbi1" not in on_uut(guests, "ip -o link")
    finally:
        lab.execute(guests.spec.name, "uut", ["ip", "link", "del", "lcbi1"])


def test_what_may_not_be_run_or_is_not_there_is_named(guests, store: Path) -> None:
    on_uut(guests, ": > /tmp/no; mount --bind /tmp/no /usr/bin/lxc-start && mount -t tmpfs none /dev/net")
    try:
        assert "no permission to run lxc-start on this node" in refused(guests.hosts_file, store, "lxc")
        assert "taps are not available on this node: /dev/net/tun: No such file" in refused(
            guests.hosts_file, store, "qemu-virtio"
        )
    finally:
        on_uut(guests, "umount /usr/bin/lxc-start; umount /dev/net; rm /tmp/no")


def test_containers_of_a_lab_are_gone_with_it_their_control_groups_as_well(guests) -> None:
    told = names(guests)
    on_uut(guests, "lxc-start -P {path} -n {first} -d".format(**told))
    lab.down(guests.spec.name)
    assert not guests.directory.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/lxc.*.{told['first']}"))
