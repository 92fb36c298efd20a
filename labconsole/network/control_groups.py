"""Control groups of guests: no part of the network, but made, undone and described like its changes.

The agent or its keeper removes them; if both were killed at once, the next agent that makes some does. A group is in
use as long as the directory of its name directly below the root (of version 1: of a controller's hierarchy) is locked:
the agent makes that directory first and removes it last.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import time
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Dict, List, Optional

from labconsole.network.change import ChangedNode, Entry, NetworkChange, line
from labconsole.wire.codec import WireError
from labconsole.wire.message import Message
from labconsole.wire.rules import Amount, Count, Most, Rule, bad

ROOT = "/sys/fs/cgroup"
SECOND_VERSION = ROOT + "/cgroup.controllers"
"""A file that exists only where all control groups are of version 2."""

CONTROLLERS = ("cpu", "memory")
CONTROL = "cgroup.subtree_control"
"""In a group of version 2, lists the controllers of the groups directly below it."""

PERIOD_US = 100_000
EMPTY_S = 1.0
"""How long to wait for killed processes that are still in their group."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_OURS = re.compile(r"labconsole-[0-9a-f]{8}\Z")
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_locks: Dict[str, int] = {}
"""Maps each group that this process made to the descriptor of its lock."""


def _group(value: Any, where: str) -> str:
    if type(value) is not str or not _NAME.match(value):
        raise bad(where, "is not the plain name of a control group")
    return value


Group = Annotated[str, Rule(_group)]


