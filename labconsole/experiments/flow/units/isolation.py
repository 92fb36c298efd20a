"""Isolation of guests that share one NIC (Adamczyk and Chydzinski, sections IV and V).

Shown over time, in figures with the paper's numbers, and in a table of how they share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.contracts.report import Cell, Figure, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.flow.rates import HEADER_BYTES, bin_rates
from labconsole.experiments.flow.report_data import (
    MEGA,
    build_summary,
    describe_missing_result,
    format_set_up_mean,
    interval,
    select_send_records,
)
from labconsole.experiments.flow.summary import FlowPointKey, FlowPointResult, FlowsSummary
from labconsole.measure.statistics.bounded_means import highest_mean, lowest_mean
from labconsole.model.weights import weights_text
from labconsole.report.captions import INTERVALS, JAIN, build_caption, build_mark, split_shared_parts
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_noun_count
from labconsole.report.material import Material

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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for point in summary.points:
        key = point.key
        out = ", ".join(f"{times} {code}" for code, times in point.left_out.items())
        least = lowest_mean([guest.attained_ratio for guest in point.guests if guest.attained_ratio is not None])
        widest = highest_mean([guest.spread_bps for guest in point.guests if guest.spread_bps is not None])
        found = (
            point.sum_bps,
            point.line_ratio,
            point.jain,
            least,
            point.interference_ratio,
            widest,
            point.dominant_ratio,
            point.dominant_s,
            point.starved_ratio,
            point.first_share_ratio,
            point.during_disk_ratio,
            point.recovered_s,
        )
        limits = " ".join(map(str, key.limits_bps))
        factors = (
            key.platform,
            key.guests,
            key.cpu,
            key.offered_bps,
            limits,
            key.greedy,
            key.second_after_s,
            key.payload_bytes,
        )
        cells = [cell for each in found for cell in interval(each)]
        not_recovered = point.not_recovered if point.during_disk_ratio is not None else None
        rows.append(
            (*factors, *cells, not_recovered, len(point.flow_ids), out, *build_environment_cells(key, summary.testbeds))
        )
        shown.append(
            (
                summary.name_of(key),
                str(key.guests),
                key.scenario,
                format_set_up_mean(point.sum_bps),
                UNKNOWN if point.jain is None or len(point.guests) < 2 else format_set_up_mean(point.jain, 1, 4),
                format_set_up_mean(least, 1, 4),
                format_set_up_mean(point.interference_ratio, 0.01),
                format_set_up_mean(widest),
                format_set_up_mean(point.dominant_ratio, 0.01, 1),
                format_set_up_mean(point.dominant_s, 1, 1),
                format_set_up_mean(point.first_share_ratio, 1, 3),
                str(len(point.flow_ids)),
                out or "none",
            )
        )
    if not rows:
        return None
    quantities = (
        "sum_bps",
        "line_ratio",
        "jain",
        "least_attained_ratio",
        "interference_ratio",
        "widest_spread_bps",
        "dominant_ratio",
        "longest_dominance_s",
        "starved_ratio",
        "first_share_ratio",
        "during_disk_ratio",
        "recovered_s",
    )
    return Table(
        name="flow-sharing",
        title="How guests share one NIC",
        columns=(
            "platform",
            "guests",
            "cpu",
            "offered_bps",
            "limits_bps",
            "first_guest_flows",
            "second_after_s",
            "payload_bytes",
            *(column for name in quantities for column in (name, f"{name}_ci_low", f"{name}_ci_high")),
            "not_recovered_trials",
            "trials",
            "left_out_codes",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "guests",
            "scenario",
            "sum, Mbit/s",
            "Jain",
            "least attained of its limit",
            "interference, %",
            "widest spread, Mbit/s",
            "dominance, %",
            "longest dominance, s",
            "first guest's share",
            "trials",
            "left out",
        ),
        shown=tuple(shown),
        note=f"Of payload, in the bins in which all guests send. {INTERVALS} {JAIN} Attained: of the limit, both in "
        "whole frames. Least and widest: of the guest that has it, chosen by its result, so that it lies too low (or "
        "too high) by chance; the interval is of the least (or widest) true one, simultaneous over the point's guests. "
        "Interference: what the first guest loses of its rate alone when others send. Spread: standard deviation over "
        "bins. Dominance: bins in which one guest has over 90 % of what came, with the interval that losses have (at "
        "most: none was seen; the first figure takes bins for independent, and stretches of them need not be); its "
        "longest stretch has no interval but the least and most of the trials.",
    )


def weights_table(material: Material) -> Table | None:
    """A row for each step of weights: what the first guest is due and has."""
    summary = build_summary(material)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for point in summary.points:
        every_s = point.key.weights[0] if point.key.weights else 0.0
        for number, step in enumerate(point.weight_steps):
            weights, from_s = weights_text(step.weights), number * every_s
            place, deviation = step.farthest or (None, None)
            name = "" if place is None else point.guests[place].guest
            error = None if step.error_ratio is None else step.error_ratio.mean
            rows.append(
                (
                    point.key.platform,
                    point.key.scenario,
                    weights,
                    from_s,
                    step.due_ratio,
                    *interval(step.first_share_ratio),
                    error,
                    name,
                    *interval(deviation),
                    step.packets,
                    len(point.flow_ids),
                )
            )
            shown.append(
                (
                    summary.name_of(point.key),
                    point.key.scenario,
                    weights,
                    f"{from_s:g}",
                    f"{step.due_ratio:.4f}",
                    format_set_up_mean(step.first_share_ratio, 1, 4),
                    UNKNOWN if deviation is None else f"{name}: {format_set_up_mean(deviation, 1, 4)}",
                    UNKNOWN if step.packets is None else f"{1 / step.packets:.4f}",
                    str(len(point.flow_ids)),
                )
            )
    if not rows:
        return None
    return Table(
        name="flow-weights",
        title="Shares by weight",
        columns=(
            "platform",
            "scenario",
            "weights",
            "from_s",
            "first_due_ratio",
            "first_share_ratio",
            "first_share_ratio_ci_low",
            "first_share_ratio_ci_high",
            "error_ratio",
            "farthest_guest",
            "deviation_ratio",
            "deviation_ratio_ci_low",
            "deviation_ratio_ci_high",
            "fewest_packets",
            "trials",
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "scenario",
            "weights",
            "from, s",
            "first guest's due",
            "its share",
            "farthest from its due",
            "one packet",
            "trials",
        ),
        shown=tuple(shown),
        note="Of payload, in the bins that lie wholly in a step without its first 0.2 s; means over set-ups. Farthest "
        "from its due: the guest whose share is, and by how much, signed. Intervals are of 95 % over set-ups, "
        "simultaneous over all guests and steps of the point (Bonferroni), and no bound is closer than one packet of "
        "those that came in a step.",
    )


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
