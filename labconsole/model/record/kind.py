"""Kinds of stored records other than runs: name, class, and columns for lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from labconsole.model.strict_model import StrictModel


class ExperimentRecord(StrictModel):
    """A record of an experiment of several trials."""

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.plain("json")

    def plain(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The record as plain data, with the keys of its own format."""
        return self.model_dump(mode=mode)


class PlannedBy(Protocol):
    """A record's reference to its plan."""

    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...


class OfPlatform(Protocol):
    """A record's requested platform."""

    @property
    def platform(self) -> str: ...


class RecordOfPlan(Protocol):
    """The attributes of a record that is listed by plan and platform."""

    @property
    def started_at(self) -> str: ...
    @property
    def testbed(self) -> str: ...
    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def plan(self) -> PlannedBy: ...
    @property
    def requested(self) -> OfPlatform: ...
    @property
    def status(self) -> str: ...


R = TypeVar("R", bound=ExperimentRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentColumns:
    """Columns of a record for lists and filters. ``plan_name`` and ``plan_hash`` are None without a plan."""

    id: str
    started_at: str
    testbed: str
    testbed_fingerprint: str
    plan_name: str | None
    plan_hash: str | None
    platform: str
    status: str

    def to_row(self) -> dict[str, Any]:
        """By the names of the columns of the table ``experiments``."""
        return {
            "id": self.id,
            "started_at": self.started_at,
            "testbed": self.testbed,
            "testbed_fingerprint": self.testbed_fingerprint,
            "plan_name": self.plan_name,
            "plan_hash": self.plan_hash,
            "platform": self.platform,
            "status": self.status,
        }


def columns_of(record_id: str, record: RecordOfPlan) -> ExperimentColumns:
    """The columns of a record that belongs to a plan."""
    return ExperimentColumns(
        id=record_id,
        started_at=record.started_at,
        testbed=record.testbed,
        testbed_fingerprint=record.testbed_fingerprint,
        plan_name=record.plan.name,
        plan_hash=record.plan.hash,
        platform=record.requested.platform,
        status=record.status,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind(Generic[R]):
    """A kind of record, as its file in ``kinds`` declares it.

    ``name`` is used in the store, in exported lines and in sentences; ``plural`` for counts. ``format``: the newest
    known one. ``run_ids``: the runs that are its trials. ``measured``: by name with the unit, each quantity that means
    are computed of, as values of the guests or one of all together, or None if unknown.
    """

    name: str
    plural: str
    record: type[R]
    format: int
    columns: Callable[[R], ExperimentColumns]
    run_ids: Callable[[R], Collection[str]]
    measured: Callable[[R], Mapping[str, Sequence[float | None]]] = lambda record: {}
