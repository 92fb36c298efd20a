"""Files for a User-mode Linux in a lab: Debian's kernel of that kind, an image for it, and on some processors a shim.

The shim (``uml_registers.c``) is compiled here if the processor needs it, because no package has it.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.guests.guest_image import write_guest_image
from labconsole.lab.guests.programs import guest_programs
from labconsole.lab.prerequisites import tool
from labconsole.platforms.drivers.uml import LAB_IMAGE

PROGRAM = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")
IMAGE_FILE = LAB_IMAGE
SHIM_FILE = "uml_registers.so"
SHIM_SOURCE = Path(__file__).with_name("uml_registers.c")
TUN = Path("/dev/net/tun")

_CPUINFO = Path("/proc/cpuinfo")
_RELEASE = re.compile(r"\d{1,3}\.\d{1,3}[\w.+~-]{0,60}")
_RUN_S = 60.0


def needs_shim(cpuinfo: str | None = None) -> bool:
    """Whether the processor has more registers than Debian's UML saves: those of AMX alone exceed it."""
    text = _CPUINFO.read_text(errors="replace") if cpuinfo is None else cpuinfo
    return any("amx_tile" in line.split() for line in text.splitlines() if line.startswith("flags"))


def tools() -> dict[str, str]:
    """Return the programs to install: program to Debian package."""
    wanted = {PROGRAM: "user-mode-linux", "busybox": "busybox-static", "unshare": "util-linux"}
    # Not gcc alone: without recommended packages that comes without the C library's headers.
    return {**wanted, "cc": "build-essential"} if needs_shim() else wanted


def transport() -> str:
    """Return the type of its NICs: taps, which the ledger can count, or sockets on the UUT's NICs if no tap may be
    opened.
    """
    return "tap" if os.access(TUN, os.R_OK | os.W_OK) else "raw"


def write_files(directory: Path) -> None:
    """Make the image, and the shim if needed, in the lab's directory. Blocking. Raises LabSetupError."""
    program, busybox = tool(PROGRAM), tool("busybox")
    if program is None or busybox is None:
        raise LabSetupError("the lab needs User-mode Linux; run `apt-get install -y user-mode-linux busybox-static`")
    release = _run([program, "--version"], "cannot determine the version of UML").strip()
    if not _RELEASE.fullmatch(release) or not (MODULES / release).is_dir():
        raise LabSetupError(
            f"{program} is {release[:80]!r}, but {MODULES} has no modules for it; reinstall user-mode-linux"
        )
    # Its NICs are built in, and nothing else is needed.
    programs = guest_programs(jobs=False)  # it sees those of jobs in a directory of its host
    image = directory / IMAGE_FILE
    write_guest_image(image, busybox=Path(busybox), modules=MODULES / release, programs=programs, wanted=())
    if needs_shim():
        compile_shim(directory / SHIM_FILE)


def compile_shim(path: Path) -> None:
    """Compile the shim. Blocking. Raises LabSetupError with the compiler's message, or with the package to install."""
    compiler = tool("cc")
    if compiler is None:
        raise LabSetupError(
            "on this processor (AMX) User-mode Linux needs a shim, but there is no C compiler to build it; run "
            "`apt-get install -y build-essential`"
        )
    argv = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(path), str(SHIM_SOURCE)]
    _run(argv, "cannot compile the shim for User-mode Linux (is libc6-dev installed?)")


def inventory_options(directory: Path, second_cpu: int | None, crew_root: Path | None = None) -> str:
    """Build the platform's entry in hosts.yaml. ``crew_root``: where guests of a crew see the programs of jobs."""
    second = "" if second_cpu is None else f" second_cpu: {second_cpu},"
    shim = f",\n     preload: {_quoted(directory / SHIM_FILE)}" if needs_shim() else ""
    nics = "" if transport() == "tap" else f" transport: {transport()},"
    programs = f",\n     crew_root: {_quoted(crew_root)}" if crew_root is not None else ""
    return f"{{driver: uml,{nics}{second}\n     initrd: {_quoted(directory / IMAGE_FILE)}{shim}{programs}}}"


def _run(argv: list[str], otherwise: str) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RUN_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabSetupError(f"{otherwise}: {exc}") from exc
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise LabSetupError(f"{otherwise}: {said[0].strip()[:200] if said else f'exit status {done.returncode}'}")
    return done.stdout


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
