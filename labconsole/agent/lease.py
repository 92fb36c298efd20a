"""The lease: who is measuring on this node now. An flock, so the kernel releases it when its holder dies.

One lease per network namespace, because that is what two measurements would share: on an ordinary node there is one,
in a testbed made of namespaces each node has its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Dict, List, Optional

from labconsole.agent.wire import WireError


def _outer_uid() -> int:
    """The user id outside a user namespace, where it names a person; inside everybody may be 0."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as mapping:
            inside, outside, count = (int(word) for word in mapping.readline().split())
    except (OSError, ValueError):
        return os.getuid()
    own = os.getuid()
    return own - inside + outside if inside <= own < inside + count else own


def directories() -> List[str]:
    """Where a lease may lie, best first. The first in which the file can be opened is used."""
    found = ["/run/labconsole"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime):
        found.append(os.path.join(runtime, "labconsole"))
    found.append("/tmp/labconsole-%d" % _outer_uid())
    return found


def file_name() -> str:
    return "lease-%d" % os.stat("/proc/self/ns/net").st_ino


def _open() -> int:
    reasons = []
    for directory in directories():
        try:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            # /tmp is everybody's: a directory there that another user made is not to be trusted.
            if os.lstat(directory).st_uid != os.geteuid():
                raise PermissionError(1, "belongs to another user", directory)
            path = os.path.join(directory, file_name())
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            reasons.append("%s: %s" % (directory, exc.strerror))
    raise WireError("no_lease_file", "there is no place for the lease (%s)" % "; ".join(reasons))


def _read(descriptor: int) -> Dict[str, Any]:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


class Lease:
    def __init__(self) -> None:
        self._descriptor: Optional[int] = None
        self._since_wall_ns = 0

    def take(self, owner: str, purpose: str) -> Dict[str, Any]:
        """Take the node, or renew what is said about it. Raises WireError("lease_held") when another session has it."""
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = _open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = _read(descriptor)
                os.close(descriptor)
                raise _held(holder) from None
            self._descriptor, self._since_wall_ns = descriptor, time.time_ns()
        told = {"owner": owner[:200], "purpose": purpose[:500], "since_wall_ns": self._since_wall_ns}
        told["pid"] = os.getpid()
        data = json.dumps(told).encode("ascii")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)
        return {"since_wall_ns": self._since_wall_ns}

    def release(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def _held(holder: Dict[str, Any]) -> WireError:
    owner = holder.get("owner") or "another session"
    since = holder.get("since_wall_ns")
    when = ""
    if isinstance(since, int):
        when = " since %s" % time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since // 1000000000))
    purpose = holder.get("purpose")
    why = " for %s" % purpose if purpose else ""
    return WireError("lease_held", "%s has this node%s%s" % (owner, when, why), holder)
