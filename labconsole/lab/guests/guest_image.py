"""Guests that boot an image of this lab: programs of this machine, a forwarding guest, and a User-mode Linux."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.images import Archive, load_modules
from labconsole.lab.prerequisites import tool
from labconsole.platforms.drivers.uml import LAB_IMAGE

# -- programs ----------------------------------------------------------------------------------------------------------
# Programs of this machine for a guest that has no distribution of its own: the file, and the libraries it needs.
#
# Debian has no static ``stress``. A file of the same version with the libraries that it was linked with on this machine
# is the same program; a rebuilt one would not be.

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


# -- forwarding guests -------------------------------------------------------------------------------------------------
# A forwarding guest as a kernel and an initial RAM file system: the image that ``platforms/base/image.py`` boots.
#
# It forwards as its kernel command line says (``lc.stream=IN_MAC,OUT_MAC,SOURCE_IP,SINK_IP,SINK_MAC``, one per stream),
# or has one NIC with an address (``lc.nic=MAC,ADDRESS/PREFIX``), mounts its disk (``lc.disk=PATH``), and uses programs
# of a directory that User-mode Linux sees of its host (``lc.programs=PATH``). After that it sends a ping if one is
# specified (``lc.mark=ADDRESS,BYTES,HEX``) and prints a line. Then it runs each line that arrives over its console, and
# prints a mark after it. It has the real ``stress``, so that a background guest can be loaded, and the programs of jobs
# if the lab's options include them.

INIT = r"""#!/bin/sh
export PATH=/bin
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmpfs /tmp
# Pages of one size: how much memory a load writes to is counted by the pages that it was given.
echo never > /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
. /guest.env
for module in $MODULES; do insmod /modules/$module || echo "guest: module $module failed"; done
for which in all default; do echo 1 > /proc/sys/net/ipv6/conf/$which/disable_ipv6; done 2>/dev/null
ip link set lo up
nic() {
  for link in /sys/class/net/*; do
    [ "$(cat $link/address)" = "$1" ] && { echo "${link##*/}"; return; }
  done
  echo "guest: no NIC $1" >&2
}
stream() {
  in=$(nic "$1"); out=$(nic "$2")
  for link in "$in" "$out"; do
    ip link set "$link" up
    echo 1 > "/proc/sys/net/ipv4/conf/$link/forwarding"
  done
  ip route add "$3/32" dev "$in"
  ip route add "$4/32" dev "$out"
  arp -s "$4" "$5" -i "$out"
}
programs() {
  mkdir -p /host
  mount -t hostfs -o "ro,$1" host /host || return
  for directory in lib lib64 usr; do
    [ -d /host/$directory ] && mkdir -p /$directory && mount --bind /host/$directory /$directory
  done
  export PATH=/bin:/host/bin
}
member() {
  link=$(nic "$1")
  ip address add "$2" dev "$link"
  ip link set "$link" up
}
disk() {
  mkdir -p "$1"
  for device in /dev/vda /dev/ubda /dev/xvda; do [ -b $device ] && mount -t ext4 -o nodev,nosuid $device "$1"; done
}
for word in $(cat /proc/cmdline); do
  case $word in
    lc.stream=*) stream $(echo "${word#lc.stream=}" | tr , ' ');;
    lc.programs=*) programs "${word#lc.programs=}";;
    lc.disk=*) disk "${word#lc.disk=}";;
    lc.mark=*) mark=${word#lc.mark=};;
    lc.nic=*) member $(echo "${word#lc.nic=}" | tr , ' ');;
  esac
done
stty -echo 2>/dev/null
marked() {
  # A lost address request is repeated at once: a bridge may not have noticed yet that the NIC is up.
  for each in /proc/sys/net/ipv4/neigh/*; do echo 20 >$each/retrans_time_ms; echo 50 >$each/mcast_solicit; done
  ping -q -c 1 -W 1 -s "$2" -p "$3" "$1"
}
[ "$mark" ] && marked $(echo "$mark" | tr , ' ') >/dev/null 2>&1
echo "LABCONSOLE-GUEST-READY $(uname -r)"
while read -r line; do
  sh -c "$line" 3<&0
  echo "LABCONSOLE-DONE $?"
done
"""

NICS = ("virtio_pci", "virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "pcnet32", "xen_netfront", "af_packet")
MODULES = (*NICS, "virtio_blk", "xen_blkfront", "crc32c_generic", "ext4")


def write_guest_image(
    path: Path, *, busybox: Path, modules: Path, programs: Iterable[str], wanted: Iterable[str] = MODULES
) -> None:
    """Write the archive for a kernel whose modules are at ``modules``, with ``programs`` of this machine in addition to
    all of busybox. Raises LabSetupError if one is missing.
    """
    ordered = load_modules(modules, wanted)
    files = {"bin/busybox": busybox.read_bytes()}
    for program in programs:
        files |= load_with_libraries(program)
    archive = Archive()
    for directory in parents(files):
        archive.directory(directory)
    for name, content in files.items():
        archive.file(name, content, executable=True)
    for applet in applets(busybox):
        archive.link(f"bin/{applet}", "busybox")
    archive.directory("modules")
    for name, content in ordered:
        archive.file(f"modules/{name}.ko", content)
    names = shlex.quote(" ".join(f"{name}.ko" for name, _ in ordered))
    archive.file("guest.env", f"MODULES={names}\n".encode())
    archive.file("init", INIT.encode(), executable=True)
    path.write_bytes(archive.finish())


# -- User-mode Linux ---------------------------------------------------------------------------------------------------
# Files for a User-mode Linux in a lab: Debian's kernel of that kind, an image for it, and on some processors a shim.
#
# The shim (``uml_registers.c``) is compiled here if the processor needs it, because no package has it.

UML_PROGRAM = "linux.uml"
UML_MODULES = Path("/usr/lib/uml/modules")
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
    wanted = {UML_PROGRAM: "user-mode-linux", "busybox": "busybox-static", "unshare": "util-linux"}
    # Not gcc alone: without recommended packages that comes without the C library's headers.
    return {**wanted, "cc": "build-essential"} if needs_shim() else wanted


def transport() -> str:
    """Return the type of its NICs: taps, which the ledger can count, or sockets on the UUT's NICs if no tap may be
    opened.
    """
    return "tap" if os.access(TUN, os.R_OK | os.W_OK) else "raw"


def write_files(directory: Path) -> None:
    """Make the image, and the shim if needed, in the lab's directory. Blocking. Raises LabSetupError."""
    program, busybox = tool(UML_PROGRAM), tool("busybox")
    if program is None or busybox is None:
        raise LabSetupError("the lab needs User-mode Linux; run `apt-get install -y user-mode-linux busybox-static`")
    release = _run([program, "--version"], "cannot determine the version of UML").strip()
    if not _RELEASE.fullmatch(release) or not (UML_MODULES / release).is_dir():
        raise LabSetupError(
            f"{program} is {release[:80]!r}, but {UML_MODULES} has no modules for it; reinstall user-mode-linux"
        )
    # Its NICs are built in, and nothing else is needed.
    programs = guest_programs(jobs=False)  # it sees those of jobs in a directory of its host
    image = directory / IMAGE_FILE
    write_guest_image(image, busybox=Path(busybox), modules=UML_MODULES / release, programs=programs, wanted=())
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
