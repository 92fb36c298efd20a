"""A paper's tables next to one's own values: own, paper and difference, as far as both have a value.

They use one source and frame sizes without FCS.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from labconsole.contracts.report import ReportUnit, Table
from labconsole.report.claim_columns import derive_change_ratio, format_finding
from labconsole.report.claims import Claim
from labconsole.report.comparisons import SecondGuestSummary
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.points import CPU_LOADS, FORWARDING, Setting
from labconsole.report.table_builder import TableColumn, build_table, column, number_column

PAPER = "schlosser"


class ChangeRow(NamedTuple):
    """A change of a maximum in percent: one's own with its claim, and the paper's."""

    setting: Setting
    paper_platform: str
    claim: Claim
    own: float | None
    theirs: float

    @property
    def difference(self) -> float | None:
        return None if self.own is None else self.own - self.theirs


def changes(material: Material) -> Table | None:
    """Build the table of changes of the maximum under load of the processors, in percent."""
    paper, names, made = material.paper, material.paper_names, material.evaluation
    if paper is None or paper.name != PAPER:
        return None
    published = {
        (row["frame_size_b"], row["platform"], kind): float(row[f"{kind}_pct"])
        for row in paper.tables["table1"]
        for kind in CPU_LOADS
    }
    rows = []
    for change in made.cpu_loads:
        s = change.subject.setting
        theirs = published.get((str(s.frame.bytes), names.get(s.platform, ""), s.background))
        if theirs is not None and s.sources == 1 and not s.frame.includes_fcs:
            ratio = derive_change_ratio(change.claim, change.change_ratio)
            own = None if ratio is None else ratio * 100
            rows.append(ChangeRow(s, names[s.platform], change.claim, own, theirs))

    def show_own(row: ChangeRow) -> str:
        doubt = "" if row.claim.different else f" ({format_finding(row.claim, made.claims)})"
        return format_number(row.own) + doubt

    columns: list[TableColumn[ChangeRow]] = [
        column("frame_size_bytes", "size, B", lambda row: row.setting.frame.bytes),
        column("platform", "platform", lambda row: row.setting.platform),
        column("paper_platform", "paper's name", lambda row: row.paper_platform),
        column("background", "background", lambda row: row.setting.background),
        column("own_change_percent", "own, %", lambda row: row.own, show_own),
        number_column("paper_change_percent", "paper, %", lambda row: row.theirs),
        number_column("difference_percentage_points", "difference, points", lambda row: row.difference),
    ]
    return build_table(
        f"table-1-beside-{PAPER}",
        "Relative change of the maximum under CPU load, beside the paper's",
        columns,
        rows,
        paper.cited(1),
        beside_paper=True,
    )


class SecondGuestRow(NamedTuple):
    """A second guest's own load, and the paper's in Mbit/s."""

    guest: SecondGuestSummary
    paper_platform: str
    paper_offered: float
    paper_measured: float

    @property
    def offered(self) -> float:
        return self.guest.offered_bps.mean / 1e6

    @property
    def measured(self) -> float:
        return self.guest.measured_bps.mean / 1e6

    @property
    def lost_percent(self) -> float | None:
        return None if self.guest.lost_ratio is None else self.guest.lost_ratio * 100

    @property
    def paper_lost_percent(self) -> float:
        return (1 - self.paper_measured / self.paper_offered) * 100

    @property
    def lost_difference(self) -> float | None:
        return None if self.lost_percent is None else self.lost_percent - self.paper_lost_percent


def build_second_guest_table(material: Material, kind: str, number_of_table: int) -> Table | None:
    """Build the table of a second guest's offered and forwarded load, in Mbit/s."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    published = {
        (row["frame_size_b"], row["platform"]): (float(row["offered_mbps"]), float(row["measured_mbps"]))
        for row in paper.tables[f"table{number_of_table}"]
    }
    rows = []
    for guest in material.evaluation.second_guests:
        s = guest.setting
        paper_platform = names.get(s.platform, "")
        theirs = published.get((str(s.frame.bytes), paper_platform))
        if theirs is not None and s.background == kind and s.sources == 1 and not s.frame.includes_fcs:
            rows.append(SecondGuestRow(guest, paper_platform, *theirs))
    columns: list[TableColumn[SecondGuestRow]] = [
        column("frame_size_bytes", "size, B", lambda row: row.guest.setting.frame.bytes),
        column("platform", "platform", lambda row: row.guest.setting.platform),
        column("paper_platform", "paper's name", lambda row: row.paper_platform),
        number_column("own_offered_mbps", "in own, Mbit/s", lambda row: row.offered),
        number_column("paper_offered_mbps", "in paper", lambda row: row.paper_offered),
        number_column("difference_offered_mbps", "difference", lambda row: row.offered - row.paper_offered),
        number_column("own_measured_mbps", "out own, Mbit/s", lambda row: row.measured),
        number_column("paper_measured_mbps", "out paper", lambda row: row.paper_measured),
        number_column("difference_measured_mbps", "difference", lambda row: row.measured - row.paper_measured),
        number_column("own_lost_percent", "lost own, %", lambda row: row.lost_percent),
        number_column("paper_lost_percent", "lost paper, %", lambda row: row.paper_lost_percent),
        number_column("difference_lost_percentage_points", "difference, points", lambda row: row.lost_difference),
    ]
    share = kind.rpartition("-")[2]
    return build_table(
        f"table-{number_of_table}-beside-{PAPER}",
        f"Second guest at {share} % of its maximum, beside the paper's",
        columns,
        rows,
        f"{paper.cited(number_of_table)} What was lost is reckoned from the paper's in and out; a share of a "
        "maximum is comparable where the maxima are not.",
        beside_paper=True,
    )


UNITS = (
    ReportUnit(name="table-1-beside", place=10, paper=(PAPER, "table 1"), make=changes),
    *(
        ReportUnit(
            name=f"table-{number}-beside",
            place=10 * number,
            paper=(PAPER, f"table {number}"),
            make=partial(build_second_guest_table, kind=kind, number_of_table=number),
        )
        for number, kind in zip((2, 3), FORWARDING, strict=True)
    ),
)
