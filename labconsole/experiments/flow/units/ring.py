"""Guests in a ring, each sending to the next (Quétier, Neri and Cappello, section 3.1.4 and figure 15)."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Mark, MethodNote, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.flow.report_data import select_ring_records
from labconsole.experiments.flow.summary import FlowPointResult, FlowsSummary, summarize_flows
from labconsole.measure.statistics.bounded_means import highest_mean, lowest_mean
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.captions import INTERVALS, JAIN, build_caption, build_mark, split_shared_parts
from labconsole.report.formatting import format_mean
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.reference import NO_ROW, describe_matching
from labconsole.report.table_builder import (
    PaperRow,
    TableColumn,
    build_table,
    column,
    csv_column,
    environment_columns,
    left_out_column,
    mean_columns,
    number_column,
    printed_column,
)

PAPER = "quetier"
MBYTE_BITS = 8e6
"""Bits per megabyte, as in the paper's MB/s."""


def select_points(material: Material) -> tuple[FlowsSummary, list[FlowPointResult]]:
    """The summary, and its points with a result in the order of a figure."""
    summary = summarize_flows(select_ring_records(material))
    points = [each for each in summary.points if each.sum_bps is not None]
    return summary, sorted(points, key=lambda each: (platform_order(each.key.platform), each.key.guests))


def figure(material: Material) -> Figure | None:
    """A bar per platform for each number of guests: the mean guest, with a dot for every guest."""
    summary, points = select_points(material)
    if not points:
        return None
    names = tuple(dict.fromkeys(summary.name_parts(each.key) for each in points))
    common, x_names = split_shared_parts(names)
    scenarios = dict.fromkeys(f"{each.key.guests} guests {each.key.scenario}" for each in points)
    panels = []
    for scenario in scenarios:
        marks = []
        for each in points:
            if f"{each.key.guests} guests {each.key.scenario}" != scenario or each.sum_bps is None:
                continue
            mark = build_mark(
                names.index(summary.name_parts(each.key)), each.sum_bps, scale=MBYTE_BITS * each.key.guests
            )
            dots = tuple(guest.shared_bps.mean / MBYTE_BITS for guest in each.guests if guest.shared_bps is not None)
            marks.append(Mark(mark.x, mark.y, mark.low, mark.high, mark.n, mark.set_ups, dots))
        panels.append(Panel(scenario, (PlottedCurve("each guest", tuple(marks)),)))
    caption = build_caption("Rate out of a guest, the mean of all guests of the ring", panels)
    return Figure(
        name="quetier-15",
        title=f"Guests that send to each other{common}",
        kind="bars",
        x_label="",
        y_label="MB/s of frames at a guest's interface",
        panels=tuple(panels),
        caption=caption.replace("dots: means of the set-ups", "dots: the guests"),
        x_names=tuple(x_names),
    )


def table(material: Material) -> Table | None:
    """A row for each ring: mean, least and most of its guests, and how equal they are."""
    summary, points = select_points(material)
    if not points:
        return None
    columns: list[TableColumn[FlowPointResult]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "guests", lambda each: each.key.guests),
        csv_column("cpu", lambda each: each.key.cpu),
        csv_column("limits_bps", lambda each: " ".join(map(str, each.key.limits_bps))),
        printed_column("scenario", lambda each: each.key.scenario),
        csv_column("mean_of_guests_bps", _mean_of_guests_bps),
        mean_columns(
            "sum_bps",
            "each, MB/s",
            lambda each: each.sum_bps,
            show=lambda each: format_mean(each.sum_bps, MBYTE_BITS * each.key.guests, 1),
        ),
        mean_columns("least_bps", "least, MB/s", lambda each: lowest_mean(_rates(each)), MBYTE_BITS, 1),
        mean_columns("most_bps", "most, MB/s", lambda each: highest_mean(_rates(each)), MBYTE_BITS, 1),
        mean_columns("jain", "Jain", lambda each: each.jain, places=4),
        column("trials", "trials", lambda each: len(each.flow_ids)),
        left_out_column(lambda each: each.left_out),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "flow-ring",
        "Guests in a ring: what each sends to the next",
        columns,
        points,
        "Of frames at the guests' interfaces on the unit under test, with the answers to the guest before. "
        f"{INTERVALS} {JAIN} Least and most: of the guests that have it, chosen by their results, so that they lie too "
        "far apart by chance; their intervals are of the least and the greatest true rate, simultaneous over guests. "
        "No packet leaves the unit under test: no clock and no capture outside.",
    )


def _rates(point: FlowPointResult) -> list[SetUpMean]:
    """The known rates of the guests."""
    return [guest.shared_bps for guest in point.guests if guest.shared_bps is not None]


def _mean_of_guests_bps(point: FlowPointResult) -> float | None:
    return None if point.sum_bps is None else point.sum_bps.mean / point.key.guests


def _own_mbyte_per_s(point: FlowPointResult) -> float | None:
    mean_bps = _mean_of_guests_bps(point)
    return None if mean_bps is None else mean_bps / MBYTE_BITS


def build_paper_table(material: Material) -> Table | None:
    """The report's own rates and the paper's, whose guests have no limits."""
    paper = material.paper
    if paper is None or paper.name != PAPER or "ring" not in paper.tables:
        return None
    summary, every = select_points(material)
    points = [each for each in every if not each.key.limits_bps]
    rows = [
        PaperRow(each, row)
        for each in points
        for row in paper.tables["ring"]
        if row["platform"] == material.paper_names.get(each.key.platform)
    ]
    if not rows:
        return None
    columns: list[TableColumn[PaperRow[FlowPointResult]]] = [
        column("platform", "platform", lambda row: summary.name_of(row.own.key)),
        column("guests", "guests", lambda row: row.own.key.guests),
        number_column("own_mbyte_per_s", "own, MB/s", lambda row: _own_mbyte_per_s(row.own)),
        column("paper_platform", "paper's platform", lambda row: row.paper["platform"]),
        column("paper_guests", "its guests", lambda row: row.paper["guests"]),
        column("paper_mbyte_per_s", "the paper, MB/s", lambda row: row.paper["throughput_mbyte_per_s"]),
    ]
    limited = " Rings whose guests have limits have no row: the paper's have none." if len(points) < len(every) else ""
    return build_table(
        "quetier-15-beside",
        "Guests in a ring compared with the paper's",
        columns,
        rows,
        f"{paper.cited('figure 15', how='payload by netperf there, frames here')} "
        f"{describe_matching((each.key.platform for each in points), material.paper_names, NO_ROW)}"
        f"{limited}",
        beside_paper=True,
    )


def method(material: Material) -> MethodNote | None:
    """How a ring is counted, for the report's methods."""
    if not select_ring_records(material):
        return None
    return MethodNote(
        "Guests in a ring",
        "Each guest sends to the next over one TCP connection (iperf), all begun together. Bytes are those that the "
        "unit under test's interface to each guest counted in a window by its own clock, which begins a second after "
        "every guest was seen to send. What went into all guests has to be what came out of them.",
    )


UNITS = (
    ReportUnit(name="quetier-15", place=118, paper=(PAPER, "figure 15"), make=figure),
    ReportUnit(name="flow-ring", place=122, make=table),
    ReportUnit(name="quetier-15-beside", place=177, make=build_paper_table),
    ReportUnit(name="ring-words", place=118, make=method),
)
