"""How a report numbers what reproduces a paper."""

from __future__ import annotations

import pytest

from labconsole.contracts.report import ReportUnit, Table
from labconsole.measure.admission import admit
from labconsole.report.assembly import assemble_report
from labconsole.report.digest import Digest
from labconsole.report.evaluation import evaluate
from labconsole.report.material import Material
from labconsole.report.sample import select_sample


def unit(place: int, paper: tuple[str, str] | None, rows: int = 1) -> ReportUnit[Material]:
    table = Table(
        name=f"t{place}",
        title="A table",
        columns=("what",),
        headings=("what",),
        rows=(("x",),) * rows,
        shown=(("x",),) * rows,
    )
    return ReportUnit(name=table.name, place=place, paper=paper, make=lambda _: table)


@pytest.mark.parametrize(
    ("units", "numbers"),
    [
        (
            [unit(1, ("mattos", "figure 1")), unit(2, ("quetier", "figure 1"))],
            ["Mattos et al., figure 1", "Quétier et al., figure 1"],
        ),
        ([unit(1, ("mattos", "figure 1")), unit(2, ("quetier", "figure 1"), rows=0), unit(3, None)], ["Figure 1", ""]),
        (
            [unit(1, ("mattos", "figure 1")), unit(2, ("ours", "figure 1"))],
            ["Mattos et al., figure 1", "Ours, figure 1"],
        ),
    ],
)
def test_the_paper_is_named_where_several_have_a_figure_1(units: list[ReportUnit[Material]], numbers: list[str]):
    admission = admit((), set())
    made = assemble_report(select_sample((), admission), Digest(set(), {}), evaluate((), admission=admission), units)
    assert [table.number for table in made.tables] == numbers
