"""A unit of a report that fails, or makes what cannot be shown, is left out and named; all others are made.

Figures are checked here without being drawn; the tests that draw have only values that charts can have.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labconsole.cli.main import main
from labconsole.contracts.report import (
    Figure,
    Finding,
    Findings,
    Mark,
    MethodNote,
    Panel,
    PlottedCurve,
    ReportUnit,
    Table,
)
from labconsole.experiments.forwarding.units import spread
from labconsole.experiments.units import report_units
from labconsole.report import figure_drawing, panels
from labconsole.report.assembly import build_figures, check_part
from labconsole.report.loading import load_report
from labconsole.report.panels import check_figure
from labconsole.report.request import ReportRequest
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from labconsole.testing import check_units
from labconsole.text import axis
from labconsole.text.axis import Undrawable
from support.plugged_in import plugged_in
from support.report_runs import set_ups_of

GOOD = Mark(1, 2, 1.5, 2.5, 3)


def untyped(value: Any) -> Any:
    """What a plug-in without types may put anywhere."""
    return value


def figure(*marks: Any, **how: Any) -> Figure:
    how.setdefault("panels", (Panel("p", (PlottedCurve("raw", marks or (GOOD,)),)),))
    defaults = {"name": "f", "title": "A figure", "kind": "curves", "x_label": "x", "y_label": "y", "caption": ""}
    return Figure(**{**defaults, **how})


def curves(**how: Any) -> tuple[Panel, ...]:
    return (Panel("p", (PlottedCurve("raw", (GOOD,)),), **how),)


FIRST = "point 1 of curve 'raw': "


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (figure(replace(GOOD, y=untyped(None))), FIRST + "y is None; allowed: a number"),
        (figure(replace(GOOD, x=untyped("1"))), FIRST + "x is '1' of type str; allowed: a number"),
        (figure(replace(GOOD, y=True)), FIRST + "y is True; allowed: a number"),
        (figure(replace(GOOD, y=10**400)), "allowed: a finite number up to 1e+30"),
        (figure(replace(GOOD, high=10**400)), "allowed: a finite number up to 1e+30"),
        (figure(replace(GOOD, low=3)), FIRST + "interval 3 to 2.5 is not around y 2"),
        (figure(replace(GOOD, high=1)), FIRST + "interval 1.5 to 1 is not around y 2"),
        (figure(replace(GOOD, x=-1)), FIRST + "x is -1; allowed: 0 or more, where the axis begins"),
        (figure(replace(GOOD, dots=(1, untyped(None)))), FIRST + "a dot is None; allowed: a number"),
        (figure(replace(GOOD, dots=untyped(3))), FIRST + "dots is 3; allowed: a tuple"),
        (figure(replace(GOOD, word=untyped(None))), FIRST + "word is None; allowed: text"),
        (figure((1, 2)), FIRST + "of type tuple; allowed: Mark"),
        (figure(replace(GOOD, y=0, low=None), y_log=True), "y is 0; allowed on a logarithmic axis: 1e-30 or more"),
        (figure(replace(GOOD, low=0), y_log=True), "low is 0; allowed on a logarithmic axis"),
        (figure(replace(GOOD, dots=(0, 1)), y_log=True), "a dot is 0; allowed on a logarithmic axis"),
        (figure(y_log=True, panels=curves(levels=((0, "limit"),))), "level 'limit' is 0; allowed on a logarithmic"),
        (figure(y_log=True, reference_line=0), "reference_line is 0; allowed on a logarithmic axis"),
        (figure(replace(GOOD, x=2), kind="bars", x_names=("a", "b")), FIRST + "x is 2; allowed: 0 to 1"),
        (figure(kind="bars"), "x_names is empty; allowed: one or more"),
        (figure(panels=()), "panels is empty; allowed: one or more"),
        (figure(kind="pie"), "kind is 'pie'; allowed: curves, bars"),
        (figure(panels=("p",)), "a panel is of type str; allowed: Panel"),
        (figure(panels=(Panel("p", untyped(("raw",))),)), "a curve is of type str; allowed: PlottedCurve"),
        (figure(panels=iter(())), "panels is "),
        (
            figure(panels=curves(changes=(1, 2), change_names=("a",))),
            "has 1 names of 2 changes; allowed: none, or as many",
        ),
        (figure(panels=curves(changes=(None,))), "a change is None; allowed: a number"),
        (figure(panels=curves(levels=((1,),))), "a level has 1 items; allowed: a height and what it is"),
        (figure(title=None), "title is None; allowed: text"),
        (figure(title="x" * 3000), "title has 3000 characters; allowed: up to 2000"),
        (figure(name="../f"), "name is '../f'; allowed: letters, digits, _, - and ., up to 100"),
        (figure(name=None), "name is 'None'; allowed: letters"),
        (figure(x_names=(1,)), "a name of x_names is 1; allowed: text"),
        (figure(replace(GOOD, x=2e9), x_numbered=True), "x is 2e+09; allowed: 0 to 1e+09"),
    ],
)
def test_a_figure_is_checked_and_its_first_wrong_value_named(made: Figure, words: str):
    with pytest.raises(Undrawable) as raised:
        check_figure(made)
    assert words in str(raised.value)


def test_numbers_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(panels, "MOST_POINTS", 4)
    check_figure(figure(GOOD, GOOD, replace(GOOD, dots=(1,))))
    with pytest.raises(Undrawable, match="it has more than 4 points"):
        check_figure(figure(GOOD, GOOD, replace(GOOD, dots=(1, 2))))
    monkeypatch.setattr(axis, "SMALLEST", 1.0)
    with pytest.raises(Undrawable, match=r"x reaches only to 0\.5; allowed: 0, or 1 or more"):
        check_figure(figure(replace(GOOD, x=0.5)))


def test_every_type_of_number_is_drawn_as_a_plain_float():
    mark = Mark(
        *untyped((np.int64(1), Decimal(2), np.float32(1.5), 2.5 + 1e-12, 3, 1, [np.float64(2), Decimal("1.5")]))
    )
    (panel,) = check_figure(figure(mark)).panels
    ((drawn,),) = (curve.marks for curve in panel.curves)
    assert drawn == Mark(1.0, 2.0, 1.5, 2.5 + 1e-12, 3, dots=(2.0, 1.5))
    assert {type(value) for value in (drawn.x, drawn.y, drawn.low, *drawn.dots)} == {float}


def test_rounding_makes_no_interval_miss_its_mean():
    (panel,) = check_figure(figure(Mark(1, 2, 2 + 1e-12, 2 - 1e-12, 3))).panels
    assert (panel.curves[0].marks[0].low, panel.curves[0].marks[0].high) == (2, 2)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("words", "it makes a str; allowed: Figure, Table, Findings, MethodNote"),
        (
            Table(name="t", title="", columns=("a",), rows=((1, 2),), headings=("a",), shown=(("1",),)),
            "table 't': row 1 of rows has 2 cells; allowed: 1",
        ),
        (
            Table(name="t", title="", columns=("a",), rows=((1,),), headings=("a",), shown=untyped(((1,),))),
            "table 't': a shown cell is 1; allowed: text",
        ),
        (
            Table(name="t", title="", columns=("a",), rows=untyped(((1j,),)), headings=("a",), shown=(("1",),)),
            "table 't': a is 1j; allowed: a finite int or float, text or None",
        ),
        (
            Findings(kind="k", heading="h", found=(Finding(untyped(None), ()),)),
            "a finding's sentence is None; allowed: text",
        ),
        (MethodNote("h", untyped(3)), "a method note's words is 3; allowed: text"),
    ],
)
def test_parts_of_other_types_are_checked_too(part: Any, words: str):
    with pytest.raises(Undrawable) as raised:
        check_part(part)
    assert words in str(raised.value)


def test_trials_that_are_all_alike_are_drawn_around_their_mean():
    """0.1 + 0.1 + 0.1 is not three times 0.1: the mean of these is above each of them."""
    point = SimpleNamespace(trial_values_bps=[0.1] * 3, offered_bps=SimpleNamespace(mean=1e6), n=3, set_ups=1)
    mark = spread._mark(untyped(point))
    assert max(mark.dots) < 0 == mark.high
    check_figure(figure(mark))


WORDS = ("cost in $, of $5", "$\\frac{$", "a\x1bb\ud800", "_raw", "50 % & <b>")


def test_words_are_drawn_literally_and_an_svg_stays_one():
    """matplotlib reads text between two dollar signs as a formula, and leaves a label with a leading _ out."""
    from xml.etree import ElementTree

    made = figure(
        title=WORDS[0],
        x_label=WORDS[1],
        y_label=WORDS[2],
        x_names=(WORDS[4],),
        panels=(Panel(WORDS[1], (PlottedCurve(WORDS[3], (replace(GOOD, word=WORDS[0]),)),), (1.0,), (WORDS[1],)),),
    )
    content = figure_drawing.draw_figure(made, ("svg",))["svg"]
    texts = [
        "".join(each.itertext()).strip()
        for each in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")
    ]
    for words in ("cost in $, of $5", "$\\frac{$", "a·b·", "_raw"):
        assert words in texts


def saved(path: Path) -> None:
    with open_store(str(path)) as store:
        import_records(store, set_ups_of([100.0, 101.0, 102.0]))


UNIT = """\
from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve, ReportUnit, Table


