"""Disks of guests: no part of the network, but made, undone and described like its changes.

They are directories, or files that a guest's hypervisor presents as a disk, below one directory that is the agent's
own. The agent or its keeper removes that directory; if both were killed at once, the next agent that makes one in the
same place does: it is locked as long as its agent lives.
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
from labconsole.network.public_directories import find_own_directories
from labconsole.wire.codec import WireError
from labconsole.wire.message import Message
from labconsole.wire.rules import Most, Rule, bad, whole

MIB = 1024 * 1024
MOST_MIB = 2**22
SPARE_MIB = 256
"""Space that stays free in addition to all disks, so that other programs can still write there."""

EMPTY_S = 1.0
"""How long killed processes may still write into a directory that is being removed."""

_PLACE = re.compile(r"/[A-Za-z0-9_.+@/-]{0,199}\Z")
_NAME = re.compile(r"labconsole-disks-[0-9a-f]{8}\Z")
_locks: Dict[str, int] = {}
"""Maps each directory that this process made to the descriptor of its lock."""


def _place(value: Any, where: str) -> str:
    if type(value) is not str or not _PLACE.match(value):
        raise bad(where, "is not an absolute path of letters, digits and _ . + @ -")
    return value


def _name(value: Any, where: str) -> str:
    if type(value) is not str or not _NAME.match(value):
        raise bad(where, "is not the name of a directory for guests' disks")
    return value


class GuestDisk(Message):
    """One guest's disk and its size in MiB."""

    guest: Group
    mib: Annotated[int, Rule(whole(1, MOST_MIB))]


class GuestDisks(NetworkChange, do="guest_disks"):
    """Make a directory with a disk for each guest; undone, it is removed with all its contents.

    ``files``: each disk is a file of its full size; otherwise it is a directory, and the file system must have room for
    it.
    """

    place: Annotated[str, Rule(_place)]
    name: Annotated[str, Rule(_name)]
    disks: Annotated[List[GuestDisk], Most(1024)]
    files: bool
    namespace: ClassVar[None] = None  # type: ignore[misc]  # belongs to a mount, not to a network

    def apply(self, node: ChangedNode) -> None:
        path = os.path.join(self.place, self.name)
        if not os.path.isdir(self.place):
            raise WireError("no_directory", "%s, where guests' disks would be, is not a directory" % self.place)
        sweep(self.place)
        self._refuse_without_room()
        if os.path.lexists(path):
            raise WireError("exists", "%s already exists and does not belong to this session" % path)
        node.promise(self.kind, path=path)
        _locks[path] = hold(path)
        try:
            for disk in self.disks:
                self._make(os.path.join(path, disk.guest), disk.mib)
        except OSError as exc:
            if exc.errno != errno.ENOSPC:
                raise
            raise WireError("no_space", "%s became full while guests' disks were created" % self.place) from None

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
                "no room on disk: %s has %d MiB left; %d guests' disks need %d MiB, and %d MiB must stay free"
                % (self.place, free_mib, len(self.disks), wanted_mib, SPARE_MIB),
            )

    @staticmethod
    def undo(entry: Entry) -> None:
        path = entry["path"]
        _remove(path)
        if path in _locks:
            os.close(_locks.pop(path))

    def commands(self) -> List[str]:
        lines = [line("mkdir", "-m", "700", os.path.join(self.place, self.name))]
        for disk in self.disks:
            path = os.path.join(self.place, self.name, disk.guest)
            lines.append(
                line("fallocate", "-l", "%dM" % disk.mib, path) if self.files else line("mkdir", "-m", "700", path)
            )
        return lines


def sweep(place: str) -> None:
    """Remove directories that dead agents of this user left in ``place``: ours by name and owner, and unlocked.

    Directories that cannot be removed are left to their owner.
    """
    for path in list(find_own_directories(place, _NAME)):
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
    """Remove the whole directory, even if a process still writes into it meanwhile. Raises OSError."""
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
