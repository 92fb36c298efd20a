"""Delay over the offered bandwidth: of sampled packets, and of every packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.packet_times import QUANTILES, find_supported_quantiles
from labconsole.measure.time_histogram import TimeHistogram
from labconsole.model.design_point import FrameSize
from labconsole.report.captions import MEGA, build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.formatting import format_frame_size, format_noun_count
from labconsole.report.material import Material
from labconsole.report.point_columns import design_columns
from labconsole.report.points import DEDICATED, NS_PER_US, PointSummary, RunFacts, Setting, find_delay
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column

# -- sampled packets ---------------------------------------------------------------------------------------------------
# Median and 99th percentile of the delay over the offered bandwidth, where trials recorded delays.

SOURCES = 1


def build_delay_figure(material: Material) -> Figure | None:
    """Build the figure from trials with one source and no second guest; one-way delays where any point has them."""
    chosen = [
        (p, delay)
        for p in material.evaluation.points
        if p.sources == SOURCES and p.background == DEDICATED
        if (delay := find_delay(p, material.digest.facts)) is not None
    ]
    one_way = [pair for pair in chosen if pair[1].kind == "one way"]
    chosen = one_way or chosen
    if not chosen:
        return None
    points = [p for p, _ in chosen]
    panels = []
    for size in collect_sizes(points):
        curves = []
        for platform in collect_platforms(points):
            own = sorted(
                ((p, delay) for p, delay in chosen if p.platform == platform and p.frame == size),
                key=lambda pair: pair[0].offered_bps.mean,
            )
            for name, of in (("median", "p50_ns"), ("99 %", "p99_ns")):
                marks = [build_mark(p.offered_bps.mean / MEGA, getattr(delay, of), scale=NS_PER_US) for p, delay in own]
                if marks:
                    curves.append(PlottedCurve(f"{platform}, {name}", tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    return Figure(
        name="delay",
        title=f"Delay ({chosen[0][1].kind}) over offered bandwidth, {format_noun_count(SOURCES, 'source')}",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=build_caption(
            "Mean of the trials' medians and 99th percentiles, of packets that arrived: what was lost has no delay",
            panels,
        ),
        ideal=False,
    )


# -- every packet ------------------------------------------------------------------------------------------------------
# The delay of every packet, where the sinks' kernels timed them: quantiles of each point, and curves at three
# loads.

LOADS = (0.1, 0.5, 0.9)
"""Shares of a platform's highest forwarding rate for which delay is reported, as in FD.io's CSIT."""

NEAR = 0.1
"""The largest distance of a point from such a load, in shares of the maximum."""

DRAWN = {"median": 0.5, "99 %": 0.99}
"""The quantiles that are drawn over the load."""

STEPS_A_DECADE = 4


SINCE = ("sent", "due")
"""The beginning of a delay: the sender's stamp on a packet, or its scheduled time, which is no later."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A point with the delays of all packets of its trials, since ``since``."""

    point: PointSummary
    since: str
    trials: int
    delays: TimeHistogram
    longest_ns: int


def build_packet_delay(material: Material) -> Sequence[Table | Figure]:
    """Build tables and figures from trials in which every stream's delays are known."""
    points, facts = material.evaluation.points, material.digest.facts
    timed = [each for p in points for since in SINCE if (each := build_timed(p, facts, since)) is not None]
    if not timed:
        return ()
    drawn = [t for t in timed if (t.since, t.point.sources, t.point.background) == (SINCE[0], SOURCES, DEDICATED)]
    figures = [each for each in (_load_figure(drawn), _figure(drawn, material)) if each is not None]
    return (_table(timed), *figures)


def build_timed(point: PointSummary, facts: Mapping[str, RunFacts], since: str) -> Timed | None:
    """Return the point's delays, or None unless all included trials know the delay of every packet.

    The trials that know every delay may be a biased sample.
    """
    of_runs = [facts[run_id] for run_id in point.run_ids if run_id in facts]
    found = [each.delays_since_due if since == "due" else each.packet_delays for each in of_runs]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(point.run_ids):
        return None
    histograms = [TimeHistogram.decoded(text) for each in known for text in each.histograms]
    return Timed(
        point, since, len(known), reduce(TimeHistogram.added, histograms), max(each.longest_ns for each in known)
    )


class DelayRow(NamedTuple):
    """``quantiles_ns``: by name, and the longest; None where there are too few packets."""

    timed: Timed
    quantiles_ns: Mapping[str, int | None]


def _table(timed: Sequence[Timed]) -> Table:
    rows = [
        DelayRow(each, {**find_supported_quantiles(each.delays, each.longest_ns), "max": each.longest_ns})
        for each in timed
    ]
    columns: list[TableColumn[DelayRow]] = [
        design_columns(lambda row: row.timed.point),
        column("since", "since", lambda row: row.timed.since),
        csv_column("trials", lambda row: row.timed.trials),
        column("packets", "packets", lambda row: row.timed.delays.total),
        *map(_quantile_column, (*QUANTILES, "max")),
    ]
    return build_table(
        "packet-delay",
        "One-way delay of every packet",
        columns,
        rows,
        "Of points whose trials all know it. Of all packets that arrived, taken together: from the sender's time "
        "stamp (sent), or from when the packet was to be sent (due; what a stall of the sender withheld is in it), "
        "to the sink's kernel, in buckets of at most 1/128 of their value, the longest exactly. A dash: it "
        "would take more packets. What was lost has no delay. Packets of one trial are no independent sample: no "
        "interval is given.",
    )


