"""The pages of results: validation.md and evaluation*.md agree with the CSV files next to them, and so do their writers."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden" / "format-2"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "validation")]

import document  # noqa: E402
from tables import NO, YES, Table  # noqa: E402

import evaluation  # noqa: E402

CONDITIONS = document.Conditions(time="later", commit="abc", machine="elsewhere")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


# -- validation --------------------------------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Two tables of a document, the second with a row that fails."""
    path = tmp_path / "x.md"
    path.write_text(
        f"above\n{document.BEGIN}\n### 3. T3\n\nWhat it is.\n\n### 9. Later\n\nSoon.\n\n{document.END}below\n"
    )
    first, third = (Table(f"{number}. T{number}", ("a", "b")) for number in (1, 3))
    first.summary = "what b is"
    first.add("x", "1, | or\n2")
    third.add("y", "2", failure="found 3")
    document.write(path, [first, third], CONDITIONS, renew=False)
    return path


def test_a_page_has_a_line_for_each_table_and_keeps_what_people_wrote(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(
        f"above\n{document.BEGIN}\n**1 failures** in 2 rows.\n\n### 1. T1\n\n[1 row](x/01-t1.csv), none failing;"
    )
    assert "\n### 3. T3\n\nWhat it is.\n\n[1 row](x/03-t3.csv), **1 failing**; measured later at commit abc.\n" in text
    assert text.endswith(f"\n### 9. Later\n\nSoon.\n\n{document.END}below\n")
    assert read(page.with_suffix("") / "01-t1.csv") == [{"a": "x", "b": "1, | or 2", "failure": ""}]
    assert read(page.with_suffix("") / "03-t3.csv") == [{"a": "y", "b": "2", "failure": "found 3"}]
    assert [row["note"] for row in read(page.with_suffix("") / "tables.csv")] == ["what b is", ""]


def test_a_table_is_renewed_among_those_that_stay(page: Path) -> None:
    second, third = Table("2. T2", ("a", "b")), Table("3. T3, better", ("a", "b"))
    second.add("z", "4")
    second.add("z", "5")
    second.retaken = 1
    third.add("y", "3")
    renewed = document.Conditions(time="tomorrow", commit="def", machine="here")
    document.write(page, [third, second], renewed, renew=True)
    text, directory = page.read_text(), page.with_suffix("")
    assert re.findall(r"(?m)^### .*$", text) == ["### 1. T1", "### 2. T2", "### 3. T3, better", "### 9. Later"]
    assert "\nNo failures in 4 rows.\n" in text and "failing**" not in text and text.count("tomorrow") == 2
    assert "\n### 3. T3, better\n\nWhat it is.\n\n[1 row](x/03-t3-better.csv), none failing;" in text
    assert sorted(path.name for path in directory.iterdir()) == [
        "01-t1.csv",
        "02-t2.csv",
        "03-t3-better.csv",
        "tables.csv",
    ]
    listed = read(directory / "tables.csv")
    assert [row["conditions"] for row in listed] == ["elsewhere", "here", "here"]
    assert [row["measured_again"] for row in listed] == ["0", "1", "0"]
    document.write(page, [third, second], renewed, renew=True)
    assert page.read_text() == text


def test_a_whole_document_leaves_no_file_of_another(page: Path) -> None:
    document.write(page, [Table("4. T4", ("a",))], CONDITIONS, renew=False)
    assert sorted(path.name for path in page.with_suffix("").iterdir()) == ["04-t4.csv", "tables.csv"]
    assert "T1" not in page.read_text() and "[0 rows](x/04-t4.csv), none failing;" in page.read_text()


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="markers"):
        document.check(tmp_path / "x.md", "no markers", renew=False)
    with pytest.raises(ValueError, match=r"tables\.csv"):
        document.check(tmp_path / "x.md", document.BEGIN + document.END, renew=True)


def test_what_was_not_measured_is_a_row_that_fails() -> None:
    table = Table("1. T", ("a", "b"))
    table.not_done("lxc", TimeoutError("no time\nwas left"))
    table.add("x", NO, failure="bad")
    table.add("y", YES)
    assert table.failures == ["lxc: not measured: TimeoutError: no time was left", "x, no: bad"]
    assert list(table.rows_with_failures())[0] == ("lxc: not measured", "", "TimeoutError: no time was left")


def test_the_sums_of_validation_are_those_of_its_files(tmp_path: Path) -> None:
    directory, text = DOCS / "validation", (DOCS / "validation.md").read_text()
    listed = read(directory / "tables.csv")
    assert {row["file"] for row in listed} == {path.name for path in directory.glob("[0-9]*.csv")}
    rows = [read(directory / row["file"]) for row in listed]
    failing = sum(bool(row["failure"]) for table in rows for row in table)
    stated = re.findall(r"(?m)^(No|\*\*\d+) failures(?:\*\*)? in (\d+) rows\.$", text)
    assert stated == [(f"**{failing}" if failing else "No", str(sum(map(len, rows))))]
    copy = tmp_path / "validation.md"
    copy.write_text(text)
    (tmp_path / "validation").symlink_to(directory)
    document.write(copy, [], CONDITIONS, renew=True)
    assert copy.read_text() == text


# -- evaluations -------------------------------------------------------------------------------------------------------

