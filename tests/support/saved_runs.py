"""Saved runs for the screens of results: a matrix of design points with repetitions, some of them doubtful."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labconsole.contracts.ports import Series
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.annotations import RunNote
from labconsole.model.record.run import RunRecord
from support.fake_session import FakeSession, make_record
from support.timed_packets import told_times

START = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)


def saved_record(
    number: int,
    *,
    platform: str = "raw",
    size: int = 64,
    sources: int = 1,
    target: int = 10**7,
    loss: float = 0.0,
    status: str = "valid",
) -> RunRecord:
    """The number-th run."""
    request = DesignPoint(platform=platform, frame=FrameSize(size), sources=sources, target=target, duration_s=2.0)
    moment = START + timedelta(seconds=20 * number)
    record = make_record(request, f"{moment:%Y%m%dT%H%M%SZ}-{number:06x}", loss=loss, status=status)
    environment: dict[str, Any] = {
        "nodes": {
            node: {"facts": {"kernel": "6.1.0-28-amd64", "cpus": 2, "hostname": node, "load": [0.1 * number, 0.2]}}
            for node in ("src1", "uut", "snk1")
        },
        "platform": {"driver": platform, "guests": []},
    }
    if platform == "container":
        environment["nodes"]["uut"]["facts"]["kernel"] = "6.6.0"
    changes = {
        "started_at": moment.isoformat().replace("+00:00", "Z"),
        "finished_at": (moment + timedelta(seconds=3)).isoformat().replace("+00:00", "Z"),
        "environment": environment,
        "influences": ({"kind": "other_processes", "node": "uut", "detail": "apt took 30 % of a core"},)
        if loss > 0.2
        else (),
    }
    return record.model_copy(update=changes)


def matrix() -> list[RunRecord]:
    """Two platforms, two sizes, three targets, three repetitions, oldest first; the container loses at the highest."""
    made: list[RunRecord] = []
    for platform in ("raw", "container"):
        for size in (64, 500):
            for target in (10**7, 10**8, 4 * 10**8):
                for repetition in range(3):
                    high = target == 4 * 10**8
                    loss = 0.3 + 0.01 * repetition if platform == "container" and high else 0.0
                    status = "suspect" if loss and repetition == 2 else "valid"
                    made.append(
                        saved_record(len(made), platform=platform, size=size, target=target, loss=loss, status=status)
                    )
    for sources in (2, 3):
        made += [saved_record(len(made) + r, sources=sources, target=10**8) for r in range(3)]
    made.append(saved_record(len(made), status="invalid"))
    return made


def sample_series(record: RunRecord) -> Series:
    """Two seconds of traffic, sampled ten times a second, on every stream of a record."""
    table: dict[str, list[int | float | None]] = {
        "seconds": [],
        "stream": [],
        "offered_packets": [],
        "measured_packets": [],
        "sink_monotonic_ns": [],
    }
    for index, stream in enumerate(record.streams):
        assert stream.offered_pps is not None
        assert stream.measured_pps is not None
        for tick in range(20):
            table["seconds"].append(0.1 * tick)
            table["stream"].append(index)
            table["offered_packets"].append(round(stream.offered_pps * 0.1 * tick))
            table["sink_monotonic_ns"].append(10**9 + 10**8 * tick)
            table["measured_packets"].append(None if tick == 7 else round(stream.measured_pps * 0.1 * tick))
    return Series({"streams": table})


def with_times(record: RunRecord) -> RunRecord:
    """As if its sinks' kernels had timed every packet: a body, and a tail of three decades."""
    delays = {18_000: 9_000, 31_000: 42_000, 64_000: 6_000, 410_000: 520, 2_300_000: 31, 21_000_000: 2}
    due = {19_000: 8_900, 34_000: 41_500, 90_000: 6_000, 950_000: 1_100, 6_400_000: 51, 21_000_000: 2}
    streams = tuple(
        stream.model_copy(update={"extensions": {"packet_times": told_times(delays, due=due)}})
        for stream in record.streams
    )
    return record.model_copy(update={"streams": streams})


def session_with_runs() -> FakeSession:
    """The matrix saved; a note and a time series on the newest lossy run."""
    session = FakeSession()
    session.store.records = list(reversed(matrix()))
    lossy = next(r for r in session.store.records if r.total.loss_packets)
    timed = next(run for run in session.store.records if run.requested.frame_size_bytes == 500)
    session.store.records[session.store.records.index(timed)] = with_times(timed)
    session.store.notes[lossy.run_id] = RunNote("the fan was loud", "op@lab", "2026-03-01T12:00:00.000000Z")
    session.store.kept_series = {r.run_id: sample_series(r) for r in session.store.records[:12]}
    session.store.kept_series[lossy.run_id] = sample_series(lossy)
    return session
