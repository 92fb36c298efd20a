"""The trials of jobs that a report uses, those it excludes and why, and the errors of guests' own clocks."""

from __future__ import annotations

from labconsole.contracts.report import Cell, Finding, Findings, MethodNote, Part, ReportUnit, Table
from labconsole.experiments.job.report_data import build_summary, describe_settings, format_copies, format_job
from labconsole.measure.hypervisors import describe_outer_hypervisors
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_noun_count, format_number
from labconsole.report.material import Material


def trials(material: Material) -> Table | None:
    """Build the table of every point: its time, and its number of trials."""
    summary = build_summary(material)
    if not summary.points:
        return None
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.points:
        key, mean = each.key, each.seconds
        out = ", ".join(f"{number} {code}" for code, number in each.left_out.items())
        set_ups = each.apart[0].set_ups if each.apart else None if mean is None else mean.set_ups
        guests = [sum(copy.mean for copy in of) / len(of) if of else None for of in each.times_by_guest]
        rows.append(
            (
                key.platform,
                key.job,
                key.size,
                key.guests,
                key.working,
                key.cpu,
                None if mean is None else mean.mean,
                None if mean is None else mean.ci_low,
                None if mean is None else mean.ci_high,
                None if each.slowest is None else each.slowest.mean,
                *guests,
                len(each.job_ids),
                set_ups,
                sum(each.left_out.values()),
                out,
                key.program,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        works = {"one": "one works", "all": "all work", "one-two": "one and two copies"}[key.working]
        shown.append(
            (
                key.platform,
                format_job(key),
                f"{describe_settings(summary, key, guests=True)}, {works}",
                format_copies(each),
                UNKNOWN if each.slowest is None else format_number(each.slowest.mean, 3),
                str(len(each.job_ids)),
                UNKNOWN if set_ups is None else str(set_ups),
                out or "none",
            )
        )
    newer = format_noun_count(summary.superseded, "trial") if summary.superseded else ""
    return Table(
        name="job-trials",
        title="Times of jobs in guests",
        columns=(
            "platform",
            "job",
            "size",
            "guests",
            "working",
            "cpu",
            "seconds",
            "ci_low_s",
            "ci_high_s",
            "slowest_s",
            "first_guest_s",
            "second_guest_s",
            "trials",
            "set_ups",
            "left_out",
            "left_out_codes",
            "program_sha256",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("platform", "job", "guests", "s", "slowest s", "trials", "set-ups", "left out"),
        shown=tuple(shown),
        note="Mean ± half the 95 % interval over set-ups, over the copies of a trial; of one and two copies, that of "
        "the first guest, and both of the second. Only valid trials enter"
        + (f"; {newer} of which a newer one is stored do not." if newer else "."),
    )


def clocks(material: Material) -> Table | None:
    """Build the table of inside over outside: the times by a guest's own clock."""
    points = [each for each in build_summary(material).points if each.clock_ratio is not None]
    if not points:
        return None
    of: dict[str, list[tuple[float, float, float]]] = {}
    for each in points:
        assert each.clock_ratio is not None
        of.setdefault(each.key.platform, []).append(each.clock_ratio)
    rows: list[tuple[Cell, ...]] = []
    for platform, ratios in sorted(of.items()):
        mean = sum(each[1] for each in ratios) / len(ratios)
        rows.append((platform, min(each[0] for each in ratios), mean, max(each[2] for each in ratios)))
    return Table(
        name="clock-ratio",
        title="Guests' own clocks against the one outside",
        columns=("platform", "least", "mean", "largest"),
        rows=tuple(rows),
        headings=("platform", "least", "mean", "largest"),
        shown=tuple((str(row[0]), *(format_number(float(cell or 0), 3) for cell in row[1:])) for row in rows),
        note="Time by the guest's uptime, which has two digits, over time by the clock outside. No time here rests on "
        "it.",
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
