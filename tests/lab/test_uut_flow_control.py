"""Flow control as a factor on NICs whose driver has it: set, read back with the platform, and as before whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, records, wait_until
from support.requirements import require

NICS = ("eth1", "eth5")
PLATFORMS = """
  raw-on: {driver: raw, flow_control: on}
  raw-off: {driver: raw, flow_control: off}
"""
OFF, ON = (dict.fromkeys(NICS, {"rx": on, "tx": on}) for on in (False, True))


def with_platforms(status: lab.LabStatus, directory: Path) -> Path:
    """The lab's hosts.yaml with two platforms that differ in flow control alone."""
    directory.mkdir()
    path = directory / "hosts.yaml"
    head, found, rest = status.hosts_file.read_text().partition("platforms:\n")
    assert found
    path.write_text(head + found + PLATFORMS.lstrip("\n") + rest)
    return path


@pytest.fixture(scope="module")
def machine(lab_home: Path) -> Iterator[lab.LabStatus]:
    require("qemu-system-x86_64", "busybox", "apt-get", "dpkg-deb", "ip", "tc", "nft", "tcpdump", "ethtool")
    name = f"nic{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, uut="machine", nic="e1000", platforms=("raw",)))
    lab.down(name)


@pytest.fixture(scope="module")
def hosts(machine: lab.LabStatus, lab_home: Path) -> Path:
    return with_platforms(machine, lab_home / "nics")


def settings(status: lab.LabStatus) -> list[str]:
    """What ethtool says of each NIC."""
    said = [lab.execute(status.spec.name, "uut", ["ethtool", "-a", nic], timeout_s=30) for nic in NICS]
    assert all("Autonegotiate" in each.stdout for each in said), said
    return [each.stdout for each in said]


def words(hosts: Path, platform: str, duration_s: int) -> list[str]:
    load = ["--target", "700kbit", "--duration", str(duration_s), "--sources", "1"]
    return ["run", "--json", "--hosts", str(hosts), "--platform", platform, *load]


@pytest.mark.alone
@pytest.mark.platforms
@pytest.mark.slow
@pytest.mark.parametrize(("platform", "seen"), [("raw-off", OFF), ("raw-on", ON)])
def test_it_is_set_for_the_run_and_as_before_afterwards(
    machine: lab.LabStatus, hosts: Path, lab_home: Path, platform: str, seen: dict[str, dict[str, bool]]
) -> None:
    before = settings(machine)
    (record,) = records(labconsole(*words(hosts, platform, 2), store=lab_home / "nics.sqlite"))
    assert record["environment"]["platform"]["flow_control"] == seen
    assert (record["verdict"]["status"] == "invalid", record["total"]["loss_packets"]) == (False, 0), record["verdict"]
    assert settings(machine) == before


@pytest.mark.alone
@pytest.mark.platforms
@pytest.mark.slow
def test_a_console_that_is_killed_leaves_it_as_it_was(machine: lab.LabStatus, hosts: Path, lab_home: Path) -> None:
    before = settings(machine)
    argv = [*COMMAND, *words(hosts, "raw-off", 120), "--store", str(lab_home / "nics.sqlite")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        wait_until(lambda: settings(machine) != before, timeout_s=120, what="flow control was never set")
        os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: settings(machine) == before, timeout_s=60, what="flow control was not put back")


@pytest.mark.slow
def test_a_nic_that_has_none_is_refused_in_words(lab_home: Path) -> None:
    name = f"nonic{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, platforms=("raw",)))
    try:
        hosts = with_platforms(status, lab_home / "none")
        done = labconsole(*words(hosts, "raw-off", 1), store=lab_home / "nics.sqlite")
        assert done.returncode != 0 and "the driver of eth1 has no flow control to set" in done.stderr, done
        assert "Traceback" not in done.stderr
    finally:
        lab.down(name)
