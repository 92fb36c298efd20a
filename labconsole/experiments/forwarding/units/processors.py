"""The processor cost of a forwarded packet in the unit under test, from trials that enter no mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.report.formatting import (
    SIZE_COLUMNS,
    UNKNOWN,
    format_number,
    format_size_number,
    format_target_number,
    size_cells,
)
from labconsole.report.material import Material
from labconsole.report.points import background_order, platform_order
from labconsole.report.telemetry_trials import TelemetryTrial

NAMED = 2
"""The number of processes, and of reasons, that a row names; the file has all."""


def make(material: Material) -> Sequence[Table]:
    """Build the tables: a row for each usable telemetry trial."""
    found = sorted(material.digest.telemetry, key=_place)
    return (_table(found, material.digest.untold_telemetry),) if found else ()


def _place(each: TelemetryTrial) -> tuple[object, ...]:
    requested = each.requested
    load = math.inf if requested.target_bps == "max" else requested.target_bps
    return (
        platform_order(requested.platform),
        background_order(requested.background),
        requested.frame_size_bytes or 0,
        requested.includes_fcs,
        requested.sources,
        load,
        each.run_id,
    )


def _table(found: Sequence[TelemetryTrial], untold: int) -> Table:
    shared = sorted({name for each in found for name in each.time.nodes if len(each.time.nodes) > 1})
    return Table(
        name="processors",
        title="What a forwarded packet cost the processors",
        columns=(
            "run_id",
            "platform",
            *SIZE_COLUMNS,
            "sources",
            "target_bps",
            "background",
            "doubts",
            "forwarded_pps",
            "forwarded_packets",
            "processors",
            "elapsed_ns",
            "busy_ns",
            "user_ns",
            "guest_ns",
            "system_ns",
            "interrupt_ns",
            "softirq_ns",
            "steal_ns",
            "busiest_ratio",
            "interrupts",
            "received_softirqs",
            "stack_packets",
            "backlog_dropped_packets",
            "squeezed",
            "processes",
            "drops",
        ),
        rows=tuple(_row(each) for each in found),
        headings=(
            "platform",
            "size, B",
            "sources",
            "target, Mbit/s",
            "background",
            "packets/s",
            "ns per packet",
            "softirq",
            "system",
            "user",
            "busy",
            "busiest",
            "per NET_RX",
            "squeezed",
            "busiest processes",
            "dropped because",
            "doubts",
        ),
        shown=tuple(_format_row(each) for each in found),
        note=(
            "One row per trial; none of them enters a mean, and none is compared. ns per packet: time of all "
            "processors except idle and stolen time, while traffic ran, divided by the packets that left the unit "
            "under test (the second guest's too); softirq, system and user (guests included) are parts of it. Whatever "
            "ran is included, also the cost of tracing drops, and other users' programs: see doubts. Busy: how many "
            "processors on average; busiest: of one of them. Per NET_RX: how often a packet was handed to the stack, "
            "per run of that softirq; squeezed: how often it ended with work left. Time is counted in ticks of 1 to "
            "10 ms. A dash under dropped because: no reason was recorded, or tracing was not possible."
            + (f" {untold} more have no figures, or are invalid: runs show says why." if untold else "")
            + (f" {', '.join(shared)} are one machine: what all of them did is counted." if shared else "")
        ),
    )


def _row(each: TelemetryTrial) -> tuple[Cell, ...]:
    requested, time = each.requested, each.time
    return (
        each.run_id,
        requested.platform,
        *size_cells(requested.frame),
        requested.sources,
        requested.target_bps,
        requested.background,
        "; ".join(each.doubts),
        each.rate_pps,
        time.packets,
        time.processors,
        time.elapsed_ns,
        time.busy_ns,
        time.user_ns,
        time.guest_ns,
        time.system_ns,
        time.interrupt_ns,
        time.softirq_ns,
        time.steal_ns,
        None if time.busiest is None else time.busiest[1],
        time.interrupts,
        time.received_softirqs,
        time.stack_packets,
        time.backlog_dropped_packets,
        time.squeezed,
        "; ".join(f"{name} {ns}" for name, ns in each.processes),
        "; ".join(f"{name} {n}" for name, n in each.drops),
    )


def _format_row(each: TelemetryTrial) -> tuple[str, ...]:
    requested, time = each.requested, each.time
    target_bps = None if requested.target_bps == "max" else requested.target_bps
    per_packet = (time.busy_ns, time.softirq_ns, time.system_ns, time.user_ns)
    busiest = UNKNOWN if time.busiest is None else f"{100 * time.busiest[1]:.0f} %"
    processes = [f"{name} {ns / time.elapsed_ns:.2f}" for name, ns in each.processes[:NAMED]]
    return (
        requested.platform,
        format_size_number(requested.frame),
        str(requested.sources),
        format_target_number(target_bps, requested.frame),
        requested.background,
        format_number(each.rate_pps, 0),
        *(format_number(time.per_packet(ns), 0) for ns in per_packet),
        format_number(time.busy_processors, 2),
        busiest,
        format_number(time.packets_by_softirq, 1),
        UNKNOWN if time.squeezed is None else str(time.squeezed),
        ", ".join(processes) or UNKNOWN,
        ", ".join(f"{name} {n}" for name, n in each.drops[:NAMED]) or UNKNOWN,
        ", ".join(each.doubts) or "none",
    )


UNITS = (ReportUnit(name="processors", place=54, make=make),)
