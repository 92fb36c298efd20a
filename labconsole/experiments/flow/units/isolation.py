"""Isolation of guests that share one NIC (Adamczyk and Chydzinski, sections IV and V).

Shown over time, in figures with the paper's numbers, and in a table of how they share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.flow.rates import HEADER_BYTES, bin_rates
from labconsole.experiments.flow.report_data import MEGA, build_summary, describe_missing_result, select_send_records
from labconsole.experiments.flow.summary import FlowPointKey, FlowPointResult, FlowsSummary
from labconsole.experiments.flow.weights import WeightStepResult
from labconsole.measure.statistics.bounded_means import highest_mean, lowest_mean
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.flow_scenarios import weights_text
from labconsole.report.captions import INTERVALS, JAIN, build_caption, build_mark, split_shared_parts
from labconsole.report.formatting import UNKNOWN, format_mean, format_noun_count
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    csv_mean_columns,
    environment_columns,
    left_out_column,
    mean_columns,
    mean_value,
    printed_column,
)

PAPER = "adamczyk"
Y_LABEL = "Mbit/s of payload"
LINK, SHARE, BEGIN = "what the link carries", "an equal share of that", "the others begin"
LIMIT = "limit, as payload"
X_LABEL = "seconds since the first packet"


def _plain(point: FlowPointResult) -> bool:
    """Guests that share without weights, and without work on a disk."""
    return not point.weight_steps and not point.key.disk


def _alike(point: FlowPointResult) -> bool:
    return _plain(point) and point.key.guests > 1 and point.key.greedy == 1 and len(set(point.key.limits_bps)) == 1


def _different(point: FlowPointResult) -> bool:
    return _plain(point) and point.key.guests > 1 and point.key.greedy == 1 and len(set(point.key.limits_bps)) > 1


def _unlimited(point: FlowPointResult) -> bool:
    own = not point.key.limits_bps and point.key.greedy == 1 and point.key.guests > 1
    return _plain(point) and own and point.key.offered_bps >= point.line_bps


def _greedy(point: FlowPointResult) -> bool:
    return _plain(point) and point.key.greedy > 1 and point.key.guests > 1 and not point.key.limits_bps


def _has_disk_job(point: FlowPointResult) -> bool:
    return bool(point.key.disk)


def _changing(point: FlowPointResult) -> bool:
    return len(point.weight_steps) > 1


def _scheduled(point: FlowPointResult) -> bool:
    """Constant weights, as of a scheduler in front of the NIC."""
    return len(point.weight_steps) == 1


def _scheduled_limits(point: FlowPointResult) -> bool:
    return _scheduled(point) and bool(point.key.limits_bps)


def _scheduled_alone(point: FlowPointResult) -> bool:
    return _scheduled(point) and not point.key.limits_bps


def _title_parts(summary: FlowsSummary, key: FlowPointKey) -> tuple[str, ...]:
    """The parts of a panel's title, with the number of guests if it varies."""
    several = len({each.key.guests for each in summary.points if each.key.scenario == key.scenario}) > 1
    guests = [format_noun_count(key.guests, "guest")] if several else []
    return (*summary.name_parts(key), *guests, *key.scenario_parts)


def _levels(point: FlowPointResult) -> tuple[tuple[float, str], ...]:
    """The payload rates that the guests' limits, of whole frames, leave; without limits, what the link carries."""
    key, names = point.key, [each.guest for each in point.guests]
    if not key.limits_bps:
        share = [(point.line_bps / len(names) / MEGA, SHARE)] if len(names) > 1 and not key.weights else []
        return ((point.line_bps / MEGA, LINK), *share)
    limits: dict[int, list[str]] = {}
    for place, name in enumerate(names):
        limits.setdefault(key.limits_bps[place % len(key.limits_bps)], []).append(name)
    payload_ratio = key.payload_bytes / (key.payload_bytes + HEADER_BYTES)
    return tuple(
        (rate_bps * payload_ratio / MEGA, f"limit of {', '.join(of)}, as payload" if len(limits) > 1 else LIMIT)
        for rate_bps, of in limits.items()
    )


