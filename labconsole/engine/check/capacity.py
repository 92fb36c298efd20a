"""Space and speed for captures: disk on sinks and for the store, and whether sinks can capture a plan's rates."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from labconsole.engine.check.cabling import close_generator
from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned
from labconsole.engine.trial.setup import SNAP_BYTES, Flow, capture_request, most_packets, stream_spec
from labconsole.model.design_point import MIN_PKT_SIZE_BYTES, DesignPoint, FrameSize
from labconsole.model.inventory import Stream
from labconsole.units import format_count
from labconsole.wire.capture import CaptureResult, StopCapture
from labconsole.wire.generator import PrepareGenerator, SentStream, StartGenerator, WaitForGenerator
from labconsole.wire.stream_spec import StreamSpec

CAPTURE_RECORD_BYTES = SNAP_BYTES + 16
SPACE_MARGIN_RATIO = 1.1
SPACE_RESERVE_BYTES = 16 * 1024 * 1024
"""Same rule as the agent applies before each capture (agent/capture.py)."""

USUAL_RUN_S = 10.0
SELF_TEST_S = 0.3
RECORD_BYTES = 30_000
SAMPLE_BYTES = 60
"""Generous size of one interface's sample in a run's compressed time series."""

REACHED_RATIO = 0.9


def capture_bytes(bench: CheckContext, node: str) -> int:
    """Space needed by a sink's captures of one trial, over all its streams."""
    streams = [stream for stream in bench.streams() if stream.sink.node == node]
    if bench.plan is None:
        packets = sum(FrameSize(MIN_PKT_SIZE_BYTES).rate_pps(s.link_speed_bps) * USUAL_RUN_S for s in streams)
    else:
        packets = max(sum(_packets(point.request, s) for s in streams) for point in bench.plan.points)
    return int(packets * CAPTURE_RECORD_BYTES * SPACE_MARGIN_RATIO) + SPACE_RESERVE_BYTES


def _packets(request: DesignPoint, stream: Stream) -> int:
    """Maximum number of packets in one capture of a trial, with any generator."""
    return request.intended_packets or most_packets(request, stream, "pktgen")


@check("capacity.disk", "room for captures", roles=("sink",))
async def disk(bench: CheckContext, node: str) -> CheckFinding:
    """Space for a trial's captures. Captures are deleted once counted, so only one trial's exist at a time."""
    found = (await bench.survey(node)).disk
    needed = capture_bytes(bench, node)
    key = f"nodes.{node}.capture_dir in hosts.yaml"
    if found.error is not None or found.free_bytes is None:
        return failed(
            f"{found.directory}: {found.error or 'its free space is unknown'}", f"set another directory as {key}"
        )
    what = "the plan's largest trial" if bench.plan is not None else f"{USUAL_RUN_S:g} s at line rate"
    evidence = f"{found.free_bytes / 1e6:.0f} MB free in {found.directory}; {what} needs up to {needed / 1e6:.0f} MB"
    values: Values = {"free_bytes": found.free_bytes, "needed_bytes": needed}
    hint = f"free some space, or set a directory on a larger disk as {key}"
    if found.free_bytes < SPACE_RESERVE_BYTES or (bench.plan is not None and found.free_bytes < needed):
        return failed(evidence, hint, **values)
    if found.free_bytes < needed:
        return warned(evidence, hint, **values)
    return passed(evidence, **values)


async def store(bench: CheckContext) -> CheckFinding:
    """Space for stored runs."""
    path = getattr(bench.session.store, "path", None)
    if not isinstance(path, Path):
        return skipped("the store does not report where it is")
    directory = path.parent
    try:
        free = (await asyncio.to_thread(shutil.disk_usage, directory)).free
    except OSError as exc:
        return failed(f"{directory}: {exc.strerror}", "give --store a directory that exists")
    values: Values = {"free_bytes": free}
    if bench.plan is None:
        evidence = f"{free / 1e6:.0f} MB free in {directory}"
        if free < SPACE_RESERVE_BYTES:
            return failed(evidence, "free some space, or give --store another place", **values)
        return passed(evidence, **values)
    needed = bench.plan.trials * _run_bytes(bench)
    values["needed_bytes"] = needed
    evidence = (
        f"{free / 1e6:.0f} MB free in {directory}; {format_count(bench.plan.trials)} runs need about "
        f"{needed / 1e6:.0f} MB"
    )
    if free < needed:
        return failed(evidence, "free some space, or give --store another place", **values)
    return passed(evidence, **values)


def _run_bytes(bench: CheckContext) -> int:
    """Generous estimate of the size of one run's record and time series."""
    assert bench.plan is not None
    interfaces = len(bench.session.telemetry.interfaces) or 2 * len(bench.inventory.nodes)
    duration_s = max(point.request.duration_s for point in bench.plan.points)
    drain_s = bench.plan.drain_s or bench.inventory.defaults.drain_s
    samples = (duration_s + drain_s + 2) / bench.inventory.defaults.sample_interval_s
    return RECORD_BYTES + int(samples * interfaces * SAMPLE_BYTES)


