"""Experiments in a store: records of several trials that are no runs, stored as JSON with columns that repeat parts.

Everything about a kind is in its declaration (model/record/kinds); this module knows no kind by name.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping, func, insert, select, tuple_

from labconsole.errors import StoreError
from labconsole.model.identity import RUN_ID
from labconsole.model.record.kind import ExperimentColumns, R, RecordKind, record_kinds
from labconsole.model.record.summary import EVERYTHING, RunFilter
from labconsole.store.records import describe_validation_error, json_object, refuse_long_names, utc_text
from labconsole.store.sql.schema import experiments, find_experiments_table

PAGE_EXPERIMENTS = 200

FILTERS = ("testbed", "testbed_fingerprint", "plan_name", "plan_hash", "platform")
"""The fields of a filter on runs that apply to experiments."""


def experiment_text(kind: RecordKind[R], record: R) -> str:
    """The record as one line of ASCII JSON, equal for equal records. Raises StoreError."""
    try:
        return json.dumps(record.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        name = f"{kind.name} {kind.columns(record).id}"
        raise StoreError(f"{name}: the record cannot be written as JSON: {exc}") from exc


def parse_experiment(kind: RecordKind[R], source: str | bytes | Mapping[str, Any], where: str) -> R:
    """Parse a record of this kind from JSON, strictly. Raises StoreError beginning with ``where``."""
    data = json_object(source, where)
    version = data.get("format")
    if type(version) is not int or not 1 <= version <= kind.format:
        raise StoreError(f"{where}: has format {version!r}; this version of labconsole reads up to {kind.format}")
    try:
        record = kind.record.model_validate_json(json.dumps(data), strict=True)
    except (ValidationError, ValueError, TypeError, RecursionError) as exc:
        raise StoreError(f"{where}: {describe_validation_error(exc, kind.name)}") from exc
    columns = kind.columns(record)
    refuse_long_names(columns.to_row().items(), where)
    if not RUN_ID.fullmatch(columns.id):
        raise StoreError(f"{where}: {kind.name}_id {columns.id!r} is not valid")
    utc_text(columns.started_at, where)
    return record


def write_experiment(connection: Connection, kind: RecordKind[R], record: R) -> bool:
    """Keep a record; True if it is new. Raises StoreError when the same id is there with other content."""
    text, columns = experiment_text(kind, record), kind.columns(record).to_row()
    name = f"{kind.name} {columns['id']}"
    parse_experiment(kind, text, name)
    same = (experiments.c.kind == kind.name) & (experiments.c.id == columns["id"])
    there = connection.execute(select(experiments.c.record).where(same)).scalar_one_or_none()
    if there is not None:
        if there != text:
            raise StoreError(f"{name} is already stored with different content")
        return False
    columns["started_at"] = utc_text(columns["started_at"], name)
    connection.execute(insert(experiments).values(kind=kind.name, **columns, record=text))
    return True


class StoredExperiments:
    """The experiments of a store that is read."""

    backend: Any
    version: int

    def experiments(
        self, kind: RecordKind[R], where: RunFilter = EVERYTHING, *, status: str | None = None
    ) -> builtins.list[R]:
        """The experiments of a kind that match, newest first. ``status``: done or failed only.

        Of the filter, only the fields on testbed, plan and platform apply.
        """
        return [
            parse_experiment(kind, text, f"{kind.name} {number}")
            for number, text in self.experiment_texts(kind, where, status=status)
        ]

    def iterate_experiments(
        self, kind: RecordKind[R], unreadable: Callable[[StoreError], None]
    ) -> Iterator[tuple[ExperimentColumns, R]]:
        """Yield all experiments of a kind, oldest first, each with the columns that repeat parts of it; reads by pages.

        ``unreadable`` is called with the error for each record that cannot be read, and iteration continues.
        """
        names = [each.name for each in fields(ExperimentColumns)]
        page = self._page(kind, names, None)
        while page:
            for row in page:
                try:
                    record = parse_experiment(kind, row["record"], f"{kind.name} {row['id']}")
                except StoreError as exc:
                    unreadable(exc)
                else:
                    yield ExperimentColumns(**{name: row[name] for name in names}), record
            last = page[-1]
            page = self._page(kind, names, last)
            if page and not _is_later(page[-1], last):
                raise StoreError(
                    f"{self.backend.name}: cannot read {kind.plural}: the database is damaged (they are in no order)"
                )

    def _page(self, kind: RecordKind[Any], names: Sequence[str], after: RowMapping | None) -> Sequence[RowMapping]:
        """These columns and the records of the next page, oldest first."""
        with self.backend.errors(f"read {kind.plural}"), self.backend.reading() as connection:
            table = find_experiments_table(connection, self.version)
            if table is None:
                return []
            place = tuple_(table.c.started_at, table.c.id)
            statement = select(*(table.c[name] for name in (*names, "record"))).where(table.c.kind == kind.name)
            if after is not None:
                statement = statement.where(place > (after["started_at"], after["id"]))
            statement = statement.order_by(table.c.started_at, table.c.id).limit(PAGE_EXPERIMENTS)
            found: Sequence[RowMapping] = connection.execute(statement).mappings().all()
            return found

    def experiment_texts(
        self, kind: RecordKind[Any], where: RunFilter = EVERYTHING, *, status: str | None = None
    ) -> builtins.list[tuple[str, str]]:
        """The ids and JSON texts of the experiments of a kind that match, newest first."""
        with self.backend.errors(f"read {kind.plural}"), self.backend.reading() as connection:
            table = find_experiments_table(connection, self.version)
            if table is None:
                return []
            statement = select(table.c.id, table.c.record).where(table.c.kind == kind.name)
            for name in FILTERS:
                wanted = getattr(where, name)
                if wanted is not None:
                    statement = statement.where(
                        table.c[name].in_([wanted] if isinstance(wanted, str) else list(wanted))
                    )
            if status is not None:
                statement = statement.where(table.c.status == status)
            rows = connection.execute(statement.order_by(table.c.started_at.desc(), table.c.id.desc()))
            return [(row.id, row.record) for row in rows]

    def experiment(self, kind: RecordKind[R], beginning: str) -> R:
        """The experiment of a kind with this id or this unique beginning of an id."""
        texts = self.experiment_texts(kind)  # of any type: SQLite accepts any in any column
        found = [each for each in texts if isinstance(each[0], str) and each[0].startswith(beginning)]
        exact = [each for each in found if each[0] == beginning]
        if len(exact or found) != 1:
            several = f"{beginning} is the beginning of several {kind.plural}"
            raise StoreError(several if found else f"there is no {kind.name} {beginning}")
        number, text = (exact or found)[0]
        return parse_experiment(kind, text, f"{kind.name} {number}")

    def newest_experiments(self) -> dict[str, str]:
        """The start of the newest experiment of each kind that the store has. Reads nothing else."""
        with self.backend.errors("read experiments"), self.backend.reading() as connection:
            table = find_experiments_table(connection, self.version)
            if table is None:
                return {}
            newest = select(table.c.kind, func.max(table.c.started_at)).group_by(table.c.kind)
            return {row[0]: row[1] for row in connection.execute(newest)}

    def count_experiments(self) -> int:
        """The number of experiments of all kinds."""
        with self.backend.errors("count experiments"), self.backend.reading() as connection:
            table = find_experiments_table(connection, self.version)
            return 0 if table is None else int(connection.execute(select(func.count(table.c.id))).scalar_one())

    def unknown_experiments(self) -> builtins.list[StoreError]:
        """A message for each kind that this program does not know and leaves out, with the number of its records."""
        with self.backend.errors("read experiments"), self.backend.reading() as connection:
            table = find_experiments_table(connection, self.version)
            if table is None:
                return []
            counted = select(table.c.kind, func.count()).group_by(table.c.kind).order_by(table.c.kind)
            rows = connection.execute(counted).all()
        return [
            StoreError(
                f"{self.backend.name}: {count} record{'' if count == 1 else 's'} of kind {str(kind)[:80]}, which this "
                "version of labconsole does not know"
            )
            for kind, count in rows
            if kind not in record_kinds()
        ]


def _is_later(row: RowMapping, last: RowMapping) -> bool:
    """Whether a row comes after the last one of a page. One whose columns are of other types does not."""
    try:
        return bool((row["started_at"], row["id"]) > (last["started_at"], last["id"]))
    except TypeError:
        return False


class ExperimentsWriting(StoredExperiments):
    """The experiments of a store that is written."""

    def writing(self, doing: str) -> AbstractContextManager[Connection]:
        """A writing transaction, defined by the store, which inherits this class."""
        raise NotImplementedError

    def save_experiment(self, kind: RecordKind[R], record: R) -> None:
        """Save one durably, or raise StoreError and save nothing. Saving the same record again changes nothing."""
        self.import_experiments(kind, [record])

    def import_experiments(self, kind: RecordKind[R], records: Sequence[R]) -> int:
        """Import records from elsewhere, all or none. Returns the number of new ones."""
        with self.writing(f"save a {kind.name}") as connection:
            return sum(write_experiment(connection, kind, record) for record in records)
