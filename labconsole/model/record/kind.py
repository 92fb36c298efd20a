"""Kinds of stored records other than runs, and what all records of guests' trials have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from labconsole import plugins
from labconsole.errors import StoreError
from labconsole.model.record.run import Attestation, Environment, Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel
from labconsole.packets.flows import MAX_BINS

# -- kinds -------------------------------------------------------------------------------------------------------------
# Kinds of stored records other than runs: name, class, and columns for lists.


class ExperimentRecord(StrictModel):
    """A record of an experiment of several trials."""

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.plain("json")

    def plain(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The record as plain data, with the keys of its own format."""
        return self.model_dump(mode=mode)


class PlannedRecord(ExperimentRecord):
    """A record of a plan's trials on one platform. ``status`` failed: it supports no conclusion, and ``failure`` gives
    the reason.

    The first field that a kind adds is the record's id, and it names the classes of ``plan``, which has at least
    ``name`` and ``hash``, and of ``requested``, which has at least ``platform``.
    """

    FIRST: ClassVar[Sequence[str]] = (
        *("format", "started_at", "finished_at", "testbed", "testbed_fingerprint"),
        *("emulated", "operator", "labconsole_version", "plan", "requested"),
    )
    LAST: ClassVar[Sequence[str]] = ("status", "failure")
    """In each format, its id and ``FIRST`` are before a kind's own fields, and ``LAST`` is after them."""

    format: int = 1
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: Any
    requested: Any
    status: Literal["done", "failed"]
    failure: str | None = None

    @property
    def record_id(self) -> str:
        """The record's id, whatever its kind calls it."""
        found: str = getattr(self, next(iter(get_annotations(type(self)))))
        return found

    def plain(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The record as plain data, with the keys of its own format in their order."""
        found = super().plain(mode)
        own_id, *own = get_annotations(type(self))
        return {name: found[name] for name in dict.fromkeys((own_id, *self.FIRST, *own, *self.LAST))}


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


def columns_of(record: PlannedRecord) -> ExperimentColumns:
    """The columns of a record that belongs to a plan."""
    return ExperimentColumns(
        id=record.record_id,
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
    run_ids: Callable[[R], Collection[str]] = lambda record: ()
    measured: Callable[[R], Mapping[str, Sequence[float | None]]] = lambda record: {}


# -- trials of guests --------------------------------------------------------------------------------------------------
# Common parts of guest trial records: the trial's place in its plan, and the timekeeper's observations.

MAX_GUESTS = 250
"""Of a crew: a plan asks for no more, and a record of more is none."""

Guests = Annotated[int, Field(ge=1, le=MAX_GUESTS)]
Bin = Annotated[int, Field(ge=0, le=2 * MAX_BINS)]
"""The number of a bin. There is room for guests that send longer than they should: bins are counted up to the first
``MAX_BINS``.
"""

Ns = Annotated[int, Field(ge=0, lt=2**63)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Packets = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]

Placing = Literal["same", "own", "any"]
"""same: all guests on one CPU of the UUT; own: one each, in turn; any: as the UUT's scheduler chooses."""


class CrewTrialRef(StrictModel):
    """A trial's place in its plan; ``hash`` identifies its meaning. ``block``, ``repetition``, ``position`` from 1.

    ``attempt`` from 1, of at most ``attempts``. ``set_ups``, ``repetitions``: as in the plan. ``plan_hash``: of the
    whole plan, the key of notes on it, or None without a file.
    """

    name: str
    hash: str
    point: int
    block: int
    repetition: int
    position: int
    seed: int
    set_ups: int
    repetitions: int
    attempt: int = 1
    attempts: int = 1
    margin_ratio: float | None = None
    plan_hash: str | None = None


class ProgramRecord(StrictModel):
    """A program of the guests, as in every guest that worked. ``unknown``: number of guests that did not report it."""

    name: str
    sha256: tuple[str, ...]
    unknown: int = 0


class TimekeeperRecord(StrictModel):
    """The timekeeper's observations besides the marks. ``wall_moved_ns``: adjustment of its wall clock meanwhile."""

    node: str
    interface: str
    address: str
    dropped_packets: int | None
    strange_packets: int
    doubled: tuple[str, ...]
    wall_moved_ns: int


class GuestEntry(StrictModel):
    """How the console entered an installed guest. ``tries``: attempts to enter, including the successful one;
    ``gap_s``: from the start of the last failed attempt to that of the successful one, which bounds how much earlier
    the guest may have been up, or None if the first one succeeded. ``mark_tries``: its pings, a second each, until it
    found the timekeeper, or None if not reported. ``joined_s``: from its start command until its NIC was on
    labconsole's bridge, before which no mark arrives, or None for the operator's bridge.
    """

    tries: Annotated[int, Field(ge=1)]
    gap_s: Annotated[float, Field(ge=0)] | None
    mark_tries: Annotated[int, Field(ge=1)] | None
    joined_s: Annotated[float, Field(ge=0)] | None


class EmptyJobs(StrictModel):
    """Jobs that do nothing, in the same crew before its first trial: the time of marks and shell."""

    each_s: tuple[Seconds, ...]
    mean_s: Seconds
    sd_s: Seconds


class GuestTrialRecord(PlannedRecord):
    """A record of one trial of guests, whose ``requested`` has at least ``platform``, ``guests`` and ``memory_mib``.

    ``set_up``: None if its guests did not start. ``swapped_pages``: pages that the UUT swapped in or out meanwhile, or
    None if unknown; a kind repeats this field at its place among its own.
    """

    FIRST = (*PlannedRecord.FIRST, "set_up")
    LAST = ("in_force", "verdict", "attestation", "influences", "environment", *PlannedRecord.LAST)

    plan: CrewTrialRef
    set_up: SetUp | None
    swapped_pages: int | None
    in_force: InForce | None = None
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment

    @property
    def set_up_id(self) -> str:
        """Id of the set-up of its guests, or the record's own if they did not start."""
        return self.record_id if self.set_up is None else self.set_up.id

    @property
    def timekeeper_node(self) -> str | None:
        """The node that took the time, or None if nothing was observed."""
        return None


# -- all kinds ---------------------------------------------------------------------------------------------------------
# Kinds of records other than runs: ``RECORD`` in the folder of a kind of experiment, and ``KIND`` of plug-ins.

PACKAGE = "kinds"
"""The group of plug-ins' entry points."""


_FILE_NAME, _OTHER_FILES = re.compile(r"\w[\w-]{0,63}"), ("runs", "calibrations")
"""A plural names a file of a bundle."""


@cache
def record_kinds() -> dict[str, RecordKind[Any]]:
    """All kinds, by name. Raises StoreError for an unusable plug-in: its records would be lost."""
    found = {name: module.RECORD for name, module in plugins.load_kind_files("record").items()}
    for name in plugins.find_external_names(PACKAGE):
        try:
            kind = getattr(plugins.load(PACKAGE, name), "KIND", None)
        except plugins.PluginError as exc:
            raise StoreError(str(exc)) from exc
        if not isinstance(kind, RecordKind) or kind.name != name:
            raise StoreError(f"plug-in {name} cannot be used: its KIND is not a kind of record with the name {name}")
        if not _FILE_NAME.fullmatch(kind.plural) or kind.plural in {*_OTHER_FILES, *(k.plural for k in found.values())}:
            raise StoreError(
                f"plug-in {name} cannot be used: its KIND has the plural {kind.plural!r}; allowed: letters, digits, "
                "'_', '-', as no other kind has them"
            )
        found[name] = kind
    return dict(sorted(found.items()))
