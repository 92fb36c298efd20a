"""The directory of a capture's file until its name is no longer needed, and the sweep of directories left behind.

Agent and keeper remove it. If both are killed between its creation and tcpdump's first line, it remains; so every agent
removes, before it captures, the unlocked ones. Each agent locks its directory from its creation on. Only directories
with our name prefix, of our own user, and with nothing but a capture in them are touched.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from typing import Optional, Set, Tuple

from labconsole.agent.debug import complain
from labconsole.agent.keeper import UndoJournal
from labconsole.network.public_directories import find_own_directories
from labconsole.wire.codec import WireError

FILE = "capture.pcap"
"""The usual suffix: some distributions' profiles for tcpdump allow it no other."""
TRIES = 3

_NAME = re.compile(r"labconsole-[0-9a-f]{16}\Z")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def default_directory() -> str:
    return os.environ.get("TMPDIR") or "/var/tmp"


def sweep(directory: str) -> None:
    """Remove directories that dead agents of this user left. Those that cannot be removed are left to their owner."""
    try:
        paths = list(find_own_directories(directory, _NAME))
    except OSError:
        return  # a later write reports the error
    for path in paths:
        try:
            _sweep_one(path)
        except OSError as exc:
            complain("%s is left: %s" % (path, exc))


def _sweep_one(path: str) -> None:
    descriptor = os.open(path, _DIRECTORY)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its agent lives
        if set(os.listdir(descriptor)) - {FILE}:
            return  # not as agents make them
        # By the descriptor, so that a directory put in its place meanwhile is not affected.
        if os.listdir(descriptor):
            os.unlink(FILE, dir_fd=descriptor)
        os.rmdir(path)
    finally:
        os.close(descriptor)


class CaptureFile:
    """The file that a capture is written to."""

    swept: Set[str] = set()
    """Directories that this process has already swept."""

    def __init__(self, directory: str, journal: UndoJournal) -> None:
        self._journal = journal
        if directory not in self.swept:
            self.swept.add(directory)
            sweep(directory)
        self._lock = -1
        for attempt in range(TRIES):
            self.directory = os.path.join(directory, "labconsole-" + os.urandom(8).hex())
            self._file = os.path.join(self.directory, FILE)
            self._promise: Optional[int] = journal.promise({"kind": "path", "directory": self.directory})
            try:
                self._lock, self.descriptor = self._make()
                return
            except OSError as exc:
                self._forget()
                swept = isinstance(exc, (FileNotFoundError, BlockingIOError)) and os.path.isdir(directory)
                if swept and attempt < TRIES - 1:
                    continue  # another agent's sweep ran between creation and locking
                raise WireError("no_directory", "cannot write captures to %s: %s" % (directory, exc.strerror)) from None

    def _make(self) -> Tuple[int, int]:
        os.mkdir(self.directory, 0o700)
        lock = os.open(self.directory, _DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock, os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            os.close(lock)
            raise

    @property
    def path(self) -> str:
        """Return a name under which any process of the same user can read the file."""
        return "/proc/%d/fd/%d" % (os.getpid(), self.descriptor)

    def unname(self) -> None:
        """Remove the file's name: from now on it is deleted with its last reader."""
        self._forget()

    def close(self) -> None:
        """Release the file."""
        os.close(self.descriptor)
        self._forget()

    def _forget(self) -> None:
        if self._promise is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1
            self._journal.done(self._promise)
            self._promise = None
