"""Start-up time and memory over the number of guests (Quétier et al., section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.report import (
    Cell,
    Figure,
    Finding,
    Findings,
    MethodNote,
    Panel,
    PlottedCurve,
    ReportUnit,
    Table,
)
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.summary import BootsSummary, summarize_boots
from labconsole.measure.statistics.line_in_blocks import LineInBlocks, OverBlocks
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_caption, build_mark
from labconsole.report.effect_formatting import format_ratio
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_noun_count, format_number
from labconsole.report.material import Material
from labconsole.report.points import platform_order

MIB = 2**20
CLOCK = "Until the last guest is up, by the clock outside, from the first start command"
WITNESSES = ("used_bytes", "pss_bytes", "cgroup_bytes", "hypervisor_bytes")
"""Witnesses of memory: decrease of the UUT's available memory, processes, control groups, and the hypervisor's
report.
"""

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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.points:
        out = ", ".join(f"{times} {code}" for code, times in each.left_out.items())
        mean, ready, own = each.startup_s, each.ready_s, each.sd_s
        rows.append(
            (
                each.key.platform,
                each.key.start,
                each.guests,
                *_interval(mean),
                None if ready is None else ready.mean,
                None if own is None else own.mean,
                each.resolution_s,
                None if mean is None else mean.trials,
                None if mean is None else mean.set_ups,
                out,
                *build_environment_cells(each.key, summary.testbeds),
            )
        )
        shown.append(
            (
                names[each.key],
                each.key.start,
                str(each.guests),
                format_set_up_mean(mean, 1.0, 3),
                format_set_up_mean(ready, 1.0, 3),
                UNKNOWN if own is None else format_number(own.mean, 3),
                UNKNOWN if each.resolution_s is None else format_number(each.resolution_s, 4),
                UNKNOWN if mean is None else str(mean.trials),
                UNKNOWN if mean is None else str(mean.set_ups),
                out or "none",
            )
        )
    return Table(
        name="quetier-2-times",
        title="Start-up times of guests",
        columns=(
            "platform",
            "start",
            "guests",
            "startup_s",
            "ci_low_s",
            "ci_high_s",
            "ready_s",
            "between_guests_sd_s",
            "resolution_s",
            "trials",
            "set_ups",
            "left_out_codes",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "start",
            "guests",
            "s",
            "by their word",
            "sd s",
            "known to s",
            "trials",
            "set-ups",
            "left out",
        ),
        shown=tuple(shown),
        note=f"{CLOCK}; mean ± half the 95 % interval over set-ups: a set-up is one round of all points, in which a "
        "start may be repeated, each time with all guests anew. By their "
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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in found:
        key, than, effect = each.key, each.than, each.effect
        figures = (effect.change, effect.ci_low, effect.ci_high, effect.blocks, effect.p, each.adjusted_p, each.word)
        rows.append(
            (
                key.platform,
                key.start,
                than.platform,
                than.start,
                each.guests,
                *figures,
                *build_environment_cells(key, summary.testbeds),
                than.hypervisor or None,
            )
        )
        shown.append(
            (
                f"{names[key]}, {key.start}",
                f"{names[than]}, {than.start}",
                str(each.guests),
                format_ratio(effect),
                str(effect.blocks),
                UNKNOWN if each.adjusted_p is None else format_number(each.adjusted_p, 3),
                each.word,
            )
        )
    return Table(
        name="quetier-2-compared",
        title="Start-up times compared",
        columns=(
            "platform",
            "start",
            "than_platform",
            "than_start",
            "guests",
            "longer_ratio",
            "longer_ratio_ci_low",
            "longer_ratio_ci_high",
            "blocks",
            "p",
            "adjusted_p",
            "word",
            *ENVIRONMENT_COLUMNS,
            "than_hypervisor",
        ),
        rows=tuple(rows),
        headings=("start-up time of", "over that of", "guests", "times", "blocks", "p (Holm)", "finding"),
        shown=tuple(shown),
        note="Geometric mean of the blocks' ratios with its 95 % interval, paired by block; all rows are one family.",
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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    summary = build_summary(material)
    names = summary.names
    for each in summary.lines:
        lines = [getattr(each, name) for name in WITNESSES]
        if not any(line is not None for line in lines):
            continue
        figures: list[Cell] = []
        for line in lines:
            figures += (
                [None] * 6
                if line is None
                else [cell for part in (line.slope, line.constant) for cell in (part.mean, part.low, part.high)]
            )
        known = [line for line in lines if line is not None]
        blocks, word = {line.blocks for line in known}, _says(known)
        figures += [min(blocks), word]
        rows.append((each.key.platform, each.key.start, *figures, *build_environment_cells(each.key, summary.testbeds)))
        cells = [word for line in lines for word in format_line(line)]
        of = f"{min(blocks)}" if len(blocks) == 1 else f"{min(blocks)} to {max(blocks)}"
        shown.append((names[each.key], each.key.start, *cells, of, word))
    if not rows:
        return None
    parts = ("guest", "guest_ci_low", "guest_ci_high", "tool", "tool_ci_low", "tool_ci_high")
    witnesses = ("available", "processes", "control_groups", "hypervisor")
    figures_of = [f"{witness}_{part}_bytes" for witness in witnesses for part in parts]
    return Table(
        name="quetier-memory",
        title="Memory of guests: each guest's, and the tool's",
        columns=("platform", "start", *figures_of, "fewest_blocks", "word", *ENVIRONMENT_COLUMNS),
        rows=tuple(rows),
        headings=(
            "platform",
            "start",
            "MiB a guest, available",
            "tool",
            "MiB a guest, processes",
            "tool",
            "MiB a guest, groups",
            "tool",
            "MiB a guest, hypervisor",
            "tool",
            "blocks",
            "finding",
        ),
        shown=tuple(shown),
        note="M(n) = M_tool + m · n by least squares within each block that has all numbers of guests; means over "
        "blocks, with 95 % intervals (Student's t over blocks), all guests up and quiet. No interval of fewer than "
        "three blocks or numbers of guests. No line: the quadratic term of one witness excludes zero. "
        "Available: by how much less memory is available on the unit under test; processes: proportional set size of "
        "the guests' processes; groups: of their control groups, where they have some; hypervisor: by its own word, "
        "where it has one.",
    )


def method(material: Material) -> MethodNote | None:
    """Describe how the times are taken."""
    if not material.of("boot"):
        return None
    return MethodNote(
        "Starts of guests",
        "All guests are started at once, each trial anew. A guest is up when the ping that it sends then reaches a "
        "node outside; its word on its console is a second witness. Cold: none of the files that guests start from is "
        "in the page cache; hot: all are.",
    )


def _interval(found: SetUpMean | None) -> tuple[Cell, Cell, Cell]:
    return (None, None, None) if found is None else (found.mean, found.ci_low, found.ci_high)


def format_set_up_mean(found: SetUpMean | None, unit: float, places: int) -> str:
    if found is None:
        return UNKNOWN
    half_width = found.half_width if found.scope == "set-ups" else None  # one set-up does not represent others
    half = "" if half_width is None else f" ± {format_number(half_width / unit, places)}"
    return f"{format_number(found.mean / unit, places)}{half}"


def _says(lines: Sequence[LineInBlocks]) -> str:
    """Return why there are no intervals, or whether lines describe the data."""
    absent = dict.fromkeys(line.absent for line in lines if line.absent is not None)
    if absent:
        return ", ".join(absent)
    return "no line" if any(line.bent for line in lines) else "a line, as far as can be told"


def format_line(line: LineInBlocks | None) -> tuple[str, str]:
    if line is None:
        return UNKNOWN, UNKNOWN

    def part(each: OverBlocks) -> str:
        mean = format_number(each.mean / MIB)
        if each.low is None or each.high is None:
            return mean
        return f"{mean} ({format_number(each.low / MIB)} to {format_number(each.high / MIB)})"

    return part(line.slope), part(line.constant)


UNITS = (
    ReportUnit(name="quetier-2", place=115, paper=(PAPER, "figure 2"), make=startup),
    ReportUnit(name="quetier-2-times", place=116, make=times),
    ReportUnit(name="quetier-2-compared", place=117, make=compared, claims=claimed),
    ReportUnit(name="quetier-memory", place=118, make=memory),
    ReportUnit(name="boot-findings", place=115, make=findings),
    ReportUnit(name="boot-words", place=115, make=method),
)