def _changes(key: FlowPointKey) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Times at which the guests' requested behaviour changes, and the label of each."""
    found = [(key.second_after_s, BEGIN)] if key.second_after_s else []
    found += [(key.disk_job.from_s, "t0"), (key.disk_job.to_s, "t1")] if key.disk_job is not None else []
    if key.weighted is not None and len(key.weighted.steps) > 1:
        found += [(place * key.weighted.every_s, weights_text(each)) for place, each in enumerate(key.weighted.steps)]
    return tuple(at_s for at_s, _ in found), tuple(label for _, label in found)


def _panels(
    summary: FlowsSummary, drawn: Sequence[tuple[FlowPointResult, tuple[PlottedCurve, ...]]]
) -> tuple[str, tuple[Panel, ...]]:
    """The shared part of all titles, and a panel per point with the rest of its title."""
    common, titles = split_shared_parts([_title_parts(summary, point.key) for point, _ in drawn])
    panels = [
        Panel(title, curves, *_changes(point.key), _levels(point))
        for (point, curves), title in zip(drawn, titles, strict=True)
    ]
    return common, tuple(panels)


def _upright(panels: Sequence[Panel]) -> str:
    """The meaning of the upright lines, as part of a caption."""
    names = {name for panel in panels for name in panel.change_names}
    parts = [f"{BEGIN}: when they were instructed to"] if BEGIN in names else []
    parts += (
        ["t0 and t1: when the last guest was instructed to begin and to end work on its disk"] if "t0" in names else []
    )
    parts += ["upright: weights, from when they hold"] if names - {"t0", "t1", BEGIN} else []
    return "".join(f"; {each}" for each in parts)


def _describe_omitted(summary: FlowsSummary, point: FlowPointResult) -> str:
    """A point without a panel, as part of a caption."""
    return f"; not drawn: {', '.join(_title_parts(summary, point.key))} ({describe_missing_result(point)})"


def build_time_series(
    material: Material, name: str, title: str, of: Callable[[FlowPointResult], bool]
) -> Figure | None:
    """A panel per point and a curve per guest: the mean of every bin over the trials, with its interval."""
    summary = build_summary(material)
    drawn, missing = list[tuple[FlowPointResult, tuple[PlottedCurve, ...]]](), list[str]()
    for point in filter(of, summary.points):
        curves = tuple(
            PlottedCurve(
                guest.guest,
                tuple(build_mark((number + 0.5) * point.key.bin_s, each) for number, each in enumerate(guest.bins_bps)),
            )
            for guest in point.guests
        )
        if curves:
            drawn.append((point, curves))
        else:
            missing.append(_describe_omitted(summary, point))
    if not drawn:
        return None
    common, panels = _panels(summary, drawn)
    return Figure(
        name=name,
        title=f"{title}{common}",
        kind="curves",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=panels,
        caption=build_caption(
            f"Payload of each guest that arrived at the sink, bin by bin{_upright(panels)}{''.join(missing)}", panels
        ),
        ideal=False,
    )


def one_path(material: Material, name: str, title: str, of: Callable[[FlowPointResult], bool]) -> Figure | None:
    """A panel per point: the trial of median dominance, bin by bin."""
    summary, records = build_summary(material), {record.flow_id: record for record in select_send_records(material)}
    drawn, missing = list[tuple[FlowPointResult, tuple[PlottedCurve, ...]]](), list[str]()
    for point in filter(of, summary.points):
        record = records.get(point.median_id or "")
        if record is None:
            missing.append(_describe_omitted(summary, point))
            continue
        requested = record.requested
        bins = round(requested.duration_s / requested.bin_s)
        curves = tuple(
            PlottedCurve(
                sender.guest,
                tuple(
                    Mark((number + 0.5) * requested.bin_s, rate / MEGA, None, None, 1)
                    for number, rate in enumerate(
                        bin_rates(record.flows, sender.guest, bins, requested.payload_bytes, requested.bin_s)
                    )
                ),
            )
            for sender in record.senders
        )
        drawn.append((point, curves))
    if not drawn:
        return None
    common, panels = _panels(summary, drawn)
    return Figure(
        name=name,
        title=f"{title}{common}",
        kind="curves",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=panels,
        caption="Payload of each guest that arrived at the sink, bin by bin, in a single trial: the one whose longest "
        f"dominance of one guest is the median of all trials of its point{_upright(panels)}{''.join(missing)}.",
        ideal=False,
    )


