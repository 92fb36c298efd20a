"""The tables. The record's JSON is authoritative; other columns repeat parts of it for filters, lists and resume."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NoReturn

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    bindparam,
    column,
    insert,
    inspect,
    literal,
    null,
    select,
    table,
    update,
)
from sqlalchemy import text as sql

from labconsole.errors import StoreError
from labconsole.model.record.run import RunRecord, derive_conditions, format_hypervisor
from labconsole.model.record.summary import RunSummary
from labconsole.store.records import MAX_NAME_CHARACTERS, parse_record, refuse_long_names, utc_text
from labconsole.wire.version import __version__

# -- row types ---------------------------------------------------------------------------------------------------------
# Checks rows against their columns' types: SQLite accepts any value in any column, and the file may be untrusted.


class RowTypes:
    """The types of some columns. ``optional``: columns that an older store lacks, which then have no value."""

    def __init__(self, columns: Sequence[ColumnElement[Any]], optional: Collection[str]) -> None:
        self._columns = [
            (str(column.key), _types(column, getattr(column, "nullable", True) or column.key in optional))
            for column in columns
        ]
        self._reals = [place for place, (_, allowed) in enumerate(self._columns) if float in allowed]
        self._valid = set[tuple[type, ...]]()

    def check(self, row: Sequence[Any]) -> None:
        """Raise StoreError naming run and column. The first column of a row is the run's id."""
        found = tuple(map(type, row))
        if found not in self._valid:  # false of nearly every row
            for place, kind in enumerate(found[: len(self._columns)]):
                if kind not in self._columns[place][1]:
                    self._refuse(row, place, f"a {kind.__name__}" if row[place] is not None else "no value")
            self._valid.add(found)
        for place in self._reals:
            if row[place] is not None and not isfinite(row[place]):
                self._refuse(row, place, str(row[place]))

    def _refuse(self, row: Sequence[Any], place: int, shown: str) -> NoReturn:
        name = self._columns[place][0]
        raise StoreError(f"run {str(row[0])[:80]}: the column {name} of the table of runs contains {shown}")


def _types(column: ColumnElement[Any], nullable: bool) -> frozenset[type]:
    own = column.type.python_type
    return frozenset({own, *([int] if own in (float, bool) else []), *([type(None)] if nullable else [])})


# -- schema ------------------------------------------------------------------------------------------------------------

SCHEMA_VERSION = 5
"""Incremented when an older labconsole could no longer read or write the tables.

2 added notes and calibrations, 3 searches, 4 the columns for record format 2: set-ups, conditions and sides of a loss.
In 5 one table contains every kind of record that is no run, and searches moved into it.
"""

FILLED_AT_ONCE = 500
"""Records read at a time during a migration."""

metadata = MetaData()

_Word = String().with_variant(String(collation="C"), "postgresql")
"""Text that sorts by its bytes, as in SQLite: the order of run ids and time stamps is meaningful."""

