"""A store that is opened at its first use, so that a console is on screen before SQLAlchemy is loaded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from labconsole.store.location import parse_location
from labconsole.store.open import open_store

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore


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