def wrong(material):
    panel = Panel("p", (PlottedCurve("raw", (Mark(1, None, None, None, 3),)),))
    return Figure(name="wrong", title="W", kind="curves", x_label="x", y_label="y", panels=(panel,), caption="")


def raises(material):
    raise KeyError("no such thing")


def good(material):
    return Table(name="good", title="Good", columns=("a",), rows=((1,),), headings=("a",), shown=(("1",),))


def claims(experiments):
    return [2.0]


UNITS = (
    ReportUnit(name="wrong", place=900, make=wrong), ReportUnit(name="raises", place=901, make=raises),
    ReportUnit(name="good", place=902, make=good), ReportUnit(name="twice", place=903, make=good),
    ReportUnit(name="claiming", place=904, make=good, claims=claims),
)
"""
SENTENCES = [
    "unit claiming of plug-in toy is left out: its claims failed: Undrawable: a p value is 2; allowed: 0 to 1",
    "unit wrong of plug-in toy is left out: figure 'wrong': point 1 of curve 'raw': y is None; allowed: a number",
    "plug-in toy failed to make raises: KeyError: 'no such thing'",
    "unit twice of plug-in toy is left out: another unit already makes Table good",
]


def test_a_plug_ins_unit_that_fails_is_named_on_stderr_in_the_text_and_on_the_page(tmp_path: Path, capsys: Any):
    store = tmp_path / "runs.sqlite"
    saved(store)
    with plugged_in(tmp_path / "site", "labconsole.units", {"toy": UNIT, "broken": "import a_library_nobody_has\n"}):
        assert (
            main(
                ["report", "--store", str(store), "--out", str(tmp_path / "out"), "--formats", "html,csv", "--terminal"]
            )
            == 0
        )
    out, err = capsys.readouterr()
    page = (tmp_path / "out" / "report.html").read_text()
    broken = (
        "plug-in broken of package toys cannot be loaded: ModuleNotFoundError: No module named 'a_library_nobody_has'"
    )
    for sentence in (*SENTENCES, broken):
        assert sentence in err
        assert f"Left out: {sentence}"[:70] in out
        assert sentence.replace("'", "&#39;") in page
    assert (tmp_path / "out" / "good.csv").read_text() == "a\n1\n"
    assert (tmp_path / "out" / "results.csv").exists()


def test_the_kit_for_authors_says_the_same(tmp_path: Path):
    store = tmp_path / "runs.sqlite"
    saved(store)
    held: dict[str, Any] = {}
    exec(UNIT, held)
    wrong, raises, good, twice, claiming = held["UNITS"]
    for units, sentence in zip(([claiming], [wrong], [raises], [good, twice]), SENTENCES, strict=True):
        with pytest.raises(AssertionError) as raised:
            check_units(untyped(SimpleNamespace(__name__="toy", UNITS=tuple(units))), store)
        assert str(raised.value) == sentence
    check_units(untyped(SimpleNamespace(__name__="toy", UNITS=(good,))), store)


def test_a_fault_of_labconsoles_own_is_none_of_a_plug_in():
    from labconsole.report.assembly import collect_claims

    def fails(experiments: Any) -> Any:
        raise KeyError("a fault")

    unit: ReportUnit[Any] = ReportUnit(name="own", place=1, make=lambda material: None, claims=fails)
    with pytest.raises(KeyError):
        collect_claims([unit], {})
    assert collect_claims([replace(unit, plugin="toy")], {})[2] == [
        "unit own of plug-in toy is left out: its claims failed: KeyError: 'a fault'"
    ]


def test_the_console_logs_which_figures_are_left_out(caplog: pytest.LogCaptureFixture):
    unit: ReportUnit[Any] = ReportUnit(name="own", place=1, make=lambda material: figure(replace(GOOD, x=-1)))
    assert build_figures("jobs", (), [unit]) == []
    assert caplog.messages == [
        f"unit own is left out: figure 'f': {FIRST}x is -1; allowed: 0 or more, where the axis begins"
    ]


def test_figures_stand_in_the_order_of_their_paper_and_say_whose_numbers_they_have(tmp_path: Path):
    store = tmp_path / "runs.sqlite"
    values = [100.0, 101.0, 102.0]
    more = [set_ups_of(values, many * 100, sources=many, plan_hash=f"{many:016x}") for many in (1, 2)]
    with open_store(str(store)) as opened:
        import_records(
            opened, [each | {"set_up": each["set_up"] | {"id": each["run_id"]}} for of in more for each in of]
        )
        made = load_report(ReportRequest(), opened, report_units(outside=False), place="", on_unreadable=print)
    numbered = [each for each in made.figures if each.number]
    assert [each.number for each in numbered] == sorted(each.number for each in numbered)
    assert numbered and all("Numbered as in Schlosser et al." in each.caption for each in numbered)
