"""The cost of idle guests: context switches of the idle host (Quétier et al., section 5.2.1)."""

from __future__ import annotations

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.boot.summary import BootPointResult
from labconsole.experiments.boot.units.starts import PAPER, build_summary
from labconsole.measure.statistics.set_ups import SetUpMean
from labconsole.report.formatting import format_mean
from labconsole.report.guest_columns import environment_columns
from labconsole.report.material import Material
from labconsole.report.paper_columns import PaperRow, paper_columns
from labconsole.report.reference import UNMATCHED_NOTE, describe_matching
from labconsole.report.table_builder import TableColumn, build_table, column, mean_columns

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
        "divided by its guests, as it is, also where it is negative.",
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
        "Switches of a host of idle guests beside the paper's",
        columns,
        rows,
        f"{paper.cited()} {SWITCHES}. The paper counts calls of the scheduler in a kernel that was changed for "
        "it; a call that goes on with the same task switches nothing. It says that this does not suit VServer, "
        "whose guests are not scheduled. Own rows are of the fewest guests of each series. "
        f"{describe_matching((each.key.platform for each in summary.points), names, UNMATCHED_NOTE)}",
        beside_paper=True,
    )


UNITS = (
    ReportUnit(name="boot-idle", place=119, make=idle),
    ReportUnit(name="boot-idle-beside", place=162, paper=(PAPER, "section 5.2.1"), make=build_paper_table),
)