def sharing(material: Material) -> Table | None:
    """A row for each point with its measures of sharing."""
    summary = build_summary(material)
    if not summary.points:
        return None
    columns: list[TableColumn[FlowPointResult]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "guests", lambda each: each.key.guests),
        csv_column("cpu", lambda each: each.key.cpu),
        csv_column("offered_bps", lambda each: each.key.offered_bps),
        csv_column("limits_bps", lambda each: " ".join(map(str, each.key.limits_bps))),
        csv_column("first_guest_flows", lambda each: each.key.greedy),
        csv_column("second_after_s", lambda each: each.key.second_after_s),
        csv_column("payload_bytes", lambda each: each.key.payload_bytes),
        printed_column("scenario", lambda each: each.key.scenario),
        mean_columns("sum_bps", "sum, Mbit/s", lambda each: each.sum_bps, MEGA, 2),
        csv_mean_columns("line_ratio", lambda each: each.line_ratio),
        mean_columns("jain", "Jain", lambda each: each.jain, show=_format_jain),
        mean_columns("least_attained_ratio", "least attained of its limit", _least_attained, places=4),
        mean_columns("interference_ratio", "interference, %", lambda each: each.interference_ratio, 0.01, 2),
        mean_columns("widest_spread_bps", "widest spread, Mbit/s", _widest_spread, MEGA, 2),
        mean_columns("dominant_ratio", "dominance, %", lambda each: each.dominant_ratio, 0.01, 1),
        mean_columns("longest_dominance_s", "longest dominance, s", lambda each: each.dominant_s, places=1),
        csv_mean_columns("starved_ratio", lambda each: each.starved_ratio),
        mean_columns("first_share_ratio", "first guest's share", lambda each: each.first_share_ratio, places=3),
        csv_mean_columns("during_disk_ratio", lambda each: each.during_disk_ratio),
        csv_mean_columns("recovered_s", lambda each: each.recovered_s),
        csv_column("not_recovered_trials", lambda each: each.not_recovered if each.during_disk_ratio else None),
        column("trials", "trials", lambda each: len(each.flow_ids)),
        left_out_column(lambda each: each.left_out),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "flow-sharing",
        "How guests share one NIC",
        columns,
        summary.points,
        f"Of payload, in the bins in which all guests send. {INTERVALS} {JAIN} Attained: of the limit, both in "
        "whole frames. Least and widest: of the guest that has it, chosen by its result, so that it lies too low (or "
        "too high) by chance; the interval is of the least (or widest) true one, simultaneous over the point's guests. "
        "Interference: what the first guest loses of its rate alone when others send. Spread: standard deviation over "
        "bins. Dominance: bins in which one guest has over 90 % of what came, with the interval that losses have (at "
        "most: none was seen; the first figure takes bins for independent, and stretches of them need not be); its "
        "longest stretch has no interval but the least and most of the trials.",
    )


def _format_jain(point: FlowPointResult) -> str:
    return UNKNOWN if len(point.guests) < 2 else format_mean(point.jain, places=4)


def _least_attained(point: FlowPointResult) -> SetUpMean | None:
    """Of the guests' shares of their limits the lowest."""
    return lowest_mean([guest.attained_ratio for guest in point.guests if guest.attained_ratio is not None])


def _widest_spread(point: FlowPointResult) -> SetUpMean | None:
    """Of the guests' deviations over bins the highest."""
    return highest_mean([guest.spread_bps for guest in point.guests if guest.spread_bps is not None])


