"""Guests that receive from outside: what they read, and where the rest was lost."""

from __future__ import annotations

from labconsole.contracts.report import Cell, MethodNote, ReportUnit, Table
from labconsole.experiments.flow.rates import SAME_TIME_RATIO
from labconsole.experiments.flow.report_data import format_set_up_mean, interval, select_receive_records
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.report.captions import INTERVALS, JAIN
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN
from labconsole.report.material import Material

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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for point in summary.points:
        key = point.key
        out = ", ".join(f"{times} {code}" for code, times in point.left_out.items())
        lost = [point.lost_ratios.get(place) for place in PLACES]
        cells = [cell for each in (point.sum_bps, point.line_ratio, point.jain, *lost) for cell in interval(each)]
        rows.append(
            (
                key.platform,
                key.guests,
                key.cpu,
                key.offered_bps,
                key.payload_bytes,
                *cells,
                len(point.flow_ids),
                out,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        places = [
            f"{place} {format_set_up_mean(found, 0.01, 3)}"
            for place, found in zip(PLACES, lost, strict=True)
            if found is not None and found.mean
        ]
        shown.append(
            (
                summary.name_of(key),
                str(key.guests),
                key.scenario,
                format_set_up_mean(point.sum_bps),
                format_set_up_mean(point.line_ratio, 0.01),
                UNKNOWN if point.jain is None or key.guests < 2 else format_set_up_mean(point.jain, 1, 4),
                ("; ".join(places) or "nothing") if point.lost_ratios else UNKNOWN,
                str(len(point.flow_ids)),
                out or "none",
            )
        )
    if not rows:
        return None
    quantities = ("sum_bps", "line_ratio", "jain", *(f"{place}_lost_ratio" for place in PLACES))
    return Table(
        name="flow-received",
        title="What guests read of what they are sent",
        columns=(
            "platform",
            "guests",
            "cpu",
            "offered_bps",
            "payload_bytes",
            *(column for name in quantities for column in (name, f"{name}_ci_low", f"{name}_ci_high")),
            "trials",
            "left_out_codes",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "guests",
            "scenario",
            "read, Mbit/s",
            "of the line, %",
            "Jain",
            "lost, % of what was sent",
            "trials",
            "left out",
        ),
        shown=tuple(shown),
        note=f"Of payload, over the time that the source sent. {INTERVALS} {JAIN} Lost: with the interval that losses "
        "have. Of the line: "
        f"only where guests were sent to over one time, to {100 * SAME_TIME_RATIO:g} %, so that their rates add up. "
        "to_guest: before the guest was handed it; guest_nic, guest_udp: before its NIC and its UDP layer counted it; "
        "guest_socket_full: the reader was too slow.",
    )


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
