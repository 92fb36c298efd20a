"""Load searches, kept beside the runs that are their trials: what was found, by which trials."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, insert, select

from labconsole.errors import StoreError
from labconsole.model.identity import RUN_ID
from labconsole.model.record.search import SEARCH_FORMAT, SearchRecord
from labconsole.model.record.summary import EVERYTHING, RunFilter
from labconsole.store.records import json_object, utc_text
from labconsole.store.sql.schema import searches

SEARCHES_SINCE = 3
"""The version of the tables that has them."""


def search_text(record: SearchRecord) -> str:
    """The record as one line of ASCII JSON, the same for the same record. Raises StoreError."""
    try:
        return json.dumps(record.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise StoreError(f"search {record.search_id}: the record cannot be written as JSON: {exc}") from exc


def parse_search(source: str | bytes | Mapping[str, Any], where: str) -> SearchRecord:
    """A search record from JSON, strictly. Raises StoreError beginning with ``where``."""
    data = json_object(source, where)
    version = data.get("format")
    if type(version) is not int or not 1 <= version <= SEARCH_FORMAT:
        raise StoreError(f"{where}: has format {version!r}; this version of labconsole reads up to {SEARCH_FORMAT}")
    try:
        record = SearchRecord.model_validate_json(json.dumps(data), strict=True)
    except (ValidationError, ValueError, TypeError, RecursionError) as exc:
        raise StoreError(f"{where}: {_complaint(exc)}") from exc
    if not RUN_ID.fullmatch(record.search_id):
        raise StoreError(f"{where}: search_id {record.search_id!r} is not valid")
    utc_text(record.started_at, where)
    return record


def _complaint(exc: Exception) -> str:
    if not isinstance(exc, ValidationError):
        return str(exc)
    problem = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(step) for step in problem['loc']) or 'search'}: {problem['msg']}"


def write_search(connection: Connection, record: SearchRecord) -> bool:
    """Keep a search; True if it is new. Raises StoreError when the same id is there with other content."""
    text = search_text(record)
    parse_search(text, f"search {record.search_id}")
    there = connection.execute(
        select(searches.c.record).where(searches.c.search_id == record.search_id)
    ).scalar_one_or_none()
    if there is not None:
        if there != text:
            raise StoreError(f"search {record.search_id} is already stored with different content")
        return False
    connection.execute(
        insert(searches).values(
            search_id=record.search_id,
            started_at=utc_text(record.started_at, f"search {record.search_id}"),
            testbed=record.testbed,
            testbed_fingerprint=record.testbed_fingerprint,
            plan_name=record.plan.name,
            plan_hash=record.plan.hash,
            platform=record.requested.platform,
            status=record.status,
            record=text,
        )
    )
    return True


_FILTERS = ("testbed", "testbed_fingerprint", "plan_name", "plan_hash", "platform")


def read_searches(
    connection: Connection, where: RunFilter = EVERYTHING, *, status: str | None = None
) -> list[SearchRecord]:
    """The searches that match, newest first; of the filter, what is about a testbed, a plan or a platform counts."""
    statement = select(searches.c.search_id, searches.c.record)
    for name in _FILTERS:
        wanted = getattr(where, name)
        if wanted is not None:
            statement = statement.where(searches.c[name].in_([wanted] if isinstance(wanted, str) else list(wanted)))
    if status is not None:
        statement = statement.where(searches.c.status == status)
    rows = connection.execute(statement.order_by(searches.c.started_at.desc(), searches.c.search_id.desc()))
    return [parse_search(row.record, f"search {row.search_id}") for row in rows]


class StoredSearches:
    """The searches of a store that is read."""

    backend: Any
    version: int

    def searches(self, where: RunFilter = EVERYTHING, *, status: str | None = None) -> builtins.list[SearchRecord]:
        """The searches that match, newest first; ``status`` done or failed only."""
        if self.version < SEARCHES_SINCE:
            return []
        with self.backend.errors("read searches"), self.backend.reading() as connection:
            return read_searches(connection, where, status=status)

    def search(self, search_id: str) -> SearchRecord:
        """One search, by its id or a unique beginning of it."""
        found = [record for record in self.searches() if record.search_id.startswith(search_id)]
        exact = [record for record in found if record.search_id == search_id]
        if len(exact or found) != 1:
            raise StoreError(
                f"{search_id} is the beginning of several searches" if found else f"there is no search {search_id}"
            )
        return (exact or found)[0]

    def finished_search(self, search_hash: str, testbed_fingerprint: str) -> SearchRecord | None:
        """The newest search of this meaning on this testbed that came to its end, by the rules of this version.

        A search of format 1 took for forwarded what was still queued: it is made again.
        """
        where = RunFilter(plan_hash=search_hash, testbed_fingerprint=testbed_fingerprint)
        return next((each for each in self.searches(where, status="done") if each.format == SEARCH_FORMAT), None)


class SearchesWriting(StoredSearches):
    """The searches of a store that is written."""

    def writing(self, doing: str) -> AbstractContextManager[Connection]:
        """A transaction: defined by the store, which inherits this class."""
        raise NotImplementedError

    def save_search(self, record: SearchRecord) -> None:
        """Keep one search durably, or raise StoreError and keep nothing. The same again changes nothing."""
        self.import_searches([record])

    def import_searches(self, records: Sequence[SearchRecord]) -> int:
        """Take searches from elsewhere, all or none; returns how many are new."""
        with self.writing("save a search") as connection:
            return sum(write_search(connection, record) for record in records)
