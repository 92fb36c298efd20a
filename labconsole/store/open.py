"""Opens a store. Importing this module is cheap.

SQLAlchemy (200 ms), pydantic and numpy are loaded when a store is opened, so that ``labconsole --help`` and the
console's first screen do not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labconsole.store.location import parse_location

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore


def open_store(url: str | None = None, *, write: bool = True, foreign: bool = False) -> RunStore:
    """Open the store at a path, sqlite:///path or postgresql://user@host/database; None is the user's own.

    Blocks. Creates the store unless ``write`` is False. ``foreign``: the file is untrusted, and all of it will be read.
    Raises StoreError naming the location if it cannot be opened, is no run store, or is of a newer version.
    """
    location = parse_location(url)
    from labconsole.store.writing import RunStore

    return RunStore(location, write=write, foreign=foreign)
