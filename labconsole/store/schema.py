"""The tables. The record's JSON is the truth; the other columns repeat parts of it for filters, lists and resume."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    insert,
    null,
)

from labconsole import __version__
from labconsole.model.record import RunRecord
from labconsole.store.records import utc_text
from labconsole.store.summary import RunSummary

SCHEMA_VERSION = 3
"""Incremented when an older labconsole could no longer read or write the tables.

2 added notes and calibrations, 3 searches.
"""

metadata = MetaData()

_Word = String().with_variant(String(collation="C"), "postgresql")
"""Text that sorts by its bytes, as SQLite sorts: run ids and time stamps mean something in that order."""

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
    Column("frame_size_bytes", Integer, nullable=False),
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
    # Last: SQLite reads a row from its beginning, so a list of runs never touches the pages that records overflow into.
    Column("record", Text, nullable=False),
)

# No index on the factors: at 100 000 runs it made grouping slower (158 ms beside 121 ms) and every save dearer.
Index("runs_by_time", runs.c.started_at, runs.c.run_id)
Index("runs_by_plan", runs.c.plan_hash, runs.c.testbed_fingerprint)

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

searches = Table(
    "searches",
    metadata,
    Column("search_id", _Word, primary_key=True),
    Column("started_at", _Word, nullable=False),
    Column("testbed", _Word, nullable=False),
    Column("testbed_fingerprint", _Word, nullable=False),
    Column("plan_name", _Word, nullable=False),
    Column("plan_hash", _Word, nullable=False),
    Column("platform", _Word, nullable=False),
    Column("status", _Word, nullable=False),
    Column("record", Text, nullable=False),
)
Index("searches_by_plan", searches.c.plan_hash, searches.c.testbed_fingerprint)

_RUN_COLUMNS = [column for column in runs.c if column.name != "record"]
SUMMARY_COLUMNS = [*_RUN_COLUMNS, notes.c.text.label("note")]
"""Of runs left joined with notes."""

SUMMARY_COLUMNS_1 = [*_RUN_COLUMNS, null().label("note")]
"""Of runs alone, in a file of version 1 that is only read."""


def create_tables(connection: Connection) -> None:
    """Make an empty store of the present version."""
    metadata.create_all(connection)
    connection.execute(insert(schema_version).values(version=SCHEMA_VERSION, created_by=__version__))


def migrate(connection: Connection, version: int) -> None:
    """Bring a store from an older version to the present one, inside the caller's transaction.

    Every version leaves its row in labconsole_schema, so a file says what it has been through.
    """
    if version < 2:
        notes.create(connection)
        calibrations.create(connection)
    if version < 3:
        searches.create(connection)
    connection.execute(insert(schema_version).values(version=SCHEMA_VERSION, created_by=__version__))


def row_of(record: RunRecord, text: str, *, has_series: bool) -> dict[str, Any]:
    """The row for a record. Raises StoreError when its start is no time."""
    requested, total, plan = record.requested, record.total, record.plan
    return {
        "run_id": record.run_id,
        "started_at": utc_text(record.started_at, f"run {record.run_id}"),
        "testbed": record.testbed,
        "testbed_fingerprint": record.testbed_fingerprint,
        "emulated": record.emulated,
        # The one that ran, which for `auto` is not the one that was asked for.
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
        "record": text,
    }


@lru_cache(maxsize=4096)
def _codes(text: str) -> tuple[str, ...]:
    return tuple(code for code in text.split(",") if code)


# Words that tens of thousands of runs share are kept once: a list of 20 000 takes a third less memory.
_SHARED = ("testbed", "testbed_fingerprint", "generator", "platform", "background", "plan_name", "plan_hash", "verdict")


def summary_of(row: Row[Any]) -> RunSummary:
    """A row that begins with SUMMARY_COLUMNS as the list shows it."""
    values = {column.name: value for column, value in zip(SUMMARY_COLUMNS, row, strict=False)}
    for name in _SHARED:
        value = values[name]
        if type(value) is str:
            values[name] = sys.intern(value)
    values["target_bps"] = "max" if values["target_bps"] is None else values["target_bps"]
    values["reason_codes"] = _codes(values["reason_codes"])
    return RunSummary(**values)
