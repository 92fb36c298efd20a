"""Every selected trial that is not a run: its request, the values of each guest, and whether it enters. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from labconsole.contracts.report import Cell
from labconsole.measure.paired_blocks import newest_trials
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.kinds import record_kinds
from labconsole.report.planned_trials import is_included, select_guest_trials

COLUMNS = (
    "kind",
    "id",
    "enters",
    "why_not",
    "started_at",
    "testbed",
    "testbed_fingerprint",
    "emulated",
    "plan_name",
    "plan_hash",
    "block",
    "repetition",
    "attempt",
    "set_up",
    "platform",
    "asked",
    "verdict",
    "reason_codes",
    "measured",
)


def build_trial_rows(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[tuple[Cell, ...]]:
    """Rows by kind, in the order in which they were measured, in the columns of ``COLUMNS``.

    The request and the measured values are JSON: the design point, and for each quantity the values guest by guest.
    """
    found: list[tuple[Cell, ...]] = []
    for name, records in sorted(experiments.items()):
        kind = record_kinds()[name]
        trials = {id(trial): trial for trial in select_guest_trials(records)}
        newest = {id(trial) for trial in newest_trials(trials.values())}
        for record in sorted(records, key=lambda each: kind.columns(each).started_at):
            if (trial := trials.get(id(record))) is None:
                continue  # a search: its trials are runs
            columns, plain = kind.columns(record), record.to_json()
            superseded = id(record) not in newest
            why = "superseded" if superseded else "" if is_included(trial) else trial.verdict.status
            found.append(
                (
                    name,
                    columns.id,
                    not why,
                    why,
                    columns.started_at,
                    columns.testbed,
                    columns.testbed_fingerprint,
                    trial.emulated,
                    columns.plan_name,
                    columns.plan_hash,
                    trial.plan.block,
                    trial.plan.repetition,
                    trial.plan.attempt,
                    (plain.get("set_up") or {}).get("id"),
                    columns.platform,
                    json.dumps(plain["requested"], ensure_ascii=False),
                    trial.verdict.status,
                    " ".join(reason.code for reason in trial.verdict.reasons),
                    json.dumps(kind.measured(record), ensure_ascii=False),
                )
            )
    return found
