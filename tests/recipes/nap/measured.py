"""The quantity of a nap for comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.comparison.guest_trials import TrialFacts, build_guest_trials
from labconsole.contracts.measured import MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.model.record.summary import RunSummary

from .record import RECORD, NapRecord

LONGEST = Quantity(name="longest nap", unit="s", better="higher", shown_unit="s")


def _trials(records: Sequence[NapRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return build_guest_trials(RECORD.name, records, _build_trial)


def _build_trial(record: NapRecord) -> TrialFacts:
    request = record.requested
    return TrialFacts(
        id=record.nap_id,
        factors={"platform": request.platform, "guests": request.guests, "bed": request.bed},
        words=f"{request.platform}: {request.guests} guests, {request.bed}",
        values={} if record.longest_s is None else {LONGEST: MeasuredValue(record.longest_s)},
        set_up=None if record.set_up is None else record.set_up.id,
    )


MEASURED = MeasuredKind(kind=RECORD, compared=("platform", "guests", "bed"), trials=_trials)
