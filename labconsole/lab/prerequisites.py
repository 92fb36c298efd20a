"""A lab's prerequisites on the machine: Debian packages and the right to make namespaces, with the commands to get
them.

Packages are installed only on request (``lab up --install``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from labconsole.errors import LabSetupError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A user's PATH often lacks the sbin directories, where most of these tools are."""

BASE_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "tcpdump": "tcpdump"}
_OPENSSH_TOOLS = {"sshd": "openssh-server"}
MACHINE_TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
}


_INSTALL_S = 600.0
_SAID_CHARACTERS = 200


def tool(name: str) -> str | None:
    """Find a system tool; return its path, or None."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def missing_tools(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return those of these programs that are missing, with their Debian packages."""
    return {name: package for name, package in wanted.items() if tool(name) is None}


def check_tools(
    *,
    openssh: bool = False,
    machine: bool = False,
    more: Mapping[str, str] | None = None,
    useful: Mapping[str, str] | None = None,
    install: bool = False,
) -> None:
    """Raise LabSetupError naming every missing tool and the one command that installs them.

    ``more``: program to Debian package, in addition to those of every lab. ``install``: install missing packages,
    including those of ``useful``, without which the lab still works.
    """
    wanted = {**BASE_TOOLS, **(_OPENSSH_TOOLS if openssh else {}), **(MACHINE_TOOLS if machine else {}), **(more or {})}
    missing = missing_tools({**wanted, **(useful or {})} if install else wanted)
    if missing and install:
        install_packages(missing.values())
        missing = missing_tools(wanted)
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        prefix = "" if os.geteuid() == 0 else "sudo "
        raise LabSetupError(
            f"the lab needs {', '.join(missing)}; run `{prefix}apt-get install -y {packages}`"
            + ("" if install else " (or use --install)")
        )


def install_packages(packages: Iterable[str]) -> None:
    """Install Debian packages and announce it. Blocking. Raises LabSetupError with the end of apt-get's output."""
    names = sorted(set(packages))
    root = os.geteuid() == 0
    get = [*([] if root else ["sudo", "-n"]), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    sys.stderr.write(f"installing Debian packages: {' '.join(names)}\n")
    done = _ran([*get, "install", "-y", "--no-install-recommends", *names])
    if done.returncode != 0:
        # The list may be old or missing: only then is fetching one worth the time.
        _ran([*get, "update"])
        done = _ran([*get, "install", "-y", "--no-install-recommends", *names])
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = said[-1][:_SAID_CHARACTERS] if said else f"exit status {done.returncode}"
        by_hand = f"{'' if root else 'sudo '}apt-get install -y {' '.join(names)}"
        raise LabSetupError(f"cannot install {', '.join(names)} ({why}); run {by_hand}")


def _ran(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return subprocess.CompletedProcess(argv, 1, "", str(exc))


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def namespaces_refused() -> str | None:
    """Return what to do if this user may not make a lab's namespaces, or None if they may. Blocking."""
    root = os.geteuid() == 0
    argv = ["unshare", "--net", *([] if root else ["--user", "--map-root-user"]), "true"]
    done = _ran(argv)
    if done.returncode == 0:
        return None
    said = (done.stderr or "no reason was given").strip().splitlines()[-1][:_SAID_CHARACTERS]
    return str(namespace_refusal(OSError(said), root=root))


def namespace_refusal(exc: OSError, *, root: bool) -> LabSetupError:
    """Build the error for a kernel that refuses namespaces."""
    if root:
        return LabSetupError(
            f"this root user may not create namespaces ({exc}); if this is a container, start it with --privileged "
            "(CAP_SYS_ADMIN and CAP_NET_ADMIN are needed)"
        )
    remedies = []
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        remedies.append("sudo sysctl -w kernel.unprivileged_userns_clone=1")
    if _sysctl("user/max_user_namespaces") == "0":
        remedies.append("sudo sysctl -w user.max_user_namespaces=10000")
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedies.append("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    how = f"run {' && '.join(remedies)}; or run" if remedies else "run"
    return LabSetupError(
        f"without root the lab needs unprivileged user namespaces, but this machine denies them ({exc}); {how} the "
        "same command as root"
    )
