"""Start-up time and memory over the number of guests, and the cost of idle ones (Quétier et al., 3.2 and 5.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labconsole.contracts.report import Figure, Finding, Findings, MethodNote, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.summary import (
    BootLines,
    BootPointResult,
    BootsSummary,
    StartComparison,
    summarize_boots,
)
from labconsole.measure.statistics.regression import LineInBlocks, OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_caption, build_mark
from labconsole.report.formatting import format_mean, format_noun_count, format_ratio, format_span
from labconsole.report.material import Material
from labconsole.report.points import platform_order
from labconsole.report.reference import UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import (
    PaperRow,
    TableColumn,
    build_table,
    column,
    csv_column,
    effect_columns,
    environment_columns,
    join_columns,
    left_out_column,
    line_columns,
    mean_column,
    mean_columns,
    mean_value,
    number_column,
    paper_columns,
    printed_column,
)

# -- starts ------------------------------------------------------------------------------------------------------------
# Start-up time and memory over the number of guests (Quétier et al., section 3.2).

MIB = 2**20
CLOCK = "Until the last guest is up, by the clock outside, from the first start command"
PAPER = "quetier"


def build_summary(material: Material) -> BootsSummary:
    """Summarize all boot trials of the report."""
    return _summary(material.of("boot"), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """Return the p values of the comparisons of starts."""
    summary = _summary(experiments.get("boot", ()), ())
    found = (each.effect.p for each in (*summary.cold_against_hot, *summary.between_platforms))
    return [p for p in found if p is not None]


def _summary(records: Sequence[ExperimentRecord], family: Sequence[float]) -> BootsSummary:
    return summarize_boots((record for record in records if isinstance(record, BootRecord)), family)


def startup(material: Material) -> Figure | None:
    """Build the figure: a panel for cold and for hot, a curve per platform."""
    summary = build_summary(material)
    points, names = [each for each in summary.points if each.startup_s is not None], summary.names
    panels = []
    for start in dict.fromkeys(each.key.start for each in points):
        own = [each for each in points if each.key.start == start]
        curves = []
        for key in sorted({each.key for each in own}, key=lambda key: (platform_order(key.platform), key)):
            marks = [
                build_mark(each.guests, each.startup_s, scale=1.0)
                for each in own
                if each.key == key and each.startup_s is not None
            ]
            curves.append(PlottedCurve(names[key], tuple(marks)))
        panels.append(Panel(start, tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="quetier-2",
        title="Start-up time by number of guests",
        kind="curves",
        x_label="guests",
        y_label="seconds",
        panels=tuple(panels),
        caption=build_caption(CLOCK, panels),
        ideal=False,
    )


def times(material: Material) -> Table | None:
    """Build the table of every point, by both witnesses."""
    summary = build_summary(material)
    if not summary.points:
        return None
    names = summary.names
    columns: list[TableColumn[BootPointResult]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: names[each.key]),
        column("start", "start", lambda each: each.key.start),
        column("guests", "guests", lambda each: each.guests),
        mean_columns("startup_s", "s", lambda each: each.startup_s, places=3, bounds=("ci_low_s", "ci_high_s")),
        mean_column("ready_s", "by their word", lambda each: each.ready_s, places=3),
        number_column("between_guests_sd_s", "sd s", lambda each: mean_value(each.sd_s), 3),
        number_column("resolution_s", "known to s", lambda each: each.resolution_s, 4),
        column("trials", "trials", lambda each: each.startup_s.trials if each.startup_s else None),
        column("set_ups", "set-ups", lambda each: each.startup_s.set_ups if each.startup_s else None),
        left_out_column(lambda each: each.left_out),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "quetier-2-times",
        "Start-up times of guests",
        columns,
        summary.points,
        f"{CLOCK}; mean ± half the 95 % interval over set-ups: a set-up is one round of all points, in which a "
        "start may be repeated, each time with all guests started again. By their "
        "word: READY on their consoles, by the clock of the unit under test; sd: between guests. Known to: how far off "
        "the time of the coarsest trial may be, as the clocks were compared and as guests look for the timekeeper in "
        "steps (installed ones: as the way into them is tried in steps); no interval contains it. Only valid trials "
        "enter, of each the newest.",
    )


def compared(material: Material) -> Table | None:
    """Build the table of cold against hot, and of every two platforms, at equal numbers of guests."""
    summary = build_summary(material)
    found = (*summary.cold_against_hot, *summary.between_platforms)
    if not found:
        return None
    names = summary.names
    columns: list[TableColumn[StartComparison]] = [
        csv_column("platform", lambda each: each.key.platform),
        csv_column("start", lambda each: each.key.start),
        csv_column("than_platform", lambda each: each.than.platform),
        csv_column("than_start", lambda each: each.than.start),
        printed_column("start-up time of", lambda each: f"{names[each.key]}, {each.key.start}"),
        printed_column("over that of", lambda each: f"{names[each.than]}, {each.than.start}"),
        column("guests", "guests", lambda each: each.guests),
        effect_columns("longer_ratio", "times", lambda each: each.effect, format_ratio),
        column("blocks", "blocks", lambda each: each.effect.blocks),
        csv_column("p", lambda each: each.effect.p),
        number_column("adjusted_p", "p (Holm)", lambda each: each.adjusted_p, 3),
        column("word", "finding", lambda each: each.word),
        environment_columns(lambda each: each.key, summary.testbeds),
        csv_column("than_hypervisor", lambda each: each.than.hypervisor or None),
    ]
    return build_table(
        "quetier-2-compared",
        "Start-up times compared",
        columns,
        found,
        "Geometric mean of the blocks' ratios with its 95 % interval, paired by block; all rows are one family.",
    )


def findings(material: Material) -> Findings | None:
    """Return the findings that may be claimed."""
    summary = build_summary(material)
    names, found = summary.names, list[Finding]()
    ids = {(each.key, each.guests): each.boot_ids for each in summary.points}
    for each in (*summary.cold_against_hot, *summary.between_platforms):
        if "different" in each.word and each.effect.change is not None:
            start, than = f"{names[each.key]} ({each.key.start})", f"{names[each.than]} ({each.than.start})"
            longer = f"{format_ratio(each.effect)} times as long to start as of {than}: {each.word}"
            sentence = (
                f"{start}: {format_noun_count(each.guests, 'guest')} {'takes' if each.guests == 1 else 'take'} {longer}"
            )
            found.append(Finding(sentence, ids[each.key, each.guests] + ids[each.than, each.guests]))
    return Findings(kind="boot_compared", heading="Starts of guests", found=tuple(found), claims=True, evidence="trial")


def memory(material: Material) -> Table | None:
    """Build the table of the memory per guest and the memory for any number of guests, by each witness."""
    summary = build_summary(material)
    found = [each for each in summary.lines if _memory_lines(each)]
    if not found:
        return None
    names = summary.names
    columns: list[TableColumn[BootLines]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: names[each.key]),
        column("start", "start", lambda each: each.key.start),
        _witness_columns("available", "available", lambda each: each.used_bytes),
        _witness_columns("processes", "processes", lambda each: each.pss_bytes),
        _witness_columns("control_groups", "groups", lambda each: each.cgroup_bytes),
        _witness_columns("hypervisor", "hypervisor", lambda each: each.hypervisor_bytes),
        column("fewest_blocks", "blocks", lambda each: min(_blocks(each)), lambda each: format_span(_blocks(each))),
        column("word", "finding", lambda each: _describe_lines(_memory_lines(each))),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "quetier-memory",
        "Memory of guests: each guest's, and the tool's",
        columns,
        found,
        "M(n) = M_tool + m · n by least squares within each block that has all numbers of guests; means over "
        "blocks, with 95 % intervals (Student's t over blocks), all guests up and quiet. No interval of fewer than "
        "three blocks or numbers of guests. No line: the quadratic term of one witness excludes zero. "
        "Available: by how much less memory is available on the unit under test; processes: proportional set size of "
        "the guests' processes; groups: of their control groups, where they have some; hypervisor: by its own word, "
        "where it has one.",
    )


def _witness_columns(
    name: str, heading: str, line: Callable[[BootLines], LineInBlocks | None]
) -> TableColumn[BootLines]:
    """What each guest takes by one witness of memory, and what the tool takes. ``line``: of this witness."""

    def each_guest(lines: BootLines) -> OverBlocks | None:
        found = line(lines)
        return None if found is None else found.slope

    def tool_itself(lines: BootLines) -> OverBlocks | None:
        found = line(lines)
        return None if found is None else found.constant

    guest, tool = f"{name}_guest", f"{name}_tool"
    columns: list[TableColumn[BootLines]] = [
        line_columns(
            f"{guest}_bytes",
            f"MiB a guest, {heading}",
            each_guest,
            1,
            MIB,
            bounds=(f"{guest}_ci_low_bytes", f"{guest}_ci_high_bytes"),
        ),
        line_columns(
            f"{tool}_bytes",
            "tool",
            tool_itself,
            1,
            MIB,
            bounds=(f"{tool}_ci_low_bytes", f"{tool}_ci_high_bytes"),
        ),
    ]
    return join_columns(columns)


def _memory_lines(each: BootLines) -> list[LineInBlocks]:
    """The lines of the witnesses of memory that have one: the decrease of the UUT's available memory, processes,
    control groups, and the hypervisor's report.
    """
    lines = (each.used_bytes, each.pss_bytes, each.cgroup_bytes, each.hypervisor_bytes)
    return [line for line in lines if line is not None]


def _blocks(each: BootLines) -> list[int]:
    return [line.blocks for line in _memory_lines(each)]


def method(material: Material) -> MethodNote | None:
    """Describe how the times are taken."""
    if not material.of("boot"):
        return None
    return MethodNote(
        "Starts of guests",
        "All guests are started at once, again in each trial. A guest is up when the ping that it sends then reaches a "
        "node outside; its word on its console is a second witness. Cold: none of the files that guests start from is "
        "in the page cache; hot: all are.",
    )


def _describe_lines(lines: Sequence[LineInBlocks]) -> str:
    """Return why there are no intervals, or whether lines describe the data."""
    absent = dict.fromkeys(line.absent for line in lines if line.absent is not None)
    if absent:
        return ", ".join(absent)
    return "no line" if any(line.bent for line in lines) else "a line, as far as can be told"


# -- idle guests -------------------------------------------------------------------------------------------------------
# The cost of idle guests: context switches of the idle host (Quétier et al., section 5.2.1).

SWITCHES = (
    "Context switches per second of the whole kernel of the unit under test, in some seconds of quiet shortly before "
    "the start and with all guests up. The agent of labconsole there is counted in both; it takes samples less often "
    "for more than ten guests"
)


def _switch_rates(point: BootPointResult) -> tuple[SetUpMean | None, ...]:
    return point.before_switches_per_s, point.standing_switches_per_s, point.guest_switches_per_s


def idle(material: Material) -> Table | None:
    """Build the table of every point at which switches were counted."""
    summary = build_summary(material)
    found = [each for each in summary.points if any(_switch_rates(each))]
    if not found:
        return None
    columns: list[TableColumn[BootPointResult]] = [
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.names[each.key]),
        column("guests", "guests", lambda each: each.guests),
        column("start", "start", lambda each: each.key.start),
        mean_columns("before_switches_per_s", "before, /s", lambda each: each.before_switches_per_s, places=1),
        mean_columns("standing_switches_per_s", "all idle, /s", lambda each: each.standing_switches_per_s, places=1),
        mean_columns(
            "guest_switches_per_s", "more for each guest, /s", lambda each: each.guest_switches_per_s, places=1
        ),
        column("trials", "trials", lambda each: _find_most_trials(each).trials),
        column("set_ups", "set-ups", lambda each: _find_most_trials(each).set_ups),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "boot-idle",
        "Context switches of a host of idle guests",
        columns,
        found,
        f"{SWITCHES}. Mean ± half the 95 % interval over set-ups. More for each guest: the difference of a trial "
        "divided by its guests, unchanged even where it is negative.",
    )


def _find_most_trials(point: BootPointResult) -> SetUpMean:
    """Return the mean of the three rates that has the most trials."""
    return max((mean for mean in _switch_rates(point) if mean is not None), key=lambda mean: mean.trials)


def build_paper_table(material: Material) -> Table | None:
    """Build the table of each series' fewest guests, next to the paper's printed value for one guest."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    summary = build_summary(material)
    fewest: dict[object, BootPointResult] = {}
    for each in summary.points:
        if any(_switch_rates(each)) and (each.key not in fewest or each.guests < fewest[each.key].guests):
            fewest[each.key] = each
    rows = [
        PaperRow(each, row)
        for each in fewest.values()
        for row in paper.tables["numbers"]
        if row["topic"] == "scheduler"
        and (row["guests"] == "0" or names.get(each.key.platform) in (None, row["platform"]))
    ]
    if not rows:
        return None

    def switches(row: PaperRow[BootPointResult]) -> str:
        """Of the host before the start, if that is what the paper's row is of."""
        own = row.own.before_switches_per_s if row.paper["guests"] == "0" else row.own.standing_switches_per_s
        return format_mean(own, places=1)

    columns: list[TableColumn[PaperRow[BootPointResult]]] = [
        column("platform", "platform", lambda row: summary.names[row.own.key]),
        column("start", "start", lambda row: row.own.key.start),
        column("guests", "guests", lambda row: "0" if row.paper["guests"] == "0" else str(row.own.guests)),
        column("switches_per_s", "switches/s", switches),
        paper_columns("the paper's"),
    ]
    return build_table(
        "boot-idle-beside",
        "Switches of a host of idle guests compared with the paper's",
        columns,
        rows,
        f"{paper.cited()} {SWITCHES}. The paper counts calls of the scheduler in a kernel that was changed for "
        "it; a call that goes on with the same task switches nothing. It says that this does not suit VServer, "
        "whose guests are not scheduled. Own rows are of the fewest guests of each series. "
        f"{describe_matching((each.key.platform for each in summary.points), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


UNITS = (
    ReportUnit(name="quetier-2", place=115, paper=(PAPER, "figure 2"), make=startup),
    ReportUnit(name="quetier-2-times", place=116, make=times),
    ReportUnit(name="quetier-2-compared", place=117, make=compared, claims=claimed),
    ReportUnit(name="quetier-memory", place=118, make=memory),
    ReportUnit(name="boot-findings", place=115, make=findings),
    ReportUnit(name="boot-words", place=115, make=method),
    ReportUnit(name="boot-idle", place=119, make=idle),
    ReportUnit(name="boot-idle-beside", place=162, paper=(PAPER, "section 5.2.1"), make=build_paper_table),
)
