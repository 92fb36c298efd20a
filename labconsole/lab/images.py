"""Kernels and file systems that a lab's machines and guests boot."""

from __future__ import annotations

import fcntl
import lzma
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.prerequisites import tool

# -- cache -------------------------------------------------------------------------------------------------------------
# The user's cache of kernels and packages: one process at a time, and only if no other user can have written there.


@contextmanager
def locked_cache(cache: Path) -> Iterator[None]:
    """Lock the cache directory, making it if needed. Raises LabSetupError."""
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    require_own(cache)
    descriptor = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def require_own(path: Path) -> None:
    """Raise LabSetupError unless ``path`` is owned by this user or root and not writable for others: its contents run
    in the lab's machines.
    """
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise LabSetupError(f"{path} belongs to user id {status.st_uid}; a cache must be your own: remove or rename it")
    if status.st_mode & 0o022:
        mode = f"{status.st_mode & 0o777:o}"
        raise LabSetupError(f"{path} can be written by others (mode {mode}); run `chmod go-w {path}`")


# -- Debian packages ---------------------------------------------------------------------------------------------------
# Debian packages as files: fetched from the archive, unpacked below the user's cache, never installed.
#
# Packages that a machine needs and this one does not are laid over the machine's root file system instead
# (``machines/uut.py``).

DOWNLOAD_S = 240.0
UNPACK_S = 60.0
_NEW = re.compile(r"^Inst ([a-z0-9][a-z0-9+.-]*) \(", re.MULTILINE)
"""A package of which no version is installed: others have the installed version in brackets before the new one."""


def unpacked_packages(cache: Path, names: Sequence[str], wanted: re.Pattern[str]) -> Path:
    """Return a directory with these packages and those of their dependencies that are not installed here and match
    ``wanted``. Blocking. Raises LabSetupError with the command to type.
    """
    root = cache / names[0]
    with locked_cache(cache):
        if not root.is_dir():
            _fetch_packages(root, names, wanted)
        require_own(root)
        return root


def missing_packages(names: Sequence[str], wanted: re.Pattern[str]) -> list[str]:
    """Return the packages that apt would install for these. Raises LabSetupError."""
    done = run_tool(["apt-get", "install", "--simulate", "--no-install-recommends", *names], "/", UNPACK_S)
    if done.returncode != 0:
        raise LabSetupError(
            f"this machine's package lists do not know {', '.join(names)} (Debian on x86-64 is needed): "
            f"{last_line(done.stderr)}; run `apt-get update` as root"
        )
    return sorted({name for name in _NEW.findall(done.stdout) if wanted.match(name)})


def _fetch_packages(root: Path, names: Sequence[str], wanted: re.Pattern[str]) -> None:
    packages = missing_packages(names, wanted)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".fetch-") as directory:
        unpacked = Path(directory) / "root"
        unpacked.mkdir()
        if packages:
            done = run_tool(["apt-get", "download", *packages], directory, DOWNLOAD_S)
            if done.returncode != 0:
                raise LabSetupError(
                    f"cannot fetch {', '.join(packages)}: {last_line(done.stderr)}; run `apt-get update` as root, "
                    f"and check the network"
                )
        for package in sorted(Path(directory).glob("*.deb")):
            done = run_tool(["dpkg-deb", "-x", str(package), str(unpacked)], directory, UNPACK_S)
            if done.returncode != 0:
                raise LabSetupError(f"cannot unpack {package.name}: {last_line(done.stderr)}")
        merge_into_usr(unpacked)
        unpacked.chmod(0o755)
        unpacked.rename(root)


def merge_into_usr(root: Path) -> None:
    """Move a package's /lib, /bin and /sbin to /usr: as directories they would hide the links of those names."""
    for name in ("lib", "lib64", "bin", "sbin"):
        old = root / name
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)


