"""Records that a store does not take from elsewhere: places that no plan has, and set-ups that cannot be one.

A run that claims a set-up it was not taken in would be averaged with those that were. What only shows beside all
other runs (a place that whole set-ups took twice, one capture in two runs) is taken, and `labconsole verify` tells it.
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
"""A plan takes a trial again 100 times at most (max_redo)."""

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
"""Of a plan's place: what each number counts from."""

OF_ONE_SET_UP = ("testbed_fingerprint", "platform")
OF_ONE_BLOCK = ("plan_hash", "block", "background")
"""Columns that are the same for all runs of a set-up; the latter where it belongs to a block of a plan."""

Row = Mapping[str, Any]


def refuse_implausible(record: RunRecord, where: str) -> None:
    """Raises StoreError for a record whose place in its plan or its set-up cannot be."""
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
    held, plan = record.set_up, record.plan
    if held is None:
        return "is in a block of its plan but in no set-up" if plan is not None and plan.block else None
    if held.trial < 1:
        return f"set_up.trial is {held.trial}; allowed: 1 or more"
    return None


def trial_number_of(record: RunRecord) -> int | None:
    """The how-manyth trial of its set-up."""
    return record.set_up.trial if record.set_up is not None else None


@dataclass(slots=True)
class _StoredSetUp:
    """A set-up: what its first run said of it, and who took which trial."""

    run_id: str
    facts: dict[str, Any]
    trials: dict[int, str] = field(default_factory=dict)


class SetUps:
    """Takes runs, those that are stored and those that are to be, and refuses what cannot be one set-up."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: dict[str, _StoredSetUp] = {}

    def take(self, row: Row, trial: int | None) -> None:
        """One more run. ``row``: its columns. Raises StoreError naming both runs."""
        name, run_id = row["set_up"], row["run_id"]
        if name is None or trial is None:
            return
        columns = (*OF_ONE_SET_UP, *(OF_ONE_BLOCK if row["block"] else ()))
        facts = {column: row[column] for column in columns}
        held = self._seen.setdefault(name, _StoredSetUp(run_id, facts))
        for column, value in facts.items():
            first = held.facts.setdefault(column, value)
            if first != value:
                said = f"{column} is {value} here but {first} in run {held.run_id}"
                raise StoreError(f"{self._where}: run {run_id}: claims to belong to set-up {name}, but {said}")
        other = held.trials.setdefault(trial, run_id)
        if other != run_id:
            said = f"claims to be trial {trial} of set-up {name}, which is run {other}"
            raise StoreError(f"{self._where}: run {run_id}: {said}")


class StoreSetUps:
    """``SetUps`` of a store and of what is being written to it. The store's runs of a set-up are read once, when a row
    first names it, however many rows of it follow.
    """

    def __init__(self, where: str) -> None:
        self._set_ups = SetUps(where)
        self._read: set[str] = set()

    def read(self, connection: Connection, rows: Iterable[Row]) -> None:
        """Read what the store holds of the set-ups that these rows are the first to name."""
        names = {row["set_up"] for row in rows} - {None} - self._read
        if not names:
            return
        self._read |= names
        columns = [runs.c[name] for name in ("run_id", "set_up", *OF_ONE_SET_UP, *OF_ONE_BLOCK)]
        there = select(*columns, runs.c.record).where(runs.c.set_up.in_(names)).order_by(runs.c.run_id)
        for row in connection.execute(there):
            _add_stored_run(self._set_ups, row._asdict())

    def take(self, row: Row, trial: int | None) -> None:
        """One more run. Raises StoreError naming both runs."""
        self._set_ups.take(row, trial)


def _add_stored_run(set_ups: SetUps, row: Row) -> None:
    """A stored run. One that was forged before, or cannot be read, keeps nobody else out."""
    try:
        set_ups.take(row, json_object(row["record"], "a stored run")["set_up"]["trial"])
    except (StoreError, ValueError, TypeError, KeyError):
        return
