"""The platforms that a lab's UUT offers: their lines in hosts.yaml, and what has to be there for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.debian_kernel import debian_kernel
from labconsole.lab.guest_image import write_guest_image
from labconsole.lab.prerequisites import MACHINE_TOOLS, tool

DEFAULT = ("raw", "raw-bridge", "container")
_QEMU = {"qemu-virtio": "virtio", "qemu-e1000": "e1000", "qemu-vmxnet3": "vmxnet3"}
KNOWN = (*DEFAULT, *_QEMU)
IMAGE_FILE = "guest.cpio"

LOAD_TOOLS = {"stress": "stress"}
"""What puts load on a guest; into guests with a root file system of their own it is copied when that is made."""

_TOOLS = dict.fromkeys(_QEMU, MACHINE_TOOLS | LOAD_TOOLS)
"""Platform to what it needs beside what every lab does: program to Debian package."""


@dataclass(frozen=True)
class GuestFiles:
    """What a guest boots."""

    kernel: Path
    initrd: Path


def needs_guest(platforms: Sequence[str]) -> bool:
    """Whether one of them boots a kernel of its own."""
    return any(name in _QEMU for name in platforms)


def tools_of(platforms: Sequence[str]) -> dict[str, str]:
    """What these platforms need: program to Debian package."""
    return {program: package for name in platforms for program, package in _TOOLS.get(name, {}).items()}


def guest_files(platforms: Sequence[str], directory: Path) -> GuestFiles | None:
    """Make what the guests boot in the lab's directory. Blocking; the kernel may have to be fetched first.

    Raises LabSetupError saying what is missing.
    """
    if not needs_guest(platforms):
        return None
    busybox = tool("busybox")
    if busybox is None:
        raise LabSetupError("the lab needs busybox; type: apt-get install -y busybox-static")
    kernel = debian_kernel()
    image = directory / IMAGE_FILE
    write_guest_image(image, busybox=Path(busybox), modules=kernel.modules)
    return GuestFiles(kernel.image, image)


def inventory_lines(platforms: Sequence[str], files: GuestFiles | None) -> list[str]:
    """The entries below ``platforms:`` in hosts.yaml."""
    known = {
        "raw": "{driver: raw, forwarding: route}",
        "raw-bridge": "{driver: raw, forwarding: bridge}",
        "container": "{driver: container}",
    }
    lines = []
    for name in platforms:
        if name in _QEMU:
            assert files is not None
            known[name] = (
                f"{{driver: qemu, nic_model: {_QEMU[name]}, accel: tcg,\n"
                f"     kernel: {_quoted(files.kernel)}, initrd: {_quoted(files.initrd)}}}"
            )
        lines.append(f"  {name}: {known[name]}")
    return lines


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
