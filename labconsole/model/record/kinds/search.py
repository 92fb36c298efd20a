"""The stored kind of load searches."""

from __future__ import annotations

from labconsole.model.record.kind import RecordKind, columns_of
from labconsole.model.record.search import SEARCH_FORMAT, SearchRecord

KIND = RecordKind(
    name="search",
    plural="searches",
    record=SearchRecord,
    format=SEARCH_FORMAT,
    columns=lambda record: columns_of(record.search_id, record),
    run_ids=lambda record: [trial.run_id for trial in record.trials],
)