schema_version = Table(
    "labconsole_schema",
    metadata,
    Column("version", Integer, primary_key=True),
    Column("created_by", _Word, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", _Word, primary_key=True),
    Column("started_at", _Word, nullable=False),
    Column("testbed", _Word, nullable=False),
    Column("testbed_fingerprint", _Word, nullable=False),
    Column("emulated", Boolean, nullable=False),
    Column("generator", _Word, nullable=False),
    Column("platform", _Word, nullable=False),
    Column("frame_size_bytes", Integer),
    Column("frame_size_includes_fcs", Boolean, nullable=False),
    Column("sources", Integer, nullable=False),
    Column("target_bps", BigInteger),
    Column("background", _Word, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("plan_name", _Word),
    Column("plan_hash", _Word),
    Column("plan_point", Integer),
    Column("repetition", Integer),
    Column("verdict", _Word, nullable=False),
    Column("reason_codes", _Word, nullable=False),
    Column("offered_pps", Float),
    Column("offered_bps", Float),
    Column("measured_pps", Float),
    Column("measured_bps", Float),
    Column("loss_packets", BigInteger),
    Column("loss_ratio", Float),
    Column("has_series", Boolean, nullable=False),
    Column("format", Integer),
    Column("role", _Word),
    Column("method", Integer),
    Column("set_up", _Word),
    Column("block", Integer),
    Column("attempt", Integer),
    Column("attempts", Integer),
    Column("set_up_trials", Integer),
    Column("uut_kernel", _Word),
    Column("hypervisor", _Word),
    Column("boot_id", _Word),
    Column("offered_packets", BigInteger),
    Column("forwarding_pps", Float),
    Column("forwarding_bps", Float),
    Column("source_lost_packets", BigInteger),
    Column("uut_lost_packets", BigInteger),
    Column("sink_lost_packets", BigInteger),
    Column("late_packets", BigInteger),
    # Last: SQLite reads a row from its beginning, so a list of runs never touches the pages that records overflow into.
    Column("record", Text, nullable=False),
)

# No index on the factors: at 100 000 runs it made grouping slower (158 ms instead of 121 ms) and every save dearer.
Index("runs_by_time", runs.c.started_at, runs.c.run_id)
Index("runs_by_plan", runs.c.plan_hash, runs.c.testbed_fingerprint)
_LISTED = (runs.c.started_at, *(column for column in runs.c if column.name not in ("started_at", "record")))
# All columns that lists, filters and sortings use, in their usual order: SQLite keeps long records in the rows, and
# reading past them takes ten times as long. PostgreSQL stores them elsewhere by itself, and would refuse so wide an
# index.
runs_listed = Index("runs_listed", *_LISTED).ddl_if(dialect="sqlite")
# Empty unless a console of an older version saved into this store: finds such runs without reading every run.
Index(
    "runs_to_fill_in",
    runs.c.run_id,
    sqlite_where=runs.c.format.is_(None),
    postgresql_where=runs.c.format.is_(None),
)

notes = Table(
    "notes",
    metadata,
    Column("run_id", _Word, primary_key=True),
    Column("text", Text),
    Column("author", _Word, nullable=False),
    Column("written_at", _Word, nullable=False),
)

calibrations = Table(
    "calibrations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("testbed_fingerprint", _Word, nullable=False),
    Column("saved_at", _Word, nullable=False),
    Column("record", Text, nullable=False),
)
Index("calibrations_by_testbed", calibrations.c.testbed_fingerprint, calibrations.c.id)

baselines = Table(
    "baselines",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", _Word, nullable=False),
    Column("plan_name", _Word, nullable=False),
    Column("plan_hash", _Word, nullable=False),
    Column("testbed", _Word, nullable=False),
    Column("testbed_fingerprint", _Word, nullable=False),
    Column("author", _Word, nullable=False),
    Column("set_at", _Word, nullable=False),
)
"""Added by a later program of version 5; programs that do not know this table use the others as before."""

experiments = Table(
    "experiments",
    metadata,
    Column("kind", _Word, primary_key=True),
    Column("id", _Word, primary_key=True),
    Column("started_at", _Word, nullable=False),
    Column("testbed", _Word, nullable=False),
    Column("testbed_fingerprint", _Word, nullable=False),
    Column("plan_name", _Word),
    Column("plan_hash", _Word),
    Column("platform", _Word, nullable=False),
    Column("status", _Word, nullable=False),
    Column("record", Text, nullable=False),
)
Index("experiments_by_plan", experiments.c.plan_hash, experiments.c.testbed_fingerprint)

TABLE_NAMES = (*sorted(metadata.tables), "searches")
"""The tables of this version and of those that can still be read."""

_SEARCHES = (
    select(literal("search").label("kind"), column("search_id").label("id"), *map(column, experiments.c.keys()[2:]))
    .select_from(table("searches"))
    .subquery()
)
"""The same columns from the table that versions 3 and 4 had for the only kind that existed."""

SINCE_4 = (
    "format",
    "role",
    "method",
    "set_up",
    "block",
    "attempt",
    "attempts",
    "set_up_trials",
    "uut_kernel",
    "hypervisor",
    "boot_id",
    "offered_packets",
    "forwarding_pps",
    "forwarding_bps",
    "source_lost_packets",
    "uut_lost_packets",
    "sink_lost_packets",
    "late_packets",
)
"""Columns of runs that version 4 added. They repeat the record, from which they are derived in an older file."""

_RUN_COLUMNS = [column for column in runs.c if column.name != "record"]
SUMMARY_COLUMNS = [*_RUN_COLUMNS, notes.c.text.label("note")]
"""The columns of runs left joined with notes."""


def summary_columns_before_4(version: int) -> list[ColumnElement[Any]]:
    """The same columns for a file of an older version that is opened for reading only; the last one is the record."""
    columns: list[ColumnElement[Any]] = [
        null().label(column.name) if column.name in SINCE_4 else column for column in _RUN_COLUMNS
    ]
    return [*columns, null().label("note") if version < 2 else notes.c.text.label("note"), runs.c.record]


def add_list(connection: Connection) -> None:
    """Add the index for lists to a store that was created without it. Older programs maintain it, too."""
    if connection.dialect.name == "sqlite":
        runs_listed.create(connection, checkfirst=True)


def add_baselines(connection: Connection) -> None:
    """Add the table of baselines to a store that was created without it."""
    baselines.create(connection, checkfirst=True)


def create_tables(connection: Connection) -> None:
    """Create the tables of the present version in an empty store."""
    metadata.create_all(connection)
    connection.execute(insert(schema_version).values(version=SCHEMA_VERSION, created_by=__version__))


def migrate(connection: Connection, version: int) -> None:
    """Migrate a store from an older version to the present one, inside the caller's transaction.

    Every version leaves its row in labconsole_schema, so a file records its own history.
    """
    if version < 2:
        notes.create(connection)
        calibrations.create(connection)
    if version < 4:
        _add_columns_of_4(connection)
    experiments.create(connection)
    if version >= 3:
        connection.execute(insert(experiments).from_select(_SEARCHES.c.keys(), select(_SEARCHES)))
        connection.execute(sql("DROP TABLE searches"))
    connection.execute(insert(schema_version).values(version=SCHEMA_VERSION, created_by=__version__))


def find_experiments_table(connection: Connection, version: int) -> FromClause | None:
    """The table of experiments in a store that had this version when it was opened, or None if there is none."""
    if version >= 5:
        return experiments
    there = inspect(connection).get_table_names()
    if experiments.name in there:  # another console has migrated it since
        return experiments
    return _SEARCHES if "searches" in there else None


def _add_columns_of_4(connection: Connection) -> None:
    """Add the new columns and fill them from the records, whose text is not changed.

    In SQLite the rows move to a new table, so that the record remains the last column.
    """
    if connection.dialect.name == "sqlite":
        connection.execute(sql("ALTER TABLE runs RENAME TO runs_3"))
        for index in runs.indexes:
            connection.execute(sql(f"DROP INDEX IF EXISTS {index.name}"))
        runs.create(connection)
        old = [column.name for column in runs.c if column.name not in SINCE_4]
        names = ", ".join(["rowid", *old])
        connection.execute(sql(f"INSERT INTO runs ({names}) SELECT {names} FROM runs_3"))
        connection.execute(sql("DROP TABLE runs_3"))
    else:
        for name in SINCE_4:
            kind = runs.c[name].type.compile(connection.dialect)
            connection.execute(sql(f"ALTER TABLE runs ADD COLUMN IF NOT EXISTS {name} {kind}"))
        connection.execute(sql("ALTER TABLE runs ALTER COLUMN frame_size_bytes DROP NOT NULL"))
        next(index for index in runs.indexes if index.name == "runs_to_fill_in").create(connection, checkfirst=True)
    fill_missing_columns(connection)


def fill_missing_columns(connection: Connection) -> None:
    """Fill the columns of version 4 from the record: after a migration, and where an older program has saved since.

    A record that cannot be read keeps its row; of these columns only ``format`` is then set, to 0.
    """
    lacking = select(runs.c.run_id, runs.c.record).where(runs.c.format.is_(None)).limit(FILLED_AT_ONCE)
    first = set[str]()
    while rows := connection.execute(lacking).all():
        if rows[0].run_id in first:
            raise StoreError(f"run {str(rows[0].run_id)[:80]}: stays without its columns; the database is damaged")
        first.add(rows[0].run_id)
        values = [{"b_run_id": row.run_id, **_known_since_4(row.run_id, row.record)} for row in rows]
        statement = update(runs).where(runs.c.run_id == bindparam("b_run_id"))
        connection.execute(statement.values({name: bindparam(name) for name in SINCE_4}), values)


def _known_since_4(run_id: str, text: str) -> dict[str, Any]:
    try:
        return since_4(parse_record(text, f"run {run_id}"))
    except StoreError:
        return {**dict.fromkeys(SINCE_4), "format": 0}


def since_4(record: RunRecord) -> dict[str, Any]:
    """The columns of version 4 for a record of any format."""
    plan, total, conditions = record.plan, record.total, derive_conditions(record)
    return {
        "format": record.format,
        "role": record.role,
        "method": record.method,
        "set_up": record.set_up.id if record.set_up else None,
        "block": plan.block if plan else None,
        "attempt": plan.attempt if plan and record.format > 1 else None,
        "attempts": plan.attempts if plan and record.format > 1 else None,
        "set_up_trials": plan.set_up_trials if plan else None,
        "uut_kernel": conditions.uut_kernel,
        "hypervisor": format_hypervisor(conditions),
        "boot_id": conditions.uut_boot_id,
        "offered_packets": total.offered_packets,
        "forwarding_pps": total.forwarding_pps,
        "forwarding_bps": total.forwarding_bps,
        "source_lost_packets": total.source_lost_packets,
        "uut_lost_packets": total.uut_lost_packets,
        "sink_lost_packets": total.sink_lost_packets,
        "late_packets": total.late_packets,
    }


def build_row(record: RunRecord, text: str, *, has_series: bool) -> dict[str, Any]:
    """The row for a record. Raises StoreError if its start is no valid time."""
    requested, total, plan = record.requested, record.total, record.plan
    return {
        "run_id": record.run_id,
        "started_at": utc_text(record.started_at, f"run {record.run_id}"),
        "testbed": record.testbed,
        "testbed_fingerprint": record.testbed_fingerprint,
        "emulated": record.emulated,
        # The generator that ran, which for `auto` is not the requested one.
        "generator": "+".join(sorted({stream.generator for stream in record.streams})) or requested.generator,
        "platform": requested.platform,
        "frame_size_bytes": requested.frame_size_bytes,
        "frame_size_includes_fcs": requested.frame_size_includes_fcs,
        "sources": requested.sources,
        "target_bps": None if requested.target_bps == "max" else requested.target_bps,
        "background": requested.background,
        "duration_s": requested.duration_s,
        "plan_name": plan.name if plan else None,
        "plan_hash": plan.hash if plan else None,
        "plan_point": plan.point if plan else None,
        "repetition": plan.repetition if plan else None,
        "verdict": record.verdict.status,
        "reason_codes": ",".join(dict.fromkeys(reason.code for reason in record.verdict.reasons)),
        "offered_pps": total.offered_pps,
        "offered_bps": total.offered_bps,
        "measured_pps": total.measured_pps,
        "measured_bps": total.measured_bps,
        "loss_packets": total.loss_packets,
        "loss_ratio": total.loss_ratio,
        "has_series": has_series,
        **since_4(record),
        "record": text,
    }


@lru_cache(maxsize=4096)
def split_codes(text: str) -> tuple[str, ...]:
    """The column ``reason_codes`` as separate codes."""
    return tuple(code for code in text.split(",") if code)


# Texts that tens of thousands of runs share are kept once: a list of 20 000 then takes a third less memory.
_SHARED = (
    "testbed",
    "testbed_fingerprint",
    "generator",
    "platform",
    "background",
    "plan_name",
    "plan_hash",
    "verdict",
    "role",
    "set_up",
    "uut_kernel",
    "hypervisor",
    "boot_id",
)


def build_summary(row: Row[Any]) -> RunSummary:
    """The summary of a row that begins with SUMMARY_COLUMNS."""
    return _summary(row, {})


def build_summary_before_4(row: Row[Any]) -> RunSummary:
    """The summary of a row of ``summary_columns_before_4``."""
    return _summary(row, _known_since_4(row.run_id, row.record))


_TYPES = RowTypes(SUMMARY_COLUMNS, SINCE_4)


def _summary(row: Row[Any], known: dict[str, Any]) -> RunSummary:
    _TYPES.check(row)
    values = {column.name: value for column, value in zip(SUMMARY_COLUMNS, row, strict=False)}
    values |= known
    for name in _SHARED:
        value = values[name]
        if type(value) is str:
            if len(value) > MAX_NAME_CHARACTERS:
                refuse_long_names([(f"the column {name}", value)], f"run {str(row.run_id)[:80]}")
            values[name] = sys.intern(value)
    values["target_bps"] = "max" if values["target_bps"] is None else values["target_bps"]
    values["reason_codes"] = split_codes(values["reason_codes"])
    return RunSummary(**values)
