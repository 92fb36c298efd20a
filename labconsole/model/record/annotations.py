"""What is kept next to the records, which never change: notes on runs and plans, and named baselines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from labconsole.model.record.run import RunRecord

# -- notes -------------------------------------------------------------------------------------------------------------
# A person's note on a run, or on a plan of a testbed, kept next to the records, which never change.


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note on a run or a plan. ``text`` is None after its removal; ``written_at`` is RFC 3339 in UTC."""

    text: str | None
    author: str
    written_at: str

    def to_json(self) -> dict[str, Any]:
        """As an exported line has it, under the key ``note``."""
        return {"text": self.text, "author": self.author, "written_at": self.written_at}


PLAN_NOTE = "plan_note"
"""The only key of an exported line with the note on a plan."""

_PLAN, _AT = "plan:", "@"
"""Characters that no run id has."""

PLAN_NOTE_NAME = re.compile(r"[A-Za-z0-9._:-]{1,200}")
"""A plan's hash, and a testbed's fingerprint."""

_PLAN_KEY = re.compile(f"{_PLAN}{PLAN_NOTE_NAME.pattern}{_AT}{PLAN_NOTE_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class PlanNote:
    """The note on a plan's meaning on a testbed; it applies to all its runs and searches there."""

    plan_hash: str
    testbed_fingerprint: str
    note: RunNote

    def to_json(self) -> dict[str, Any]:
        """The exported line."""
        about = {"plan_hash": self.plan_hash, "testbed_fingerprint": self.testbed_fingerprint}
        return {PLAN_NOTE: {**about, **self.note.to_json()}}


def plan_key(plan_hash: str, testbed_fingerprint: str) -> str:
    """The key of a note on a plan in stores, where a note on a run has the run's id."""
    return f"{_PLAN}{plan_hash}{_AT}{testbed_fingerprint}"


def is_plan_key(key: str) -> bool:
    """Whether a note with this key is on a plan."""
    return _PLAN_KEY.fullmatch(key) is not None


def plan_notes(notes: Mapping[str, RunNote]) -> Iterator[PlanNote]:
    """The notes on plans, out of all notes by their keys."""
    for key, note in notes.items():
        if is_plan_key(key):
            plan_hash, _, fingerprint = key.removeprefix(_PLAN).partition(_AT)
            yield PlanNote(plan_hash, fingerprint, note)


@dataclass(frozen=True, slots=True)
class NotedRecord:
    """A record and its note, as in an export."""

    record: RunRecord
    note: RunNote | None


def exported(record: RunRecord, note: RunNote | None) -> dict[str, Any]:
    """One run in an export. Without a note it is only the record."""
    data = record.to_json()
    return data if note is None else {**data, "note": note.to_json()}


# -- baselines ---------------------------------------------------------------------------------------------------------
# A baseline: a named measurement that later ones are compared with.

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""Valid names of baselines and of occasions."""

ALLOWED_NAMES: Final = "letters, digits, '.', '_', '+' and '-', at most 64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All runs of a plan on a testbed that began by ``set_at`` (RFC 3339, UTC), when ``author`` set it.

    ``plan_name`` includes the occasion, as in the runs. Several occasions have one baseline each, all set at once.
    Moving a baseline adds others of its name.
    """

    name: str
    plan_name: str
    plan_hash: str
    testbed: str
    testbed_fingerprint: str
    author: str
    set_at: str

    def to_json(self) -> dict[str, Any]:
        """As commands tell it to machines."""
        return {
            "name": self.name,
            "plan_name": self.plan_name,
            "plan_hash": self.plan_hash,
            "testbed": self.testbed,
            "testbed_fingerprint": self.testbed_fingerprint,
            "author": self.author,
            "set_at": self.set_at,
        }


def group_baselines(known: Iterable[Baseline]) -> list[list[Baseline]]:
    """The occasions of each baseline, in the order named; ``known`` has the newest first, as stores return them."""
    found: dict[tuple[str, str], list[Baseline]] = {}
    for each in known:
        found.setdefault((each.name, each.set_at), []).append(each)
    return [occasions[::-1] for occasions in found.values()]
