"""A lab in a QEMU machine: a real pktgen under a real Debian kernel, in the same nodes."""

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
from labconsole.lab.images import debian_kernel, load_modules
from labconsole.lab.machines.whole_lab import MODULES
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.pktgen, pytest.mark.slow]

SEND = """
cd /proc/net/pktgen
echo "add_device eth1" > kpktgend_0
for parameter in "count 50000" "pkt_size 60" "delay {delay_ns}" "dst_min 198.19.1.1" "dst_max 198.19.1.1" \\
    "src_min 198.18.1.1" "src_max 198.18.1.1" "dst_mac {mac}"; do
  echo "$parameter" > eth1
done
echo start > pgctrl
cat eth1
echo rem_device_all > kpktgend_0
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.LabStatus]:
    """One machine for all tests here: its boot is what takes the time."""
    require("qemu-system-x86_64", "busybox", "apt-get", "dpkg-deb", "ip", "tc", "nft", "tcpdump", "ssh")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("machine")))
        name = f"m{os.getpid()}"
        yield lab.up(LabSpec(name=name, sources=1, generator="pktgen", loss={"uut/out": 0.0}))
        lab.down(name)


def shell(status: lab.LabStatus, node: str, script: str) -> str:
    result = lab.execute(status.spec.name, node, ["sh", "-c", script], timeout_s=60)
    assert result.status == 0, result.stderr
    return result.stdout


def received(status: lab.LabStatus) -> int:
    return int(json.loads(shell(status, "snk1", "ip -s -j link show dev eth1"))[0]["stats64"]["rx"]["packets"])


def test_every_node_has_pktgen_in_its_own_network(machine: lab.LabStatus) -> None:
    assert machine.kernel != os.uname().release
    for node in ("src1", "uut", "snk1"):
        assert "pgctrl" in shell(machine, node, "ls /proc/net/pktgen").split()
    result = subprocess.run(
        ["ssh", "-F", str(machine.ssh_config), f"{machine.spec.name}-src1", "hostname; cat; exit 7"],
        input=b"\0binary\xff",
        capture_output=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (7, b"src1\n\0binary\xff")


def test_fifty_thousand_frames_of_pktgen_pass_the_uut(machine: lab.LabStatus) -> None:
    shell(
        machine,
        "uut",
        "sysctl -qw net.ipv4.conf.eth1.forwarding=1 net.ipv4.conf.eth5.forwarding=1;"
        "ip route replace 198.18.1.1 dev eth1; ip route replace 198.19.1.1 dev eth5",
    )
    mac = shell(machine, "uut", "cat /sys/class/net/eth1/address").strip()
    before = received(machine)
    result = shell(machine, "src1", SEND.format(delay_ns=150_000, mac=mac))
    assert "pkts-sofar: 50000  errors: 0" in result
    assert received(machine) - before == 50_000
    assert lab.read_loss_counts(machine.spec.name) == {"uut/eth5": {"seen_packets": 50_000, "dropped_packets": 0}}


def test_kill_9_of_the_supervisor_ends_the_machine_and_down_tidies(machine: lab.LabStatus) -> None:
    known = LabFile.read(machine.directory)
    assert known is not None
    assert known.init.alive
    os.kill(known.supervisor.pid, signal.SIGKILL)
    assert known.init.signal_and_wait(0, 10.0)
    assert lab.status(machine.spec.name).running is False
    assert lab.down(machine.spec.name)
    assert not machine.directory.exists()


def test_a_machine_that_does_not_boot_says_what_it_said_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("busybox", "apt-get", "dpkg-deb")
    state, programs = tmp_path / "state", tmp_path / "bin"
    state.mkdir()
    programs.mkdir()
    broken = programs / "qemu-system-x86_64"
    broken.write_text("#!/bin/sh\necho no such accelerator >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(LabSetupError, match=r"the machine ended after .*its log ends: no such accelerator"):
        lab.up(LabSpec(name=f"n{os.getpid()}", sources=1, generator="pktgen"))
    assert list(state.iterdir()) == []


def test_modules_come_after_what_they_depend_on() -> None:
    require("apt-get", "dpkg-deb")
    names = [name for name, _ in load_modules(debian_kernel().modules, MODULES)]
    assert names.index("9pnet") < names.index("9p")
    assert names.index("virtio_pci_modern_dev") < names.index("virtio_pci")
    assert names.index("pktgen") >= 0
    with pytest.raises(LabSetupError, match="no module nonsense"):
        load_modules(debian_kernel().modules, ["nonsense"])
