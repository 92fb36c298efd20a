"""What the unit under test reports beyond counters: reasons for drops, and the processor cost of a packet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.measure.drop_causes import DropCause, cause_of
from labconsole.measure.processor_time import ProcessorTime
from labconsole.report.digest import DropCount, TelemetryTrial, clean_name
from labconsole.report.formatting import UNKNOWN, format_number, format_target_number
from labconsole.report.material import Material
from labconsole.report.point_columns import size_columns
from labconsole.report.points import background_order, platform_order
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column, printed_column

# -- drop causes -------------------------------------------------------------------------------------------------------
# Why the unit under test dropped packets according to its kernel, with the meaning and where to look.

SHOWN = 30
"""The number of rows on the page; the file has all."""


class DropCauseRow(NamedTuple):
    """The packets that were dropped on a platform for one reason: between two counters, or off the path."""

    platform: str
    place: str
    label: str
    dropped: DropCount

    @property
    def cause(self) -> DropCause | None:
        return cause_of(self.label)


def build_drop_causes_table(material: Material) -> Table | None:
    """Build the table: a row per platform, interface and cause, the most packets first, or None without any cause."""
    dropped = material.digest.dropped
    rows = [DropCauseRow(*key, count) for key, count in dropped.found.items()]
    rows += [
        DropCauseRow(platform, f"off the path, at {place}", label, count)
        for (platform, place, label), count in dropped.off_path.items()
    ]
    if not rows:
        return None
    columns: list[TableColumn[DropCauseRow]] = [
        column("platform", "platform", lambda row: row.platform),
        column("interface", "before", lambda row: clean_name(row.place)),
        column("reason", "kernel's reason", lambda row: clean_name(row.label)),
        column("packets", "packets", lambda row: row.dropped.packets, _format_packets),
        column("runs", "runs", lambda row: len(row.dropped.run_ids)),
        csv_column("partly_counted_runs", lambda row: row.dropped.partly_counted_runs),
        column("meaning", "what happened", lambda row: row.cause.happened if row.cause else None),
        column("look", "where to look", lambda row: row.cause.look if row.cause else None),
    ]
    more = len(rows) - SHOWN
    return build_table(
        "drop-causes",
        "Why packets were dropped",
        columns,
        sorted(rows, key=lambda row: (platform_order(row.platform), -row.dropped.packets, row.place, row.label)),
        "By the unit under test's kernel, of test packets, in runs that enter a mean and in trials for telemetry. "
        "Before: the interface of the ledger that they did not reach; off every stream's path: the interface at "
        "which they were dropped. At least: in some of the runs tracing ended when its budget was spent "
        "(drop_reasons: auto), or missed packets. Drops that no kernel explained (drivers, NICs, runs without "
        "tracing) are in no row." + (f" {more} more rows are in the file." if more > 0 else ""),
        most_printed=SHOWN,
    )


def _format_packets(row: DropCauseRow) -> str:
    """The number of packets, a lower bound if a run may have more."""
    return f"{'at least ' if row.dropped.partly_counted_runs else ''}{row.dropped.packets}"


# -- processors --------------------------------------------------------------------------------------------------------
# The processor cost of a forwarded packet in the unit under test, from trials that enter no mean.

NAMED = 2
"""The number of processes, and of reasons, that a row names; the file has all."""


def build_processor_tables(material: Material) -> Sequence[Table]:
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
    columns: list[TableColumn[TelemetryTrial]] = [
        csv_column("run_id", lambda each: each.run_id),
        column("platform", "platform", lambda each: each.requested.platform),
        size_columns(lambda each: each.requested.frame),
        column("sources", "sources", lambda each: each.requested.sources),
        column("target_bps", "target, Mbit/s", lambda each: each.requested.target_bps, _format_target),
        column("background", "background", lambda each: each.requested.background),
        csv_column("doubts", lambda each: "; ".join(each.doubts)),
        number_column("forwarded_pps", "packets/s", lambda each: each.rate_pps, 0),
        csv_column("forwarded_packets", lambda each: each.time.packets),
        csv_column("processors", lambda each: each.time.processors),
        csv_column("elapsed_ns", lambda each: each.time.elapsed_ns),
        csv_column("busy_ns", lambda each: each.time.busy_ns),
        csv_column("user_ns", lambda each: each.time.user_ns),
        csv_column("guest_ns", lambda each: each.time.guest_ns),
        csv_column("system_ns", lambda each: each.time.system_ns),
        csv_column("interrupt_ns", lambda each: each.time.interrupt_ns),
        csv_column("softirq_ns", lambda each: each.time.softirq_ns),
        csv_column("steal_ns", lambda each: each.time.steal_ns),
        _per_packet_column("ns per packet", lambda time: time.busy_ns),
        _per_packet_column("softirq", lambda time: time.softirq_ns),
        _per_packet_column("system", lambda time: time.system_ns),
        _per_packet_column("user", lambda time: time.user_ns),
        printed_column("busy", lambda each: format_number(each.time.busy_processors, 2)),
        column(
            "busiest_ratio",
            "busiest",
            lambda each: each.time.busiest[1] if each.time.busiest else None,
            _format_busiest,
        ),
        csv_column("interrupts", lambda each: each.time.interrupts),
        csv_column("received_softirqs", lambda each: each.time.received_softirqs),
        csv_column("stack_packets", lambda each: each.time.stack_packets),
        csv_column("backlog_dropped_packets", lambda each: each.time.backlog_dropped_packets),
        printed_column("per NET_RX", lambda each: format_number(each.time.packets_by_softirq, 1)),
        column("squeezed", "squeezed", lambda each: each.time.squeezed),
        column("processes", "busiest processes", lambda each: _list_pairs(each.processes), _format_processes),
        column("drops", "dropped because", lambda each: _list_pairs(each.drops), _format_drops),
        printed_column("doubts", lambda each: ", ".join(each.doubts) or "none"),
    ]
    return build_table(
        "processors",
        "What a forwarded packet cost the processors",
        columns,
        found,
        "One row per trial; none of them enters a mean, and none is compared. ns per packet: time of all "
        "processors except idle and stolen time, while traffic ran, divided by the packets that left the unit "
        "under test (the second guest's too); softirq, system and user (guests included) are parts of it. Whatever "
        "ran is included, also the cost of tracing drops, and other users' programs: see doubts. Busy: how many "
        "processors on average; busiest: of one of them. Per NET_RX: how often a packet was handed to the stack, "
        "per run of that softirq; squeezed: how often it ended with work left. Time is counted in ticks of 1 to "
        "10 ms. A dash under dropped because: no reason was recorded, or tracing was not possible."
        + (f" {untold} more have no figures, or are invalid: runs show says why." if untold else "")
        + (f" {', '.join(shared)} are one machine: what all of them did is counted." if shared else ""),
    )


def _per_packet_column(heading: str, time_ns: Callable[[ProcessorTime], int]) -> TableColumn[TelemetryTrial]:
    """Processor time for each forwarded packet."""
    return printed_column(heading, lambda each: format_number(each.time.per_packet(time_ns(each.time)), 0))


def _list_pairs(pairs: Sequence[tuple[str, int]]) -> str:
    return "; ".join(f"{name} {number}" for name, number in pairs)


def _format_target(each: TelemetryTrial) -> str:
    target_bps = each.requested.target_bps
    return format_target_number(None if target_bps == "max" else target_bps, each.requested.frame)


def _format_busiest(each: TelemetryTrial) -> str:
    """How much of its time the busiest processor worked."""
    return UNKNOWN if each.time.busiest is None else f"{100 * each.time.busiest[1]:.0f} %"


def _format_processes(each: TelemetryTrial) -> str:
    """The busiest processes, each with the number of processors that it used on average."""
    used = (f"{name} {ns / each.time.elapsed_ns:.2f}" for name, ns in each.processes[:NAMED])
    return ", ".join(used) or UNKNOWN


def _format_drops(each: TelemetryTrial) -> str:
    return ", ".join(f"{name} {packets}" for name, packets in each.drops[:NAMED]) or UNKNOWN


UNITS = (
    ReportUnit(name="drop-causes", place=54, make=build_drop_causes_table),
    ReportUnit(name="processors", place=54, make=build_processor_tables),
)
