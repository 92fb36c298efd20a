"""The quantities of a boot trial for comparisons: start-up time and memory, as in a report (summary.py).

Every boot trial has its own guests, so the block is the replicate. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.comparison.guest_trials import TrialFacts, build_guest_trials
from labconsole.contracts.measured import MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.experiments.boot.derived_values import resolution_s
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.boot.record import RECORD as KIND
from labconsole.experiments.boot.record import BootRecord
from labconsole.model.record.summary import RunSummary

STARTUP = Quantity(name="start-up time", unit="s", better="lower", shown_unit="s", places=3)
MEMORY = Quantity(name="memory used", unit="bytes", better="lower", shown_unit="MiB", scale=2.0**20)


def _trials(records: Sequence[BootRecord], runs: Mapping[str, RunSummary]) -> list[MeasuredTrial]:
    return build_guest_trials(KIND.name, records, _build_trial)


def _build_trial(record: BootRecord) -> TrialFacts:
    requested = record.requested
    memory = "" if requested.memory_mib is None else f", {requested.memory_mib} MiB each"
    known = {STARTUP: record.startup_s, MEMORY: None if record.memory is None else record.memory.used_bytes}
    known_to = {STARTUP: resolution_s(record.guests, record.clock_error_s)}
    return TrialFacts(
        id=record.boot_id,
        factors={
            "platform": requested.platform,
            "start": requested.start,
            "guests": requested.guests,
            "memory_mib": requested.memory_mib,
        },
        words=BootPoint.from_request(requested, cpu="any").words() + memory,
        values={
            quantity: MeasuredValue(float(value), resolution=known_to.get(quantity))
            for quantity, value in known.items()
            if value is not None
        },
        set_up=None,
        anew=True,
    )


MEASURED = MeasuredKind(kind=KIND, compared=("platform", "start", "guests", "memory_mib"), trials=_trials)
