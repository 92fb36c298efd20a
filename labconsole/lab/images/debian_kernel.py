"""Debian's kernel as a file: fetched from the package archive, unpacked in the user's cache, never installed.

Distribution kernels have pktgen as a module; the kernels of containers and cloud machines often have no modules at all.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.images.cache import locked_cache, require_own
from labconsole.lab.images.debian_packages import DOWNLOAD_S, UNPACK_S, last_line, run_tool

META_PACKAGE = "linux-image-amd64"
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
            _fetch(cache)
            found = _unpacked(cache)
        if found is None:
            raise LabSetupError(f"the package {META_PACKAGE} contains no kernel; remove {cache} and try again")
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


def _fetch(cache: Path) -> None:
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
    done = run_tool(["apt-cache", "depends", META_PACKAGE], "/", UNPACK_S)
    match = _PACKAGE.search(done.stdout.partition("Depends:")[2])
    if match is None:
        raise LabSetupError(
            f"this machine's package lists do not know {META_PACKAGE} (Debian on x86-64 is needed); run `apt-get "
            f"update` as root"
        )
    return match[0]
