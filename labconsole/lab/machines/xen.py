"""Xen for the machine that is a lab's UUT: the hypervisor that it boots, its tools, and their dependencies.

The tools are not installed anywhere: the unpacked packages are a layer over the machine's root file system.
"""

from __future__ import annotations

import gzip
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.images.debian_kernel import cache_directory
from labconsole.lab.images.debian_packages import unpacked_packages

META_PACKAGE = "xen-system-amd64"
WANTED = re.compile(r"(?:lib)?xen|lib(?:yajl|fdt|nl-|ncurses|tinfo)")
"""Dependencies that the tools cannot do without; not the machine's system (systemd, udev, GRUB)."""

MODULES = ("xenfs", "xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xen_netback", "xen_blkback", "loop")
"""Modules of the first domain's kernel; the first domain is the UUT."""

DOM0_MIB = 1536
DOM0_CPUS = 1
_START_S = 60.0
_DIRECTORIES = ("/run/xen", "/run/xenstored", "/run/lock", "/var/lib/xen", "/var/lib/xenstored", "/var/log/xen/console")


@dataclass(frozen=True)
class Xen:
    """The hypervisor that the machine boots, and the directory that is laid over its root."""

    hypervisor: Path
    layer: Path


def fetch_xen(directory: Path) -> Xen:
    """Fetch Xen as files and unpack the hypervisor into the lab's directory. Blocking. Raises LabSetupError."""
    layer = unpacked_packages(cache_directory().parent / "packages", [META_PACKAGE], WANTED)
    images = sorted(layer.glob("boot/xen-*-amd64.gz")) or sorted(Path("/boot").glob("xen-*-amd64.gz"))
    if not images:
        raise LabSetupError(f"the package {META_PACKAGE} contains no hypervisor; remove {layer} and try again")
    hypervisor = directory / "xen"
    hypervisor.write_bytes(gzip.decompress(images[-1].read_bytes()))
    return Xen(hypervisor, layer)


def build_hypervisor_command_line() -> str:
    """Return the hypervisor's command line. The UUT gets the first CPU for itself; guests get the other."""
    return (
        f"com1=115200,8n1 console=com1 dom0_mem={DOM0_MIB}M,max:{DOM0_MIB}M dom0_max_vcpus={DOM0_CPUS} dom0_vcpus_pin"
    )


def start_tools() -> None:
    """In the machine, start the services that xl needs. Raises LabSetupError with the failed step."""
    for directory in _DIRECTORIES:
        Path(directory).mkdir(parents=True, exist_ok=True)
    programs = sorted(Path("/usr/lib").glob("xen-*/bin/xenstored"))
    if not programs:
        raise LabSetupError("Xen's tools are missing in the machine")
    bin_directory = programs[-1].parent
    _run(["mount", "-t", "xenfs", "xenfs", "/proc/xen"])
    _run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"])  # back ends report their guests' limits there
    _run([str(programs[-1]), "--pid-file", "/run/xenstored.pid"])
    _run([str(bin_directory / "xen-init-dom0")])
    _run([str(bin_directory / "xenconsoled"), "--pid-file=/run/xenconsoled.pid"])


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_S)
    except subprocess.TimeoutExpired as exc:
        raise LabSetupError(f"{argv[0]} did not end within {_START_S:g} s") from exc
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:200] or f"status {done.returncode}"
        raise LabSetupError(f"{argv[0]} failed: {said}")
