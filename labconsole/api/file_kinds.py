"""The kind of a file on the command line: a plan, a store, a bundle. Importing this takes no time."""

from __future__ import annotations

from pathlib import Path

PLAN_FILES = (".yaml", ".yml")
_SQLITE_MAGIC, _GZIP_MAGIC = b"SQLite format 3\0", b"\x1f\x8b"


def is_plan(word: str) -> bool:
    """Whether it is a plan, by its name."""
    return word.endswith(PLAN_FILES)


def is_store(word: str) -> bool:
    """Whether it is a store: a file of runs, by its first bytes, or the address of a server."""
    return "://" in word or _begins(word, _SQLITE_MAGIC)


def is_bundle(word: str) -> bool:
    """Whether it is a bundle, by its first bytes."""
    return _begins(word, _GZIP_MAGIC)


def _begins(what: str, magic: bytes) -> bool:
    """Whether a file begins so. If it is unreadable, its next reader reports it."""
    try:
        with Path(what).open("rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False
