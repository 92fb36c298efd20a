"""A figure, table or finding is one file: a toy of each, in a directory of its own, is found wherever a report is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.forwarding import units
from labconsole.experiments.units import report_units
from labconsole.model.plan.file import CLAIMS
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import taken

REPORT = Path(__file__).parents[2] / "labconsole" / "report"

TOY = """
from labconsole.contracts.report import Figure, Finding, Findings, Mark, MethodNote, Panel, PlottedCurve, ReportUnit
from labconsole.report.table_builder import build_table, column


def make(material):
    runs = tuple(run.run_id for run in material.kept.entered)
    curve = PlottedCurve("toy", (Mark(0, len(runs), None, None, 1),))
    return [
        Figure(
            name="toy-figure", title="Toy figure", kind="bars", x_label="x", y_label="y",
            panels=(Panel("toy", (curve,)),), caption="Drawn by a toy.", x_names=("toy",),
        ),
        build_table("toy-table", "Toy table", [column("runs", "runs", len)], [runs]),
        Findings(kind="toy", heading="What a toy finds", found=(Finding("A toy was here.", runs),)),
        MethodNote("Toys", "reckoned by playing"),
    ]


UNITS = (ReportUnit(name="toy", place=1, paper=("carroll", "figure 42"), make=make),)
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs in a store, and a toy in a directory that is searched for units."""
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "toy.py").write_text(TOY)
    monkeypatch.setattr(units, "__path__", [*units.__path__, str(tmp_path / "toys")])
    with open_store(str(tmp_path / "runs.sqlite")) as opened:
        import_records(opened, [taken(n, 90 + n) for n in range(3)])
    return tmp_path / "runs.sqlite"


def test_a_toy_is_in_files_page_json_and_terminal(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = store.parent / "out"
    assert main(["report", "--store", str(store), "--out", str(out), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (table,) = (line for line in lines if line.get("table") == "toy-table")
    assert table["rows"] == [{"runs": 3}]
    (finding,) = (line for line in lines if line.get("finding") == "toy")
    assert (finding["claim"], finding["sentence"], len(finding["run_ids"])) == (False, "A toy was here.", 3)
    assert {"toy-figure.svg", "toy-figure.pdf", "toy-table.csv", "toy-table.tex"} <= {
        file.name for file in out.iterdir()
    }
    page = (out / "report.html").read_text()
    for words in (
        "Carroll, figure 42. Toy figure",
        "Carroll, figure 42. Toy table",
        "What a toy finds",
        "A toy was here.",
        "by playing",
    ):
        assert words in page
    assert "Drawn by a toy. Emulated testbed" in page
    assert main(["report", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "Toy figure" in shown and "A toy was here." in shown


def test_the_toy_goes_with_its_directory() -> None:
    assert "toy" not in {unit.name for unit in report_units()}


def test_the_report_knows_no_figure_by_name() -> None:
    """But for the names by which plans say what may claim something: the evaluation asks its questions under these."""
    numbered = re.compile(r"(figure|table)[-_]\d")
    found = {word for path in REPORT.rglob("*.py") for word in re.findall(r"[\w-]+", path.read_text())}
    assert {word for word in found if numbered.match(word)} <= set(CLAIMS)
