"""The disk of a UUT that is a machine: a file on a disk of the lab's own machine, and the place of its guests' disks.

The machine's root is in memory. Without this disk, jobs that need one are refused with a message.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.platforms import may_have_disk
from labconsole.lab.prerequisites import tool

FILE = "uut-disk.img"
SIZE_BYTES = 8 * 2**30
"""Size of the disk; the file takes only as much as is written to it."""

_BYTES_PER_FILE = 65536
_MAKE_S = 60.0


def write_disk(directory: Path, images: Mapping[str, int] | None = None) -> None:
    """Make the disk in the lab's directory, if allowed there. ``images``: names and sizes in bytes of guests' disks,
    which are files on it. Blocking. Raises LabSetupError.
    """
    path = directory / FILE
    if not may_have_disk(directory) or path.exists():
        return
    with tempfile.TemporaryDirectory(dir=directory, prefix="uut-disk-") as name:
        for image, size_bytes in (images or {}).items():
            _make(Path(name) / image, size_bytes)
        _make(path, SIZE_BYTES, "-d", name)


def _make(path: Path, size_bytes: int, *extra: str) -> None:
    with path.open("xb") as file:
        file.truncate(size_bytes)
    # Nothing is left for the machine to initialize later.
    options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    each = ["-b", "4096", "-m", "0", "-i", str(_BYTES_PER_FILE), "-E", options]
    argv = [tool("mkfs.ext4") or "mkfs.ext4", "-q", "-F", *each, *extra, str(path)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MAKE_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabSetupError(f"no file system could be made for the machine's disk: {exc}") from exc
    if done.returncode != 0:
        raise LabSetupError(f"no file system could be made for the machine's disk: {done.stderr.strip()[-200:]}")


def disk_options(directory: Path) -> list[str]:
    """Return QEMU's options for the disk, which bypass the page cache of the lab's machine."""
    path = directory / FILE
    if not path.exists():
        return []
    file = str(path).replace(",", ",,")
    return ["-drive", f"if=none,id=disk,format=raw,cache=none,file={file}", "-device", "virtio-blk-pci,drive=disk"]
