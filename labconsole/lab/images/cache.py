"""The user's cache of kernels and packages: one process at a time, and only if no other user can have written there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labconsole.errors import LabSetupError


@contextmanager
def locked_cache(cache: Path) -> Iterator[None]:
    """Lock the cache directory, making it if needed. Raises LabSetupError."""
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    require_own(cache)
    descriptor = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def require_own(path: Path) -> None:
    """Raise LabSetupError unless ``path`` is owned by this user or root and not writable for others: its contents run
    in the lab's machines.
    """
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise LabSetupError(f"{path} belongs to user id {status.st_uid}; a cache must be your own: remove or rename it")
    if status.st_mode & 0o022:
        mode = f"{status.st_mode & 0o777:o}"
        raise LabSetupError(f"{path} can be written by others (mode {mode}); run `chmod go-w {path}`")