TWO = evaluation.Evaluation(
    document="x",
    plans=(),
    platforms="",
    lab=(),
    figures={"figure-1": "Curves over loads.", "figure-2": "Never drawn."},
    tables=("ranking", "never-made"),
    references=(("a", None), ("b", None)),
)


def build_report(out: Path, tables: dict[str, str], figures: dict[str, str]) -> Path:
    """The files of a report, as far as the writer reads them."""
    out.mkdir()
    for name, title in tables.items():
        (out / f"{name}.csv").write_text('a_bps,b\n1,"x\ny"\n2,z\n')
        (out / f"{name}.md").write_text(f"**{title}**\n\n| a | b |\n| ---: | --- |\n| 1 | x |\n\nWhat a\\_bps is.\n")
    for name in figures:
        (out / f"{name}.png").write_bytes(b"png")
    page = [f'<figure id="{name}">\n<svg/>\n<figcaption>{text}</figcaption>' for name, text in figures.items()]
    (out / "report.html").write_text("\n</figure>\n".join(page))
    return out


def test_a_page_of_an_evaluation_has_captions_and_links(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(evaluation, "DOCS", tmp_path)
    (tmp_path / "x.md").write_text(f"# Found\n\n{evaluation.BEGIN}old\n{evaluation.END}\nbelow\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "gone.csv").write_text("")
    first = build_report(
        tmp_path / "1",
        {"ranking": "Every pair", "a-beside": "Of a\\_b", "unlisted": "Not here"},
        {"figure-1": "<b>Figure 1. Rate.</b> n &lt; 3 *each*."},
    )
    second = build_report(tmp_path / "2", {"ranking": "Twice", "b-flow-beside": "Of b"}, {})
    evaluation.write_page(TWO, [first, second], "Measured today.")
    assert (tmp_path / "x.md").read_text() == (
        f"# Found\n\n{evaluation.BEGIN}\n## Figures\n\nMeasured today.\n\n"
        "![Curves over loads.](x/figure-1.png)\n\n*Figure 1. Rate. n < 3 \\*each\\*.*\n\n"
        "## Tables\n\nWhat their columns mean is in the notes of [tables.csv](x/tables.csv).\n\n"
        "- [ranking.csv](x/ranking.csv), 2 rows: Every pair\n"
        "- [a-beside.csv](x/a-beside.csv), 2 rows: Of a_b\n"
        "- [b-flow-beside.csv](x/b-flow-beside.csv), 2 rows: Of b\n\n"
        f"{evaluation.END}\nbelow\n"
    )
    names = ["a-beside.csv", "b-flow-beside.csv", "figure-1.png", "ranking.csv", "tables.csv"]
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == names
    assert (tmp_path / "x/ranking.csv").read_bytes() == (first / "ranking.csv").read_bytes()
    listed = read(tmp_path / "x/tables.csv")
    assert listed[1] == {"file": "a-beside.csv", "title": "Of a_b", "rows": "2", "note": "What a_bps is."}
    assert "the report has no figure-2" in capsys.readouterr().err


@pytest.mark.slow
def test_the_files_of_a_real_report_become_a_page(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "DOCS", tmp_path)
    (tmp_path / "x.md").write_text(f"# Found\n\n{evaluation.BEGIN}{evaluation.END}")
    shutil.copy(GOLDEN / "runs.sqlite", tmp_path)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    evaluation.labconsole(["report", "--store", tmp_path / "runs.sqlite", "--out", tmp_path / "out"], environment)
    what = replace(TWO, figures={"figure-3": "Curves.", "figure-4": "Bars."}, references=(("schlosser", None),))
    evaluation.write_page(what, [tmp_path / "out"], "Measured.")
    text = (tmp_path / "x.md").read_text()
    assert "\n![Curves.](x/figure-3.png)\n\n*Figure 3. Forwarding rate over offered bandwidth, 1 source. Mean " in text
    assert "\n![Bars.](x/figure-4.png)\n\n*Figure 4. Maximum accumulated throughput by number of sources. " in text
    listed = read(tmp_path / "x/tables.csv")
    assert [row["file"] for row in listed] == ["ranking.csv", "background-load.csv"]
    for row in listed:
        assert f"(x/{row['file']}), {row['rows']} row" in text and row["title"] and row["note"]
        assert len(read(tmp_path / "x" / row["file"])) == int(row["rows"])


@pytest.mark.parametrize("each", evaluation.EVALUATIONS.values(), ids=lambda each: each.document)
def test_a_page_of_results_has_every_figure_with_text_and_every_table(each: evaluation.Evaluation) -> None:
    text = each.path.read_text()
    figures = re.findall(r"(?m)^!\[(.+)\]\((.+)\)\n\n\*\w.+\.\*$", text)
    assert len(figures) == text.count("![")
    assert {path.name: each.figures[path.stem] for path in each.directory.glob("*.png")} == {
        Path(file).name: alt for alt, file in figures
    }
    listed = read(each.directory / "tables.csv")
    assert {row["file"] for row in listed} == {path.name for path in each.directory.glob("*.csv")} - {"tables.csv"}
    for row in listed:
        assert len(read(each.directory / row["file"])) == int(row["rows"])
        assert re.search(rf"\]\({each.document}/{re.escape(row['file'])}\), {row['rows']} rows?: ", text)
