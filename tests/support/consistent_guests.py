"""A small store of trials of guests that is really consistent: of every kind, each in its own time on one testbed.

The numbers are those of flow_records and its neighbours, and their verdicts the program's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.verdict import derive_reasons as flow_reasons
from labconsole.experiments.flow.verdict import derive_receive_reasons, derive_ring_reasons
from labconsole.model.record.run import InForce, Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.reasons import weighed
from support.boot_records import MIB, boot_data
from support.flow_records import flow_record, inward_record, ring_record
from support.flow_scenarios import stalled, steps_of, weighted
from support.job_records import disk_data, job_data
from support.route_records import route_record

Stored = tuple[str, dict[str, Any]]
"""Kind and record, as plain data."""

BEGUN = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
MEMORY_BYTES = 4096 * MIB
IN_FORCE = InForce(tolerances=Tolerances().model_dump(), settle_s=None, drain_s=None)


def consistent_guests() -> dict[str, Stored]:
    """By a name of each: records of every kind, two of them in one set-up for flows, routers and jobs."""
    limits = (30_000_000, 60_000_000)
    packets = [[2477] * 5, [4954] * 5]
    of: dict[str, tuple[str, Any]] = {
        "out": ("flow", flow_record(packets, limits_bps=limits)),
        "out-2": ("flow", flow_record(packets, limits_bps=limits, flow_id="20260101T000000000000Z-0002")),
        "weights": ("flow", weighted(steps_of("3:1", "1:3"), (0.75, 0.25))),
        "beside": ("flow", stalled(500)),
        "ring": ("flow", ring_record([40e6, 40e6, 40e6])),
        "in": ("flow", inward_record([6000, 6000], losses=[{"guest_socket_full": 100}, {"to_guest": 7}])),
        "route": ("route", route_record((200, 180), routes=2, lost_inside=(0, 50))),
        "route-2": ("route", route_record((200, 180), routes=2, lost_inside=(0, 50))),
        "job": ("job", job_data()),
        "job-2": ("job", job_data()),
        "disk": ("job", disk_data()),
        "boot": ("boot", boot_data()),
        "hot": ("boot", boot_data()),
    }
    found: dict[str, Stored] = {}
    for place, (name, (kind, record)) in enumerate(of.items()):
        data = _plain(_judged(record) if isinstance(record, FlowRecord) else record)
        whole = name.removesuffix("-2")
        number = list(of).index(whole)
        minutes = 3 * number + (name != whole)
        data |= {
            f"{kind}_id": f"20261120T08{place:02}00Z-{place:06x}",
            "testbed": "lab",
            "testbed_fingerprint": "7d3f9a11c0de4b52",
            "emulated": False,
            "operator": "ann@desk",
            "in_force": IN_FORCE.model_dump(mode="json"),
            "started_at": at(minutes, 10),
            "finished_at": at(minutes, 50),
            "set_up": {
                "id": f"set-up-{whole}",
                "started_at": at(3 * number, 2),
                "trial": 1 + (name != whole),
                "setup_s": data["set_up"]["setup_s"],
            },
            "attestation": {"driver": data["requested"]["platform"], "guests": ["g1", "g2"]},
            "environment": environment(),
            "influences": [processors()],
        }
        data["plan"] |= {
            "hash": f"{kind}-{place:016x}",
            "name": "guests",
            "block": 1,
            "set_ups": 1,
            "repetitions": 2,
            "repetition": 1 + (name != whole),
            "point": number,
            "position": place + 1,
            "attempt": 1,
            "attempts": 3,
            "plan_hash": "0123456789abcdef",
        }
        found[name] = kind, data
    _started(found["boot"][1])
    _started(found["hot"][1])
    hot = found["hot"][1]
    hot["requested"]["start"] = "hot"
    hot["files"][0]["cached_pages"] = hot["files"][0]["pages"]
    return found


def at(minutes: int, seconds: float) -> str:
    """A time of the store."""
    then = BEGUN + timedelta(minutes=minutes, seconds=seconds)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def environment() -> dict[str, Any]:
    facts = {"boot_id": "boot-1", "kernel": "6.1.0-28-amd64", "cpus": 2, "memory_bytes": MEMORY_BYTES}
    return {"uut": "uut", "nodes": {"uut": {"facts": facts}, "snk1": {"facts": facts | {"boot_id": "boot-2"}}}}


def processors() -> dict[str, Any]:
    return {
        "node": "uut",
        "nodes": ["uut"],
        "kind": "cpu",
        "detail": "processors 40% busy",
        "busy_ratio": 0.4,
        "interrupt_ratio": 0.1,
        "steal_ratio": 0.0,
        "cpus": 2,
        "window_s": 20.0,
        "unseen_ratio": None,
        "used_s": {"ours": 12.0, "other": 1.0, "kernel": 3.0},
    }


def _started(data: dict[str, Any]) -> None:
    """A start's set-up is within it."""
    minutes = (datetime.fromisoformat(data["started_at"]) - BEGUN) // timedelta(minutes=1)
    data["set_up"] |= {"started_at": at(minutes, 12), "setup_s": 10.0}


def _plain(record: Any) -> dict[str, Any]:
    return json.loads(json.dumps(record if isinstance(record, dict) else record.plain()))  # type: ignore[no-any-return]


def _judged(record: FlowRecord) -> FlowRecord:
    """With the verdict that the program gives it."""
    verdict = weighed(judged_flow(record))
    assert verdict.status == "valid", verdict
    return record.model_copy(update={"verdict": verdict, "status": "done", "failure": None})


def judged_flow(record: FlowRecord) -> Sequence[Reason]:
    """What the program concludes from a trial of flows."""
    asked, limits = record.requested, Tolerances()
    if asked.pattern == "ring":
        return derive_ring_reasons(asked, record.ring, record.window_s, record.swapped_pages, record.program)
    if asked.pattern == "in":
        return derive_receive_reasons(
            asked, record.receivers, record.source, record.start_skew_s, record.swapped_pages, record.program, limits
        )
    return flow_reasons(
        asked,
        record.flows,
        record.senders,
        record.sink,
        line_bps=record.line_bps,
        start_skew_s=record.start_skew_s,
        swapped_pages=record.swapped_pages,
        program=record.program,
        limits=limits,
        weights=record.weights,
        disk=record.disk,
    )


Change = Callable[[dict[str, dict[str, Any]]], object]
