"""The reading half of a store: lists, filters, pages, ids and typed queries, without ever waiting for a writer."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import ColumnElement, Row, Select, and_, case, func, null, or_, select, tuple_

from labconsole.contracts.ports import Series, StoredMaximum, StoredTrial
from labconsole.errors import StoreError
from labconsole.measure.counts import loss_ratio
from labconsole.measure.groups import STANDING, GroupConditions, conditions_of, find_exclusion_reason, rate_of
from labconsole.model.design_point import FrameSize
from labconsole.model.identity import RUN_ID
from labconsole.model.query import Query
from labconsole.model.record.annotations import Baseline, RunNote, plan_key
from labconsole.model.record.run import Fixed, RunRecord
from labconsole.model.record.summary import EVERYTHING, Page, RunFilter, RunSummary, Sorting
from labconsole.store.experiments import StoredExperiments
from labconsole.store.notes import read_baselines, read_calibrations, read_notes
from labconsole.store.records import parse_record
from labconsole.store.series import unpack_series
from labconsole.store.sql.backend import Backend
from labconsole.store.sql.query_terms import asks_for_notes, build_condition, matching
from labconsole.store.sql.schema import (
    SINCE_4,
    SUMMARY_COLUMNS,
    RowTypes,
    build_summary,
    build_summary_before_4,
    notes,
    runs,
    split_codes,
    summary_columns_before_4,
)

# -- maximum -----------------------------------------------------------------------------------------------------------
# The stored maximum that shares refer to: the highest mean rate in a group of points, from a list of runs. Pure.

Loads = dict[int | str, list[tuple[RunSummary, float]]]
"""Runs by target, each with its forwarding rate in packets/s."""


def highest(runs: Iterable[RunSummary]) -> StoredMaximum | None:
    """The target with the highest mean rate, or None.

    The runs, newest first, differ in target, repetition and conditions. Uses the newest conditions that have a run at
    target max: without such a run it is unknown whether any of them is the maximum. Runs of different conditions are
    not averaged. Runs that enter no mean do not enter this one either: pilots, runs with loss outside the platform, and
    runs with loads beyond the instrument. Runs of several plans, and of none, count alike.
    """
    by_conditions: dict[GroupConditions, Loads] = {}
    for run in runs:
        rate = rate_of(run)
        if find_exclusion_reason(run) is None and rate is not None:
            loads = by_conditions.setdefault(conditions_of(run), {})
            loads.setdefault(run.target_bps, []).append((run, rate[0]))
    of = next((loads for loads in by_conditions.values() if "max" in loads), None)
    if of is None:
        return None
    means = {target: sum(pps for _, pps in rated) / len(rated) for target, rated in of.items()}
    target = max(means, key=lambda key: means[key])
    if means[target] <= 0:
        return None
    found = of[target]
    return StoredMaximum(measured_pps=means[target], runs=len(found), run_id=found[0][0].run_id, target_bps=target)


# -- reading -----------------------------------------------------------------------------------------------------------

PAGE_RUNS = 200
"""Records read at a time while streaming: a slow consumer thus holds no snapshot that keeps the WAL from shrinking."""


_TRIAL_SINCE_4 = (
    runs.c.block,
    runs.c.set_up,
    runs.c.set_up_trials,
    runs.c.attempt,
    runs.c.attempts,
    runs.c.offered_packets,
    runs.c.uut_lost_packets,
)
_TRIAL_COLUMNS = (
    runs.c.run_id,
    runs.c.plan_point.label("point"),
    runs.c.repetition,
    runs.c.verdict.label("status"),
    runs.c.loss_ratio,
    *_TRIAL_SINCE_4,
    runs.c.reason_codes,
)
_TRIAL_TYPES = RowTypes([*_TRIAL_COLUMNS, runs.c.measured_pps.label("rate_pps")], SINCE_4)
"""The columns of a stored trial: those of StoredTrial, whose rate may be one of two."""


class StoredRuns(StoredExperiments):
    """The reading half of a store. Every method blocks and may be called from any thread, from several at once."""

    backend: Backend
    version: int
    """The version of the store's schema."""

    @property
    def name(self) -> str:
        """The store's name in messages: a path, or a URL. It contains no secret."""
        return self.backend.name

    @property
    def path(self) -> Path | None:
        """The store's file, or None for a store on a server."""
        return getattr(self.backend, "path", None)

    def close(self) -> None:
        """Close all connections."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, run_id: str) -> RunRecord:
        """The record of a run, by its id or a unique beginning of it."""
        row = self._find(run_id)
        return self.parsed(row.run_id, row.record)

    def series(self, run_id: str) -> Series | None:
        """The time series of a run, or None if none were kept."""
        row = self._find(run_id)
        packed = self._packed(row.run_id) if row.has_series else None
        return unpack_series(packed[0], row.run_id, packed[1]) if packed is not None else None

    def packed_series(self, run_id: str) -> bytes | None:
        """The time series of a run as the bytes of an .npz file, or None if none were kept."""
        row = self._find(run_id)
        return self._packed(row.run_id)[0] if row.has_series else None

    def _packed(self, run_id: str) -> tuple[bytes, str]:
        with self.backend.errors(f"read the time series of run {run_id}"), self.backend.reading() as connection:
            return self.backend.series(connection, run_id)

    def list(self, where: RunFilter = EVERYTHING, *, limit: int | None = None) -> list[RunSummary]:
        """The runs that match, newest first. Reads no records, so a damaged record hides nothing."""
        statement = matching(self._summaries(), where).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
        if limit is not None:
            statement = statement.limit(limit)
        return [self._summary(row) for row in self.rows(statement, "list runs")]

    def page(self, *, before: int | None = None, after: int | None = None, limit: int) -> Page:
        """Runs in the order of saving, the last first: from the end, those before a place, or all after one.

        A caller can thus read a list of any length in pieces, and keep it up to date by requesting the runs after its
        ``last``.
        """
        place = self.backend.saved_order
        statement = self._summaries().add_columns(place.label("saved"))
        if before is not None:
            statement = statement.where(place < before)
        if after is not None:
            statement = statement.where(place > after)
        # Ascending after a place: runs beyond the limit are then found by the next call.
        statement = statement.order_by(place if after is not None else place.desc()).limit(limit)
        rows = self.rows(statement, "list runs")
        if after is not None:
            rows = rows[::-1]
        if not rows:
            return Page([], before or 0, after or 0)
        return Page([self._summary(row) for row in rows], rows[-1].saved, rows[0].saved)

    def note(self, run_id: str) -> RunNote | None:
        """The note on a run, or None if there is none."""
        found = self._find(run_id).run_id
        note = self.notes(found).get(found)
        return note if note is not None and note.text is not None else None

    def plan_note(self, plan_hash: str, testbed_fingerprint: str) -> RunNote | None:
        """The note on a plan of a testbed, or None if there is none."""
        key = plan_key(plan_hash, testbed_fingerprint)
        note = self.notes(key).get(key)
        return note if note is not None and note.text is not None else None

    def notes(
        self, run_id: str | None = None, *, unreadable: Callable[[StoreError], None] | None = None
    ) -> dict[str, RunNote]:
        """The notes by run id, those on plans by their key, including removed ones (without text).

        ``unreadable``: as for ``iterate``.
        """
        if self.version < 2:
            return {}
        with self.backend.errors("read notes"), self.backend.reading() as connection:
            return read_notes(connection, run_id, unreadable=unreadable)

    def calibrations(
        self, testbed_fingerprint: str | None = None, *, limit: int | None = None
    ) -> builtins.list[dict[str, Any]]:
        """Calibrations, newest first, of every testbed or of one."""
        if self.version < 2:
            return []
        with self.backend.errors("read calibrations"), self.backend.reading() as connection:
            return read_calibrations(connection, testbed_fingerprint, limit=limit)

    def latest_calibration(self, testbed_fingerprint: str) -> dict[str, Any] | None:
        """The newest calibration of a testbed, or None if it was never calibrated."""
        return next(iter(self.calibrations(testbed_fingerprint, limit=1)), None)

    def baselines(self) -> builtins.list[Baseline]:
        """All baselines that were ever set, the last first: the first of a name is the one that counts."""
        with self.backend.errors("read baselines"), self.backend.reading() as connection:
            return read_baselines(connection)

    def count(self, where: RunFilter = EVERYTHING) -> int:
        """The number of runs that match."""
        # Counts a column: SQLite counts whole rows in one step, which nothing bounds.
        return int(self.rows(matching(select(func.count(runs.c.run_id)), where), "count runs")[0][0])

    def amount(self) -> tuple[int, int]:
        """The numbers of runs and of experiments. Quick, and changed by everything that is saved."""
        return self.count(), self.count_experiments()

    def iterate(
        self, where: RunFilter = EVERYTHING, *, unreadable: Callable[[StoreError], None] | None = None
    ) -> Iterator[RunRecord]:
        """Yield the records that match, oldest first, a page at a time.

        A record that cannot be read raises StoreError with its run id; if ``unreadable`` is given, it is called with
        the error instead, and iteration continues.
        """
        for run_id, text in self.texts(where):
            try:
                record = self.parsed(run_id, text)
            except StoreError as exc:
                if unreadable is None:
                    raise
                unreadable(exc)
            else:
                yield record

    def texts(
        self, where: RunFilter = EVERYTHING, *, holding: Collection[str] | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield the run ids and JSON texts of the runs that match, oldest first, a page at a time.

        ``holding``: only texts that contain one of these. Intended for reading a few fields of very many runs: checking
        a record takes ten times as long as parsing its JSON.
        """
        columns = select(runs.c.started_at, runs.c.run_id, runs.c.record)
        statement = matching(columns, where).order_by(runs.c.started_at, runs.c.run_id).limit(PAGE_RUNS)
        if holding is not None:
            statement = statement.where(or_(*(runs.c.record.contains(each, autoescape=True) for each in holding)))
        page = self.rows(statement, "read runs")
        while page:
            for row in page:
                yield row.run_id, row.record
            last = page[-1].started_at, page[-1].run_id
            page = self.rows(statement.where(tuple_(runs.c.started_at, runs.c.run_id) > last), "read runs")
            if page and (page[-1].started_at, page[-1].run_id) <= last:
                raise StoreError(f"{self.name}: cannot read runs: the database is damaged (its runs are in no order)")

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> Sequence[StoredTrial]:
        """See contracts.ports.RunSink."""
        # A store of an older version that is opened for reading only has no blocks.
        since_4 = self.version >= 4
        lacking = () if since_4 else SINCE_4
        rate = func.coalesce(runs.c.forwarding_pps, runs.c.measured_pps) if since_4 else runs.c.measured_pps
        columns = [null().label(column.name) if column.name in lacking else column for column in _TRIAL_COLUMNS]
        stands = runs.c.verdict.in_(STANDING)
        statement = (
            select(*columns, rate.label("rate_pps"))
            .where(
                runs.c.plan_hash == plan_hash,
                runs.c.testbed_fingerprint == testbed_fingerprint,
                runs.c.plan_point >= 0,
                runs.c.repetition >= 0,
                or_(stands, runs.c.block.is_not(None)) if since_4 else stands,
            )
            .order_by(runs.c.plan_point, runs.c.repetition, runs.c.started_at, runs.c.run_id)
        )
        found = [self._trial(row) for row in self.rows(statement, "read the runs of a plan")]
        newest = {(trial.point, trial.repetition): trial.run_id for trial in found if trial.block is None}
        return [t for t in found if t.block is not None or newest[t.point, t.repetition] == t.run_id]

    def fixed(self, run_ids: Collection[str]) -> dict[str, Fixed]:
        """See contracts.ports.RunSink. A record that cannot be read contributes nothing."""
        found: dict[str, Fixed] = {}
        for run_id in run_ids:
            row = self._find(run_id)
            with suppress(StoreError):
                plan = self.parsed(row.run_id, row.record).plan
                if plan is not None and plan.fixed is not None:
                    found[run_id] = plan.fixed
        return found

    def maximum(
        self,
        *,
        platform: str,
        testbed_fingerprint: str,
        background: str,
        frame: FrameSize,
        sources: int,
    ) -> StoredMaximum | None:
        """See contracts.ports.RunSink."""
        where = RunFilter(
            platform=platform,
            testbed_fingerprint=testbed_fingerprint,
            background=background,
            **frame.columns(),
            sources=sources,
        )
        return highest(self.list(where))

    def _summaries(self) -> Select[Any]:
        if self.version < 2:
            return select(*summary_columns_before_4(self.version)).select_from(runs)
        if self.version < 4:
            joined = runs.outerjoin(notes, notes.c.run_id == runs.c.run_id)
            return select(*summary_columns_before_4(self.version)).select_from(joined)
        return select(*SUMMARY_COLUMNS).select_from(runs.outerjoin(notes, notes.c.run_id == runs.c.run_id))

    def _summary(self, row: Row[Any]) -> RunSummary:
        try:
            return build_summary(row) if self.version >= 4 else build_summary_before_4(row)
        except StoreError as exc:
            raise StoreError(f"{self.name}: {exc}") from exc

    def _trial(self, row: Row[Any]) -> StoredTrial:
        try:
            _TRIAL_TYPES.check(row)
        except StoreError as exc:
            raise StoreError(f"{self.name}: {exc}") from exc
        values = dict(row._mapping)
        offered, lost = values["offered_packets"], values.pop("uut_lost_packets")
        values["reason_codes"] = split_codes(values["reason_codes"])
        return StoredTrial(**values, uut_loss_ratio=loss_ratio(offered, lost))

    def _find(self, run_id: str) -> Row[Any]:
        if not RUN_ID.fullmatch(run_id):
            raise StoreError(f"{run_id!r} is not a run id or the beginning of one")
        columns = select(runs.c.run_id, runs.c.has_series, runs.c.record)
        exact = self.rows(columns.where(runs.c.run_id == run_id), f"read run {run_id}")
        if exact:
            return exact[0]
        # A range rather than LIKE, which ignores case. DEL sorts behind every character that an id may contain.
        beginning = and_(runs.c.run_id >= run_id, runs.c.run_id < run_id + "\x7f")
        found = self.rows(columns.where(beginning).order_by(runs.c.run_id).limit(6), f"read run {run_id}")
        if not found:
            raise StoreError(f"{self.name}: there is no run {run_id}")
        if len(found) > 1:
            names = ", ".join(row.run_id for row in found[:5]) + (", …" if len(found) > 5 else "")
            raise StoreError(f"{self.name}: {run_id} is the beginning of several runs: {names}")
        return found[0]

    def rows(self, statement: Select[Any], doing: str) -> Sequence[Row[Any]]:
        """All rows of a statement."""
        with self.backend.errors(doing), self.backend.reading() as connection:
            return connection.execute(statement).all()

    def parsed(self, run_id: str, text: str) -> RunRecord:
        """The record of a row. Raises StoreError naming the run."""
        record = parse_record(text, f"{self.name}: run {run_id}")
        if record.run_id != run_id:
            raise StoreError(f"{self.name}: run {run_id}: its record has the id {record.run_id}")
        return record


