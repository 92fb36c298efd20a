"""Baselines in a store: rows are only added, and the last one of a name counts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, insert, inspect, select

from labconsole.errors import StoreError
from labconsole.model.record.baseline import ALLOWED_NAMES, NAME, Baseline
from labconsole.store.records import refuse_long_names, utc_text
from labconsole.store.sql.schema import baselines

_COLUMNS = (
    baselines.c.name,
    baselines.c.plan_name,
    baselines.c.plan_hash,
    baselines.c.testbed,
    baselines.c.testbed_fingerprint,
    baselines.c.author,
    baselines.c.set_at,
)


def read_baselines(connection: Connection) -> list[Baseline]:
    """All baselines that were ever set, the last first; none if the store was never written by a program that has them.

    Raises StoreError for an invalid row: the store may come from someone else.
    """
    if not inspect(connection).has_table(baselines.name):
        return []
    rows = connection.execute(select(*_COLUMNS).order_by(baselines.c.id.desc()))
    return [_baseline(row._asdict(), number) for number, row in enumerate(rows, 1)]


def _baseline(values: dict[str, Any], number: int) -> Baseline:
    where = f"baseline {number} from the last"
    for name, value in values.items():
        if not isinstance(value, str):
            raise StoreError(f"{where} cannot be read: its {name} is not a text")
    if not NAME.fullmatch(values["name"]):
        raise StoreError(f"{where} cannot be read: its name is {values['name'][:80]!r}; allowed: {ALLOWED_NAMES}")
    refuse_long_names(values.items(), where)
    utc_text(values["set_at"], where)
    return Baseline(**values)


def write_baseline(connection: Connection, baseline: Baseline) -> None:
    """Add a baseline. Needs the write lock."""
    number = connection.execute(select(func.coalesce(func.max(baselines.c.id), 0) + 1)).scalar_one()
    connection.execute(insert(baselines).values(id=number, **baseline.to_json()))