def _quantile_column(name: str) -> TableColumn[DelayRow]:
    """``name``: of a quantile, or max."""
    return number_column(
        f"{name.replace('.', '')}_ns", f"{name}, µs", lambda row: row.quantiles_ns[name], unit=NS_PER_US
    )


def _load_figure(timed: Sequence[Timed]) -> Figure | None:
    """Build the figure for platforms with two loads or more."""
    points = [each.point for each in timed]
    panels = []
    for size in collect_sizes(points):
        for name, ratio in DRAWN.items():
            curves = []
            for platform in collect_platforms(points):
                marks = [mark for t in _select(timed, platform, size) if (mark := _build_mark(t, ratio)) is not None]
                if len(marks) > 1:
                    curves.append(PlottedCurve(platform, tuple(sorted(marks, key=lambda mark: mark.x))))
            if curves:
                panels.append(Panel(f"{format_frame_size(size)}, {name}", tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="packet-delay-load",
        title=f"One-way delay of every packet over offered bandwidth, {SOURCES} source",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=(
            "The delay, since they were sent, that half of all packets, or 99 of 100, do not exceed; of packets that "
            "arrived, trials of a point taken together: what was lost has no delay. Packets of one trial are no "
            "independent sample: no interval is drawn."
        ),
        ideal=False,
        from_zero=False,
        y_log=True,
    )


def _build_mark(timed: Timed, ratio: float) -> Mark | None:
    """Return the mark, or None for a delay of zero, which has no place on a logarithmic axis."""
    ns = timed.delays.supported_quantile_ns(ratio)
    if not ns or not timed.longest_ns:
        return None
    value_us = min(ns, timed.longest_ns) / NS_PER_US
    return Mark(timed.point.offered_bps.mean / MEGA, value_us, None, None, timed.trials, timed.point.set_ups)


def _figure(timed: Sequence[Timed], material: Material) -> Figure | None:
    maxima: dict[Setting, float] = {}
    several = {reading.setting for reading in material.evaluation.maxima if reading.loads > 1}
    for point in material.evaluation.points:  # at target max a platform may forward less than at a lower target
        if point.key in several and point.rate_bps.mean > 0:
            maxima[point.key] = max(point.rate_bps.mean, maxima.get(point.key, 0.0))
    points = [each.point for each in timed]
    panels = []
    for size in collect_sizes(points):
        for load in LOADS:
            curves = []
            for platform in collect_platforms(points):
                near = _nearest(_select(timed, platform, size), maxima, load)
                if near is not None:
                    curves.append(PlottedCurve(platform, _marks(near)))
            if curves:
                title = f"{format_frame_size(size)}, at {100 * load:.0f} % of the most that the platform forwarded"
                panels.append(Panel(title, tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="packet-delay-quantiles",
        title=f"One-way delay of every packet by quantile, {SOURCES} source",
        kind="curves",
        x_label="nines of the quantile (1: 90 %, 2: 99 %, 3: 99.9 %)",
        y_label="delay in µs",
        panels=tuple(panels),
        caption=(
            "The shortest delay, since they were sent, that this share of all packets does not exceed; of packets that "
            "arrived, trials of a point taken together. The most that a platform forwarded is the highest mean of all "
            "its targets. A point represents a load if it is within "
            f"{100 * NEAR:.0f} % of the platform's most of it; platforms without such a point, or with one load only, "
            "are left out. Curves end where fewer than one packet would be beyond."
        ),
        ideal=False,
        from_zero=False,
        y_log=True,
    )


def _select(timed: Sequence[Timed], platform: str, size: FrameSize) -> list[Timed]:
    return [each for each in timed if (each.point.platform, each.point.frame) == (platform, size)]


def _nearest(own: Sequence[Timed], maxima: Mapping[Setting, float], load: float) -> Timed | None:
    """Return the point whose load is nearest to that share of its platform's maximum, if it is near enough."""
    known = [(abs(t.point.offered_bps.mean / maxima[t.point.key] - load), t) for t in own if t.point.key in maxima]
    nearest = min(known, key=lambda pair: pair[0], default=None)
    return nearest[1] if nearest is not None and nearest[0] <= NEAR else None


def _marks(timed: Timed) -> tuple[Mark, ...]:
    """Return marks at every quarter of a nine, as far as there are packets, without zero delays (logarithmic axis)."""
    marks = []
    step = 0
    while (ns := timed.delays.supported_quantile_ns(1 - 10 ** (-step / STEPS_A_DECADE))) is not None:
        value_us = min(ns, timed.longest_ns) / NS_PER_US
        if value_us > 0:
            marks.append(Mark(step / STEPS_A_DECADE, value_us, None, None, timed.trials, timed.point.set_ups))
        step += 1
    return tuple(marks)


UNITS = (
    ReportUnit(name="delay", place=50, make=build_delay_figure),
    ReportUnit(name="packet-delay", place=52, make=build_packet_delay),
)
