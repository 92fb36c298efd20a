"""Programs of this machine for a guest that has no distribution of its own: the file, and the libraries it needs.

Debian has no static ``stress``. A file of the same version with the libraries that it was linked with on this machine
is the same program; a rebuilt one would not be.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.prerequisites import tool

LOAD_TOOLS = {"stress": "stress"}
"""Programs that put load on a guest: program to Debian package."""

JOB_TOOLS = {
    "pi": "pi",
    "mbw": "mbw",
    "stress-ng": "stress-ng",
    "bonnie++": "bonnie++",
    "iperf": "iperf",
    "openssl": "openssl",
    "ip": "iproute2",
}
"""Programs of guests' jobs, if the lab's options include them. The rest (bc, dd, ping, sha256sum) is in busybox."""

CALLED = {"ip": "iproute2"}
"""A program's name in a guest if busybox has one of the same name: busybox's ip takes one route at a time."""

LARGE_JOB_TOOLS = {"fio": "fio"}
"""Additional programs for guests that see a directory of the UUT's: with its libraries this one is 80 MB, too much for
an image.
"""

DISK_TOOLS = {"mkfs.ext4": "e2fsprogs"}
"""Programs that make the file systems on guests' disks, on the UUT."""

_LDD_S = 20.0
_LIBRARY = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"^\s+(\S+) => not found$", re.MULTILINE)


def guest_programs(*, jobs: bool) -> tuple[str, ...]:
    """Return a guest's programs other than busybox."""
    return (*LOAD_TOOLS, *(JOB_TOOLS if jobs else ()))


def load_with_libraries(name: str) -> dict[str, bytes]:
    """Return each file's path in the guest, without the first slash, and its content; the program is bin/NAME, or has
    its name in CALLED.
    """
    program = tool(name)
    if program is None:
        raise LabSetupError(f"{name} is not installed on this machine")
    try:
        done = subprocess.run(
            ["ldd", program],
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LDD_S,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabSetupError(f"cannot determine which libraries {program} needs: {exc}") from exc
    missing = _MISSING.findall(done.stdout)
    if missing:
        raise LabSetupError(f"{program} does not run here: {', '.join(missing)} is missing")
    static = "not a dynamic executable" in done.stdout + done.stderr or "statically linked" in done.stdout
    if done.returncode != 0 and not static:
        raise LabSetupError(f"cannot determine which libraries {program} needs: {done.stderr.strip()[-200:]}")
    files = {path.lstrip("/"): Path(path).read_bytes() for path in ([] if static else _LIBRARY.findall(done.stdout))}
    return {f"bin/{CALLED.get(name, name)}": Path(program).read_bytes(), **files}


def applets(busybox: Path) -> list[str]:
    """Return the names under which this busybox can be called."""
    try:
        done = subprocess.run(
            [str(busybox), "--list"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LDD_S
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabSetupError(f"{busybox} does not run: {exc}") from exc
    found = [name for name in done.stdout.split() if name != "busybox"]
    if done.returncode != 0 or "sh" not in found:
        raise LabSetupError(f"{busybox} does not list its applets")
    return found


def parents(files: Mapping[str, object]) -> list[str]:
    """Return the directories that these files need, each after its parent."""
    found = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    return sorted(found, key=lambda name: (name.count("/"), name))
