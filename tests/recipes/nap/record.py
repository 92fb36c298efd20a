"""The record of one nap."""

from __future__ import annotations

from labconsole.model.record.kind import Guests, GuestTrialRecord, RecordKind, Seconds, columns_of
from labconsole.model.strict_model import StrictModel


class NapRequested(StrictModel):
    """The design point."""

    platform: str
    guests: Guests
    bed: str
    for_s: float
    memory_mib: int | None


class NapRecord(GuestTrialRecord):
    """One trial: how long each guest slept, and the longest of them."""

    nap_id: str
    requested: NapRequested
    slept_s: tuple[Seconds, ...]
    longest_s: Seconds | None
    swapped_pages: int | None


RECORD = RecordKind(
    name="nap",
    plural="naps",
    record=NapRecord,
    format=1,
    columns=columns_of,
    measured=lambda record: {"longest_s": [record.longest_s]},
)