# -- run queries -------------------------------------------------------------------------------------------------------
# Finds runs by a typed filter, in any order, a page at a time: the database filters and sorts any number of runs.
#
# A place in an order is a run: the runs after it stay the same when newer runs arrive. In SQLite one index contains
# every column used here, so the rows with their long records are not touched.

_SORT_COLUMNS: dict[str, tuple[ColumnElement[Any], str]] = {
    "verdict": (runs.c.verdict, "verdict"),
    "platform": (runs.c.platform, "platform"),
    "size": (runs.c.frame_size_bytes, "frame_size_bytes"),
    "sources": (runs.c.sources, "sources"),
    "target": (runs.c.target_bps, "target_bps"),
    "background": (runs.c.background, "background"),
    "duration": (runs.c.duration_s, "duration_s"),
    "offered": (runs.c.offered_pps, "offered_pps"),
    "measured": (runs.c.measured_pps, "measured_pps"),
    "loss": (runs.c.loss_ratio, "loss_ratio"),
    "note": (notes.c.text, "note"),
}
"""The columns of model.sorting.SORTS except the start, each with its attribute of a summary."""

IDS_AT_ONCE = 10_000
"""Parameters of one statement. PostgreSQL takes 65 535, a stock SQLite 32 766."""

Key = tuple[ColumnElement[Any], bool, Any]
"""An expression to sort by, whether it is descending, and its value for the run that is the place."""


