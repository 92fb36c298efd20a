"""Baselines that a store keeps: added, never changed, the last of a name counts."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, inspect, select

from labconsole.model.record.baseline import Baseline
from labconsole.store.sql.schema import baselines

_COLUMNS = (
    baselines.c.name, baselines.c.plan_name, baselines.c.plan_hash, baselines.c.testbed,
    baselines.c.testbed_fingerprint, baselines.c.author, baselines.c.set_at,
)  # fmt: skip


def read_baselines(connection: Connection) -> list[Baseline]:
    """All that there have been, the last first; none in a store that no program with baselines has written to."""
    if not inspect(connection).has_table(baselines.name):
        return []
    rows = connection.execute(select(*_COLUMNS).order_by(baselines.c.id.desc()))
    return [Baseline(**row._mapping) for row in rows]


def write_baseline(connection: Connection, baseline: Baseline) -> None:
    """Add one. Holds the write lock."""
    number = connection.execute(select(func.coalesce(func.max(baselines.c.id), 0) + 1)).scalar_one()
    connection.execute(insert(baselines).values(id=number, **baseline.to_json()))
