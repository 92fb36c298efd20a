"""An initial RAM file system: busybox, the modules a lab needs in loading order, a script that mounts the host's root.

Written as a newc cpio archive right here: forty lines instead of three more programs to install. Modules are loaded by
insmod in an order computed from their dependencies, so neither depmod nor modprobe is needed.
"""

from __future__ import annotations

import lzma
import re
import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from labconsole.errors import LabSetupError

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")

INIT = r"""#!/bin/sh
export PATH=/bin
mkdir -p /proc /sys /dev /lower /rw /new
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
. /lab.env
for module in $MODULES; do insmod /modules/$module || echo "lab: module $module failed"; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /lower || echo "lab: no root file system"
lower=/lower
for layer in $LAYERS; do
  mkdir /$layer
  mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose $layer /$layer || echo "lab: no $layer"
  lower=/$layer:$lower
done
mount -t tmpfs -o size=90% tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=$lower,upperdir=/rw/upper,workdir=/rw/work overlay /new || echo "lab: no overlay"
mkdir -p /new/proc /new/sys /new/dev /new/run /new/tmp
[ -b /dev/vda ] && mkdir -p /new/disk && mount -t ext4 -o nodev,nosuid /dev/vda /new/disk
mount -t tmpfs -o mode=0755 tmpfs /new/run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ln -sf /proc/self/fd /dev/fd
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for which in all default; do echo 1 > /proc/sys/net/ipv6/conf/$which/disable_ipv6; done
ip link set lo up
ip address add $ADDRESS dev eth0
ip link set eth0 up
mount --move /dev /new/dev
mount --move /proc /new/proc
mount --move /sys /new/sys
exec switch_root /new /usr/bin/env -i HOME="$HOME_DIRECTORY" SHELL=/bin/bash PATH="$SEARCH_PATH" \
  PYTHONPATH="$PYTHON_PATH" PYTHONDONTWRITEBYTECODE=1 \
  XDG_STATE_HOME="$STATE_HOME" XDG_CACHE_HOME="$CACHE_HOME" "$PYTHON" -m $PROGRAM
"""


def write_initramfs(
    path: Path, *, busybox: Path, modules: Path, wanted: Iterable[str], settings: Mapping[str, str]
) -> None:
    """Write the archive. Raises LabSetupError if the kernel lacks a module that is neither there nor built in.

    ``settings`` are variables of the script: ADDRESS of the first NIC, PROGRAM (a module) that becomes process 1,
    LAYERS (tags of further 9p exports, which are laid over the host's root, the last on top).
    """
    ordered = load_modules(modules, wanted)
    environment = {**settings, "MODULES": " ".join(f"{name}.ko" for name, _ in ordered)}
    archive = Archive()
    archive.directory("bin")
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    for applet in ("sh", "mount", "mkdir", "insmod", "ln", "ip", "switch_root", "echo"):
        archive.link(f"bin/{applet}", "busybox")
    archive.directory("modules")
    for name, content in ordered:
        archive.file(f"modules/{name}.ko", content)
    lines = "".join(f"{key}={shlex.quote(value)}\n" for key, value in environment.items())
    archive.file("lab.env", lines.encode())
    archive.file("init", INIT.encode(), executable=True)
    path.write_bytes(archive.finish())


def load_modules(modules: Path, wanted: Iterable[str]) -> list[tuple[str, bytes]]:
    """Load the wanted modules with all their dependencies, each after those: name and uncompressed content.

    A name that ends in ``?`` is loaded if it exists: some modules of one release are part of another in the next.
    """
    files = {_plain(path.name.partition(".ko")[0]): path for path in modules.rglob("*.ko*")}
    built_in = {
        _plain(Path(line).name.partition(".ko")[0]) for line in (modules / "modules.builtin").read_text().splitlines()
    }
    ordered: dict[str, bytes] = {}

    def add(name: str, needed_by: str) -> None:
        if name in ordered or name in built_in:
            return
        if name not in files:
            raise LabSetupError(f"the kernel {modules.name} has no module {name}, which {needed_by} needs")
        content = _content(files[name])
        match = _DEPENDS.search(content)
        for dependency in match[1].decode().split(",") if match and match[1] else ():
            add(_plain(dependency), name)
        ordered[name] = content

    for name in wanted:
        if not name.endswith("?") or _plain(name[:-1]) in files:
            add(_plain(name.removesuffix("?")), "the lab")
    return list(ordered.items())


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.name.endswith(".ko"):
        return raw
    if path.name.endswith(".xz"):
        return lzma.decompress(raw)
    raise LabSetupError(f"{path.name}: this compression of modules is not supported")


class Archive:
    """A cpio archive in the "new ASCII" format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._inode = 0

    def directory(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes, *, executable: bool = False) -> None:
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o600), content)

    def link(self, name: str, target: str) -> None:
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def finish(self) -> bytes:
        self._add("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        numbers = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers)
        for block in (header + encoded, content):
            self._parts.append(block + bytes(-len(block) % 4))