class QueryableRuns(StoredRuns):
    """A store with queries by typed filters. Every method blocks and may be called from any thread."""

    def find(
        self, query: Query, sorting: Sorting, *, after: RunSummary | None = None, skip: int = 0, limit: int
    ) -> list[RunSummary]:
        """The first ``limit`` runs that match, in order, after a place and without the first ``skip`` of them.

        Blocks.
        """
        if self.version < 4:  # its file lacks columns: it is small, and opened for reading only
            meant = sorting.apply(query.select(self.list()))
            begin = skip if after is None else skip + 1 + _place(meant, after)
            return meant[begin : begin + limit]
        keys = _keys(self, sorting, after)
        notes_too = asks_for_notes(query) or sorting.column == "note"
        # The ids first: with all their columns, runs that are left out would be carried through the sorting, too.
        order = [key.desc() if descending else key.asc() for key, descending, _ in keys]
        found = _join_notes(select(runs.c.run_id), notes_too=notes_too).where(build_condition(query))
        if after is not None:
            found = found.where(_order_condition(keys, later=True))
        found = found.order_by(*order).limit(limit).offset(skip or None)
        ids = [row.run_id for row in self.rows(found, "find runs")]
        summaries = _join_notes(select(*SUMMARY_COLUMNS), notes_too=True)
        known: dict[str, RunSummary] = {}
        for begin in range(0, len(ids), IDS_AT_ONCE):
            some = runs.c.run_id.in_(ids[begin : begin + IDS_AT_ONCE])
            known.update((row.run_id, build_summary(row)) for row in self.rows(summaries.where(some), "find runs"))
        return [known[run_id] for run_id in ids if run_id in known]

    def count_matching(self, query: Query) -> int:
        """The number of runs that match. Blocks."""
        if self.version < 4:
            return len(query.select(self.list()))
        statement = _join_notes(select(func.count(runs.c.started_at)), notes_too=asks_for_notes(query)).where(
            build_condition(query)
        )
        return int(self.rows(statement, "count runs")[0][0])

    def position(self, query: Query, sorting: Sorting, run: RunSummary) -> int:
        """The number of matching runs before this one. Blocks."""
        if self.version < 4:
            return _place(sorting.apply(query.select(self.list())), run)
        notes_too = asks_for_notes(query) or sorting.column == "note"
        statement = _join_notes(select(func.count(runs.c.started_at)), notes_too=notes_too).where(
            build_condition(query), _order_condition(_keys(self, sorting, run), later=False)
        )
        return int(self.rows(statement, "count runs")[0][0])


