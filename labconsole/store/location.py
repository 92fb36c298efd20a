"""Where a store is: in the user's data directory, at a path or sqlite:///path, or on a PostgreSQL server. No I/O."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from labconsole.errors import StoreError

ALLOWED = "allowed: a path, sqlite:///path or postgresql://user@host/database"
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


@dataclass(frozen=True, slots=True)
class FileLocation:
    """The database file. ``own`` is True for the default location, whose directories are created if missing."""

    path: Path
    own: bool = False

    @property
    def name(self) -> str:
        """The name in messages."""
        return str(self.path)

    @property
    def series_dir(self) -> Path:
        """The directory of its runs' time series, next to the database."""
        return self.path.with_name(self.path.name + ".series")


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """A database on a PostgreSQL server: a connection URL for libpq without a password."""

    url: str

    @property
    def name(self) -> str:
        """The name in messages: the URL without its options."""
        return urlunsplit(urlsplit(self.url)._replace(query=""))


StoreLocation = FileLocation | ServerLocation


def default_path() -> Path:
    """labconsole/runs.sqlite in $XDG_DATA_HOME, or in ~/.local/share when that is unset or not absolute."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():  # as the XDG base directory specification says about relative paths
        base = Path.home() / ".local" / "share"
    return base / "labconsole" / "runs.sqlite"


def parse_location(url: str | None) -> StoreLocation:
    """Parse the argument of ``--store``. Raises StoreError if it is no valid location."""
    if url is None:
        return FileLocation(default_path(), own=True)
    if "\0" in url:
        raise StoreError("the store's path contains a null character")
    text = url
    if "://" in url:
        scheme, _, rest = url.partition("://")
        if scheme in _POSTGRESQL:
            return _server(f"postgresql://{rest}")
        if scheme != "sqlite" or not rest.startswith("/"):
            # An unknown URL may contain a password as well, so it is not repeated.
            raise StoreError(f"{scheme + '://' + rest.rpartition('@')[2]!r} is not a valid store; {ALLOWED}")
        text = rest[1:]
    if text in ("", ":memory:"):
        raise StoreError(f"{url!r} does not name a file; {ALLOWED}")
    return FileLocation(Path(text).expanduser().absolute())


def would_create(url: str | None) -> bool:
    """Whether opening this location for writing would create a store. Raises as parse_location."""
    location = parse_location(url)
    if not isinstance(location, FileLocation):
        return False
    try:
        return not location.path.exists() and (location.own or location.path.parent.is_dir())
    except OSError:  # opening it reports the reason
        return False


def _server(url: str) -> ServerLocation:
    """Parse a server's URL.

    One with a password is refused without repeating it: command lines are readable to all users.
    """
    try:
        parts = urlsplit(url)
        keys = [key.lower() for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError as exc:
        raise StoreError(f"the store's URL cannot be read: {exc}; {ALLOWED}") from None
    user, _, _ = parts.netloc.rpartition("@")
    if ":" in user or any(key in _SECRET for key in keys):
        raise StoreError(
            "the store's URL contains a password, which everybody on this machine can read in the process list; put "
            "it into ~/.pgpass or PGPASSWORD and remove it from the URL"
        )
    if "@" in user:
        raise StoreError("the store's URL contains two '@': write one that belongs to a name as %40")
    if parts.fragment:
        raise StoreError("the store's URL contains a '#': write one that belongs to a name as %23")
    return ServerLocation(url)
