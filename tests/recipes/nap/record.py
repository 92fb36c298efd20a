"""The record of one nap."""

from __future__ import annotations

from typing import Literal

from labconsole.model.record.kind import CrewTrialRef, ExperimentRecord, Guests, RecordKind, Seconds, columns_of
from labconsole.model.record.run import Attestation, Environment, Figures, InForce, SetUp, Verdict
from labconsole.model.strict_model import StrictModel


class NapRequested(StrictModel):
    """The design point."""

    platform: str
    guests: Guests
    bed: str
    for_s: float
    memory_mib: int | None


class NapRecord(ExperimentRecord):
    """One trial: how long each guest slept, and the longest of them."""

    nap_id: str
    format: int = 1
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: CrewTrialRef
    requested: NapRequested
    set_up: SetUp | None
    slept_s: tuple[Seconds, ...]
    longest_s: Seconds | None
    swapped_pages: int | None
    in_force: InForce
    verdict: Verdict
    attestation: Attestation
    influences: tuple[Figures, ...] = ()
    environment: Environment
    status: Literal["done", "failed"]
    failure: str | None = None

    @property
    def timekeeper(self) -> None:
        """Nobody outside takes the time."""
        return None


RECORD = RecordKind(
    name="nap",
    plural="naps",
    record=NapRecord,
    format=1,
    columns=lambda record: columns_of(record.nap_id, record),
    run_ids=lambda record: [],
    measured=lambda record: {"longest_s": [record.longest_s]},
)
