"""The report on a capture as plain text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def analysis_lines(report: dict[str, Any]) -> list[str]:
    """The report for people, one fact per line."""
    lines = [
        f"{report['file']}: {report['format']}, {report['link_type'] or 'no link type'}",
        f"packets      {_thin(report['packets'])}  ({_thin(report['bytes'])} bytes on the wire without FCS)",
    ]
    if report["first_at_ns"] is not None:
        lines.append(f"time         {_when(report['first_at_ns'])} to {_when(report['last_at_ns'])}")
        lines.append(f"duration     {report['duration_ns'] / 1e9:.6f} s")
    if report["pps"] is not None:
        lines.append(f"rate         {_thin(round(report['pps']))} packet/s, {_bits(report['frame_bps'])} of frames")
    for key, text in (
        ("other_packets", "not from pktgen"),
        ("unlisted_stream_packets", "of further streams, not listed"),
        ("untimed_packets", "without a time stamp"),
    ):
        if report[key]:
            lines.append(f"             {_thin(report[key])} packets {text}")
    if report["corrupt_at_byte"] is not None:
        where, why = report["corrupt_at_byte"], report["corrupt_reason"]
        lines.append(f"damaged      at byte {where}: {why}; counted up to there")
    elif report["truncated"]:
        lines.append(
            f"truncated    after byte {report['read_bytes']}: the last record is incomplete and was not counted"
        )
    for stream in report["streams"]:
        lines += ["", *_format_stream(stream)]
    if "flows" in report:
        lines += ["", *_format_flows(report["flows"])]
    return lines


def _format_flows(found: dict[str, Any]) -> list[str]:
    """Flows, those with most packets first; their time series is in the JSON."""
    lines = [f"flows        {len(found['flows'])} of UDP, in bins of {found['bin_ns'] / 1e9:g} s"]
    for flow in sorted(found["flows"], key=lambda each: -each["packets"]):
        busiest = max(flow["bin_bytes"], default=0) * 8e9 / found["bin_ns"]
        lines.append(
            f"  {flow['mac']} {flow['udp_source_port']} > {flow['udp_sink_port']}  {_thin(flow['packets'])} packets, "
            f"{len(flow['bins'])} bins, at most {_bits(busiest)} of frames"
        )
    for key, text in (
        ("other_packets", "of no such flow"),
        ("fragments", "of them fragments"),
        ("unlisted_packets", "of further flows"),
    ):
        if found[key]:
            lines.append(f"             {_thin(found[key])} packets {text}")
    return lines


def _format_stream(stream: dict[str, Any]) -> list[str]:
    sequence, gap_ns = stream["sequence"], stream["gap_ns"]
    source = f"{stream['source_ip']}:{stream['udp_source_port']}"
    lines = [
        f"stream       {source} > {stream['sink_ip']}:{stream['udp_sink_port']}",
        f"  packets    {_thin(stream['packets'])}",
    ]
    if sequence is None:
        lines.append(f"  sequence   unknown: {stream['sequence_error']}")
    else:
        expected, lost = sequence["expected_packets"], sequence["lost_packets"]
        lines.append(f"  sequence   {sequence['first']} to {sequence['last']}, {_thin(expected)} expected")
        lines.append(f"  lost       {_thin(lost)} ({100 * lost / expected:.4g} %)" + _runs(sequence["lost_runs"]))
        lines.append(f"  reordered  {_thin(sequence['reordered_packets'])}")
        lines.append(f"  duplicates {_thin(sequence['duplicate_packets'])}")
    if gap_ns is not None:
        names = ("min", "mean", "p50", "p99", "max")
        about = "" if stream["gaps_exact"] else " (p50 and p99 within 0.4 %)"
        lines.append("  gaps (µs)  " + ", ".join(f"{name} {gap_ns[name] / 1000:.3f}" for name in names) + about)
    lines += _format_delay(stream)
    if stream["backward_steps"]:
        lines.append(
            f"  clock      stepped back {_thin(stream['backward_steps'])} times; these steps are not counted as gaps"
        )
    return lines


def _format_delay(stream: dict[str, Any]) -> list[str]:
    delay = stream["delay"]
    if delay is None:
        return [f"  delay      unknown: {stream['delay_error']}"]
    every = delay["pair_every_packets"]
    of = "all packets" if every == 2 else f"a sample of {_thin(delay['packets'])}, a pair in every {_thin(every)}"
    lines = [f"  delay (µs) {_micros(delay['raw_ns'])}; {of}; only as accurate as the two clocks' agreement"]
    lines.append(f"  PDV (µs)   {_micros(delay['pdv_ns'])}; over the shortest delay")
    if delay["ipdv_ns"] is not None:
        lines.append(f"  IPDV (µs)  {_micros(delay['ipdv_ns'])}; between neighbours, absolute")
    return lines


def _micros(figures: dict[str, Any]) -> str:
    names = ("min", "mean", "p50", "p99", "p999", "max")
    return ", ".join(f"{name.replace('p999', 'p99.9')} {figures[name] / 1000:.3f}" for name in names if name in figures)


def _runs(lost_runs: dict[str, int]) -> str:
    if not lost_runs:
        return ""
    shown = sorted(lost_runs.items(), key=lambda run: -int(run[0]) * run[1])[:5]
    rest = f", {len(lost_runs) - len(shown)} more lengths" if len(lost_runs) > len(shown) else ""
    return " in runs: " + ", ".join(f"{_thin(times)} of {length}" for length, times in shown) + rest


def _thin(number: int) -> str:
    """Separate thousands by a no-break thin space."""
    return f"{number:,}".replace(",", "\u202f")


def _bits(bits_per_s: float) -> str:
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits_per_s >= factor:
            return f"{bits_per_s / factor:.3f} {unit}"
    return f"{bits_per_s:.3f} bit/s"


def _when(at_ns: int) -> str:
    """RFC 3339 in UTC with all nine digits, or the plain number if that is no date (a damaged time stamp)."""
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{at_ns} ns"
