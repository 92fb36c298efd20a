"""Runs, kept durably in SQLite or PostgreSQL: factors and records in tables, columnar time series per run.

Importing this costs next to nothing: SQLAlchemy (200 ms), pydantic and numpy are loaded when a store is opened, so that
``labconsole --help`` and a console that paints its first screen do not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labconsole.model.run_id import new_run_id
from labconsole.store.location import StoreLocation, default_path, parse_location
from labconsole.store.summary import RunFilter, RunSummary

if TYPE_CHECKING:
    from labconsole.store.database import RunStore

__all__ = ["RunFilter", "RunStore", "RunSummary", "StoreLocation", "default_path", "new_run_id", "open_store"]


def open_store(url: str | None = None, *, write: bool = True) -> RunStore:
    """Open the store at a path, sqlite:///path or postgresql://user@host/database; None is the user's own.

    Blocking. Creates it unless ``write`` is False. Raises StoreError naming the place when it cannot be
    opened, is no run store, or is of a newer version.
    """
    location = parse_location(url)
    from labconsole.store.database import RunStore

    return RunStore(location, write=write)


def __getattr__(name: str) -> object:
    if name == "RunStore":
        from labconsole.store.database import RunStore

        return RunStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
