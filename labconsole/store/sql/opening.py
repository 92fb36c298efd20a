"""Opens a store: checks that it is one, of a known version; otherwise creates it, or migrates it.

Two consoles may open an old or an empty database at once: everything is checked again under the write lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, inspect, select

from labconsole.errors import StoreError
from labconsole.store.sql.backend import Backend
from labconsole.store.sql.schema import (
    SCHEMA_VERSION,
    TABLE_NAMES,
    add_baselines,
    add_list,
    create_tables,
    fill_missing_columns,
    migrate,
    runs,
    schema_version,
)
from labconsole.wire.version import __version__


def open_for_writing(backend: Backend) -> int:
    """Open for writing. Afterwards the store has the present version, which is returned."""
    backend.check_place()
    with backend.reading() as connection:
        present = _tables(connection)
        if present:
            _check_version(backend, connection, present)
    backend.prepare_database()
    with backend.writing() as connection:
        present = _tables(connection)
        if present:
            version = _check_version(backend, connection, present)
            if version < SCHEMA_VERSION:
                migrate(connection, version)
            else:
                fill_missing_columns(
                    connection
                )  # a console of an older version may have been open while this one migrated
            add_list(connection)
            add_baselines(connection)
        else:
            create_tables(connection)
            backend.create_own(connection)
    backend.tidy()
    return SCHEMA_VERSION


def open_read_only(backend: Backend, *, foreign: bool = False) -> int:
    """Open for reading only, and return the store's version.

    ``foreign``: the file is untrusted and all of it will be read, so its pages are checked first.
    """
    backend.check_place()
    with backend.reading() as connection, connection.begin():
        present = _tables(connection)
        if not present and backend.empty_is_none:
            raise StoreError(f"{backend.name}: there is no run store there; nothing has been saved yet")
        return _check_version(backend, connection, present, foreign=foreign)


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def _check_version(backend: Backend, connection: Connection, present: set[str], *, foreign: bool = False) -> int:
    """The store's version. Raises StoreError unless this program can read it."""
    if not {schema_version.name, runs.name} <= present:
        raise StoreError(f"{backend.name}: is a database, but not a run store")
    backend.check_schema(connection, TABLE_NAMES)
    if foreign:
        backend.check_pages(connection, sorted(present & set(TABLE_NAMES)))
    version = connection.execute(select(func.max(schema_version.c.version))).scalar_one()
    if not isinstance(version, int) or version < 1:
        raise StoreError(f"{backend.name}: the run store has no schema version; its creation did not complete")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{backend.name}: the run store has schema version {version}; labconsole {__version__} reads versions up "
            f"to {SCHEMA_VERSION}: use the newer labconsole that wrote it"
        )
    return version
