"""Opening a store. Importing this costs next to nothing.

SQLAlchemy (200 ms), pydantic and numpy are loaded when a store is opened, so that ``labconsole --help`` and a console
that paints its first screen do not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labconsole.store.location import parse_location

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore


def open_store(url: str | None = None, *, write: bool = True, foreign: bool = False) -> RunStore:
    """Open the store at a path, sqlite:///path or postgresql://user@host/database; None is the user's own.

    Blocking. Creates it unless ``write`` is False. ``foreign``: anybody may have written it, and all of it is read.
    Raises StoreError naming the place when it cannot be opened, is no run store, or is of a newer version.
    """
    location = parse_location(url)
    from labconsole.store.writing import RunStore

    return RunStore(location, write=write, foreign=foreign)
