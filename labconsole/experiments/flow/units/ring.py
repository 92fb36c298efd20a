"""Guests in a ring, each sending to the next (Quétier, Neri and Cappello, section 3.1.4 and figure 15)."""

from __future__ import annotations

from labconsole.contracts.report import Cell, Figure, Mark, MethodNote, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.flow.report_data import format_set_up_mean, interval, select_ring_records
from labconsole.experiments.flow.summary import FlowPointResult, FlowsSummary, summarize_flows
from labconsole.measure.statistics.bounded_means import highest_mean, lowest_mean
from labconsole.report.captions import INTERVALS, JAIN, build_caption, build_mark, split_shared_parts
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.reference import NO_ROW, describe_matching

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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in points:
        key, rates = each.key, [guest.shared_bps for guest in each.guests if guest.shared_bps is not None]
        least, most = lowest_mean(rates), highest_mean(rates)
        out = ", ".join(f"{times} {code}" for code, times in each.left_out.items())
        mean_bps = None if each.sum_bps is None else each.sum_bps.mean / key.guests
        rows.append(
            (
                key.platform,
                key.guests,
                key.cpu,
                " ".join(map(str, key.limits_bps)),
                mean_bps,
                *interval(each.sum_bps),
                *interval(least),
                *interval(most),
                *interval(each.jain),
                len(each.flow_ids),
                out,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        per_guest = MBYTE_BITS * key.guests
        shown.append(
            (
                summary.name_of(key),
                str(key.guests),
                key.scenario,
                format_set_up_mean(each.sum_bps, per_guest, 1),
                format_set_up_mean(least, MBYTE_BITS, 1),
                format_set_up_mean(most, MBYTE_BITS, 1),
                format_set_up_mean(each.jain, 1, 4),
                str(len(each.flow_ids)),
                out or "none",
            )
        )
    if not rows:
        return None
    quantities = ("sum_bps", "least_bps", "most_bps", "jain")
    return Table(
        name="flow-ring",
        title="Guests in a ring: what each sends to the next",
        columns=(
            "platform",
            "guests",
            "cpu",
            "limits_bps",
            "mean_of_guests_bps",
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
            "each, MB/s",
            "least, MB/s",
            "most, MB/s",
            "Jain",
            "trials",
            "left out",
        ),
        shown=tuple(shown),
        note="Of frames at the guests' interfaces on the unit under test, with the answers to the guest before. "
        f"{INTERVALS} {JAIN} Least and most: of the guests that have it, chosen by their results, so that they lie too "
        "far apart by chance; their intervals are of the least and the greatest true rate, simultaneous over guests. "
        "No packet leaves the unit under test: no clock and no capture outside.",
    )


def build_paper_table(material: Material) -> Table | None:
    """The report's own rates and the paper's, whose guests have no limits."""
    paper = material.paper
    if paper is None or paper.name != PAPER or "ring" not in paper.tables:
        return None
    summary, every = select_points(material)
    points = [each for each in every if not each.key.limits_bps]
    rows: list[tuple[Cell, ...]] = []
    for each in points:
        theirs = material.paper_names.get(each.key.platform)
        said = [row for row in paper.tables["ring"] if row["platform"] == theirs]
        own = None if each.sum_bps is None else each.sum_bps.mean / each.key.guests / MBYTE_BITS
        for row in said:
            rows.append(
                (
                    summary.name_of(each.key),
                    each.key.guests,
                    own,
                    row["platform"],
                    row["guests"],
                    row["throughput_mbyte_per_s"],
                )
            )
    if not rows:
        return None
    limited = " Rings whose guests have limits have no row: the paper's have none." if len(points) < len(every) else ""
    return Table(
        name="quetier-15-beside",
        title="Guests in a ring compared with the paper's",
        columns=("platform", "guests", "own_mbyte_per_s", "paper_platform", "paper_guests", "paper_mbyte_per_s"),
        rows=tuple(rows),
        headings=("platform", "guests", "own, MB/s", "paper's platform", "its guests", "the paper, MB/s"),
        shown=tuple(
            tuple(format_number(cell, 1) if isinstance(cell, float) else str(cell or UNKNOWN) for cell in row)
            for row in rows
        ),
        note=f"{paper.cited('figure 15', how='payload by netperf there, frames here')} "
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
