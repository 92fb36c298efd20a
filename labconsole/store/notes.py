"""What a store keeps next to the runs: notes on runs and plans, calibrations of testbeds, baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, inspect, select, update

from labconsole.errors import StoreError
from labconsole.model.record.annotations import (
    ALLOWED_NAMES,
    NAME,
    PLAN_NOTE_NAME,
    Baseline,
    PlanNote,
    RunNote,
    is_plan_key,
)
from labconsole.store.records import parse_json, refuse_long_names, utc_text
from labconsole.store.sql.schema import baselines, calibrations, notes, runs

# -- notes -------------------------------------------------------------------------------------------------------------
# Notes on runs and plans, and the calibrations of testbeds, which a store keeps next to the runs.
#
# A note is about a run, not part of its record: the record contains what was measured and never changes. A removed note
# remains as a row without text, so that the import of an older export does not restore it: the newer note counts. A
# note on a plan is in the same table under a key that is no run id (model/record/annotations.py); it does not require
# any run.

MAX_NOTE_CHARACTERS = 10_000
"""A note is a few sentences; a longer text belongs in a file, which the note can name."""


def now_utc() -> str:
    """The current time with microseconds, which distinguish two notes."""
    return utc_text(datetime.now(UTC).isoformat(), "now")


def checked_note(text: str | None, author: str) -> RunNote:
    """A note written now. Raises StoreError if it is invalid. A blank text removes the note."""
    stripped = text.strip() if text is not None else ""
    if len(stripped) > MAX_NOTE_CHARACTERS:
        raise StoreError(f"a note has at most {MAX_NOTE_CHARACTERS} characters, this one has {len(stripped)}")
    refuse_long_names([("the author of a note", author)], "note")
    return RunNote(stripped or None, author, now_utc())


def newer_than(note: RunNote, there: RunNote | None) -> RunNote:
    """The note with a time after the one that it replaces, which may come from a machine whose clock is ahead."""
    if there is None or there.written_at < note.written_at:
        return note
    return replace(note, written_at=_add_microsecond(there.written_at, "note"))


def _add_microsecond(moment: str, where: str) -> str:
    return utc_text((datetime.fromisoformat(moment) + timedelta(microseconds=1)).isoformat(), where)


def note_from_json(data: object, where: str) -> RunNote:
    """The note of an exported line, or a plan's. Raises StoreError beginning with ``where``."""
    if not isinstance(data, Mapping) or set(data) != {"text", "author", "written_at"}:
        raise StoreError(f"{where}: note must be an object of text, author and written_at")
    text, author, written_at = data["text"], data["author"], data["written_at"]
    if not (isinstance(author, str) and isinstance(written_at, str) and (text is None or isinstance(text, str))):
        raise StoreError(f"{where}: note must have a text; allowed: null as the text of a removed note")
    if text is not None and len(text) > MAX_NOTE_CHARACTERS:
        raise StoreError(f"{where}: a note has at most {MAX_NOTE_CHARACTERS} characters, this one has {len(text)}")
    refuse_long_names([("the author of a note", author)], where)
    return RunNote(text, author, utc_text(written_at, f"{where}: note"))


def plan_note_from_json(data: object, where: str) -> PlanNote:
    """Parse the note on a plan from an exported line. Raises StoreError beginning with ``where``."""
    if not isinstance(data, Mapping) or not {"plan_hash", "testbed_fingerprint"} <= set(data):
        raise StoreError(f"{where}: plan_note must have plan_hash and testbed_fingerprint")
    rest = dict(data)
    plan_hash, fingerprint = rest.pop("plan_hash"), rest.pop("testbed_fingerprint")
    if not all(isinstance(each, str) and PLAN_NOTE_NAME.fullmatch(each) for each in (plan_hash, fingerprint)):
        raise StoreError(
            f"{where}: plan_hash and testbed_fingerprint must be of letters, digits, '.', '_', ':' and '-'"
        )
    return PlanNote(plan_hash, fingerprint, note_from_json(rest, where))


