"""Load searches, as a store keeps them."""

from __future__ import annotations

from labconsole.model.record.kind import ExperimentColumns, RecordKind
from labconsole.model.record.search import SEARCH_FORMAT, SearchRecord


def _columns(record: SearchRecord) -> ExperimentColumns:
    return ExperimentColumns(
        id=record.search_id,
        started_at=record.started_at,
        testbed=record.testbed,
        testbed_fingerprint=record.testbed_fingerprint,
        plan_name=record.plan.name,
        plan_hash=record.plan.hash,
        platform=record.requested.platform,
        status=record.status,
    )


KIND = RecordKind(
    name="search",
    plural="searches",
    record=SearchRecord,
    format=SEARCH_FORMAT,
    columns=_columns,
    run_ids=lambda record: [trial.run_id for trial in record.trials],
)
