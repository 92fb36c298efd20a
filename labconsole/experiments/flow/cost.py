"""Processor seconds per gigabyte that guests sent, from what a record says of its machine. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.ring import reported_bytes

GIGA = 1e9
SAID_ERROR = 0.1
"""Largest relative difference from the interfaces' rates at which iperf's report is believed. In a ring, only iperf
reports how much was sent over the whole time.
"""

NOT_RECORDED = "no time of the processors was recorded"


def machine_cpu_s_per_gb(record: FlowRecord) -> float | None:
    """Processor seconds of the UUT's machine per 10^9 bytes of payload that arrived, or None if not known. They include
    all else that runs there, other nodes too, while the trial was watched.
    """
    busy_s, carried_bytes = _busy_s(record), payload_bytes(record)
    return None if busy_s is None or not carried_bytes else busy_s / (carried_bytes / GIGA)


def unknown_because(record: FlowRecord) -> str | None:
    """Why machine_cpu_s_per_gb() is not known, or None if it is."""
    if _busy_s(record) is None:
        return NOT_RECORDED
    if payload_bytes(record):
        return None
    if not record.ring:
        return "how much payload arrived is not known, or none did"
    if payload_bytes(record) == 0:
        return "no payload was sent"
    if _ring_rates(record)[0] is None:
        return "of a guest iperf did not say how much it sent, or its interface was not counted"
    return f"the rates by iperf and by the guests' interfaces differ by more than {100 * SAID_ERROR:.0f} %"


def cpu_s_per_gb(record: FlowRecord) -> float | None:
    """Like machine_cpu_s_per_gb(), but None if the machine also hosts other nodes, whose time cannot be separated."""
    seen = _processors(record)
    return machine_cpu_s_per_gb(record) if seen is not None and seen.get("nodes") == [seen.get("node")] else None


def payload_bytes(record: FlowRecord) -> float | None:
    """Payload in bytes that arrived in total, or that a ring sent; None if it is not known of one guest."""
    if record.ring:
        said, seen = _ring_rates(record)
        if said is None or seen is None or abs(said - seen) > SAID_ERROR * seen:
            return None
        return float(sum(reported_bytes(each.output) or 0 for each in record.ring))
    if record.receivers:
        read = [one.udp_packets for one in record.receivers if one.udp_packets is not None]
        return float(sum(read) * record.requested.payload_bytes) if len(read) == len(record.receivers) else None
    return float(sum(flow.packets for flow in record.flows) * record.requested.payload_bytes) if record.flows else None


def _ring_rates(record: FlowRecord) -> tuple[float | None, float | None]:
    """The sums of the rates by iperf and by the interfaces; both are None if a guest's rate or bytes are not known."""
    rates = [(each.said_bps, each.out_bps) for each in record.ring]
    if any(None in both for both in rates) or None in [reported_bytes(each.output) for each in record.ring]:
        return None, None
    said, seen = (math.fsum(both[place] or 0.0 for both in rates) for place in (0, 1))
    return said, seen


def _busy_s(record: FlowRecord) -> float | None:
    seen = _processors(record)
    if seen is None:
        return None
    busy, cpus, window_s = (seen.get(name) for name in ("busy_ratio", "cpus", "window_s"))
    if not all(_is_number(each) for each in (busy, cpus, window_s)):
        return None
    return float(busy) * float(cpus) * float(window_s)  # type: ignore[arg-type]


def _processors(record: FlowRecord) -> Mapping[str, Any] | None:
    """What the record says of the processors of the UUT's machine, or None."""
    uut = record.environment.get("uut")
    for each in record.influences:
        nodes = each.get("nodes")
        if each.get("kind") == "cpu" and isinstance(nodes, list) and uut in nodes:
            return each
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
