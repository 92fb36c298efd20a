"""Disks of guests: no part of the network, but made, undone and told as its changes are.

They are directories, or files that a guest's hypervisor shows it as a disk, below one directory that is the agent's
own. The agent removes that, or its keeper; and should both be killed at once, the next agent that makes one in the same
place: it is locked as long as its agent lives.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from typing import Annotated, Any, ClassVar, Dict, List

from labconsole.network.change import ChangedNode, Entry, NetworkChange, line
from labconsole.network.control_groups import DIRECTORY, Group, hold
from labconsole.wire.codec import WireError
from labconsole.wire.message import Message
from labconsole.wire.rules import Most, Rule, bad, whole

MIB = 1024 * 1024
MOST_MIB = 2**22
SPARE_MIB = 256
"""So much stays free beside all disks: whoever else writes there is not to fail because of us."""

EMPTY_S = 1.0
"""How long what is killed may still write into a directory that is being removed."""

_PLACE = re.compile(r"/[A-Za-z0-9_.+@/-]{0,199}\Z")
_NAME = re.compile(r"labconsole-disks-[0-9a-f]{8}\Z")
_held: Dict[str, int] = {}
"""Directory to the descriptor that holds its lock, of those that this process made."""


def _place(value: Any, where: str) -> str:
    if type(value) is not str or not _PLACE.match(value):
        raise bad(where, "is not an absolute path of letters, digits and _ . + @ -")
    return value


def _name(value: Any, where: str) -> str:
    if type(value) is not str or not _NAME.match(value):
        raise bad(where, "is not the name of a directory for guests' disks")
    return value


class GuestDisk(Message):
    """One guest's disk of so many MiB."""

    guest: Group
    mib: Annotated[int, Rule(whole(1, MOST_MIB))]


class GuestDisks(NetworkChange, do="guest_disks"):
    """Make a directory with a disk for each guest; undone, it is removed with all that is in it.

    ``files``: each disk is a file of its full size; otherwise a directory, for whose size there is room.
    """

    place: Annotated[str, Rule(_place)]
    name: Annotated[str, Rule(_name)]
    disks: Annotated[List[GuestDisk], Most(1024)]
    files: bool
    namespace: ClassVar[None] = None  # type: ignore[misc]  # a mount's, not a network's

    def apply(self, node: ChangedNode) -> None:
        path = os.path.join(self.place, self.name)
        if not os.path.isdir(self.place):
            raise WireError("no_directory", "%s, where guests' disks would be, is not a directory" % self.place)
        sweep(self.place)
        self._refuse_without_room()
        if os.path.lexists(path):
            raise WireError("exists", "%s already exists and does not belong to this session" % path)
        node.promise(self.kind, path=path)
        _held[path] = hold(path)
        try:
            for disk in self.disks:
                self._make(os.path.join(path, disk.guest), disk.mib)
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
            raise WireError("no_space", "%s became full while guests' disks were made" % self.place) from None

    def _make(self, path: str, mib: int) -> None:
        if not self.files:
            os.mkdir(path, 0o700)
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, mib * MIB)
        finally:
            os.close(descriptor)

    def _refuse_without_room(self) -> None:
        found = os.statvfs(self.place)
        free_mib, wanted_mib = found.f_bavail * found.f_frsize // MIB, sum(disk.mib for disk in self.disks)
        if wanted_mib + SPARE_MIB > free_mib:
            raise WireError(
                "no_space",
                "no room on disk: %s has %d MiB left; %d guests' disks need %d MiB, and %d MiB are to stay free"
                % (self.place, free_mib, len(self.disks), wanted_mib, SPARE_MIB),
            )

    @staticmethod
    def undo(entry: Entry) -> None:
        path = entry["path"]
        _remove(path)
        if path in _held:
            os.close(_held.pop(path))

    def commands(self) -> List[str]:
        lines = [line("mkdir", "-m", "700", os.path.join(self.place, self.name))]
        for disk in self.disks:
            path = os.path.join(self.place, self.name, disk.guest)
            lines.append(
                line("fallocate", "-l", "%dM" % disk.mib, path) if self.files else line("mkdir", "-m", "700", path)
            )
        return lines


def sweep(place: str) -> None:
    """Remove what dead agents of this user left in ``place``: of our name, our own, and locked by nobody.

    What cannot be removed is left to its owner.
    """
    for name in filter(_NAME.match, os.listdir(place)):
        path = os.path.join(place, name)
        try:
            descriptor = os.open(path, DIRECTORY)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its agent lives
                    _remove(path)
            finally:
                os.close(descriptor)
        except OSError:
            continue


def _remove(path: str) -> None:
    """All of it, be it that something was still written into it meanwhile. Raises OSError."""
    deadline = time.monotonic() + EMPTY_S
    while True:
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EBUSY) or time.monotonic() > deadline:
                raise
        time.sleep(0.005)
