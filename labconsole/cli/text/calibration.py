"""A calibrated envelope as plain text for people: reliable ranges, in words and one table per size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from labconsole.model.record.envelope import Bounds, Envelope, EnvelopePoint, Spacing, StreamEnvelope
from labconsole.units import format_count, format_rate_bps

UNSTEADY_RATIO = 1.1
"""Two trials at full speed that differ by more than this shared the machine with different other work."""


def envelope_lines(envelope: Envelope, now: datetime | None = None) -> list[str]:
    """The whole envelope, one fact per line."""
    age = (now or datetime.now(UTC)) - datetime.fromisoformat(envelope.finished_at)
    lines = [
        f"calibration  {envelope.calibration_id} of {envelope.testbed}, {_age(age.total_seconds())} ago"
        + (" (emulated)" if envelope.emulated else ""),
        f"fingerprint  {envelope.testbed_fingerprint}; labconsole {envelope.labconsole_version}, {envelope.operator}",
        f"trials       {sum(len(p.trials) for p in envelope.points)} of {envelope.duration_s:g} s, capture buffer "
        f"{envelope.capture_buffer_kib} KiB"
        + ("; bounds wider than wanted: the time limit was reached" if envelope.cut_short else ""),
    ]
    for name, node in sorted(envelope.nodes.items()):
        drivers = ", ".join(f"{nic} {driver or '?'}" for nic, driver in sorted(node.drivers.items()))
        lines.append(f"node         {name}: kernel {node.kernel}, {drivers}, tcpdump {node.tcpdump}")
    for proof in envelope.proof:
        lines.append(
            f"bypass       {proof.stream}: {proof.captured_packets} of {proof.sent_packets} marked frames arrived, "
            f"the UUT's NICs counted {proof.uut_rx_packets + proof.uut_tx_packets} packets"
        )
    for point in envelope.points:
        lines += ["", *_point_lines(point)]
    return lines


def _point_lines(point: EnvelopePoint) -> Iterator[str]:
    yield f"{point.frame.words()}, {point.sources} source{'s' if point.sources > 1 else ''} at once"
    for stream in point.streams:
        yield from _stream_lines(stream, point)


def _stream_lines(stream: StreamEnvelope, point: EnvelopePoint) -> Iterator[str]:
    yield f"  {stream.stream}: {stream.source} ({stream.generator}) to {stream.sink}"
    if stream.maximum_pps is None:
        yield "    generator  its maximum is unknown"
    else:
        bps = point.frame.rate_bps(stream.maximum_pps)
        sure = "as source's and sink's NICs counted" if stream.maximum_confirmed else "NOT confirmed by the NICs"
        yield f"    generator  up to {_pps(stream.maximum_pps)} ({format_rate_bps(bps)}), {sure}"
        if (stream.maximum_best_pps or 0) > stream.maximum_pps * UNSTEADY_RATIO:
            best = _pps(stream.maximum_best_pps)
            yield f"               but {best} in another trial: was the machine busy? The lower value is used"
    for rate in stream.rates:
        offered, arrived = _error(rate.offered_error_ratio), _error(rate.arrival_error_ratio)
        target = format_rate_bps(rate.target_bps)
        intended = _pps(rate.intended_pps)
        yield f"    rate       {target}: offered {offered}, arrived {arrived} off the intended {intended}"
    yield f"    counters   {_bounds(stream.counters)}"
    yield f"    capture    {_bounds(stream.capture)}"
    flat_out = False
    for spacing in stream.spacing:
        if spacing.target_bps == "max" and flat_out:
            continue  # the second trial at max is in the JSON
        flat_out |= spacing.target_bps == "max"
        yield f"    spacing    {_spacing(spacing)}"


def _bounds(bounds: Bounds) -> str:
    if bounds.lossy_pps is None:
        return (
            f"no loss, up to {_pps(bounds.clean_pps)}: the generator's limit, not the sink's"
            if bounds.clean_pps
            else "?"
        )
    if bounds.clean_pps is None:
        return f"lost packets in every trial, from {_pps(bounds.lossy_pps)} up"
    return f"no loss up to {_pps(bounds.clean_pps)}, loss from {_pps(bounds.lossy_pps)}"


def _spacing(spacing: Spacing) -> str:
    """One line: the verdict, the usual and the worst gaps, and the rate increase over short windows."""
    gap = spacing.gap_ns
    word: str = spacing.verdict or "flat out"
    if spacing.verdict == "microbursts":
        word = f"microbursts up to {spacing.burst_packets} packets"
    target = spacing.target_bps if spacing.target_bps == "max" else format_rate_bps(spacing.target_bps)
    usual_pps = 1e9 / (spacing.intended_gap_ns or gap.mean) if spacing.intended_gap_ns or gap.mean else None
    peaks = [
        f"{peak / usual_pps * 100 - 100:+.0f} % in {window} ms"
        for window, peak in spacing.peak_pps.items()
        if peak is not None and usual_pps
    ]
    gaps = f"gaps p50 {gap.p50 / 1e3:.3g}, p99 {gap.p99 / 1e3:.3g}, max {gap.max / 1e3:.0f} µs"
    return f"{target}: {word}; {gaps}" + (f"; peaks {', '.join(peaks)}" if peaks else "")


def _error(ratio: float | None) -> str:
    """Parts per million if that is readable, else percent."""
    if ratio is None:
        return "?"
    return f"{ratio * 1e6:+.0f} ppm" if abs(ratio) < 0.001 else f"{ratio * 100:+.2f} %"


def _pps(rate_pps: float | None) -> str:
    return "?" if rate_pps is None else f"{format_count(round(rate_pps))} packets/s"


def _age(seconds: float) -> str:
    for length_s, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {word}"
    return f"{max(seconds, 0):.0f} seconds"
