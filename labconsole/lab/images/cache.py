"""The user's cache of kernels and packages: one process at a time, and only where nobody else can have written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labconsole.errors import LabSetupError


@contextmanager
def locked_cache(cache: Path) -> Iterator[None]:
    """The directory, made if it is not there, kept from other processes meanwhile. Raises LabSetupError."""
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    require_own(cache)
    descriptor = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def require_own(path: Path) -> None:
    """Raise LabSetupError unless ``path`` is this user's or root's and nobody else may write there: what is in it runs
    in the lab's machines.
    """
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        raise LabSetupError(f"{path} belongs to user id {status.st_uid}; a cache must be your own: remove or rename it")
    if status.st_mode & 0o022:
        mode = f"{status.st_mode & 0o777:o}"
        raise LabSetupError(f"{path} can be written by others (mode {mode}); run `chmod go-w {path}`")
