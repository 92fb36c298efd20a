"""What a test needs of the machine: how a missing tool is treated. Of its own, because there are two conftest.py."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest


def missing(reason: str) -> None:
    """Skip with the reason, or fail in CI: there, what the machine lacks is a fault of the set-up."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have this: {reason}")
    pytest.skip(reason)


def require(*tools: str) -> None:
    """The test needs these programs."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for tool in tools:
        if shutil.which(tool, path=path) is None:
            missing(f"{tool} is not installed")


def old_python(version: str) -> str:
    """An interpreter of another version, such as "3.9". Debian has one version only, so its absence is a skip in CI too."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # not $HOME, which some tests set
    candidates = [shutil.which(f"python{version}"), *glob.glob(f"{home}/.pyenv/versions/{version}.*/bin/python3")]
    for candidate in filter(None, candidates):
        # pyenv leaves a python3.x in PATH that only says that there is none.
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"there is no Python {version} on this machine, and its distribution has none")


def require_namespaces() -> None:
    """The test needs to make network namespaces: root, or unprivileged user namespaces."""
    if os.geteuid() != 0 and not Path("/proc/self/ns/user").exists():
        missing("neither root nor user namespaces")
