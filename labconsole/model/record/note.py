"""A note on a run, or on a plan of a testbed: what a person wrote, beside the records, which never change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labconsole.model.record.run import RunRecord


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note on a run or a plan. ``text`` is None once it was removed; ``written_at`` is RFC 3339 in UTC."""

    text: str | None
    author: str
    written_at: str

    def to_json(self) -> dict[str, Any]:
        """As an exported line has it, under the key ``note``."""
        return {"text": self.text, "author": self.author, "written_at": self.written_at}


PLAN_NOTE = "plan_note"
"""The only key of an exported line that is the note on a plan."""

_PLAN, _AT = "plan:", "@"
"""No run id has these signs."""

PLAN_NOTE_NAME = re.compile(r"[A-Za-z0-9._:-]{1,200}")
"""A plan's hash, and a testbed's fingerprint."""

_PLAN_KEY = re.compile(f"{_PLAN}{PLAN_NOTE_NAME.pattern}{_AT}{PLAN_NOTE_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class PlanNote:
    """The note on what a plan means on a testbed; all its runs and searches there are meant."""

    plan_hash: str
    testbed_fingerprint: str
    note: RunNote

    def to_json(self) -> dict[str, Any]:
        """The exported line."""
        about = {"plan_hash": self.plan_hash, "testbed_fingerprint": self.testbed_fingerprint}
        return {PLAN_NOTE: {**about, **self.note.to_json()}}


def plan_key(plan_hash: str, testbed_fingerprint: str) -> str:
    """Under which stores keep the note on a plan, where the one on a run has the run's id."""
    return f"{_PLAN}{plan_hash}{_AT}{testbed_fingerprint}"


def is_plan_key(key: str) -> bool:
    """Whether a note under it is on a plan."""
    return _PLAN_KEY.fullmatch(key) is not None


def plan_notes(notes: Mapping[str, RunNote]) -> Iterator[PlanNote]:
    """Those that are on plans, of all notes by their keys."""
    for key, note in notes.items():
        if is_plan_key(key):
            plan_hash, _, fingerprint = key.removeprefix(_PLAN).partition(_AT)
            yield PlanNote(plan_hash, fingerprint, note)


@dataclass(frozen=True, slots=True)
class NotedRecord:
    """A record with the note on it, as an export has them."""

    record: RunRecord
    note: RunNote | None


def exported(record: RunRecord, note: RunNote | None) -> dict[str, Any]:
    """One run as an export has it. Without a note it is the record and nothing else."""
    data = record.to_json()
    return data if note is None else {**data, "note": note.to_json()}
