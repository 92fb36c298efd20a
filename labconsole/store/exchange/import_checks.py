"""Records that a store refuses to import: impossible places in a plan, and impossible set-ups.

A run that claims a set-up in which it was not measured would be averaged with the runs that were. What shows only in
comparison with all other runs (a place that whole set-ups filled twice, one capture in two runs) is imported, and
`labconsole verify` reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from labconsole.errors import StoreError
from labconsole.model.record.run import PlanRef, RunRecord
from labconsole.store.records import json_object
from labconsole.store.sql.schema import runs

MOST_ATTEMPTS = 101
"""A plan repeats a trial at most 100 times (max_redo)."""

COUNTED = {
    "point": 0,
    "repetition": 1,
    "warm_ups": 0,
    "block": 0,
    "attempt": 1,
    "attempts": 1,
    "position": 1,
    "set_ups": 1,
    "repetitions": 1,
    "set_up_trials": 1,
}
"""The lowest value of each number in a plan's place."""

OF_ONE_SET_UP = ("testbed_fingerprint", "platform")
OF_ONE_BLOCK = ("plan_hash", "block", "background")
"""Columns that are equal for all runs of a set-up; OF_ONE_BLOCK only if the set-up belongs to a block of a plan."""

Row = Mapping[str, Any]


def refuse_implausible(record: RunRecord, where: str) -> None:
    """Raise StoreError for a record whose place in its plan or whose set-up is impossible."""
    if record.format == 1:
        return
    sentence = (
        _find_implausible_set_up(record)
        if record.plan is None
        else _find_implausible_plan(record.plan) or _find_implausible_set_up(record)
    )
    if sentence is not None:
        raise StoreError(f"{where}: run {record.run_id}: {sentence}")


def _find_implausible_plan(plan: PlanRef) -> str | None:
    for name, least in COUNTED.items():
        value = getattr(plan, name)
        if value is not None and value < least:
            return f"plan.{name} is {value}; allowed: {least} or more"
    if plan.attempts > MOST_ATTEMPTS:
        return f"plan.attempts is {plan.attempts}; allowed: at most {MOST_ATTEMPTS}"
    if plan.attempt > plan.attempts:
        return f"plan.attempt is {plan.attempt} of at most {plan.attempts}"
    if plan.repetitions is not None and plan.repetition > plan.repetitions:
        return f"plan.repetition is {plan.repetition} of {plan.repetitions}"
    if plan.block is not None and plan.set_ups is not None and plan.block > plan.set_ups:
        return f"plan.block is {plan.block} of {plan.set_ups}"
    return None


def _find_implausible_set_up(record: RunRecord) -> str | None:
    set_up, plan = record.set_up, record.plan
    if set_up is None:
        return "is in a block of its plan but in no set-up" if plan is not None and plan.block else None
    if set_up.trial < 1:
        return f"set_up.trial is {set_up.trial}; allowed: 1 or more"
    return None


def trial_number_of(record: RunRecord) -> int | None:
    """The number of the trial within its set-up, from 1, or None without a set-up."""
    return record.set_up.trial if record.set_up is not None else None


@dataclass(slots=True)
class _StoredSetUp:
    """A set-up: the facts of its first run, and the run id of each of its trials."""

    run_id: str
    facts: dict[str, Any]
    trials: dict[int, str] = field(default_factory=dict)


class SetUps:
    """Receives stored runs and new runs, and refuses runs that cannot share a set-up."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: dict[str, _StoredSetUp] = {}

    def take(self, row: Row, trial: int | None) -> None:
        """Add one more run. ``row``: its columns. Raises StoreError naming both runs."""
        name, run_id = row["set_up"], row["run_id"]
        if name is None or trial is None:
            return
        columns = (*OF_ONE_SET_UP, *(OF_ONE_BLOCK if row["block"] else ()))
        facts = {column: row[column] for column in columns}
        stored = self._seen.setdefault(name, _StoredSetUp(run_id, facts))
        for column, value in facts.items():
            first = stored.facts.setdefault(column, value)
            if first != value:
                said = f"{column} is {value} here but {first} in run {stored.run_id}"
                raise StoreError(f"{self._where}: run {run_id}: claims to belong to set-up {name}, but {said}")
        other = stored.trials.setdefault(trial, run_id)
        if other != run_id:
            said = f"claims to be trial {trial} of set-up {name}, which is run {other}"
            raise StoreError(f"{self._where}: run {run_id}: {said}")


def stored_set_ups(connection: Connection, rows: Iterable[Row], where: str) -> SetUps:
    """The stored runs of the set-ups that these rows name."""
    found, names = SetUps(where), {row["set_up"] for row in rows} - {None}
    if not names:
        return found
    columns = [runs.c[name] for name in ("run_id", "set_up", *OF_ONE_SET_UP, *OF_ONE_BLOCK)]
    there = select(*columns, runs.c.record).where(runs.c.set_up.in_(names)).order_by(runs.c.run_id)
    for row in connection.execute(there):
        _add_stored_run(found, row._asdict())
    return found


def _add_stored_run(set_ups: SetUps, row: Row) -> None:
    """Add a stored run. One that was forged earlier, or cannot be read, does not exclude others."""
    try:
        set_ups.take(row, json_object(row["record"], "a stored run")["set_up"]["trial"])
    except (StoreError, ValueError, TypeError, KeyError):
        return
