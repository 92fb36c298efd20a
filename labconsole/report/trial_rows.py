"""Every selected trial that is not a run: its request, the values of each guest, and whether it enters. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from labconsole.contracts.report import Table
from labconsole.measure.paired_blocks import newest_trials
from labconsole.model.record.kind import ExperimentColumns, ExperimentRecord, RecordKind
from labconsole.model.record.kinds import record_kinds
from labconsole.report.planned_trials import TrialOfPlan, is_included, select_guest_trials
from labconsole.report.table_builder import TableColumn, build_table, csv_column


class TrialRow(NamedTuple):
    """A trial, and its record: its columns in lists, and its content as JSON
    (``plain``). ``why_not``: why it does not enter, or empty.
    """

    kind: RecordKind[Any]
    columns: ExperimentColumns
    record: ExperimentRecord
    trial: TrialOfPlan
    plain: Mapping[str, Any]
    why_not: str


COLUMNS: Final[list[TableColumn[TrialRow]]] = [
    csv_column("kind", lambda row: row.kind.name),
    csv_column("id", lambda row: row.columns.id),
    csv_column("enters", lambda row: not row.why_not),
    csv_column("why_not", lambda row: row.why_not),
    csv_column("started_at", lambda row: row.columns.started_at),
    csv_column("testbed", lambda row: row.columns.testbed),
    csv_column("testbed_fingerprint", lambda row: row.columns.testbed_fingerprint),
    csv_column("emulated", lambda row: row.trial.emulated),
    csv_column("plan_name", lambda row: row.columns.plan_name),
    csv_column("plan_hash", lambda row: row.columns.plan_hash),
    csv_column("block", lambda row: row.trial.plan.block),
    csv_column("repetition", lambda row: row.trial.plan.repetition),
    csv_column("attempt", lambda row: row.trial.plan.attempt),
    csv_column("set_up", lambda row: (row.plain.get("set_up") or {}).get("id")),
    csv_column("platform", lambda row: row.columns.platform),
    csv_column("asked", lambda row: json.dumps(row.plain["requested"], ensure_ascii=False)),
    csv_column("verdict", lambda row: row.trial.verdict.status),
    csv_column("reason_codes", lambda row: " ".join(reason.code for reason in row.trial.verdict.reasons)),
    csv_column("measured", lambda row: json.dumps(row.kind.measured(row.record), ensure_ascii=False)),
]
"""The request and the measured values are JSON: the design point, and for each quantity the values guest by guest."""


def build_trials_table(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> Table:
    """A row for each trial, by kind, in the order in which they were measured. It is not printed."""
    return build_table("trials", "Trials of guests", COLUMNS, _build_rows(experiments))


def _build_rows(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> Iterator[TrialRow]:
    for name, records in sorted(experiments.items()):
        kind = record_kinds()[name]
        trials = {id(trial): trial for trial in select_guest_trials(records)}
        newest = {id(trial) for trial in newest_trials(trials.values())}
        for record in sorted(records, key=lambda each: kind.columns(each).started_at):
            if (trial := trials.get(id(record))) is None:
                continue  # a search: its trials are runs
            superseded = id(record) not in newest
            why_not = "superseded" if superseded else "" if is_included(trial) else trial.verdict.status
            yield TrialRow(kind, kind.columns(record), record, trial, record.to_json(), why_not)
