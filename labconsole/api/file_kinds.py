"""What a file named on the command line is: a plan, a store, a bundle. Importing this takes no time."""

from __future__ import annotations

from pathlib import Path

PLAN_FILES = (".yaml", ".yml")
_SQLITE_MAGIC, _GZIP_MAGIC = b"SQLite format 3\0", b"\x1f\x8b"


def is_plan(word: str) -> bool:
    """By its name."""
    return word.endswith(PLAN_FILES)


def is_store(word: str) -> bool:
    """A file of runs by how it begins, or the address of a server."""
    return "://" in word or _begins(word, _SQLITE_MAGIC)


def is_bundle(word: str) -> bool:
    """By how it begins."""
    return _begins(word, _GZIP_MAGIC)


def _begins(what: str, magic: bytes) -> bool:
    """One that cannot be read is told by whoever reads it next."""
    try:
        with Path(what).open("rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False
