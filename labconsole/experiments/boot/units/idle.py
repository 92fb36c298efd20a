"""The cost of idle guests: context switches of the idle host (Quétier et al., section 5.2.1)."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.boot.summary import BootPointResult
from labconsole.experiments.boot.units.starts import PAPER, build_summary, format_set_up_mean
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.material import Material
from labconsole.report.reference import UNMATCHED_NOTE, describe_matching, format_printed_value

NAMES = ("before_switches_per_s", "standing_switches_per_s", "guest_switches_per_s")
SWITCHES = (
    "Context switches per second of the whole kernel of the unit under test, in some seconds of quiet shortly before "
    "the start and with all guests up. The agent of labconsole there is counted in both; it takes samples less often "
    "for more than ten guests"
)


def _switch_rates(point: BootPointResult) -> tuple[SetUpMean | None, ...]:
    return point.before_switches_per_s, point.standing_switches_per_s, point.guest_switches_per_s


def idle(material: Material) -> Table | None:
    """Build the table of every point at which switches were counted."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    summary = build_summary(material)
    for each in summary.points:
        found = _switch_rates(each)
        if not any(found):
            continue
        figures: list[Cell] = []
        for mean in found:
            figures += (None, None, None) if mean is None else (mean.mean, mean.ci_low, mean.ci_high)
        most = max((mean for mean in found if mean is not None), key=lambda mean: mean.trials)
        key, of = each.key, (most.trials, most.set_ups)
        rows.append(
            (key.platform, each.guests, key.start, *figures, *of, *build_environment_cells(key, summary.testbeds))
        )
        means = [format_set_up_mean(mean, 1.0, 1) for mean in found]
        shown.append((summary.names[key], str(each.guests), key.start, *means, *map(str, of)))
    if not rows:
        return None
    bounds = [column for name in NAMES for column in (name, f"{name}_ci_low", f"{name}_ci_high")]
    return Table(
        name="boot-idle",
        title="Context switches of a host of idle guests",
        columns=("platform", "guests", "start", *bounds, "trials", "set_ups", *ENVIRONMENT_COLUMNS),
        rows=tuple(rows),
        headings=(
            "platform",
            "guests",
            "start",
            "before, /s",
            "all idle, /s",
            "more for each guest, /s",
            "trials",
            "set-ups",
        ),
        shown=tuple(shown),
        note=f"{SWITCHES}. Mean ± half the 95 % interval over set-ups. More for each guest: the difference of a trial "
        "divided by its guests, unchanged even where it is negative.",
    )


def build_paper_table(material: Material) -> Table | None:
    """Build the table of each series' fewest guests, next to the paper's printed value for one guest."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    said = [row for row in paper.tables["numbers"] if row["topic"] == "scheduler"]
    summary = build_summary(material)
    fewest: dict[object, BootPointResult] = {}
    for each in summary.points:
        if any(_switch_rates(each)) and (each.key not in fewest or each.guests < fewest[each.key].guests):
            fewest[each.key] = each
    rows: list[tuple[str, ...]] = []
    for each in fewest.values():
        before, standing, _ = _switch_rates(each)
        theirs = names.get(each.key.platform)
        for row in said:
            host = row["guests"] == "0"
            if host or theirs is None or theirs == row["platform"]:
                own = (
                    ("0", format_set_up_mean(before, 1.0, 1))
                    if host
                    else (str(each.guests), format_set_up_mean(standing, 1.0, 1))
                )
                cells = summary.names[each.key], each.key.start, *own
                rows.append((*cells, row["platform"], format_printed_value(row), row["where"]))
    if not rows:
        return None
    return Table(
        name="boot-idle-beside",
        title="Switches of a host of idle guests compared with the paper's",
        columns=("platform", "start", "guests", "switches_per_s", "paper_platform", "paper", "where"),
        rows=tuple(rows),
        headings=("platform", "start", "guests", "switches/s", "the paper's", "the paper", "where"),
        shown=tuple(rows),
        note=f"{paper.cited()} {SWITCHES}. The paper counts calls of the scheduler in a kernel that was changed for "
        "it; a call that goes on with the same task switches nothing. It says that this does not suit VServer, "
        "whose guests are not scheduled. Own rows are of the fewest guests of each series. "
        f"{describe_matching((each.key.platform for each in summary.points), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


UNITS = (
    ReportUnit(name="boot-idle", place=119, make=idle),
    ReportUnit(name="boot-idle-beside", place=162, paper=(PAPER, "section 5.2.1"), make=build_paper_table),
)
