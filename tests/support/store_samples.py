"""Records to save: realistic, and each with what a test wants to be different."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labconsole.contracts.ports import Series
from labconsole.model.record.run import PlanRef, Reason, Requested, RunRecord, StreamRecord, Total, Verdict

START = datetime(2026, 11, 21, 2, 45, 1, tzinfo=UTC)


def sample_record(number: int = 0, **changes: Any) -> RunRecord:
    """A run of one stream. ``changes`` replace fields of the record or of ``requested``."""
    started = START + timedelta(seconds=number)
    requested: dict[str, Any] = {
        "platform": "raw",
        "frame_size_bytes": 64,
        "frame_size_includes_fcs": False,
        "sources": 1,
        "target_bps": 100_000_000,
        "background": "none",
        "duration_s": 5.0,
        "generator": "auto",
        "observe": "quiet",
    }
    requested.update({key: changes.pop(key) for key in list(changes) if key in requested})
    fields: dict[str, Any] = {
        "run_id": f"{started:%Y%m%dT%H%M%SZ}-{number:06x}",
        "started_at": started.isoformat().replace("+00:00", "Z"),
        "finished_at": (started + timedelta(seconds=6)).isoformat().replace("+00:00", "Z"),
        "testbed": "local",
        "testbed_fingerprint": "7d3f9a11c0de4b52",
        "emulated": True,
        "operator": "op",
        "labconsole_version": "0.1.0",
        "plan": None,
        "requested": Requested(**requested),
        "streams": (sample_stream(),),
        "total": Total(
            offered_packets=710_225,
            offered_pps=142_045.0,
            offered_bps=99_999_680.0,
            measured_packets=710_225,
            measured_pps=142_045.0,
            measured_bps=99_999_680.0,
            loss_packets=0,
            loss_ratio=0.0,
        ),
        "background": None,
        "verdict": Verdict(status="valid"),
        "environment": {"uut": {"kernel": "6.1.0-28-amd64", "cpu": "Ä", "load": [0.1, None, 3]}},
    }
    fields.update(changes)
    return RunRecord(**fields)


def sample_stream() -> StreamRecord:
    return StreamRecord(
        name="s1",
        generator="afpacket",
        generator_version=None,
        delay_ns=7040,
        burst_packets=32,
        intended_packets=710_227,
        intended_pps=142_045.45,
        offered_packets=710_225,
        offered_duration_s=5.00001,
        offered_pps=142_045.0,
        offered_bps=99_999_680.0,
        measured_packets=710_225,
        measured_pps=142_045.0,
        measured_bps=99_999_680.0,
        measured_from="capture",
        loss_packets=0,
        loss_ratio=0.0,
        capture=None,
        counters={"sink_rx_packets": 710_225, "uut_in_rx_packets": None},
        sequence=None,
        ledger=(),
        unplaced_packets=0,
    )


def planned(number: int, point: int, repetition: int, status: str = "valid", plan_hash: str = "a" * 16) -> RunRecord:
    reasons = () if status == "valid" else (Reason(code="aborted", detail="by hand"),)
    return sample_record(
        number,
        plan=PlanRef(name="p", hash=plan_hash, point=point, repetition=repetition, seed=1),
        verdict=Verdict(status=status, reasons=reasons),  # type: ignore[arg-type]
    )


def sample_series() -> Series:
    return Series(
        {
            "streams": {"seconds": [0.1, 0.2], "stream": [0, 0], "offered_packets": [14_204, None]},
            "counters": {"wall_ns": [1_795_229_101_123_456_789, None], "ratio": [None, 0.5], "big": [2**64 - 1, 0]},
        }
    )
