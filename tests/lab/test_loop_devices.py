"""Files that the kernel makes disks of: what was written reaches them when asked to, and none is left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab.guests import domains
from labconsole.lab.spec import LabSpec, lay_out
from labconsole.platforms.base import crew_disks
from support.requirements import missing, require

MIB = 2**20


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    require("losetup")
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        missing("only root, of a kernel with loop devices, can make one")
    path = tmp_path / "image"
    path.touch()
    os.truncate(path, 4 * MIB)
    yield path
    for device in devices_of(path):
        subprocess.run(["losetup", "--detach", device], check=True)


def devices_of(path: Path) -> list[str]:
    asked = ["losetup", "--noheadings", "--output", "NAME", "--associated", str(path)]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def sectors(device: str) -> tuple[int, int]:
    """Read and written, of 512 bytes each."""
    counts = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return int(counts[2]), int(counts[6])


def test_what_was_written_to_a_block_device_is_on_it_and_out_of_memory_before_a_trial(image: Path) -> None:
    """Guests' disks may lie on one: a file system's own `sync` would be that of /dev."""
    made = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip()
    with open(device, "r+b", buffering=0) as disk:  # open until all is read: the last to close it would bring it there
        disk.write(os.urandom(4 * MIB))
        subprocess.run(["sh", "-c", crew_disks._SETTLE, device], check=True)
        read, written = sectors(device)
        assert written >= 4 * MIB // 512
        disk.seek(0)
        disk.read(MIB)
        assert sectors(device)[0] - read >= MIB // 512


@pytest.mark.parametrize("says", [0, 1])
def test_a_domains_disk_that_cannot_be_told_to_xen_leaves_no_device(image: Path, tmp_path: Path, says: int) -> None:
    layout = lay_out(LabSpec(uut="machine", sources=1), 0)
    domains.write_domains(tmp_path / "x", layout, kernel=Path("/k"), initrd=Path("/i"), disks=Path("/disk"))
    for name, line in (("xenstore-read", f"echo {image}"), ("xenstore-write", f"exit {says}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    told = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin", "XENBUS_PATH": "backend/vbd/1/1"}
    done = subprocess.run([tmp_path / "x" / "block", "add"], env=told, check=False)
    assert (done.returncode, len(devices_of(image))) == (says, 1 - says)
