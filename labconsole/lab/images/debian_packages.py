"""Debian packages as files: fetched from the archive, unpacked below the user's cache, never installed.

Packages that a machine needs and this one does not are laid over the machine's root file system instead
(``machines/uut.py``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.images.cache import locked_cache, require_own
from labconsole.lab.prerequisites import tool

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
            _fetch(root, names, wanted)
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


def _fetch(root: Path, names: Sequence[str], wanted: re.Pattern[str]) -> None:
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
