"""Where a store is: the user's data directory, a path, or sqlite:///path. Touches no file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import StoreError


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The database file. ``own`` is True for the default place, whose directories are made when missing."""

    path: Path
    own: bool = False

    @property
    def series_dir(self) -> Path:
        """Where the time series of its runs lie, beside the database."""
        return self.path.with_name(self.path.name + ".series")


def default_path() -> Path:
    """labconsole/runs.sqlite in $XDG_DATA_HOME, or in ~/.local/share when that is unset or not absolute."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():  # what the XDG base directory specification says about relative paths
        base = Path.home() / ".local" / "share"
    return base / "labconsole" / "runs.sqlite"


def parse_location(url: str | None) -> StoreLocation:
    """Where ``--store`` points. Raises StoreError for what is no place for runs."""
    if url is None:
        return StoreLocation(default_path(), own=True)
    text = url
    if "://" in url:
        scheme, _, rest = url.partition("://")
        if scheme in ("postgresql", "postgres") or scheme.startswith("postgresql+"):
            raise StoreError(f"{scheme}:// stores are not in this version; allowed: a path or sqlite:///path")
        if scheme != "sqlite" or not rest.startswith("/"):
            raise StoreError(f"{url!r} is not a store; allowed: a path or sqlite:///path")
        text = rest[1:]
    if text in ("", ":memory:"):
        raise StoreError(f"{url!r} names no file to keep runs in; allowed: a path or sqlite:///path")
    if "\0" in text:
        raise StoreError("the store's path contains a null character")
    return StoreLocation(Path(text).expanduser().absolute())
