"""The platforms on a lab's UUT: their lines in hosts.yaml, and their prerequisites."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.guests import containers, domains, guest_image
from labconsole.lab.guests.guest_image import (
    DISK_TOOLS,
    JOB_TOOLS,
    LARGE_JOB_TOOLS,
    LOAD_TOOLS,
    guest_programs,
    write_guest_image,
)
from labconsole.lab.images import debian_kernel
from labconsole.lab.prerequisites import MACHINE_TOOLS, tool
from labconsole.lab.spec import MACHINE_ONLY_PLATFORMS, QEMU_NIC_MODELS, UML, Layout, needs_guest
from labconsole.platforms.base.options import PLACE

MACHINE_CPUS = 2
IMAGE_FILE = "guest.cpio"
DISKS = "disks"
"""In the lab's directory, because a node's own /var/tmp is in memory."""

MACHINE_DISK = Path("/disk")
"""Mount point of the disk of a UUT that is a machine (machines/uut.py), if it has one."""

_TOOLS = {
    **dict.fromkeys((*QEMU_NIC_MODELS, *MACHINE_ONLY_PLATFORMS), MACHINE_TOOLS | LOAD_TOOLS),
    "lxc": {"lxc-start": "lxc", "busybox": "busybox-static", **LOAD_TOOLS},
}
"""Platform to its prerequisites beyond those of every lab: program to Debian package."""


@dataclass(frozen=True)
class GuestFiles:
    """The files that a guest boots."""

    kernel: Path
    initrd: Path


def find_tools(platforms: Sequence[str], *, jobs: bool = False) -> dict[str, str]:
    """Return the programs that these platforms and their guests' jobs need: program to Debian package."""
    known = {**_TOOLS, UML: {**guest_image.tools(), **LOAD_TOOLS}}
    found = {program: package for name in platforms for program, package in known.get(name, {}).items()}
    crews = {**JOB_TOOLS, **LARGE_JOB_TOOLS, "busybox": "busybox-static", "fincore": "util-linux-extra", **DISK_TOOLS}
    return {**found, **crews} if jobs else found


def guest_files(platforms: Sequence[str], directory: Path, *, jobs: bool = False) -> GuestFiles | None:
    """Make the guests' boot files in the lab's directory. Blocking; may fetch the kernel first.

    Raises LabSetupError saying what is missing.
    """
    if not needs_guest(platforms):
        return None
    busybox = tool("busybox")
    if busybox is None:
        raise LabSetupError("the lab needs busybox; run `apt-get install -y busybox-static`")
    kernel = debian_kernel()
    image = directory / IMAGE_FILE
    programs = guest_programs(jobs=jobs)
    write_guest_image(image, busybox=Path(busybox), modules=kernel.modules, programs=programs)
    return GuestFiles(kernel.image, image)


def may_have_disk(directory: Path) -> bool:
    """Whether a UUT that is a machine can have a disk: only if the lab's directory is on one."""
    return tool("mkfs.ext4") is not None and os.major(directory.stat().st_dev) != 0


def has_crew_root(platforms: Sequence[str], *, jobs: bool) -> bool:
    """Whether guests of a crew share a directory, as their root or for the programs of jobs."""
    return "lxc" in platforms or (jobs and UML in platforms)


def check_rights(platforms: Sequence[str]) -> None:
    """Raise LabSetupError for a platform that this user lacks the rights for."""
    if "lxc" in platforms and os.geteuid() != 0:
        raise LabSetupError(
            "platform lxc needs root, because LXC creates control groups; run `sudo labconsole lab up …`"
        )


def spare_cpu() -> int | None:
    """Return the CPU that second guests are pinned to: the last one, or None if there is only one."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[-1] if len(cpus) > 1 else None


def inventory_lines(
    platforms: Sequence[str],
    files: GuestFiles | None,
    layout: Layout,
    directory: Path,
    lab: str,
    *,
    machine: bool = False,
    jobs: bool = False,
    accel: str = "tcg",
) -> list[str]:
    """Build the entries below ``platforms:`` in hosts.yaml. On a UUT that is a machine each names the system to
    boot.
    """
    spare = MACHINE_CPUS - 1 if machine else spare_cpu()
    second = "" if spare is None else f" second_cpu: {spare},"
    known = {
        "raw": "{driver: raw, forwarding: route}",
        "raw-bridge": "{driver: raw, forwarding: bridge}",
        "container": "{driver: container}",
    }
    lines = []
    for name in platforms:
        if name in QEMU_NIC_MODELS:
            assert files is not None
            known[name] = (
                f"{{driver: qemu, nic_model: {QEMU_NIC_MODELS[name]}, accel: {accel},{second}\n"
                f"     kernel: {_quoted(files.kernel)}, initrd: {_quoted(files.initrd)}}}"
            )
        if name == "lxc":
            known[name] = containers.inventory_options(
                directory / containers.DIRECTORY, directory / containers.CREW_ROOT, lab, layout.streams, spare
            )
        if name == UML:
            known[name] = guest_image.inventory_options(
                directory, spare, directory / containers.CREW_ROOT if jobs else None
            )
        if name == "kvm":
            assert files is not None
            known[name] = (
                f"{{driver: qemu, nic_model: virtio, accel: kvm,{second}\n"
                f"     kernel: {_quoted(files.kernel)}, initrd: {_quoted(files.initrd)}}}"
            )
        if name == "xen":
            path = directory / domains.DIRECTORY
            known[name] = domains.inventory_options(path, layout.streams, spare or 0, MACHINE_DISK)
        options = known[name]
        place = MACHINE_DISK if machine else directory / DISKS
        if name != "xen" and PLACE.fullmatch(str(place)):
            options = f"{options.removesuffix('}')},\n     guest_disk: {_quoted(place)}}}"
        if machine and name != "xen":
            options = options.replace("{driver: ", "{boot: linux, driver: ", 1)
        lines.append(f"  {name}: {options}")
    return lines


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
