"""The stored kind of flow trials."""

from __future__ import annotations

from labconsole.model.record.flow import FLOW_FORMAT, FlowRecord
from labconsole.model.record.kind import RecordKind, columns_of

KIND = RecordKind(
    name="flow",
    plural="flows",
    record=FlowRecord,
    format=FLOW_FORMAT,
    columns=lambda record: columns_of(record.flow_id, record),
    run_ids=lambda record: [],
    measured=lambda record: {
        "sent_payload_bps": [each.payload_bps for each in record.senders],
        "read_payload_bps": [each.payload_bps for each in record.receivers],
        "ring_out_bps": [each.out_bps for each in record.ring],
    },
)
