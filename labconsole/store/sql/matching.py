"""A filter on the factors of runs as SQL conditions."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import Select, or_

from labconsole.model.record.summary import RunFilter
from labconsole.store.records import utc_text
from labconsole.store.sql.schema import runs


def matching(statement: Select[Any], where: RunFilter) -> Select[Any]:
    """The statement with the conditions of a filter."""
    for field in fields(where):
        wanted = getattr(where, field.name)
        if wanted is None:
            continue
        if field.name == "since":
            statement = statement.where(runs.c.started_at >= utc_text(wanted, "since"))
        elif field.name == "until":
            statement = statement.where(runs.c.started_at < utc_text(wanted, "until"))
        else:
            column = runs.c[field.name]
            values = [wanted] if isinstance(wanted, (str, int)) else list(wanted)
            known = column.in_([value for value in values if value != "max"])
            asks_max = field.name == "target_bps" and "max" in values
            statement = statement.where(or_(known, column.is_(None)) if asks_max else known)
    return statement