def _place(meant: list[RunSummary], run: RunSummary) -> int:
    """The position of a run; behind the last one if it does not match any more."""
    return next((place for place, each in enumerate(meant) if each.run_id == run.run_id), len(meant))


def _join_notes(statement: Select[Any], *, notes_too: bool) -> Select[Any]:
    return statement.select_from(runs.outerjoin(notes, notes.c.run_id == runs.c.run_id) if notes_too else runs)


def _keys(store: StoredRuns, sorting: Sorting, place: RunSummary | None) -> list[Key]:
    """The sort keys, none of which is ever NULL. Equal runs are sorted newest first."""
    at, name = place.started_at if place else None, place.run_id if place else None
    if sorting.column == "started":
        return [(runs.c.started_at, sorting.descending, at), (runs.c.run_id, sorting.descending, name)]
    column, attribute = _SORT_COLUMNS[sorting.column]
    value = getattr(place, attribute) if place else None
    keys: list[Key] = []
    absent = value is None or value == "max"
    if column.nullable if hasattr(column, "nullable") else True:
        # No target is "max", the largest one. In all other columns unknown values come last in either direction.
        last = sorting.descending if sorting.column == "target" else False
        keys.append((case((column.is_(None), 1), else_=0), last, int(absent)))
        empty: Any = "" if sorting.column == "note" else 0
        column, value = func.coalesce(column, empty), empty if absent else value
    if sorting.column == "note" and store.backend.engine.dialect.name == "postgresql":
        column = column.collate("C")
    keys.append((column, sorting.descending, value))
    return [*keys, (runs.c.started_at, True, at), (runs.c.run_id, True, name)]


def _order_condition(keys: list[Key], *, later: bool) -> ColumnElement[bool]:
    """The condition for runs later in the order than the place, or earlier."""
    choices = []
    for number, (key, descending, value) in enumerate(keys):
        same = [one == it for one, _, it in keys[:number]]
        choices.append(and_(*same, key < value if descending is later else key > value))
    return or_(*choices)