def run_tool(argv: list[str], directory: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a Debian program with messages in English. Raises LabSetupError if it is missing or does not end."""
    path = tool(argv[0])
    if path is None:
        raise LabSetupError(f"{argv[0]} is not installed; this needs a Debian machine")
    try:
        return subprocess.run(
            [path, *argv[1:]],
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as exc:
        raise LabSetupError(f"{' '.join(argv[:2])} did not end within {timeout_s:g} s") from exc


def last_line(text: str) -> str:
    """Return a program's last line of output, which is usually the reason of a failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"


# -- Debian's kernel ---------------------------------------------------------------------------------------------------
# Debian's kernel as a file: fetched from the package archive, unpacked in the user's cache, never installed.
#
# Distribution kernels have pktgen as a module; the kernels of containers and cloud machines often have no modules at
# all.

KERNEL_PACKAGE = "linux-image-amd64"
"""Not the smaller -cloud- kernel, which lacks 9p; the machine gets its root file system over that."""

_PACKAGE = re.compile(r"\blinux-image-\d[\w.+-]*-amd64\b")


@dataclass(frozen=True)
class DebianKernel:
    """An unpacked kernel package."""

    image: Path
    modules: Path
    """lib/modules/VERSION."""

    @property
    def release(self) -> str:
        """The kernel's ``uname -r``."""
        return self.modules.name


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/labconsole/kernel, by default below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "labconsole" / "kernel"


def debian_kernel() -> DebianKernel:
    """Return the kernel, from the cache or from the archive. Raises LabSetupError saying what is missing."""
    cache = cache_directory()
    with locked_cache(cache):
        found = _unpacked(cache)
        if found is None:
            _fetch_kernel(cache)
            found = _unpacked(cache)
        if found is None:
            raise LabSetupError(f"the package {KERNEL_PACKAGE} contains no kernel; remove {cache} and try again")
        return found


def _unpacked(cache: Path) -> DebianKernel | None:
    """Return the newest complete kernel. Unpacking ends with a rename, so every one present is complete."""
    newest: DebianKernel | None = None
    for package in sorted(cache.glob("linux-image-*"), key=lambda path: path.stat().st_mtime):
        images = list((package / "boot").glob("vmlinuz-*"))
        if images:
            require_own(package)
            release = images[0].name.removeprefix("vmlinuz-")
            for modules in (package / "lib/modules" / release, package / "usr/lib/modules" / release):
                if modules.is_dir():
                    newest = DebianKernel(images[0], modules)
    return newest


def _fetch_kernel(cache: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as directory:
        name = _package_name()
        done = run_tool(["apt-get", "download", name], directory, DOWNLOAD_S)
        packages = list(Path(directory).glob("*.deb"))
        if done.returncode != 0 or len(packages) != 1:
            raise LabSetupError(
                f"cannot fetch Debian's kernel {name}: {last_line(done.stderr)}; run `apt-get update` as root, and "
                f"check the network"
            )
        unpacked = Path(directory) / name
        done = run_tool(["dpkg-deb", "-x", str(packages[0]), str(unpacked)], directory, UNPACK_S)
        if done.returncode != 0:
            raise LabSetupError(f"cannot unpack {packages[0].name}: {last_line(done.stderr)}")
        shutil.rmtree(cache / name, ignore_errors=True)
        unpacked.rename(cache / name)


def _package_name() -> str:
    done = run_tool(["apt-cache", "depends", KERNEL_PACKAGE], "/", UNPACK_S)
    match = _PACKAGE.search(done.stdout.partition("Depends:")[2])
    if match is None:
        raise LabSetupError(
            f"this machine's package lists do not know {KERNEL_PACKAGE} (Debian on x86-64 is needed); run `apt-get "
            f"update` as root"
        )
    return match[0]


# -- initramfs ---------------------------------------------------------------------------------------------------------
# An initial RAM file system: busybox, the modules a lab needs in loading order, a script that mounts the host's root.
#
# Written as a newc cpio archive right here: forty lines instead of three more programs to install. Modules are loaded
# by insmod in an order computed from their dependencies, so neither depmod nor modprobe is needed.

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