class StepRow(NamedTuple):
    """A step of the weights at a point, from ``from_s`` on."""

    point: FlowPointResult
    step: WeightStepResult
    from_s: float

    @property
    def farthest(self) -> str:
        """The guest that is farthest from its due, or empty if nothing is known."""
        found = self.step.farthest
        return "" if found is None else self.point.guests[found[0]].guest

    @property
    def deviation(self) -> SetUpMean | None:
        """The deviation of that guest."""
        found = self.step.farthest
        return None if found is None else found[1]


def weights_table(material: Material) -> Table | None:
    """A row for each step of weights: what the first guest is due and has."""
    summary = build_summary(material)
    rows = [
        StepRow(point, step, number * (point.key.weights[0] if point.key.weights else 0.0))
        for point in summary.points
        for number, step in enumerate(point.weight_steps)
    ]
    if not rows:
        return None
    columns: list[TableColumn[StepRow]] = [
        column("platform", "platform", lambda row: row.point.key.platform, lambda row: summary.name_of(row.point.key)),
        column("scenario", "scenario", lambda row: row.point.key.scenario),
        column("weights", "weights", lambda row: weights_text(row.step.weights)),
        column("from_s", "from, s", lambda row: row.from_s, lambda row: f"{row.from_s:g}"),
        column(
            "first_due_ratio",
            "first guest's due",
            lambda row: row.step.due_ratio,
            lambda row: f"{row.step.due_ratio:.4f}",
        ),
        mean_columns("first_share_ratio", "its share", lambda row: row.step.first_share_ratio, places=4),
        csv_column("error_ratio", lambda row: mean_value(row.step.error_ratio)),
        csv_column("farthest_guest", lambda row: row.farthest),
        mean_columns("deviation_ratio", "farthest from its due", lambda row: row.deviation, show=_format_farthest),
        column("fewest_packets", "one packet", lambda row: row.step.packets, _format_one_packet),
        column("trials", "trials", lambda row: len(row.point.flow_ids)),
    ]
    return build_table(
        "flow-weights",
        "Shares by weight",
        columns,
        rows,
        "Of payload, in the bins that lie wholly in a step without its first 0.2 s; means over set-ups. Farthest "
        "from its due: the guest whose share is, and by how much, signed. Intervals are of 95 % over set-ups, "
        "simultaneous over all guests and steps of the point (Bonferroni), and no bound is closer than one packet of "
        "those that came in a step.",
    )


def _format_farthest(row: StepRow) -> str:
    return UNKNOWN if row.deviation is None else f"{row.farthest}: {format_mean(row.deviation, places=4)}"


def _format_one_packet(row: StepRow) -> str:
    """One packet as a share of the fewest that arrived in a trial."""
    return UNKNOWN if row.step.packets is None else f"{1 / row.step.packets:.4f}"


def _unit(
    number: int, title: str, of: Callable[[FlowPointResult], bool], *, path: bool = False
) -> ReportUnit[Material]:
    name, draw = f"{PAPER}-{number}", one_path if path else build_time_series
    return ReportUnit(
        name=name,
        place=120 + number,
        paper=(PAPER, f"figure {number}"),
        make=lambda material: draw(material, name, title, of),
    )


UNITS = (
    _unit(5, "Guests limited to equal rates", _alike),
    _unit(6, "Guests limited to different rates", _different),
    _unit(7, "Guests without limits", _unlimited, path=True),
    _unit(8, "A greedy guest next to another", _greedy),
    _unit(9, "Guests that send while another works on its disk", _has_disk_job),
    _unit(10, "Guests whose weights change", _changing),
    _unit(11, "Guests limited to rates that share by constant weights", _scheduled_limits),
    _unit(12, "Guests without limits that share by constant weights", _scheduled_alone, path=True),
    ReportUnit(name="flow-sharing", place=121, make=sharing),
    ReportUnit(name="flow-weights", place=121, make=weights_table),
)
