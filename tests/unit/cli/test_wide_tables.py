"""Tables that are wider than the terminal: no word is broken, nothing is cut, and what matters most comes first."""

import io
from typing import Any, cast

import pytest
from rich.cells import cell_len
from rich.console import Console

from labconsole.cli.main import main
from labconsole.cli.text.report import show_figure
from labconsole.cli.text.tables import show_table
from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, Table
from support.measured_sides import around, jobs, keep
from support.occasions import stored


def shown(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    show_table(console, table, rest="elsewhere")
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(cell_len, lines)) <= width
    return [line.rstrip() for line in lines]


TABLE = Table(
    name="t",
    title="Rates",
    columns=("a", "b", "c", "d"),
    rows=(("p", 1.0, "w", 2.0),),
    headings=("design point", "change, %", "finding", "would have shown, %"),
    shown=(("container, 1000 B, 1 × 100 Mbit/s", "−2.9", "no claim: what was lost is not known", "0.7"),),
)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_word_is_broken_and_none_is_missing_at_any_width(width):
    words = " ".join(shown(TABLE, width)).replace(":", " ").split()
    for text in (*TABLE.headings, *TABLE.shown[0]):
        for word in text.replace(":", " ").split():
            assert word in words, (word, width)


def test_a_row_that_fits_is_one_line_and_one_that_does_not_begins_with_what_it_is_of():
    assert any(line.split("   ")[-1].strip() == "0.7" and "container" in line for line in shown(TABLE, 120))
    lines = shown(TABLE, 40)
    place = lines.index(" container, 1000 B, 1 × 100 Mbit/s")
    assert lines[place + 1].split()[0] == "−2.9"
    assert "   would have shown, %: 0.7" in lines[place:]


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_says_the_change_before_all_else(tmp_path, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    keep(tmp_path / "s", jobs("old", around(4.0, 1)) + jobs("new", around(4.1, 2)))
    assert main(["compare", "--store", str(tmp_path / "s"), "plan=old", "plan=new"]) == 0
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= width
    row = out[out.index("\n lxc: wait (3 s) in all 2 guests\n") :].splitlines()[2]
    assert row.split()[:6] == ["time,", "s", "2.4", "2.0", "to", "2.9"]


@pytest.mark.parametrize("width", [1, 2, 3, 40])
def test_a_figure_is_shown_in_a_terminal_of_any_width(width):
    curve = PlottedCurve("result", (Mark(1.0, 2.0, 1.9, 2.1, 3), Mark(2.0, 3.0, 2.9, 3.1, 3)))
    panel = Panel("a heading of several words", (curve,), changes=(1.5,), change_names=("nightly@2",))
    figure = Figure(
        name="f",
        title="Trend",
        kind="curves",
        x_label="occasion",
        y_label="y",
        caption="c",
        panels=(panel,),
        x_numbered=True,
    )
    file = io.StringIO()
    show_figure(Console(file=file, width=width, highlight=False, markup=False), figure)
    assert "heading" in file.getvalue() if width > 20 else max(map(cell_len, file.getvalue().splitlines())) <= width


def test_the_ticks_of_a_trend_are_occasions_and_its_change_has_a_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stored(tmp_path / "s", [60.0, 60.1, 59.9, 60.0, 50.0, 50.1, 49.9, 50.0])
    assert main(["trend", "--store", str(tmp_path / "s"), "nightly"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["1", "2", "3", "4", "5", "6", "7", "8"] in [line.split() for line in lines]
    assert [line for line in lines if line.lstrip().startswith("┌") and "nightly@05" in line]


def test_what_several_figures_and_tables_say_is_said_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stored(tmp_path / "s", [60.0, 60.1, 60.2, 60.0])
    days: list[Any] = [
        record.model_copy(update={"plan": record.plan.model_copy(update={"name": f"nightly@{day:02}"})})
        for day in range(1, 5)
        for record in cast(list[Any], jobs(f"d{day}", around(4.0, day)))
    ]
    keep(tmp_path / "s", days)
    assert main(["trend", "--store", str(tmp_path / "s"), "nightly"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Occasions are numbered") == said.count("Level: mean and standard deviation") == 1
    assert "Jobs over occasions" in said and "Forwarding rate over occasions" in said
