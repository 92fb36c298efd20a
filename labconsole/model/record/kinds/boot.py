"""The stored kind of guest boots."""

from __future__ import annotations

from labconsole.model.record.boot import BOOT_FORMAT, BootRecord
from labconsole.model.record.kind import RecordKind, columns_of

KIND = RecordKind(
    name="boot",
    plural="boots",
    record=BootRecord,
    format=BOOT_FORMAT,
    columns=lambda record: columns_of(record.boot_id, record),
    run_ids=lambda record: [],
    measured=lambda record: {
        "startup_s": [each.mark_s for each in record.guests],
        "ready_s": [each.ready_s for each in record.guests],
        "used_bytes": [None if record.memory is None else record.memory.used_bytes],
    },
)
