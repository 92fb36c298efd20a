"""The stored kind of router trials."""

from __future__ import annotations

from labconsole.model.record.kind import RecordKind, columns_of
from labconsole.model.record.route import ROUTE_FORMAT, RouteRecord

KIND = RecordKind(
    name="route",
    plural="routes",
    record=RouteRecord,
    format=ROUTE_FORMAT,
    columns=lambda record: columns_of(record.route_id, record),
    run_ids=lambda record: [],
    measured=lambda record: {"forwarded_pps": [router.forwarded_pps for router in record.routers]},
)
