"""Records of starts of guests as they would be taken, for tests of what is made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from labconsole.contracts.crew import Crew, StandingMember
from labconsole.experiments.boot.derived_values import (
    GuestsMemory,
    clock_error_s,
    deviation_s,
    guests_booted,
    latest_s,
    mark_zero_ns,
)
from labconsole.experiments.boot.record import BootRecord, ClockRelation
from labconsole.measure.external_timing import MarkResult, Marks, MarkSender, Nonce
from support.job_records import drawn_at

STARTED_NS = 50_000_000_000
CLOCKS = ClockRelation(
    uut_offset_ns=1_000_000,
    uut_error_ns=200_000,
    timekeeper_offset_ns=-7_000_000,
    timekeeper_error_ns=300_000,
    timekeeper_monotonic_ns=40_000_000_000,
    timekeeper_wall_ns=1_700_000_000_000_000_000,
)
MIB = 2**20


async def _ask(uut: Any, line: str) -> str:
    return ""


def boot_data(times_s: Sequence[float | None] = (1.0, 1.5), *, word_after_s: float = 0.01) -> dict[str, Any]:
    """A start whose guests sent their marks after so long, and said so a little later; None: it did not come."""
    names = [f"g{number}" for number in range(1, len(times_s) + 1)]
    zero_ns = mark_zero_ns(CLOCKS, STARTED_NS)
    senders = [
        MarkSender(name=name, address=f"198.18.64.{n}", mac=f"02:6c:77:00:00:0{n}", start=Nonce(64, n))
        for n, name in enumerate(names, 1)
    ]
    standing = tuple(
        StandingMember(
            name=name,
            ask=_ask,
            pid=100 + n,
            started_ns=STARTED_NS + n * 1_000_000,
            ready_ns=STARTED_NS + round((time_s + word_after_s) * 1e9),
        )
        for n, (name, time_s) in enumerate(zip(names, times_s, strict=True))
        if time_s is not None
    )
    marks = {
        name: Marks() if time_s is None else Marks(start_request_ns=zero_ns + round(time_s * 1e9))
        for name, time_s in zip(names, times_s, strict=True)
    }
    used = GuestsMemory({100 + n: 20 * MIB for n in range(len(names))}, {})
    crew = None if None in times_s else Crew(members=standing, started_ns=STARTED_NS)
    guests = guests_booted(
        senders,
        crew,
        MarkResult(of=marks, doubled=(), strange_packets=0),
        CLOCKS,
        used,
        {name: 100 + n for n, name in enumerate(names)} if crew is not None else {},
    )
    marks_s = [each.mark_s for each in guests]
    return {
        "boot_id": "20261123T090905Z-a0964d",
        "format": 1,
        "started_at": "2026-11-23T09:09:05.000Z",
        "finished_at": "2026-11-23T09:09:29.000Z",
        "testbed": "t",
        "testbed_fingerprint": "f" * 64,
        "emulated": True,
        "operator": "op@h",
        "labconsole_version": "0",
        "plan": {
            "name": "p",
            "hash": "boot-1",
            "point": 0,
            "block": 1,
            "repetition": 1,
            "position": 1,
            "seed": 1,
            "set_ups": 1,
            "repetitions": 1,
        },
        "requested": {"platform": "uml", "guests": len(names), "start": "cold", "limit_s": 300.0},
        "set_up": {
            "id": "s",
            "started_at": "2026-11-23T09:09:01.000Z",
            "trial": 1,
            "setup_s": 0.5 + word_after_s + max((each for each in times_s if each is not None), default=0.0),
        },
        "clocks": CLOCKS.model_dump(),
        "mark_zero_ns": zero_ns if crew is not None else None,
        "clock_error_s": clock_error_s(CLOCKS),
        "guests": [each.model_dump() for each in guests],
        "startup_s": latest_s(marks_s),
        "ready_s": latest_s([each.ready_s for each in guests]),
        "sd_s": deviation_s(marks_s),
        "file_system": "ext2/ext3",
        "files": [{"option": "kernel", "path": "/var/tmp/linux", "pages": 700, "cached_pages": 0}],
        "memory": None
        if crew is None
        else {
            "quiet_s": 5.0,
            "available_before_bytes": 1000 * MIB,
            "available_after_bytes": 950 * MIB,
            "used_bytes": 50 * MIB,
            "pss_bytes": 20 * MIB * len(names),
            "cgroup_bytes": None,
            "ksm_run": 0,
            "ksm_pages_sharing": 0,
        },
        "swapped_pages": 0,
        "timekeeper": {
            "node": "snk1",
            "interface": "eth1",
            "address": "198.18.100.1",
            "dropped_packets": 0,
            "strange_packets": 0,
            "doubled": (),
            "wall_moved_ns": 0,
        },
        "verdict": {"status": "valid", "reasons": ()},
        "attestation": {},
        "influences": (),
        "environment": {"nodes": {"uut": {"facts": {"boot_id": "boot-1"}}}},
        "status": "done",
        "failure": None,
    }


def boot_record(data: dict[str, Any]) -> BootRecord:
    """The record of this data."""
    return BootRecord.model_validate_json(json.dumps(data), strict=True)


def started(
    startup_s: float, used_mib: float, *, guests: int = 1, start: str = "hot", block: int = 1, codes: Sequence[str] = ()
) -> BootRecord:
    """A trial that came to this; with ``codes`` it is suspect."""
    data = boot_data([startup_s] * guests)
    data["boot_id"] = f"20261123T0909{block:02}Z-{start}{guests}"
    data["requested"] |= {"guests": guests, "start": start}
    data["started_at"] = drawn_at(block, start, guests)
    data["plan"] |= {"block": block, "hash": f"boot-{data['boot_id']}"}
    data["memory"] |= {"used_bytes": round(used_mib * MIB)}
    if codes:
        reasons = [{"code": code, "detail": code, "evidence": None, "follows": None} for code in codes]
        data["verdict"] = {"status": "suspect", "reasons": reasons}
    return boot_record(data)
