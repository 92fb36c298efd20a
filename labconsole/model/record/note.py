"""A note on a run: what a person wrote, beside the record, which never changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from labconsole.model.record.run import RunRecord


@dataclass(frozen=True, slots=True)
class RunNote:
    """A note on a run. ``text`` is None once it was removed; ``written_at`` is RFC 3339 in UTC."""

    text: str | None
    author: str
    written_at: str

    def to_json(self) -> dict[str, Any]:
        """As an exported line has it, under the key ``note``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NotedRecord:
    """A record with the note on it, as an export has them."""

    record: RunRecord
    note: RunNote | None


def exported(record: RunRecord, note: RunNote | None) -> dict[str, Any]:
    """One run as an export has it. Without a note it is the record and nothing else."""
    data = record.to_json()
    return data if note is None else {**data, "note": note.to_json()}
