"""The tables. The record's JSON is the truth; the other columns repeat parts of it for filters, lists and resume."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Row, String, Table, Text

from labconsole.model.record import RunRecord
from labconsole.store.records import utc_text
from labconsole.store.summary import RunSummary

SCHEMA_VERSION = 1
"""Incremented when an older labconsole could no longer read or write the tables."""

metadata = MetaData()

schema_version = Table(
    "labconsole_schema",
    metadata,
    Column("version", Integer, primary_key=True),
    Column("created_by", String, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("started_at", String, nullable=False),
    Column("testbed", String, nullable=False),
    Column("testbed_fingerprint", String, nullable=False),
    Column("emulated", Boolean, nullable=False),
    Column("generator", String, nullable=False),
    Column("platform", String, nullable=False),
    Column("frame_size_bytes", Integer, nullable=False),
    Column("frame_size_includes_fcs", Boolean, nullable=False),
    Column("sources", Integer, nullable=False),
    Column("target_bps", BigInteger),
    Column("background", String, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("plan_name", String),
    Column("plan_hash", String),
    Column("plan_point", Integer),
    Column("repetition", Integer),
    Column("verdict", String, nullable=False),
    Column("reason_codes", String, nullable=False),
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

SUMMARY_COLUMNS = [column for column in runs.c if column.name != "record"]


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


def summary_of(row: Row[Any]) -> RunSummary:
    """A row of SUMMARY_COLUMNS as the list shows it."""
    values = dict(row._mapping)
    values["target_bps"] = "max" if values["target_bps"] is None else values["target_bps"]
    values["reason_codes"] = tuple(code for code in values["reason_codes"].split(",") if code)
    return RunSummary(**values)
