"""Merges one store into another: runs with series and notes, calibrations and experiments, without duplicates.

Merging works both ways. Unlike the import of a file it is not all or nothing: every run is complete or absent, and an
interrupted merge is started again. Records that cannot be read, and runs that the other store has with different
content, are reported and left out: otherwise they would block all the others for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, insert, select

from labconsole.errors import StoreError
from labconsole.model.record.annotations import is_plan_key
from labconsole.model.record.kind import record_kinds
from labconsole.model.record.run import RunRecord
from labconsole.store.experiments import parse_experiment
from labconsole.store.importing import StoreSetUps, counted_kinds, refuse_implausible, trial_number_of
from labconsole.store.notes import parse_calibration, write_note
from labconsole.store.reading import StoredRuns
from labconsole.store.records import same_record, utc_text
from labconsole.store.series import check_series
from labconsole.store.sql.schema import build_row, calibrations, runs
from labconsole.store.writing import RunStore

BATCH_RUNS = 100
"""Runs per transaction. It determines how long another console has to wait until it can save."""


@dataclass(slots=True)
class MergeResult:
    """Counts of what was merged.

    ``series``: series added to runs that the target had without them. ``left_out``: runs and series that were reported.
    """

    added: int = 0
    present: int = 0
    series: int = 0
    notes: int = 0
    calibrations: int = 0
    experiments: dict[str, int] = field(default_factory=counted_kinds)
    left_out: int = 0

    def to_json(self) -> dict[str, int]:
        """As ``runs import --json`` prints it: experiments by their kinds, on a line with the others."""
        return {
            "added": self.added,
            "present": self.present,
            "series": self.series,
            "notes": self.notes,
            "calibrations": self.calibrations,
            **self.experiments,
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True)
class _WantedRows:
    """A run or its series that the target lacks."""

    record: RunRecord
    packed: bytes | None
    known: bool


def merge(source: StoredRuns, target: RunStore, report: Callable[[StoreError], None]) -> MergeResult:
    """Merge everything of ``source`` into ``target``. ``report`` is called with everything left out, and why."""
    result = MergeResult()

    def leave_out(problem: StoreError) -> None:
        result.left_out += 1
        report(problem)

    set_ups = StoreSetUps(target.name)
    for page in _pages(source):
        wanted: list[_WantedRows] = []
        there = {row.run_id: row for row in _same_ids(target, page)}
        for row in page:
            try:
                item = _wanted(source, row, there.get(row.run_id), leave_out)
            except StoreError as exc:
                leave_out(exc)
                continue
            if row.run_id in there:
                result.present += 1
            if item is not None:
                wanted.append(item)
        wanted = _select_plausible(target, set_ups, wanted, leave_out)
        for item in wanted:
            result.series += item.known
        result.added += target.take_over([(item.record, item.packed) for item in wanted])
    result.notes = _merge_notes(source, target, leave_out)
    result.calibrations = _merge_calibrations(source, target, leave_out)
    for kind in record_kinds().values():
        for number, text in reversed(source.experiment_texts(kind)):
            try:
                record = parse_experiment(kind, text, f"{source.name}: {kind.name} {number}")
                result.experiments[kind.plural] += target.import_experiments(kind, [record])
            except StoreError as exc:
                leave_out(exc)
    for problem in source.unknown_experiments():
        leave_out(problem)
    return result


def _select_plausible(
    target: RunStore, set_ups: StoreSetUps, wanted: list[_WantedRows], leave_out: Callable[[StoreError], None]
) -> list[_WantedRows]:
    """The runs whose set-ups and places are possible, compared with the stored runs and with one another."""
    rows = [build_row(item.record, "", has_series=False) for item in wanted]
    with target.writing("look for set-ups") as connection:
        set_ups.read(connection, rows)
    found: list[_WantedRows] = []
    for item, row in zip(wanted, rows, strict=True):
        try:
            if not item.known:
                refuse_implausible(item.record, target.name)
                set_ups.take(row, trial_number_of(item.record))
            found.append(item)
        except StoreError as exc:
            leave_out(exc)
    return found


def _pages(source: StoredRuns) -> Iterator[Sequence[Row[Any]]]:
    """Yield all runs in the order of saving, so that they keep it."""
    place = source.backend.saved_order.label("saved")
    statement = select(runs.c.run_id, runs.c.record, runs.c.has_series, place).order_by(place).limit(BATCH_RUNS)
    page = source.rows(statement, "read runs")
    while page:
        yield page
        page = source.rows(statement.where(source.backend.saved_order > page[-1].saved), "read runs")


def _same_ids(target: StoredRuns, page: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
    ids = [row.run_id for row in page]
    return target.rows(
        select(runs.c.run_id, runs.c.record, runs.c.has_series).where(runs.c.run_id.in_(ids)), "read runs"
    )


def _wanted(
    source: StoredRuns, row: Row[Any], there: Row[Any] | None, leave_out: Callable[[StoreError], None]
) -> _WantedRows | None:
    """The parts of a run that the target lacks, or None.

    Raises StoreError if the run cannot be read, or if the target has another run of that id.
    """
    if there is not None and there.record == row.record and (there.has_series or not row.has_series):
        return None
    record = source.parsed(row.run_id, row.record)
    if there is not None and not same_record(there.record, row.record, f"run {row.run_id}"):
        raise StoreError(f"{source.name}: run {row.run_id} is already stored with different content")
    packed = None
    if row.has_series and (there is None or not there.has_series):
        try:
            packed = source.packed_series(row.run_id)
            if packed is not None:
                check_series(packed, row.run_id, f"in {source.name}")  # damaged series are not passed on
        except StoreError as exc:
            packed = None
            leave_out(exc)
    if there is not None and packed is None:
        return None
    return _WantedRows(record, packed, there is not None)


def _merge_notes(source: StoredRuns, target: RunStore, leave_out: Callable[[StoreError], None]) -> int:
    """Merge the notes; the newer of two notes on one run or plan is kept."""
    written = 0
    there = target.notes()
    newer = {run_id: note for run_id, note in source.notes(unreadable=leave_out).items() if there.get(run_id) != note}
    with target.writing("import notes") as connection:
        known = {row.run_id for row in connection.execute(select(runs.c.run_id))} if newer else set()
        for run_id, note in newer.items():
            if run_id in known or is_plan_key(run_id):
                written += write_note(connection, run_id, note)
    return written


def _merge_calibrations(source: StoredRuns, target: RunStore, leave_out: Callable[[StoreError], None]) -> int:
    """Merge the calibrations that the target lacks.

    They keep their time of saving, which decides which is the newest.
    """
    columns = (calibrations.c.testbed_fingerprint, calibrations.c.saved_at, calibrations.c.record)
    if source.version < 2:
        return 0
    rows = []
    for number, row in enumerate(source.rows(select(*columns).order_by(calibrations.c.id), "read calibrations"), 1):
        try:
            where = f"{source.name}: calibration {number}"
            if parse_calibration(row.record, where).get("testbed_fingerprint") != row.testbed_fingerprint:
                raise StoreError(f"{where}: is not of testbed {str(row.testbed_fingerprint)[:80]}")
            utc_text(str(row.saved_at), where)
            rows.append(row)
        except StoreError as exc:
            leave_out(exc)
    with target.writing("import calibrations") as connection:
        there = {tuple(row) for row in connection.execute(select(*columns))}
        fresh = [row for row in rows if tuple(row) not in there]
        for row in fresh:
            connection.execute(insert(calibrations).values(row._asdict()))
    return len(fresh)
