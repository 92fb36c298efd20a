"""The order of a record's fields, in which exports and ``--json`` have them, is that of its format."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.experiments.boot.plan import BootPoint
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.model.record.kind import columns_of
from support.boot_records import started
from support.flow_records import flow_record
from support.job_records import taken
from support.route_records import route_record

BEGIN = "format started_at finished_at testbed testbed_fingerprint emulated operator labconsole_version plan requested"
END = "in_force verdict attestation influences environment status failure"
OWN = {
    "boot": "clocks mark_zero_ns clock_error_s clock_error_allowed_s guests startup_s ready_s sd_s file_system files "
    "memory idle swapped_pages timekeeper",
    "job": "empty program client copies timekeeper start_skew_s swapped_pages disk link_speed_bps",
    "flow": "link_speed_bps line_bps origin_ns flows senders sink ring window_s receivers source weights disk "
    "shared_from shared_to sum_bps jain line_ratio start_skew_s swapped_pages program",
    "route": "link_speed_bps source origin_ns in_packets routers sink shared_from shared_to sum_pps jain start_skew_s "
    "switches_per_s busy_ratio swapped_pages",
}
RECORDS: dict[str, Any] = {
    "boot": started(1.0, 2.0, guests=2),
    "job": taken([1.0, 2.0]),
    "flow": flow_record([[10] * 5]),
    "route": route_record([5]),
}


@pytest.mark.parametrize("kind", guest_kinds())
def test_a_records_fields_are_in_the_order_of_its_format(kind: str) -> None:
    record = RECORDS[kind]
    wanted = f"{kind}_id {BEGIN} set_up {OWN[kind]} {END}".split()
    assert list(record.to_json()) == wanted
    assert type(record).model_validate(record.plain()) == record
    assert columns_of(record).id == getattr(record, f"{kind}_id")


@pytest.mark.parametrize("kind", guest_kinds())
def test_a_record_has_the_point_that_its_table_shows(kind: str) -> None:
    record = RECORDS[kind]
    shown = guest_kinds()[kind].text.columns(record)
    assert shown["platform"] == record.requested.platform
    assert shown["guests"] == str(record.requested.guests)


def test_what_a_request_lacks_of_a_point_is_given() -> None:
    request = RECORDS["boot"].requested
    assert BootPoint.from_request(request, cpu="any").words() == f"{request.platform}: 2 guests, hot"
    with pytest.raises(TypeError, match="cpu"):
        BootPoint.from_request(request)
