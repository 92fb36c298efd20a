"""A UUT that is a QEMU machine, as far as every test run can afford it: one boot, one run, one death."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.lab.state import LabFile
from support.live_lab import labconsole, records, wait_until
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.slow]


def machines(directory: Path) -> list[str]:
    """The command lines of the QEMU processes of a lab."""
    shown = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if "qemu-system" in line.split(" ")[0] and str(directory) in line]


def test_a_machine_forwards_with_its_own_kernel_and_ends_with_the_process_that_holds_the_lab(lab_home: Path) -> None:
    require("qemu-system-x86_64", "busybox", "stress", "apt-get", "dpkg-deb")
    name = f"raw{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, uut="machine", platforms=("raw",)))
    try:
        words = ("run", "--platform", "raw", "--target", "700kbit", "--duration", "1", "--json")
        (record,) = records(labconsole(*words, hosts=status.hosts_file, store=lab_home / "machine.sqlite"))
        assert record["verdict"]["status"] != "invalid", record["verdict"]
        assert record["total"]["loss_packets"] == 0
        assert record["environment"]["platform"]["machine"] == {"boot": "linux", "emulated": True, "accel": "tcg"}
        flat_out = ("run", "--platform", "raw", "--target", "max", "--frame-size", "64", "--duration", "1")
        done = labconsole(
            *flat_out, "--drop-reasons", "on", "--json", hosts=status.hosts_file, store=lab_home / "m.sqlite"
        )
        (record,) = records(done)
        (lost,) = (hop for hop in record["streams"][0]["ledger"] if hop["hop"] == "uut_in")
        kernels = {name: packets for name, packets in lost["drops"].items() if ".kernel." in name}
        if os.geteuid() == 0:  # programs in the kernel are for root
            assert kernels == {"uut-host/nic-eth1.kernel.FULL_RING@tun_net_xmit": lost["lost_packets"]}
            assert lost["lost_packets"] > 0
        known = LabFile.read(status.directory)
        assert known is not None
        assert len(machines(status.directory)) == 1
        os.kill(known.supervisor.pid, signal.SIGKILL)
        wait_until(lambda: not machines(status.directory), timeout_s=20, what="the machine outlives its lab")
    finally:
        lab.down(name)
