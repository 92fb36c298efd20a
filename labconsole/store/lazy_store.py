"""A store that is opened when something is first asked of it: a console is on screen before SQLAlchemy is loaded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from labconsole.store.location import parse_location
from labconsole.store.open import open_store

if TYPE_CHECKING:
    from labconsole.store.writing import RunStore


class LazyStore:
    """Stands for the RunStore at a place: whatever is asked of it is asked of that. Raises StoreError for no place."""

    def __init__(self, url: str | None = None) -> None:
        self.name = parse_location(url).name
        self.writable = True
        self._url = url
        self._opened: RunStore | None = None
        self._opening = threading.Lock()

    def open(self) -> RunStore:
        """The store itself. Blocking. Raises StoreError."""
        with self._opening:
            if self._opened is None:
                self._opened = open_store(self._url)
                self._opened.writable = self.writable
            return self._opened

    def __getattr__(self, name: str) -> Any:
        """Once it is open, what the store has; before, a method that opens it when it is called: looking a method up
        must not keep an event loop waiting."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self._opened is not None:
            return getattr(self._opened, name)
        return lambda *args, **options: getattr(self.open(), name)(*args, **options)
