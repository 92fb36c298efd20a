"""Opens a store, now or at its first use. Importing this module is cheap."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from labconsole.store.location import parse_location

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore


# -- open --------------------------------------------------------------------------------------------------------------
# Opens a store. Importing this module is cheap.
#
# SQLAlchemy (200 ms), pydantic and numpy are loaded when a store is opened, so that ``labconsole --help`` and the
# console's first screen do not wait for them.


def open_store(url: str | None = None, *, write: bool = True, foreign: bool = False) -> RunStore:
    """Open the store at a path, sqlite:///path or postgresql://user@host/database; None is the user's own.

    Blocks. Creates the store unless ``write`` is False. ``foreign``: the file is untrusted, and all of it will be read.
    Raises StoreError naming the location if it cannot be opened, is no run store, or is of a newer version.
    """
    location = parse_location(url)
    from labconsole.store.writing import RunStore

    return RunStore(location, write=write, foreign=foreign)


# -- lazy store --------------------------------------------------------------------------------------------------------
# A store that is opened at its first use, so that a console is on screen before SQLAlchemy is loaded.


class LazyStore:
    """Proxy of the RunStore at a location. Raises StoreError for an invalid location."""

    def __init__(self, url: str | None = None) -> None:
        self.name = parse_location(url).name
        self.writable = True
        self._url = url
        self._opened: RunStore | None = None
        self._opening = threading.Lock()

    def open(self) -> RunStore:
        """The store itself. Blocks. Raises StoreError."""
        with self._opening:
            if self._opened is None:
                self._opened = open_store(self._url)
                self._opened.writable = self.writable
            return self._opened

    def __getattr__(self, name: str) -> Any:
        """An attribute of the store once it is open; before that, a method that opens the store when it is called.

        Looking up a method must not block an event loop.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        if self._opened is not None:
            return getattr(self._opened, name)
        return lambda *args, **options: getattr(self.open(), name)(*args, **options)
