"""Every number of a record of guests, changed by itself: verify finds it, or it is named as one that nothing repeats."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from labconsole.bundle.examination import Examination
from labconsole.errors import StoreError
from labconsole.model.record.kind import record_kinds
from labconsole.store.experiments import parse_experiment
from support.consistent_guests import consistent_guests
from support.numbers_within import numbers

RAW = (
    r"plan\.(point|position|seed|attempts|repetitions|set_ups)",
    r"set_up\.(setup_s|trial)",
    r"requested\.(duration_s|greedy|limit_s|offered_bps|payload_bytes|second_after_s|size|disk_mib|disk\.to_s|disk\.from_s)",
    r"link_speed_bps|in_packets|switches_per_s|source\.nic_packets",
    r"flows\.\d+\.udp_source_port|routers\.\d+\.(udp_source_port|load_s)|receivers\.\d+\.dropped_packets",
    r"senders\.\d+\.limiter\.(burst_bytes|dropped_packets)|sink\.fragments|ring\.\d+\.said_bps",
    r"copies\.\d+\.end_reply_ns|timekeeper\.wall_moved_ns|disk\.(size|device_\w+_bytes|guests\.\d+\.\w+_bytes)",
    r"files\.\d+\.pages|memory\.(ksm_run|ksm_pages_sharing|quiet_s)",
    r"(environment|in_force|influences)\..*",
)
"""As docs/data-format.md says: of these only what cannot be is found."""


@pytest.mark.parametrize("name", [name for name in consistent_guests() if not name.endswith("-2")])
def test_a_changed_number_is_found_or_named_as_raw(name: str) -> None:
    guests = consistent_guests()
    parsed = {
        each: parse_experiment(record_kinds()[kind], json.dumps(data), each) for each, (kind, data) in guests.items()
    }
    silent = []
    for path, value in numbers(guests[name][1]):
        words = ".".join(map(str, path))
        if any(re.fullmatch(pattern, words) for pattern in RAW):
            continue
        kind, data = consistent_guests()[name]
        held: Any = data
        for step in path[:-1]:
            held = held[step]
        held[path[-1]] = type(value)(value * 3 + 7)
        try:
            changed = parse_experiment(record_kinds()[kind], json.dumps(data), name)
        except StoreError:
            continue
        found: list[str] = []
        examination = Examination(lambda record_id, wrong, found=found: found.append(wrong.where))  # type: ignore[misc]
        for each, (of_kind, _) in guests.items():
            examination.take_other(record_kinds()[of_kind], changed if each == name else parsed[each])
        examination.end([])
        if not found:
            silent.append(words)
    assert silent == []
