"""A paper's tables next to one's own values: own, paper and difference, as far as both have a value.

They use one source and frame sizes without FCS.
"""

from __future__ import annotations

from functools import partial

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.report.claim_cells import derive_change_ratio, format_finding
from labconsole.report.formatting import UNKNOWN, format_number, size_cells
from labconsole.report.material import Material
from labconsole.report.points import CPU_LOADS, FORWARDING

PAPER = "schlosser"


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
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for change in made.cpu_loads:
        s = change.subject.setting
        size_bytes, includes_fcs = size_cells(s.frame)
        theirs = published.get((str(size_bytes), names.get(s.platform, ""), s.background))
        if theirs is None or s.sources != 1 or includes_fcs:
            continue
        ratio = derive_change_ratio(change.claim, change.change_ratio)
        own = None if ratio is None else ratio * 100
        differs = None if own is None else own - theirs
        paper_name = names[s.platform]
        rows.append((size_bytes, s.platform, paper_name, s.background, own, theirs, differs))
        own_text, theirs_text, differs_text = (
            UNKNOWN if v is None else format_number(v) for v in (own, theirs, differs)
        )
        if not change.claim.different:
            own_text += f" ({format_finding(change.claim, made.claims)})"
        shown.append((str(size_bytes), s.platform, paper_name, s.background, own_text, theirs_text, differs_text))
    return Table(
        name=f"table-1-beside-{PAPER}",
        title="Relative change of the maximum under CPU load, beside the paper's",
        columns=(
            "frame_size_bytes",
            "platform",
            "paper_platform",
            "background",
            "own_change_percent",
            "paper_change_percent",
            "difference_percentage_points",
        ),
        rows=tuple(rows),
        headings=("size, B", "platform", "paper's name", "background", "own, %", "paper, %", "difference, points"),
        shown=tuple(shown),
        note=paper.cited(1),
        beside_paper=True,
    )


def build_second_guest_table(material: Material, kind: str, number_of_table: int) -> Table | None:
    """Build the table of a second guest's offered and forwarded load, in Mbit/s."""
    paper, names = material.paper, material.paper_names
    if paper is None or paper.name != PAPER:
        return None
    published = {
        (row["frame_size_b"], row["platform"]): (float(row["offered_mbps"]), float(row["measured_mbps"]))
        for row in paper.tables[f"table{number_of_table}"]
    }
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for guest in material.evaluation.second_guests:
        s = guest.setting
        size_bytes, includes_fcs = size_cells(s.frame)
        paper_name = names.get(s.platform, "")
        theirs = published.get((str(size_bytes), paper_name))
        if theirs is None or s.background != kind or s.sources != 1 or includes_fcs:
            continue
        offered, measured = guest.offered_bps.mean / 1e6, guest.measured_bps.mean / 1e6
        own_lost = None if guest.lost_ratio is None else guest.lost_ratio * 100
        lost = (1 - theirs[1] / theirs[0]) * 100
        figures = (offered, theirs[0], offered - theirs[0], measured, theirs[1], measured - theirs[1], own_lost, lost)
        differs = None if own_lost is None else own_lost - lost
        rows.append((size_bytes, s.platform, paper_name, *figures, differs))
        cells = (UNKNOWN if value is None else format_number(value) for value in (*figures, differs))
        shown.append((str(size_bytes), s.platform, paper_name, *cells))
    share = kind.rpartition("-")[2]
    return Table(
        name=f"table-{number_of_table}-beside-{PAPER}",
        title=f"Second guest at {share} % of its maximum, beside the paper's",
        columns=(
            "frame_size_bytes",
            "platform",
            "paper_platform",
            "own_offered_mbps",
            "paper_offered_mbps",
            "difference_offered_mbps",
            "own_measured_mbps",
            "paper_measured_mbps",
            "difference_measured_mbps",
            "own_lost_percent",
            "paper_lost_percent",
            "difference_lost_percentage_points",
        ),
        rows=tuple(rows),
        headings=(
            "size, B",
            "platform",
            "paper's name",
            "in own, Mbit/s",
            "in paper",
            "difference",
            "out own, Mbit/s",
            "out paper",
            "difference",
            "lost own, %",
            "lost paper, %",
            "difference, points",
        ),
        shown=tuple(shown),
        note=(
            f"{paper.cited(number_of_table)} What was lost is reckoned from the paper's in and out; a share of a "
            "maximum is comparable where the maxima are not."
        ),
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
