"""A run beside a second guest's stream, and the maximum that its share is of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labconsole.contracts.ports import StoredMaximum
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import Background
from support.fake_session import make_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(1500), sources=1, target=10**8, duration_s=2.0)
FOUND = StoredMaximum(measured_pps=100_000.0, runs=3, run_id="20261121T000000Z-0000aa", target_bps="max")


def forwarding_record() -> dict[str, Any]:
    own = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=35_200_000, duration_s=2.2)
    streams = make_record(own, "20261121T000000Z-000002", loss=0.5).streams
    reference = {"share_ratio": 0.5, "measured_pps": 100_000.0, "run_id": FOUND.run_id}
    # 31 250 packets fit 2.2 s at 70 400 ns exactly.
    even = replace(REQUEST, frame=FrameSize(64), target=10**7, duration_s=2.2, background="forwarding-50")
    record = make_record(even, "20261121T000000Z-000001")
    rates = {name: getattr(streams[0], name) for name in ("offered_pps", "measured_pps")}
    load = Background(
        kind="forwarding-50",
        guest="second",
        requested={"offered_pps": 50_000.0},
        achieved=dict(rates),
        streams=(streams[0].model_copy(update={"name": "s3"}),),
        reference=reference,
    )
    # Of format 1, whose fields the scripted record has; consistent_runs.py has one of format 2.
    return record.model_copy(update={"background": load, "format": 1, "method": 1}).to_json()
