"""Guests that receive from outside: what they read, and where the rest was lost."""

from __future__ import annotations

from labconsole.contracts.report import MethodNote, ReportUnit, Table
from labconsole.experiments.flow.rates import SAME_TIME_RATIO
from labconsole.experiments.flow.report_data import select_receive_records
from labconsole.experiments.flow.summary import FlowPointResult, summarize_flows
from labconsole.report.captions import INTERVALS, JAIN, MEGA
from labconsole.report.formatting import UNKNOWN, format_mean
from labconsole.report.guest_columns import environment_columns, left_out_column
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_mean_columns,
    mean_columns,
    printed_column,
)

PLACES = (
    "to_guest",
    "guest_nic",
    "guest_udp",
    "guest_no_reader",
    "guest_socket_full",
    "guest_errors",
    "guest_unread",
    "unplaced",
)
"""Places on the way to a guest, in their order."""


def table(material: Material) -> Table | None:
    """A row for each point: what was read of what was sent, and the share lost at each place."""
    summary = summarize_flows(select_receive_records(material))
    if not summary.points:
        return None
    columns: list[TableColumn[FlowPointResult]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "guests", lambda each: each.key.guests),
        csv_column("cpu", lambda each: each.key.cpu),
        csv_column("offered_bps", lambda each: each.key.offered_bps),
        csv_column("payload_bytes", lambda each: each.key.payload_bytes),
        printed_column("scenario", lambda each: each.key.scenario),
        mean_columns("sum_bps", "read, Mbit/s", lambda each: each.sum_bps, MEGA, 2),
        mean_columns("line_ratio", "of the line, %", lambda each: each.line_ratio, 0.01, 2),
        mean_columns("jain", "Jain", lambda each: each.jain, show=_format_jain),
        *map(_lost_columns, PLACES),
        printed_column("lost, % of what was sent", _format_lost),
        column("trials", "trials", lambda each: len(each.flow_ids)),
        left_out_column(lambda each: each.left_out),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "flow-received",
        "What guests read of what they are sent",
        columns,
        summary.points,
        f"Of payload, over the time that the source sent. {INTERVALS} {JAIN} Lost: with the interval that losses "
        "have. Of the line: "
        f"only where guests were sent to over one time, to {100 * SAME_TIME_RATIO:g} %, so that their rates add up. "
        "to_guest: before the guest was handed it; guest_nic, guest_udp: before its NIC and its UDP layer counted it; "
        "guest_socket_full: the reader was too slow.",
    )


def _lost_columns(place: str) -> TableColumn[FlowPointResult]:
    """The share lost at a place."""
    return csv_mean_columns(f"{place}_lost_ratio", lambda each: each.lost_ratios.get(place))


def _format_jain(point: FlowPointResult) -> str:
    return UNKNOWN if point.key.guests < 2 else format_mean(point.jain, places=4)


def _format_lost(point: FlowPointResult) -> str:
    """The places at which something was lost, and the share in percent."""
    if not point.lost_ratios:
        return UNKNOWN
    known = {place: found for place in PLACES if (found := point.lost_ratios.get(place)) is not None}
    lost = [f"{place} {format_mean(found, 0.01, 3)}" for place, found in known.items() if found.mean]
    return "; ".join(lost) or "nothing"


def method(material: Material) -> MethodNote | None:
    """How received flows are counted, for the report's methods."""
    if not select_receive_records(material):
        return None
    return MethodNote(
        "Flows into guests",
        "The source of the first stream sends test frames to each guest's own MAC address, all begun together; in each "
        "a UDP reader (iperf) takes them out of its socket. What arrived is counted inside, by the guest's NIC, its IP "
        "and its UDP layer, before and after; no clock of a guest is read. A rate is what was read over the time that "
        "the source sent. A guest that counts more than was handed to it voids the trial.",
    )


UNITS = (
    ReportUnit(name="flow-received", place=123, make=table),
    ReportUnit(name="inward-words", place=119, make=method),
)
