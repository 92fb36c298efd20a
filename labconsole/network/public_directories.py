"""Directories that every user of a node can write to, such as /tmp: what others put there costs a look little."""

from __future__ import annotations

import os
from itertools import islice
from typing import Collection, Iterator, List, Pattern

MAX_NAMES = 50_000
"""Most names of a directory that are looked at; any user can make millions."""


def find_names(directory: str, pattern: Pattern[str]) -> Iterator[str]:
    """Yield the names in a directory that match, among the first ``MAX_NAMES``. Raises OSError."""
    with os.scandir(directory) as entries:
        for entry in islice(entries, MAX_NAMES):
            if pattern.match(entry.name):
                yield entry.name


def find_own_directories(directory: str, pattern: Pattern[str]) -> Iterator[str]:
    """Yield the paths of this user's directories among ``find_names``. Raises OSError."""
    mounts = find_fuse_mounts()
    for name in find_names(directory, pattern):
        path = os.path.join(directory, name)
        try:
            if not is_below(path, mounts) and os.lstat(path).st_uid == os.geteuid():
                yield path
        except OSError:
            continue  # it has just been removed


def find_fuse_mounts() -> List[str]:
    """Return where file systems are mounted that a program serves: a user's own, which may never answer."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            lines = [line.partition(" - ") for line in mounts]
    except OSError:
        return []
    return [mount.split()[4] for mount, _, kind in lines if kind.startswith("fuse")]


def is_below(path: str, mounts: Collection[str]) -> bool:
    """Return whether a path is one of these mount points, or below one."""
    return any(path == mount or path.startswith(mount + "/") for mount in mounts)