async def capture(bench: CheckContext) -> dict[str, CheckFinding]:
    """Every sink captures at the plan's top rate. The UUT sends, so that no forwarding is involved."""
    assert bench.plan is not None
    by_sink: dict[str, list[tuple[int, Stream]]] = {}
    for index, stream in enumerate(bench.streams()):
        by_sink.setdefault(stream.sink.node, []).append((index, stream))
    ready: dict[str, list[tuple[int, Stream]]] = {}
    findings: dict[str, CheckFinding] = {}
    for node, streams in by_sink.items():
        places = [place for _, stream in streams for place in bench.hops(stream)[2:]]
        reason = next((r for r in (bench.blocked(*place) for place in places) if r is not None), None)
        if reason is None:
            ready[node] = streams
        else:
            findings[node] = skipped(reason)
    if ready:
        findings.update(await _self_test(bench, ready, top_request(bench)))
    return findings


def top_request(bench: CheckContext) -> DesignPoint:
    """The plan's point with the most packets per second."""
    assert bench.plan is not None
    stream = bench.inventory.streams[0]
    return max(
        (point.request for point in bench.plan.points),
        key=lambda request: request.intended_pps or request.frame.rate_pps(stream.link_speed_bps),
    )


async def _self_test(
    bench: CheckContext, ready: dict[str, list[tuple[int, Stream]]], request: DesignPoint
) -> dict[str, CheckFinding]:
    uut = bench.link(bench.inventory.uut)
    flat = [(node, index, stream) for node, streams in ready.items() for index, stream in streams]
    request = replace(request, duration_s=SELF_TEST_S, generator="afpacket")
    specs = [_spec(bench, request, stream, index) for _, index, stream in flat]
    requested_pps = {
        s.name: min(
            request.intended_pps or request.frame.rate_pps(s.link_speed_bps), request.frame.rate_pps(s.link_speed_bps)
        )
        for _, _, s in flat
    }
    started: list[tuple[str, Stream]] = []
    captured: dict[str, CaptureResult] = {}
    try:
        for node, index, stream in flat:
            start = capture_request(
                Flow(stream, request, index),
                capture=f"check.{stream.name}",
                generator="afpacket",
                buffer_kib=bench.inventory.defaults.capture_buffer_kib,
                directory=bench.inventory.nodes[node].capture_dir,
                run_id="check",
            )
            await bench.link(node).ask(start)
            started.append((node, stream))
        try:
            await uut.ask(PrepareGenerator(streams=specs), timeout_s=10)
            await uut.ask(StartGenerator(progress_interval_s=1.0))
            results = (await uut.ask(WaitForGenerator(), timeout_s=20)).streams
        finally:
            await close_generator(uut)
    finally:
        replies = await asyncio.gather(
            *(
                bench.link(node).ask(StopCapture(capture=f"check.{stream.name}"), timeout_s=30)
                for node, stream in started
            ),
            return_exceptions=True,
        )
        for (_, stream), reply in zip(started, replies, strict=True):
            if isinstance(reply, CaptureResult):
                captured[stream.name] = reply
    sent = {result.stream: result for result in results}
    return {
        node: _judge([(s.name, requested_pps[s.name], sent.get(s.name), captured.get(s.name)) for _, s in streams])
        for node, streams in ready.items()
    }


def _spec(bench: CheckContext, request: DesignPoint, stream: Stream, index: int) -> StreamSpec:
    """The stream as a source would send it, but from the UUT's exit."""
    sink = bench.session.telemetry.interfaces[(stream.sink.node, "", stream.sink.interface)]
    return stream_spec(
        Flow(stream, request, index), interface=stream.uut_out, destination_mac=str(sink.link.mac), cpus=None
    )


def _judge(rows: list[tuple[str, float, SentStream | None, CaptureResult | None]]) -> CheckFinding:
    counts, dropped_by, short, missing = [], [], [], []
    values: Values = {}
    for name, requested_pps, sent, captured in rows:
        packets = sent.sent_packets if sent is not None else None
        if not packets or captured is None or not sent or not sent.elapsed_ns:
            missing.append(name)
            continue
        pps, counted = packets / sent.elapsed_ns * 1e9, captured.analysis.packets
        dropped = captured.dropped_kernel_packets
        values[name] = {
            "asked_pps": requested_pps,
            "sent_pps": pps,
            "sent_packets": packets,
            "captured_packets": counted,
            "dropped_packets": dropped,
        }
        counts.append(
            f"{name} {format_count(counted)} of {format_count(packets)} at {format_count(round(pps))} packets/s "
            f"({format_count(round(requested_pps))} requested)"
        )
        if dropped or counted < packets:
            dropped_by.append(f"{name} dropped {dropped}" if dropped else f"{name} missed {packets - counted}")
        elif pps < REACHED_RATIO * requested_pps:
            short.append(name)
    evidence = ", ".join(counts)
    if missing:
        return failed(
            f"{evidence + '; ' if evidence else ''}no result for {', '.join(missing)}",
            "look at capacity.disk, tools.capture and the cable of this sink",
            **values,
        )
    if dropped_by:
        return warned(
            f"{evidence}: {', '.join(dropped_by)}",
            "at this rate, counts come from the NIC's counters alone: raise capture_buffer_kib, or use a faster sink",
            **values,
        )
    if short:
        return warned(
            f"{evidence}: the UUT cannot send as fast as the plan asks, so the capture is proved only up to this rate",
            "run `labconsole calibrate` to prove it at the full rate",
            **values,
        )
    return passed(evidence, **values)
