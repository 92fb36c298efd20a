"""Tables of what load searches found: bounds by goal, frame loss rate, bursts, delay. Pure.

Of searches that mean the same (one was ended early, and made again) the newest that came to its end is shown, else the
newest. Repetitions, and searches from the command line, each are their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labconsole.model.search_record import GoalFound, SearchRecord
from labconsole.report.tables import UNKNOWN, Cell, Table, number
from labconsole.units import pps_to_bps

LIMITS = {
    "uut": "UUT",
    "generator": "generator",
    "instrument": "instrument",
    "line_rate": "line rate",
    "below_minimum": "lowest load",
    "undecided": "undecided",
    "trial_length": "longest burst tried",
}
FACTORS = ("platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "background", "testbed")
HEADINGS = ("platform", "frame size (B)", "sources", "background")
PER_SOURCE = "Loads are per source; bandwidth is on the wire."
IS_NO_LIMIT = "An upper bound set by generator or instrument says nothing about the platform beyond its lower bound."


def search_tables(records: Iterable[SearchRecord]) -> list[Table]:
    """The tables that these searches have anything for."""
    chosen = sorted(newest(records), key=lambda r: (*_factors(r), r.plan.repetition, r.started_at))
    tables = [throughput(chosen), frame_loss(chosen), back_to_back(chosen), latency(chosen)]
    return [table for table in tables if table.rows]


def newest(records: Iterable[SearchRecord]) -> list[SearchRecord]:
    """Of those that mean the same on the same testbed, one."""
    found: dict[tuple[str, str], SearchRecord] = {}
    for record in sorted(records, key=lambda r: (r.status == "done", r.started_at, r.search_id)):
        found[record.plan.hash, record.testbed_fingerprint] = record
    return list(found.values())


def _factors(record: SearchRecord) -> tuple[str, int, bool, int, str, str]:
    asked = record.requested
    return (
        asked.platform, asked.frame_size_bytes, asked.frame_size_includes_fcs, asked.sources, asked.background,
        record.testbed,
    )  # fmt: skip


def _shown(record: SearchRecord) -> tuple[str, ...]:
    asked = record.requested
    size = f"{asked.frame_size_bytes}{' with FCS' if asked.frame_size_includes_fcs else ''}"
    return (asked.platform, size, str(asked.sources), asked.background)


def _bps(record: SearchRecord, pps: float | None) -> float | None:
    asked = record.requested
    if pps is None:
        return None
    return pps_to_bps(pps, asked.frame_size_bytes, includes_fcs=asked.frame_size_includes_fcs)


def throughput(records: Sequence[SearchRecord]) -> Table:
    """Every goal of every search with its bounds, and what set the upper one."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        for found in record.goals:
            bounds = (found.lower_bound_pps, found.upper_bound_pps, found.conditional_throughput_pps)
            rows.append(
                (
                    *_factors(record), found.goal, found.loss_ratio, *bounds,
                    *(_bps(record, bound) for bound in bounds), found.limited_by, found.complete,
                    record.plan.repetition, len(record.trials), record.search_id,
                )
            )  # fmt: skip
            shown.append((*_shown(record), found.goal, *_bounds(record, found)))
    trials = sum(len(record.trials) for record in records)
    early = any(not found.complete for record in records for found in record.goals)
    return Table(
        name="throughput",
        title="Highest load that meets a loss goal (NDR, PDR, RFC 2544 throughput)",
        columns=(
            *FACTORS, "goal", "goal_loss_ratio", "lower_bound_pps", "upper_bound_pps", "conditional_throughput_pps",
            "lower_bound_bps", "upper_bound_bps", "conditional_throughput_bps", "limited_by", "complete", "repetition",
            "trials", "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS, "goal", "lower bound (pps)", "upper bound (pps)", "lower bound (Mbit/s)",
            "conditional throughput (pps)", "limited by",
        ),
        shown=tuple(shown),
        note=f"{PER_SOURCE} {IS_NO_LIMIT} The {trials} trials of the searches enter no mean of another table."
        + (" †: the search ended before the bounds were as close as the goal asks." if early else ""),
    )  # fmt: skip


def _bounds(record: SearchRecord, found: GoalFound) -> tuple[str, ...]:
    lower_bps = _bps(record, found.lower_bound_pps)
    return (
        number(found.lower_bound_pps, 0),
        number(found.upper_bound_pps, 0),
        UNKNOWN if lower_bps is None else number(lower_bps / 1e6),
        number(found.conditional_throughput_pps, 0),
        LIMITS[found.limited_by] + ("" if found.complete else " †"),
    )


