"""Synthetic runs as records of format 2 in a store, and what the real command says of them."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from synthetic import Row, SyntheticPlan

from labconsole.cli.main import main
from labconsole.model.record.run import (
    Arrivals,
    Background,
    CaptureCounts,
    Conditions,
    InForce,
    LedgerHop,
    PlanRef,
    Requested,
    RunRecord,
    SetUp,
    StreamRecord,
    Total,
    Verdict,
)
from labconsole.model.tolerances import Tolerances
from labconsole.store.importing import import_records
from labconsole.store.open import open_store

START = datetime(2026, 1, 1, tzinfo=UTC)
TRIAL_S = 15
SETTLE_S, DRAIN_S = 3.0, 1.0


def said_by_the_command(plan: SyntheticPlan, rows: Sequence[Row], *words: str) -> list[dict[str, Any]]:
    """The JSON lines of ``labconsole report --json`` on a store of these runs."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        with open_store(str(path)) as store:
            import_records(store, (record.to_json() for record in records(plan, rows)))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = main(["report", "--json", "--store", str(path), *words])
    if status != 0:
        raise RuntimeError(f"labconsole report ended with {status}")
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def records(plan: SyntheticPlan, rows: Sequence[Row]) -> list[RunRecord]:
    """One record for each row, in the order of the plan; ``rows`` in that order."""
    trials: dict[str, int] = {}
    made = []
    for position, row in enumerate(rows, 1):
        assert row.set_up is not None
        trials[row.set_up] = trials.get(row.set_up, 0) + 1
        made.append(_record(plan, row, position, trials[row.set_up]))
    return made


def _time(position: int, seconds: float = 0.0) -> str:
    return (START + timedelta(seconds=TRIAL_S * position + seconds)).isoformat().replace("+00:00", "Z")


def _record(plan: SyntheticPlan, row: Row, position: int, trial: int) -> RunRecord:
    stream = _stream(row)
    return RunRecord(
        run_id=row.run_id,
        started_at=_time(position),
        finished_at=_time(position, row.duration_s + 2),
        testbed=row.testbed,
        testbed_fingerprint=row.testbed_fingerprint,
        emulated=row.emulated,
        operator="validation",
        labconsole_version="0",
        plan=PlanRef(
            name=row.plan_name,
            hash=row.plan_hash,
            point=row.plan_point,
            repetition=row.repetition,
            seed=1,
            block=row.block,
            order="blocked-random",
            position=position,
            set_ups=plan.set_ups,
            repetitions=plan.repetitions,
            set_up_trials=row.set_up_trials,
        ),
        requested=Requested(
            platform=row.platform,
            frame_size_bytes=row.frame_size_bytes,
            frame_size_includes_fcs=row.frame.includes_fcs,
            sources=row.sources,
            target_bps="max",
            background=row.background,
            duration_s=row.duration_s,
            generator=row.generator,
            observe="quiet",
        ),
        streams=(stream,),
        total=Total(
            **{
                name: getattr(stream, name)
                for name in Total.model_fields
                if name not in ("uut_loss_ratio", "late_packets", "queued_packets")
            },
            uut_loss_ratio=stream.loss_ratio,
            late_packets=0,
            queued_packets=0,
        ),
        background=None if row.background == "none" else Background(kind=row.background, guest="second"),
        verdict=Verdict(status="valid"),
        set_up=SetUp(id=str(row.set_up), started_at=_time(position - trial), setup_s=5.0, trial=trial),
        conditions=Conditions(uut_kernel=row.uut_kernel, uut_boot_id=row.boot_id),
        in_force=InForce(tolerances=Tolerances().model_dump(), settle_s=SETTLE_S, drain_s=DRAIN_S),
    )


def _stream(row: Row) -> StreamRecord:
    """Sent for just as long as was asked; what is lost is lost in the unit under test, and nothing comes late."""
    measured = row.offered_packets - row.loss_packets
    hops = [
        ("generator", "src1", row.offered_packets, None),
        ("source_nic", "src1", row.offered_packets, 0),
        ("uut_in", "uut", row.offered_packets, 0),
        ("uut_out", "uut", measured, row.loss_packets),
        ("sink_nic", "snk1", measured, 0),
        ("capture", "snk1", measured, 0),
    ]
    return StreamRecord(
        name="s1",
        generator=row.generator,
        generator_version=None,
        delay_ns=0,
        burst_packets=None,
        intended_packets=None,
        intended_pps=None,
        offered_packets=row.offered_packets,
        offered_duration_s=row.duration_s,
        offered_pps=row.offered_packets / row.duration_s,
        offered_bps=row.offered_packets / row.duration_s * row.bits,
        measured_packets=measured,
        measured_pps=row.measured_pps,
        measured_bps=row.measured_bps,
        measured_from="capture",
        loss_packets=row.loss_packets,
        loss_ratio=row.loss_ratio,
        capture=CaptureCounts(captured_packets=measured, dropped_packets=0, complete=True),
        counters={
            "source_tx_packets": row.offered_packets,
            "uut_in_rx_packets": row.offered_packets,
            "uut_out_tx_packets": measured,
            "sink_rx_packets": measured,
        },
        sequence=None,
        ledger=tuple(
            LedgerHop(hop=hop, node=node, interface="eth1", packets=packets, lost_packets=lost)
            for hop, node, packets, lost in hops
        ),
        unplaced_packets=0,
        generator_packets=row.offered_packets,
        source_lost_packets=0,
        uut_lost_packets=row.uut_lost_packets,
        sink_lost_packets=0,
        arrivals=Arrivals(
            packets=measured,
            window_s=row.duration_s * (measured - 1) / measured,
            window_from="capture",
            resolution_s=1e-6,
            late_packets=0,
            queued_packets=0,
        ),
        forwarding_pps=row.forwarding_pps,
        forwarding_bps=row.forwarding_bps,
    )
