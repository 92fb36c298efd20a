"""Processor time and memory of processes with all their descendants."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from labconsole.agent.processes import linux
from labconsole.agent.reading.proc_files import add_descendants, processes, read_process, read_text
from labconsole.wire.codec import WireError

# -- processor time ----------------------------------------------------------------------------------------------------
# Processor time of processes with all their descendants, and their time waiting for it.
#
# This is the node's own view of a guest, which does not rely on the guest. Times come from two files: ``stat`` counts a
# process with all of its threads, ended ones, too; ``schedstat`` has the waiting of the living threads.


def read_usage(pids: Sequence[int]) -> Dict[str, Any]:
    """Return sums over ``pids`` and their descendants; ``gone``: those of ``pids`` that do not exist."""
    if not pids:
        raise WireError("bad_request", "pids must have at least one process id")
    seen = processes()
    members = add_descendants([pid for pid in pids if pid in seen], seen)
    monotonic_ns = time.monotonic_ns()
    tick_ns = 1000000000 // os.sysconf("SC_CLK_TCK")
    ticks = threads = 0
    sums: Optional[List[int]] = [0, 0]
    for pid in members:
        now = read_process(pid)
        if now is None:
            continue  # ended meanwhile
        ticks += now.used
        for times in _thread_times(pid):
            threads += 1
            sums = None if sums is None or times is None else [sums[0] + times[0], sums[1] + times[1]]
    return {
        "monotonic_ns": monotonic_ns,
        "processes": len(members),
        "threads": threads,
        "cpu_ns": ticks * tick_ns,
        "run_ns": None if sums is None else sums[0],
        "wait_ns": None if sums is None else sums[1],
        "gone": [pid for pid in pids if pid not in seen],
    }


def _thread_times(pid: int) -> List[Optional[Tuple[int, int]]]:
    """Return run and wait of each thread in ns, or None for one whose kernel does not report them."""
    base = "/proc/%d/task" % pid
    found: List[Optional[Tuple[int, int]]] = []
    try:
        names = os.listdir(base)
    except OSError:
        return found
    for name in names:
        try:
            with open("%s/%s/schedstat" % (base, name), encoding="ascii") as source:
                run, wait = source.read().split()[:2]
            found.append((int(run), int(wait)))
        except ValueError:
            found.append(None)
        except OSError:
            if os.path.isdir("%s/%s" % (base, name)):  # it lives, so this kernel keeps no such times
                found.append(None)
    return found


# -- memory ------------------------------------------------------------------------------------------------------------
# Memory use of processes with all their descendants, by the node's kernel.
#
# Each process has a part of the pages that several share (Pss). Processes that share one memory, as three of a
# User-mode Linux do, are counted once: each of them reports all of it.

KIB = 1024
MOUNTINFO_CHARACTERS = 1 << 20
DELETED = " (deleted)"
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_OCTAL = re.compile(r"\\([0-7]{3})")
_ID = r"[0-9a-f]{64}"

GUEST_GROUPS: Tuple[Tuple[str, ...], ...] = (
    # The agent's own guests; the groups that LXC makes below for itself are none.
    (r"labconsole-[0-9a-f]+", r"(?!lxc\.(?:monitor|pivot)|lxc\.payload\Z).+"),
    (r"lxc", r".+"),  # LXC to 3.0, Proxmox VE, libvirt's containers before 1.0.5
    (r"lxc\.payload", r".+"),  # LXC 3.1 and 3.2
    (r"lxc\.payload\..+",),  # LXC from 4.0, LXD, Incus
    (r"machine-.+\.scope",),  # systemd-machined: libvirt, systemd-nspawn, systemd-vmspawn
    (r"systemd-(?:nspawn|vmspawn)@.+\.service",),
    (r".+\.libvirt-[a-z]+",),  # libvirt from 1.0.5, without machined
    (r"libvirt", r"qemu", r".+"),  # libvirt before 1.0.5
    (r"qemu\.slice", r"[0-9]+\.scope"),  # Proxmox VE
    (r"firecracker", r".+"),  # Firecracker's jailer
    (r"libpod-(?:payload-)?" + _ID + r"(?:\.scope)?",),  # Podman; a bare number below libpod_parent is a pod
    (r"docker", _ID),  # Docker, by cgroupfs
    (r"(?:docker|cri-containerd|crio|nerdctl)-" + _ID + r"\.scope",),  # by systemd
    (r".+:cri-containerd:" + _ID,),
    (r"pod[0-9a-f_-]{32,36}", _ID),  # Kubernetes, by cgroupfs
    (r"default|moby|k8s\.io", _ID),  # containerd's namespaces, by cgroupfs
)
"""Patterns for the last directories of a guest's or container's own group, by the program that makes it. All other
groups belong to no guest: a session, a pod, a slice, a daemon that runs guests within its own group (Incus and LXD do
so with machines).
"""


def read_memory(pids: Sequence[int]) -> List[Dict[str, Any]]:
    """Return the memory of each process with its descendants, or None if it has none or the kernel does not
    report it.
    """
    if not pids:
        raise WireError("bad_request", "pids must have at least one process id")
    seen = processes()
    found: List[Dict[str, Any]] = []
    for pid in pids:
        descendants = add_descendants([pid] if pid in seen else [], seen)
        members = sorted(descendants, key=lambda each: (seen[each].started, each))
        found.append({"pid": pid, "pss_bytes": _pss_bytes(members), "group_bytes": None})
        found[-1]["group_bytes"], found[-1]["group_reason"] = _group_bytes(members)
    return found


def _pss_bytes(pids: Sequence[int]) -> Optional[int]:
    """Sum over the memories of these processes, or None if none is reported or they cannot be distinguished."""
    memories: List[int] = []
    total_bytes = None
    for pid in pids:
        if (pss_bytes := _read_pss(pid)) is None:
            continue  # ended meanwhile, or a kernel thread
        try:
            if any(linux.same_memory(pid, other) for other in memories):
                continue
        except OSError:
            if any(_maps(pid) == _maps(other) for other in memories):
                return None
        memories.append(pid)
        total_bytes = (total_bytes or 0) + pss_bytes
    return total_bytes


def _read_pss(pid: int) -> Optional[int]:
    for line in (read_text("/proc/%d/smaps_rollup" % pid) or "").splitlines():
        fields = line.split()
        if len(fields) > 1 and fields[0] == "Pss:" and fields[1].isdigit():
            return int(fields[1]) * KIB
    return None


def _maps(pid: int) -> Optional[str]:
    return read_text("/proc/%d/maps" % pid)


def _group_bytes(pids: Sequence[int]) -> Tuple[Optional[int], Optional[str]]:
    """Return the memory of the guest's own control group, or None with the reason.

    A container's monitor, and a console that the agent started, run in groups that are no guest's: they do not count.
    """
    mounts = _mounts()
    around = [path for _, path in _paths(os.getpid())]
    files: Dict[str, str] = {}
    reasons: List[str] = []
    for pid in pids:
        for first_version, path in _paths(pid):
            own = _own(path, around)
            if own is None:
                reasons.append("process %d is in %s, which belongs to no guest" % (pid, path))
                continue
            file = _file(own, mounts, first_version)
            if file is None:
                reasons.append("the agent's mounts do not reach control group /%s" % own)
            elif os.path.exists(file):
                files[file] = own
            else:
                reasons.append("control group /%s does not count memory" % own)
    if len(files) > 1:
        return None, "its processes are in several guests' control groups: /%s" % ", /".join(sorted(files.values())[:4])
    if not files:
        return None, reasons[-1] if reasons else "none of its processes shows its control group"
    ((file, own),) = files.items()
    text = read_text(file) or ""
    return (int(text), None) if _NUMBER.match(text) else (None, "control group /%s does not report its memory" % own)


def _paths(pid: int) -> Iterator[Tuple[bool, str]]:
    """Yield the process's groups in version 1's hierarchy of memory (True) and in version 2's (False), from
    /proc/PID/cgroup (see cgroups(7)).
    """
    for line in (read_text("/proc/%d/cgroup" % pid) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number, controllers) == ("0", "") or "memory" in controllers.split(","):
            yield controllers != "", path


def _own(path: str, around: Sequence[str] = ()) -> Optional[str]:
    """Return the guest's whole group, without its own subgroups, or None if ``path`` is in no known kind of guest
    group.

    ``around``: the agent's own groups. A guest's group that the agent is in, too, is the node itself.
    """
    parts = path.strip("/").split("/")
    if path.endswith(DELETED):
        return None
    for begin in range(len(parts)):
        for pattern in GUEST_GROUPS:
            end = begin + len(pattern)
            if len(parts) < end or not all(map(re.fullmatch, pattern, parts[begin:end])):
                continue
            if not any(each.strip("/").split("/")[:end] == parts[:end] for each in around):
                return "/".join(parts[:end])
    return None


def _mounts() -> List[Tuple[bool, List[str], str]]:
    """Return, for each mounted hierarchy that may count memory, whether it is version 1's, its root, and its mount
    point.
    """
    found = []
    for line in (read_text("/proc/self/mountinfo", MOUNTINFO_CHARACTERS) or "").splitlines():
        fields, _, source = line.partition(" - ")
        values, kind = fields.split(" "), source.split(" ")
        if len(values) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "memory" in kind[2].split(",")):
            root, point = (_OCTAL.sub(lambda seen: chr(int(seen.group(1), 8)), word) for word in values[3:5])
            found.append((kind[0] == "cgroup", [word for word in root.split("/") if word], point))
    return found


def _file(own: str, mounts: Sequence[Tuple[bool, List[str], str]], first_version: bool) -> Optional[str]:
    """Return the file with the group's memory use, or None if it lies outside of the mounted hierarchies: a path that
    begins with ``..`` lies outside of the agent's namespace of control groups.
    """
    parts = own.split("/")
    for version, root, point in mounts:
        below = parts[len(root) :]
        if version == first_version and parts[: len(root)] == root and ".." not in below:
            return os.path.join(point, *below, "memory.usage_in_bytes" if first_version else "memory.current")
    return None