def read_notes(
    connection: Connection, run_id: str | None = None, *, unreadable: Callable[[StoreError], None] | None = None
) -> dict[str, RunNote]:
    """All notes, or the one on a run, including removed ones.

    Raises StoreError for an invalid one; if ``unreadable`` is given, calls it with the error instead and reads the
    rest.
    """
    statement = select(notes)
    if run_id is not None:
        statement = statement.where(notes.c.run_id == run_id)
    found: dict[str, RunNote] = {}
    for row in connection.execute(statement):
        data = {"text": row.text, "author": row.author, "written_at": row.written_at}
        try:
            if not isinstance(row.run_id, str):  # SQLite accepts any type in any column
                raise StoreError(f"note on {str(row.run_id)[:200]}: its run_id is not a text")
            found[row.run_id] = note_from_json(data, f"note on {str(row.run_id)[:200]}")
        except StoreError as exc:
            if unreadable is None:
                raise
            unreadable(exc)
    return found


def write_note(connection: Connection, run_id: str, note: RunNote) -> bool:
    """Save a note on a run, or under a plan's key, unless a newer one exists. True if something changed.

    Needs the write lock.
    """
    if (
        not is_plan_key(run_id)
        and connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id)).one_or_none() is None
    ):
        raise StoreError(f"there is no run {run_id} to attach a note to")
    there = read_notes(connection, run_id).get(run_id)
    if there is not None and (there == note or there.written_at > note.written_at):
        return False
    values = {"text": note.text, "author": note.author, "written_at": note.written_at}
    if there is None:
        connection.execute(insert(notes).values(run_id=run_id, **values))
    else:
        connection.execute(update(notes).where(notes.c.run_id == run_id).values(values))
    return True


def write_calibration(connection: Connection, record: Mapping[str, Any]) -> None:
    """Save a calibration; earlier ones are kept. Raises StoreError if it does not name its testbed."""
    fingerprint = record.get("testbed_fingerprint")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise StoreError("a calibration must have a testbed_fingerprint")
    try:
        text = json.dumps(dict(record), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise StoreError(f"the calibration cannot be written as JSON: {exc}") from exc
    newest = connection.execute(
        select(func.max(calibrations.c.saved_at)).where(calibrations.c.testbed_fingerprint == fingerprint)
    ).scalar()
    saved_at = now_utc()
    if newest is not None and newest >= saved_at:  # saved by a console whose clock is ahead
        saved_at = _add_microsecond(newest, "calibration")
    connection.execute(insert(calibrations).values(testbed_fingerprint=fingerprint, saved_at=saved_at, record=text))


def parse_calibration(text: object, where: str) -> dict[str, Any]:
    """Parse a stored calibration. Raises StoreError beginning with ``where``."""
    if not isinstance(text, str):
        raise StoreError(f"{where} cannot be read: it is not a text")
    data = parse_json(text, f"{where} cannot be read")
    if not isinstance(data, dict):
        raise StoreError(f"{where} cannot be read: it is not a JSON object")
    refuse_long_names([(key, data.get(key)) for key in ("testbed", "testbed_fingerprint")], where)
    return data


def read_calibrations(
    connection: Connection, testbed_fingerprint: str | None = None, *, limit: int | None = None
) -> list[dict[str, Any]]:
    """Calibrations, newest first, of every testbed or of one."""
    # Sorted by time rather than by number: a calibration merged from another store may be older than those here.
    newest_first = (calibrations.c.saved_at.desc(), calibrations.c.id.desc())
    statement = select(calibrations.c.id, calibrations.c.record).order_by(*newest_first)
    if testbed_fingerprint is not None:
        statement = statement.where(calibrations.c.testbed_fingerprint == testbed_fingerprint)
    found: list[dict[str, Any]] = []
    for row in connection.execute(statement.limit(limit) if limit is not None else statement):
        found.append(parse_calibration(row.record, f"calibration {row.id}"))
    return found


# -- baselines ---------------------------------------------------------------------------------------------------------
# Baselines in a store: rows are only added, and the last one of a name counts.

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
