"""Where a store can be, for tests that run on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from support.postgresql_server import DATABASE, PostgresServer

_numbers = count()


class Place(Protocol):
    """``url`` for open_store, ``name`` as messages call it."""

    url: str
    name: str

    def execute(self, statement: str, *values: Any) -> list[Any]: ...
    def series_names(self) -> list[str]: ...


class SqlitePlace:
    """A file."""

    def __init__(self, directory: Path, name: str = "runs.sqlite") -> None:
        self.path = directory / name
        self.url = self.name = str(self.path)

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Run one statement past labconsole; values stand at question marks."""
        connection = sqlite3.connect(self.path)
        try:
            with connection:
                return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def series_names(self) -> list[str]:
        """The runs that series are kept of, and what else lies there."""
        directory = self.path.with_name(self.path.name + ".series")
        return sorted(path.name.removesuffix(".npz") for path in directory.iterdir()) if directory.exists() else []


class ServerPlace:
    """A schema of its own on the tests' server."""

    def __init__(self, server: PostgresServer, *, create: bool = True) -> None:
        self.server, self.schema = server, f"s{next(_numbers)}"
        self.url = server.url(schema=self.schema)
        self.name = f"postgresql://owner@/{DATABASE}"
        if create:
            server.execute(f"CREATE SCHEMA {self.schema}")

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Run one statement past labconsole; values stand at question marks."""
        return self.server.execute(statement.replace("?", "%s"), *values, schema=self.schema)

    def series_names(self) -> list[str]:
        """The runs that series are kept of."""
        if not self.execute("SELECT to_regclass('series')")[0][0]:
            return []
        return [row[0] for row in self.execute("SELECT run_id FROM series ORDER BY run_id")]
