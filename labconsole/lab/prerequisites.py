"""What a lab needs from the machine: Debian packages and the right to make namespaces. Missing: says what to type."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from labconsole.errors import LabSetupError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A user's PATH often lacks the sbin directories, where most of these tools are."""

_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "tcpdump": "tcpdump"}
_OPENSSH_TOOLS = {"sshd": "openssh-server"}
MACHINE_TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
}


def tool(name: str) -> str | None:
    """Path of a system tool."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def check_tools(*, openssh: bool = False, machine: bool = False) -> None:
    """Raises LabSetupError naming every missing tool and the one command that installs them."""
    wanted = _TOOLS | (_OPENSSH_TOOLS if openssh else {}) | (MACHINE_TOOLS if machine else {})
    missing = [name for name in wanted if tool(name) is None]
    if missing:
        packages = " ".join(sorted({wanted[name] for name in missing}))
        prefix = "" if os.geteuid() == 0 else "sudo "
        raise LabSetupError(f"the lab needs {', '.join(missing)}; type: {prefix}apt-get install -y {packages}")


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def namespace_refusal(exc: OSError, *, root: bool) -> LabSetupError:
    """What to tell when the kernel refuses namespaces."""
    if root:
        return LabSetupError(
            f"this root user may not make namespaces ({exc}); in a container, start it with --privileged "
            "(CAP_SYS_ADMIN and CAP_NET_ADMIN are needed)"
        )
    remedies = []
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        remedies.append("sudo sysctl -w kernel.unprivileged_userns_clone=1")
    if _sysctl("user/max_user_namespaces") == "0":
        remedies.append("sudo sysctl -w user.max_user_namespaces=10000")
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedies.append("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    how = f"type: {' && '.join(remedies)}; or run" if remedies else "run"
    return LabSetupError(
        f"without root the lab needs unprivileged user namespaces, and this machine denies them ({exc}); {how} the "
        "same command as root"
    )
