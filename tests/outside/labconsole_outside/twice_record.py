"""The record of an experiment that takes one design point several times."""

from labconsole.model.record.kind import ExperimentColumns, ExperimentRecord, RecordKind


class TwiceRecord(ExperimentRecord):
    """Which runs, and whether all came to their end."""

    format: int = 1
    id: str
    started_at: str
    testbed: str
    testbed_fingerprint: str
    plan_name: str
    plan_hash: str
    platform: str
    times: int
    runs: list[str]
    status: str = "done"
    failure: str | None = None


def columns(record):
    """What is listed of it."""
    return ExperimentColumns(**record.model_dump(exclude={"format", "runs", "failure", "times"}))


KIND = RecordKind(
    name="twice", plural="twices", record=TwiceRecord, format=1, columns=columns, run_ids=lambda record: record.runs
)
