"""Where a process runs, as reported by console and agent alike, to recognise nodes or a console that share a kernel."""

from __future__ import annotations

import os
from typing import Optional


def boot_id() -> Optional[str]:
    """Return an id that is the same on all nodes that are namespaces of one machine, and on no others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read(64).strip()
    except OSError:
        return None


def pid_namespace() -> Optional[int]:
    """Return the id of the set of processes that this node sees: the same for all nodes that see the same ones."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
