"""The trials of jobs that a report uses, those it excludes and why, and the errors of guests' own clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from labconsole.contracts.report import Finding, Findings, MethodNote, Part, ReportUnit, Table
from labconsole.experiments.job.points import PointTimes
from labconsole.experiments.job.report_data import (
    build_summary,
    describe_settings,
    format_copies,
    format_job,
    job_columns,
)
from labconsole.measure.paired_blocks import describe_outer_hypervisors
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.formatting import format_noun_count, format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    environment_columns,
    left_out_column,
    mean_columns,
    mean_value,
    number_column,
)

WORKING = {"one": "one works", "all": "all work", "one-two": "one and two copies"}


def trials(material: Material) -> Table | None:
    """Build the table of every point: its time, and its number of trials."""
    summary = build_summary(material)
    if not summary.points:
        return None
    columns: list[TableColumn[PointTimes]] = [
        job_columns(lambda each: each.key),
        csv_column("guests", lambda each: each.key.guests),
        column(
            "working",
            "guests",
            lambda each: each.key.working,
            lambda each: f"{describe_settings(summary, each.key, guests=True)}, {WORKING[each.key.working]}",
        ),
        csv_column("cpu", lambda each: each.key.cpu),
        mean_columns("seconds", "s", lambda each: each.seconds, bounds=("ci_low_s", "ci_high_s"), show=format_copies),
        number_column("slowest_s", "slowest s", lambda each: mean_value(each.slowest), 3),
        csv_column("first_guest_s", lambda each: _mean_of_copies(each.times_by_guest[0])),
        csv_column("second_guest_s", lambda each: _mean_of_copies(each.times_by_guest[1])),
        column("trials", "trials", lambda each: len(each.job_ids)),
        column("set_ups", "set-ups", _count_set_ups),
        csv_column("left_out", lambda each: sum(each.left_out.values())),
        left_out_column(lambda each: each.left_out),
        csv_column("program_sha256", lambda each: each.key.program),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    newer = format_noun_count(summary.superseded, "trial") if summary.superseded else ""
    return build_table(
        "job-trials",
        "Times of jobs in guests",
        columns,
        summary.points,
        "Mean ± half the 95 % interval over set-ups, over the copies of a trial; of one and two copies, that of "
        "the first guest, and both of the second. Only valid trials enter"
        + (f"; {newer} of which a newer one is stored do not." if newer else "."),
    )


def _mean_of_copies(copies: Sequence[SetUpMean]) -> float | None:
    return sum(copy.mean for copy in copies) / len(copies) if copies else None


def _count_set_ups(point: PointTimes) -> int | None:
    if point.apart:
        return point.apart[0].set_ups
    return point.seconds.set_ups if point.seconds else None


class ClockRow(NamedTuple):
    """The clocks of one platform's guests: the least, mean and largest ratio of its points."""

    platform: str
    least: float
    mean: float
    largest: float


def clocks(material: Material) -> Table | None:
    """Build the table of inside over outside: the times by a guest's own clock."""
    points = [each for each in build_summary(material).points if each.clock_ratio is not None]
    if not points:
        return None
    of: dict[str, list[tuple[float, float, float]]] = {}
    for each in points:
        assert each.clock_ratio is not None
        of.setdefault(each.key.platform, []).append(each.clock_ratio)
    rows = [
        ClockRow(
            platform,
            min(each[0] for each in ratios),
            sum(each[1] for each in ratios) / len(ratios),
            max(each[2] for each in ratios),
        )
        for platform, ratios in sorted(of.items())
    ]
    columns: list[TableColumn[ClockRow]] = [
        column("platform", "platform", lambda row: row.platform),
        number_column("least", "least", lambda row: row.least, 3),
        number_column("mean", "mean", lambda row: row.mean, 3),
        number_column("largest", "largest", lambda row: row.largest, 3),
    ]
    return build_table(
        "clock-ratio",
        "Guests' own clocks against the one outside",
        columns,
        rows,
        "Time by the guest's uptime, which has two digits, over time by the clock outside. No time here rests on it.",
    )


def method(material: Material) -> list[Part] | None:
    """Describe the claims, and how the times are taken."""
    summary = build_summary(material)
    if not summary.points:
        return None
    ids = {each.key: each.job_ids for each in summary.points}
    found = [
        Finding(
            f"{format_job(each.key)} takes {format_number(each.effect.change * 100, 1)} % longer "
            f"in {each.key.platform} "
            f"({describe_settings(summary, each.key, guests=True)}) than on the bare host "
            f"({format_number(each.effect.ci_low * 100, 1)} to {format_number(each.effect.ci_high * 100, 1)} %): "
            f"{each.word}",
            ids[each.key],
        )
        for each in summary.overheads
        if "different" in each.word
        and each.effect.change is not None
        and each.effect.ci_low is not None
        and each.effect.ci_high is not None
    ]
    note = MethodNote(
        "Jobs in guests",
        "A node outside takes the time: it keeps the kernel's stamps of a ping before and one after the work of each "
        "guest; the time of an empty job, measured in the same crew, is subtracted. A set-up (a crew from its making "
        "to its end) is one replicate. The mean is over set-ups, with its 95 % interval by Student's t. A job grows "
        "with the number of guests if the interval of its slopes within blocks lies above 0, and is flat if all of it "
        "lies within 5 % in a hundred guests; these words are not adjusted. Nothing is concluded from times that the "
        "link limited, or for disks from data that memory may have provided. Two guests on one processor, with one "
        "copy and with two, are kept apart between guests if both ratios' intervals lie within 1.8 to 2.2 and 2.7 to "
        "3.3." + describe_outer_hypervisors(each.key for each in summary.points),
    )
    return [
        Findings(kind="job_overhead", heading="Programs in guests", found=tuple(found), claims=True, evidence="trial"),
        note,
    ]


UNITS = (
    ReportUnit(name="job-trials", place=150, make=trials),
    ReportUnit(name="clock-ratio", place=160, make=clocks),
    ReportUnit(name="job-words", place=100, make=method),
)
