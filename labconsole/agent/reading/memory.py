"""What processes and all that descend from them hold of a node's memory, by the node's kernel.

Of pages that several processes share each has a part (Pss). Processes that run on one and the same memory, as three of
a User-mode Linux do, are counted once: each of them says all of it.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence

from labconsole.agent.processes import linux
from labconsole.agent.reading.files import text_of
from labconsole.agent.reading.process_table import processes, with_descendants
from labconsole.wire.codec import WireError

KIB = 1024
ROOT = "/sys/fs/cgroup"


def read(pids: Sequence[int]) -> List[Dict[str, Any]]:
    """Of each process with its descendants. None: it has none, or the kernel does not say."""
    if not pids:
        raise WireError("bad_request", "pids must have at least one process id")
    seen = processes()
    found = []
    for pid in pids:
        descendants = with_descendants([pid] if pid in seen else [], seen)
        members = sorted(descendants, key=lambda each: (seen[each].started, each))
        found.append({"pid": pid, "pss_bytes": _pss_bytes(members), "group_bytes": _group_bytes(members)})
    return found


def _pss_bytes(pids: Sequence[int]) -> Optional[int]:
    """Summed over the memories that these processes run on. None: no process says, or nobody tells these apart."""
    memories: List[int] = []
    total_bytes = None
    for pid in pids:
        if (pss_bytes := _pss_of(pid)) is None:
            continue  # ended meanwhile, or a kernel's
        try:
            if any(linux.same_memory(pid, other) for other in memories):
                continue
        except OSError:
            if any(_maps(pid) == _maps(other) for other in memories):
                return None
        memories.append(pid)
        total_bytes = (total_bytes or 0) + pss_bytes
    return total_bytes


def _pss_of(pid: int) -> Optional[int]:
    for line in (text_of("/proc/%d/smaps_rollup" % pid) or "").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "Pss:" and words[1].isdigit():
            return int(words[1]) * KIB
    return None


def _maps(pid: int) -> Optional[str]:
    return text_of("/proc/%d/maps" % pid)


def _group_bytes(pids: Sequence[int]) -> Optional[int]:
    """Of the control group that is the guest's own: the agent's, LXC's or libvirt's. Of a container the program that
    made it comes first, and has another: the last one counts.
    """
    held = None
    for pid in pids:
        for file in _groups(pid):
            text = (text_of(file) or "").strip()
            held = int(text) if text.isdigit() else held
    return held


def _groups(pid: int) -> Iterator[str]:
    for line in (text_of("/proc/%d/cgroup" % pid) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = _own(path)
        if number == "0" and not controllers and own is not None and "/lxc/" not in own:
            yield os.path.join(ROOT, own, "memory.current")
        elif "memory" in controllers.split(",") and own is not None:
            yield os.path.join(ROOT, "memory", own, "memory.usage_in_bytes")


def _own(path: str) -> Optional[str]:
    """The guest's whole group, without what it made below; None: it is no guest's."""
    words = path.strip("/").split("/")
    for place, word in enumerate(words):
        if word.startswith("labconsole-") or word == "lxc":  # above those of the guests
            return "/".join(words[: place + 2]) if place + 1 < len(words) else None
        if word.startswith(("lxc.payload.", "machine-")):
            return "/".join(words[: place + 1])
    return None