def frame_loss(records: Sequence[SearchRecord]) -> Table:
    """RFC 2544's frame loss rate over the load: also the data of its figure."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        for point in record.frame_loss or ():
            rows.append(
                (
                    *_factors(record), point.share_ratio, point.intended_pps, point.offered_pps, point.loss_ratio,
                    point.run_id,
                )
            )  # fmt: skip
            loss = UNKNOWN if point.loss_ratio is None else number(100 * point.loss_ratio, 3)
            shown.append(
                (
                    *_shown(record), number(100 * point.share_ratio, 0), number(point.intended_pps, 0),
                    number(point.offered_pps, 0), loss,
                )
            )  # fmt: skip
    return Table(
        name="frame-loss-rate",
        title="Frame loss rate (RFC 2544, section 26.3)",
        columns=(*FACTORS, "share_ratio", "intended_per_source_pps", "offered_pps", "loss_ratio", "run_id"),
        rows=tuple(rows),
        headings=(*HEADINGS, "of line rate (%)", "intended per source (pps)", "offered in all (pps)", "loss (%)"),
        shown=tuple(shown),
        note="From the line rate downwards until two trials running lose nothing. Loss is of what was offered.",
    )


def back_to_back(records: Sequence[SearchRecord]) -> Table:
    """RFC 2544's longest bursts, with RFC 9004's corrected buffer time where there is one."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        found = record.back_to_back
        if found is None:
            continue
        limits = list(dict.fromkeys(burst.limited_by for burst in found.bursts))
        rows.append(
            (
                *_factors(record), len(found.bursts), found.mean_packets, found.least_packets, found.most_packets,
                found.sd_packets, found.reached_ratio, found.buffer_s, " ".join(limits), record.search_id,
            )
        )  # fmt: skip
        reached = UNKNOWN if found.reached_ratio is None else number(100 * found.reached_ratio)
        buffered = UNKNOWN if found.buffer_s is None else number(found.buffer_s * 1e3, 3)
        shown.append(
            (
                *_shown(record), str(len(found.bursts)), number(found.mean_packets), number(found.least_packets, 0),
                number(found.most_packets, 0), number(found.sd_packets), reached, buffered,
                ", ".join(LIMITS[limit] for limit in limits),
            )
        )  # fmt: skip
    return Table(
        name="back-to-back",
        title="Back-to-back frames (RFC 2544, section 26.4)",
        columns=(
            *FACTORS, "repetitions", "mean_packets", "least_packets", "most_packets", "sd_packets", "reached_ratio",
            "buffer_s", "limited_by", "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS, "n", "mean (packets)", "least", "most", "sd", "sent at (% of line rate)", "buffer (ms)",
            "limited by",
        ),
        shown=tuple(shown),
        note="Packets per source. Buffer: corrected by what is forwarded meanwhile (RFC 9004).",
    )  # fmt: skip


def latency(records: Sequence[SearchRecord]) -> Table:
    """Delay at the throughput that was found: one-way only where the clocks are shown to agree."""
    names = ("min", "mean", "p50", "p99", "p999", "max")
    varied = ("p50", "p99", "p999", "max")
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for record in records:
        found = record.latency
        if found is None:
            continue
        one_way, pdv = found.one_way_mean_ns or {}, found.pdv_mean_ns or {}
        rows.append(
            (
                *_factors(record), found.goal, found.load_pps, *(one_way.get(name) for name in names),
                *(pdv.get(name) for name in varied), found.reason, record.search_id,
            )
        )  # fmt: skip
        values = [one_way.get(name) for name in names] + [pdv.get(name) for name in varied]
        shown.append(
            (
                *_shown(record), found.goal, number(found.load_pps, 0),
                *(UNKNOWN if value is None else number(value / 1e3) for value in values),
            )
        )  # fmt: skip
    reasons = dict.fromkeys(r.latency.reason for r in records if r.latency is not None and r.latency.reason)
    return Table(
        name="latency",
        title="Delay at the throughput that was found (RFC 2544, section 26.2)",
        columns=(
            *FACTORS, "goal", "load_pps", *(f"one_way_{name}_ns" for name in names),
            *(f"pdv_{name}_ns" for name in varied), "no_one_way_because", "search_id",
        ),
        rows=tuple(rows),
        headings=(
            *HEADINGS, "goal", "load (pps)", *(f"{name} (µs)" for name in names),
            *(f"variation {name} (µs)" for name in varied),
        ),
        shown=tuple(shown),
        note="Means over streams and trials; variation is over the shortest delay of a trial."
        + "".join(f" No one-way delay: {reason}." for reason in reasons),
    )  # fmt: skip