def settings(
    controller: str,
    *,
    second: bool,
    cpu_shares: Optional[int],
    cpu_quota_ratio: Optional[float],
    memory_mib: Optional[int],
) -> Dict[str, str]:
    """Return the files of ``controller`` that set these limits, with their contents. None is no limit."""
    found: Dict[str, str] = {}
    if controller == "memory":
        if memory_mib is not None:
            found["memory.max" if second else "memory.limit_in_bytes"] = str(memory_mib * 1024 * 1024)
        return found
    if cpu_shares is not None and second:
        # The conversion that systemd and runc use from one scale (2 to 262144) to the other (1 to 10000).
        found["cpu.weight"] = str(1 + (cpu_shares - 2) * 9999 // 262142)
    elif cpu_shares is not None:
        found["cpu.shares"] = str(cpu_shares)
    if cpu_quota_ratio is not None:
        quota_us = str(max(1000, round(cpu_quota_ratio * PERIOD_US)))
        found["cpu.max" if second else "cpu.cfs_quota_us"] = f"{quota_us} {PERIOD_US}" if second else quota_us
    return found


class Limits(Message):
    """Limits of one group's processes: ``cpu_quota_ratio`` of one CPU. None is no limit."""

    group: Group
    cpu_shares: Optional[Count] = None
    cpu_quota_ratio: Optional[Amount] = None
    memory_mib: Optional[Count] = None

    def files(self, controller: str, *, second: bool) -> Dict[str, str]:
        return settings(
            controller,
            second=second,
            cpu_shares=self.cpu_shares,
            cpu_quota_ratio=self.cpu_quota_ratio,
            memory_mib=self.memory_mib,
        )


class ControlGroups(NetworkChange, do="control_groups"):
    """Make control groups with limits below one of this name; undone, that one is removed with everything below it."""

    name: Group
    groups: Annotated[List[Limits], Most(1024)]
    namespace: ClassVar[None] = None  # type: ignore[misc]  # belongs to a mount, not to a network

    def apply(self, node: ChangedNode) -> None:
        if list(_find_groups(self.name)):
            raise WireError("exists", "control group %s already exists and does not belong to this session" % self.name)
        second = os.path.exists(SECOND_VERSION)
        enabled = self._find_missing_controllers() if second else []
        node.promise(self.kind, name=self.name, enabled=enabled, beside=_directly_below() if enabled else [])
        sweep()
        above = _above()
        if above is not None:
            _locks[self.name] = hold(os.path.join(above, self.name))
        for limits in self.groups:
            for controller in CONTROLLERS:
                files = limits.files(controller, second=second)
                if not files:
                    continue
                top = [ROOT, self.name] if second else [ROOT, controller, self.name]
                if second:
                    _tell(ROOT, "+" + controller)
                os.makedirs(os.path.join(*top, limits.group), exist_ok=True)
                if second:
                    _tell(os.path.join(*top), "+" + controller)
                for file, value in files.items():
                    with open(os.path.join(*top, limits.group, file), "w", encoding="ascii") as setting:
                        setting.write(value)

    def _find_missing_controllers(self) -> List[str]:
        """Return the controllers that these limits need and that groups below the root do not have yet."""
        with open(os.path.join(ROOT, CONTROL), encoding="ascii") as control:
            there = control.read().split()
        return [
            controller
            for controller in CONTROLLERS
            if controller not in there and any(limits.files(controller, second=True) for limits in self.groups)
        ]

    @staticmethod
    def undo(entry: Entry) -> None:
        deadline = time.monotonic() + EMPTY_S
        for directory in _below(entry["name"]):
            _remove(directory, deadline)
        if entry["name"] in _locks:
            os.close(_locks.pop(entry["name"]))
        enabled = entry["enabled"]
        if enabled and set(_directly_below()) <= set(entry["beside"]):  # later groups may have limits by it
            for controller in enabled:
                with suppress(OSError):  # an earlier group uses it by now
                    _tell(ROOT, "-" + controller)

    def commands(self) -> List[str]:
        lines = []
        for limits in self.groups:
            for controller in CONTROLLERS:
                place = "/".join((ROOT, controller, self.name, limits.group))
                files = limits.files(controller, second=False)
                lines += [line("mkdir", "-p", place)] if files else []
                lines += ["echo %s > %s/%s" % (value, place, file) for file, value in files.items()]
        return lines


def _find_groups(name: str) -> Any:
    """Find every group of this name: LXC makes one in each hierarchy, next to its own groups."""
    for above, names, _ in os.walk(ROOT):
        if name in names:
            names.remove(name)
            yield os.path.join(above, name)


def _above() -> Optional[str]:
    """Return the directory that has one of each group of ours, locked while in use, or None if there is none."""
    tops = [ROOT] if os.path.exists(SECOND_VERSION) else [os.path.join(ROOT, each) for each in CONTROLLERS]
    return next((os.path.realpath(top) for top in tops if os.path.isdir(top)), None)


def _below(name: str) -> List[str]:
    """Return the directories of every group of this name, each after its subdirectories; the locked one comes last."""
    above = _above()
    tops = sorted(_find_groups(name), key=lambda top: os.path.realpath(os.path.dirname(top)) == above)
    return [directory for top in tops for directory, _, _ in os.walk(top, topdown=False)]


def hold(path: str) -> int:
    """Make and lock this directory. Returns the descriptor of the lock."""
    while True:
        os.mkdir(path, 0o700)
        with suppress(FileNotFoundError):  # a sweep mistook it for a dead agent's
            descriptor = os.open(path, DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # a sweep releases its lock at once
            if os.path.exists(path):
                return descriptor
            os.close(descriptor)


def sweep() -> None:
    """Remove groups that dead agents left: ours by name, unlocked, and without any process."""
    above = _above()
    if above is None:
        return
    for name in filter(_OURS.match, os.listdir(above)):
        with suppress(OSError):  # its agent lives, or it has a process: the kernel refuses to remove such a group
            descriptor = os.open(os.path.join(above, name), DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for directory in _below(name):
                    os.rmdir(directory)
            finally:
                os.close(descriptor)


def _directly_below() -> List[str]:
    return sorted(each.name for each in os.scandir(ROOT) if each.is_dir(follow_symlinks=False))


def _tell(directory: str, word: str) -> None:
    with open(os.path.join(directory, CONTROL), "w", encoding="ascii") as control:
        control.write(word)


def _remove(directory: str, deadline: float) -> None:
    while True:
        try:
            os.rmdir(directory)
            return
        except FileNotFoundError:
            return
        except OSError as exc:
            if exc.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        _kill_members(directory)
        time.sleep(0.005)


def _kill_members(directory: str) -> None:
    """Kill all processes of a group of ours; they are all guests of ours."""
    try:
        with open(os.path.join(directory, "cgroup.procs"), encoding="ascii") as members:
            pids = [int(pid) for pid in members.read().split()]
    except (OSError, ValueError):
        return
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
