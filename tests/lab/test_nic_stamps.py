"""Stamps of a NIC by a real driver that has them: e1000e, of a NIC that QEMU emulates, in a machine with its own kernel.

QEMU before 8.0 emulates the registers and no clock behind them: the NIC's clock stands still, and the kernel stamps what
the NIC does not. Just that must be seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab.images import debian_kernel, write_initramfs
from labconsole.lab.prerequisites import SYSTEM_PATH, tool
from labconsole.measure.timing import nic_stamps
from labconsole.wire.clocks import NicClock
from support.requirements import missing, require
from support.stamping_machine import MARK

BOOT_S = 240
MODULES = ("virtio_pci", "virtio_net", "virtio_rng", "9p", "9pnet_virtio", "overlay", "af_packet", "e1000e")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the machine says."""
    require("qemu-system-x86_64", "busybox", "tcpdump")
    initramfs, busybox, qemu = tmp_path_factory.mktemp("machine") / "ram", tool("busybox"), tool("qemu-system-x86_64")
    assert busybox is not None and qemu is not None
    try:
        kernel = debian_kernel()
    except LabSetupError as exc:
        missing(str(exc))
    settings = {
        "LAYERS": "",
        "ADDRESS": "10.0.2.15/24",
        "PROGRAM": "support.stamping_machine",
        "SEARCH_PATH": SYSTEM_PATH,
        "PYTHON_PATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHON": sys.executable,
        "HOME_DIRECTORY": "/root",
        "STATE_HOME": "",
        "CACHE_HOME": "/tmp",
    }
    write_initramfs(initramfs, busybox=Path(busybox), modules=kernel.modules, wanted=MODULES, settings=settings)
    machine = subprocess.Popen(
        [
            *(qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"),
            *("-accel", "tcg", "-cpu", "max,-smap,-xsave", "-smp", "2", "-m", "1024", "-serial", "stdio"),
            *("-kernel", str(kernel.image), "-initrd", str(initramfs), "-append", "console=ttyS0 quiet panic=-1"),
            *("-netdev", "user,id=m,restrict=on", "-device", "virtio-net-pci,netdev=m", "-device", "virtio-rng-pci"),
            *("-netdev", "hubport,id=a,hubid=1", "-device", "e1000e,netdev=a,mac=02:00:00:00:00:01"),
            *("-netdev", "hubport,id=b,hubid=1", "-device", "e1000e,netdev=b,mac=02:00:00:00:00:02"),
            *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert machine.stdout is not None
    heard = []
    with machine:
        killer = subprocess.Popen(["sh", "-c", f"sleep {BOOT_S}; kill {machine.pid}"])
        try:
            for line in machine.stdout:
                heard.append(line)
                if line.startswith(MARK):
                    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
                    assert "failed" not in found, found
                    return found
        finally:
            killer.kill()
            killer.wait()
            machine.kill()
    pytest.fail("the machine said nothing: " + "".join(heard[-30:]))


def test_a_driver_with_stamps_is_set_and_put_back_as_it_was_also_when_the_agent_is_killed(said: dict[str, Any]) -> None:
    assert said["able"] == {"all_received": True, "clock": 0}
    assert said["before"][2] != 1 and said["set"][2] == 1
    assert said["by_libpcap"] == [0, 1, 1], "libpcap asks for stamps of what is sent, too, and does not put it back"
    assert said["undone"] == said["killed"] == said["before"]
    assert said["another"][2] != 1 and said["kept"] == said["another"], "what another program set meanwhile stays"
    place = said["argv"].index("-j")
    assert said["argv"][place + 1] == "adapter_unsynced"


def test_stamps_that_are_not_of_the_nics_clock_are_seen(said: dict[str, Any]) -> None:
    before, after = (NicClock.parse(each) for each in said["clocks"])
    assert said["packets"] == 20
    assert 0 < before.error_ns < 10**8 and 0 < after.error_ns < 10**8
    found = nic_stamps([before, after], None, said["ends_ns"])
    if after.at_ns - before.at_ns < 500_000_000:  # it stood still, over a second and more
        assert found.clock_bound_ns is None and "did not stamp all of them" in (found.reason or "")
    else:
        assert found.reason is None or "did not stamp all of them" in found.reason
