"""The stored kind of guest jobs."""

from __future__ import annotations

from labconsole.model.record.job import JOB_FORMAT, JobRecord
from labconsole.model.record.kind import RecordKind, columns_of

KIND = RecordKind(
    name="job",
    plural="jobs",
    record=JobRecord,
    format=JOB_FORMAT,
    columns=lambda record: columns_of(record.job_id, record),
    run_ids=lambda record: [],
    measured=lambda record: {"seconds": [copy.seconds for copy in record.copies]},
)
