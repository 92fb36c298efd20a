"""A file that is made and never written over: its name as typed, or a sentence why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO


def create(name: str, suffixes: Sequence[str]) -> tuple[Path, IO[str]]:
    """A new file of that name. Raises ValueError with a sentence when it is there already or cannot be made."""
    if not name.strip():
        raise ValueError("enter a file name")
    path = Path(name.strip()).expanduser().absolute()
    if path.suffix not in suffixes:
        raise ValueError(f"{path.name}: must end in {' or '.join(suffixes)}")
    try:
        return path, path.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise ValueError(f"{path} already exists and will not be overwritten; choose another name") from None
    except (OSError, ValueError) as exc:
        raise ValueError(f"{path} cannot be written: {getattr(exc, 'strerror', None) or exc}") from None
