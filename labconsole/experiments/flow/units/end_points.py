"""Guests as end points: what they send, how several share, what they receive, and where the rest was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labconsole.contracts.report import Figure, MethodNote, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.flow.rates import SAME_TIME_RATIO
from labconsole.experiments.flow.report_data import (
    MEGA,
    build_summary,
    full,
    plain,
    select_receive_records,
    select_send_records,
)
from labconsole.experiments.flow.summary import FlowPointResult, flow_key, summarize_flows
from labconsole.measure.paired_blocks import describe_outer_hypervisors
from labconsole.report.captions import INTERVALS, JAIN, build_caption, build_mark, split_shared_parts
from labconsole.report.formatting import UNKNOWN, format_mean
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_mean_columns,
    environment_columns,
    left_out_column,
    mean_columns,
    printed_column,
)

# -- end points --------------------------------------------------------------------------------------------------------
# Guests as end points: what one sends and receives, and how several that send share (Mattos et al., section 3.3.4).

PAPER = "mattos"
LAYER = "Payload that arrived at the sink"


def one_guest(material: Material) -> Figure | None:
    """A bar per platform for one guest that sends as much as it can, and for one that is sent what the link carries."""
    out, into = build_summary(material), summarize_flows(select_receive_records(material))
    ways = {
        "from the guest": [(out.name_parts(each.key), each) for each in plain(out.points)],
        "to the guest": [(into.name_parts(each.key), each) for each in full(into.points)],
    }
    found: dict[str, list[tuple[tuple[str, ...], FlowPointResult]]] = {}
    for way, points in ways.items():
        own = [(name, each) for name, each in points if each.key.guests == 1 and each.sum_bps is not None]
        if own:
            found[way] = sorted(own, key=lambda one: (platform_order(one[1].key.platform), one[1].key))
    if not found:
        return None
    every = sorted((one for own in found.values() for one in own), key=lambda one: platform_order(one[1].key.platform))
    names = tuple(dict.fromkeys(name for name, _ in every))
    common, x_names = split_shared_parts(names)
    panels = tuple(
        Panel(
            way,
            (
                PlottedCurve(
                    "payload",
                    tuple(
                        build_mark(names.index(name), each.sum_bps) for name, each in own if each.sum_bps is not None
                    ),
                ),
            ),
            levels=_link([each for _, each in own]),
        )
        for way, own in found.items()
    )
    verbs = " and ".join(
        verb for way, verb in (("from the guest", "sends"), ("to the guest", "receives")) if way in found
    )
    layers = {"from the guest": f"{LAYER} of one guest", "to the guest": "Payload that one guest read"}
    layer = "; p".join(layers[way].removeprefix("P" if place else "") for place, way in enumerate(found))
    return Figure(
        name="mattos-3",
        title=f"What one guest {verbs}{common}",
        kind="bars",
        x_label="",
        y_label="Mbit/s of payload",
        panels=panels,
        caption=build_caption(layer, panels),
        x_names=tuple(x_names),
    )


def _link(points: Sequence[FlowPointResult]) -> tuple[tuple[float, str], ...]:
    """The payload rate of the link, if it is the same for all points."""
    lines = {each.line_bps for each in points}
    return ((lines.pop() / MEGA, "what the link carries of such payload"),) if len(lines) == 1 else ()


def several_guests(material: Material) -> Figure | None:
    """A panel per platform: the sum and each guest's share over the number of guests that send."""
    summary = build_summary(material)
    points = [each for each in plain(summary.points) if each.sum_bps is not None]
    panels, names = [], []
    for name in dict.fromkeys(summary.name_parts(each.key) for each in points):
        own = [each for each in points if summary.name_parts(each.key) == name]
        if len({each.key.guests for each in own}) < 2:
            continue
        names.append(name)
        total = [build_mark(each.key.guests, each.sum_bps) for each in own if each.sum_bps is not None]
        each_one = [
            build_mark(each.key.guests, guest.shared_bps)
            for each in own
            for guest in each.guests
            if guest.shared_bps is not None
        ]
        panels.append(
            Panel(
                "",
                (PlottedCurve("all together", tuple(total)), PlottedCurve("each", tuple(each_one))),
                levels=_link(own),
            )
        )
    if not panels:
        return None
    common, titles = split_shared_parts(names)
    panels = [replace(panel, title=title) for panel, title in zip(panels, titles, strict=True)]
    return Figure(
        name="mattos-4a",
        title=f"What guests that send at once share{common}",
        kind="curves",
        x_label="guests that send",
        y_label="Mbit/s of payload",
        panels=tuple(panels),
        caption=build_caption(f"{LAYER} while all of them sent", panels),
        ideal=False,
    )


def describe_end_points(material: Material) -> MethodNote | None:
    """How flows are counted, for the report's methods."""
    if not (records := select_send_records(material)):
        return None
    return MethodNote(
        "Flows out of guests",
        "All guests send UDP at once, to an unused address. The sink captures every packet; a flow is identified "
        "by its source MAC address and port, and counted in bins of time by the capture's time stamps from the first "
        "packet of any flow on. What a rate is of: payload, in the whole bins in which all guests send. The second "
        "witness of each guest is its interface on the unit under test."
        + describe_outer_hypervisors(map(flow_key, records)),
    )


# -- guests that receive -----------------------------------------------------------------------------------------------
# Guests that receive from outside: what they read, and where the rest was lost.

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


def build_receivers_table(material: Material) -> Table | None:
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


def describe_receivers(material: Material) -> MethodNote | None:
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
    ReportUnit(name="mattos-3", place=104, paper=(PAPER, "figure 3"), make=one_guest),
    ReportUnit(name="mattos-4a", place=105, paper=(PAPER, "figure 4a"), make=several_guests),
    ReportUnit(name="flow-words", place=104, make=describe_end_points),
    ReportUnit(name="flow-received", place=123, make=build_receivers_table),
    ReportUnit(name="inward-words", place=119, make=describe_receivers),
)
