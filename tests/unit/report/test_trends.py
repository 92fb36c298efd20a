"""Results over occasions: an injected step is found, and a series without one is left alone."""

import csv
import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labconsole.cli.main import main
from labconsole.comparison.changes import Side
from labconsole.comparison.occasion_loading import load_contents, load_occasions
from labconsole.comparison.trend_tables import format_margin_note
from labconsole.comparison.trends import find_trends
from labconsole.measure.trend import FOUND_STEPS, LATEST_STEPS, segment, smallest_steps
from labconsole.model.query import parse_query
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.occasions import stored


def trend(place: Path, capsys: Any, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["trend", "--store", str(place), "--json", "nightly", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_step_of_three_per_cent_is_found_with_what_else_changed_then(tmp_path, capsys):
    rng = np.random.default_rng(5)
    results = [mean * (1 + 0.004 * rng.standard_normal()) for mean in [60.0] * 8 + [58.2] * 8]
    stored(tmp_path / "s.sqlite", results, kernels=["6.1"] * 8 + ["6.6"] * 8)
    found = trend(tmp_path / "s.sqlite", capsys)
    (change,) = found["changes"]
    assert change["occasion"] == "nightly@09"
    assert change["change_ratio"] == pytest.approx(-0.03, abs=0.004)
    told = [each for each in change["also_changed"] if each["what"] == "kernel" and each["where"] == "Node uut"]
    assert [(each["before"], each["after"]) for each in told] == [("6.1", "6.6")]
    assert found["smallest_step_ratio"] < 0.03
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "nightly"]) == 0
    shown = capsys.readouterr().out
    assert "since nightly@09" in shown
    assert "nightly@15 (2026-" in " ".join(shown.split()) and "16 nightly@16" in " ".join(shown.split())
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "--markdown", "nightly"]) == 0
    assert "(UTC): 1 nightly@01 (2026-" in capsys.readouterr().out.replace("\\", "")
    assert "kernel 6.1 → 6.6" in " ".join(shown.split())


def test_no_more_than_one_in_twenty_stationary_series_raises_an_alarm():
    rng, alarms = np.random.default_rng(9), 0
    for number in range(200):
        sd = (0.001, 0.005, 0.02)[number % 3]
        alarms += len(segment(list(100 * (1 + sd * rng.standard_normal(12)))).levels) > 1
    assert alarms <= 10


@pytest.mark.parametrize("results", [6, 12, 20])
@pytest.mark.parametrize("sd", [0.01, 0.5, 2.0])
def test_the_step_that_is_said_to_be_found_mostly_is(results, sd):
    """In 8 of 10 series, whatever they vary by; of 100 at least 69 with a chance of 99.5 %."""
    rng, found = np.random.default_rng(results), 0
    size = max(each for each in FOUND_STEPS if each <= results)
    for _ in range(100):
        series = 100 + sd * rng.standard_normal(results)
        series[results // 2 :] += sd * FOUND_STEPS[size]
        found += len(segment(list(series)).levels) > 1
    assert found >= 69


def test_the_smallest_step_is_reckoned_from_the_spread_within_levels():
    values = [100.0, 101.0, 99.0, 100.0, 80.0, 81.0, 79.0, 80.0]
    held = segment(values)
    assert [(each.first, each.last) for each in held.levels] == [(0, 3), (4, 7)]
    sd = np.sqrt(2 / 3)
    middle, latest = smallest_steps(held)
    assert middle == pytest.approx(FOUND_STEPS[8] * sd / 80)
    assert latest == pytest.approx(LATEST_STEPS[8] * sd / 80)
    assert smallest_steps(segment([1.0])) == (None, None)
    assert segment([]).levels == ()


def test_records_are_read_where_something_changed_and_one_of_each_other_occasion(tmp_path):
    """What reading them costs is most of a trend on a big store."""
    stored(tmp_path / "s.sqlite", [60.0] * 4 + [50.0] * 4, kernels=["6.1"] * 4 + ["6.6"] * 4)
    asked: list[str] = []
    with open_store(str(tmp_path / "s.sqlite")) as store:
        found = load_occasions(
            "nightly", parse_query(""), store, load_contents(store, ()), on_unreadable=print, tell=print
        )

        def told(side: Side) -> Side:
            asked.append(side.words)
            return found.told(side)

        (trend,) = find_trends(found.sides, told)
        assert [side.digest.runs for side in found.sides] == [1] * 8
        assert [found.told(side).digest.runs for side in found.sides] == [3] * 8
    assert asked == ["nightly@04", "nightly@05"]
    assert [each.label for each in trend.steps[0].differences if each.label == "kernel"]


def test_two_nights_that_are_a_tenth_of_a_per_cent_lower_are_no_change(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [30.0] * 3 + [29.97] * 2 + [30.0] * 7)
    found = trend(tmp_path / "s.sqlite", capsys)
    assert (found["changes"], found["outliers"], found["why"], len(found["levels"])) == ([], [], None, 1)
    assert 0.002 <= found["smallest_step_ratio"] <= found["smallest_latest_ratio"] < 0.004


@pytest.mark.parametrize(("margin", "changes"), [(None, 1), ("2%", 1), ("5%", 0)])
def test_a_change_within_the_margin_that_is_given_is_none(tmp_path, capsys, margin, changes):
    rng = np.random.default_rng(5)
    stored(tmp_path / "s.sqlite", [mean * (1 + 0.004 * rng.standard_normal()) for mean in [60.0] * 8 + [58.2] * 8])
    found = trend(tmp_path / "s.sqlite", capsys, *(["--margin", margin] if margin else []))
    assert len(found["changes"]) == changes
    assert found["margin_ratio"] == (margin and float(margin[:-1]) / 100)
    assert margin is None or found["smallest_step_ratio"] > found["margin_ratio"]


def test_the_margin_of_the_plan_holds_where_none_is_given(tmp_path, capsys):
    rng = np.random.default_rng(5)
    results = [mean * (1 + 0.004 * rng.standard_normal()) for mean in [60.0] * 8 + [58.2] * 8]
    stored(tmp_path / "s.sqlite", results, margin_ratio=0.05)
    found = trend(tmp_path / "s.sqlite", capsys)
    assert (found["changes"], found["margin_ratio"]) == ([], 0.05)
    assert len(trend(tmp_path / "s.sqlite", capsys, "--margin", "1%")["changes"]) == 1
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--out", str(out), "--formats", "csv"]) == 0
    assert "changes.csv" not in {path.name for path in out.iterdir()}


@pytest.mark.parametrize(
    ("margins", "words"),
    [
        ([None, None], ""),
        ([0.02, 0.02], " Changes of 2.00 % or less do not count: they are within the margin."),
        ([0.02, 0.05], " Changes within the margin of their plan, if it declares one, do not count."),
        ([0.02, None], " Changes within the margin of their plan, if it declares one, do not count."),
    ],
)
def test_the_note_of_a_table_says_no_margin_of_a_plan_that_has_another(margins, words):
    trends: list[Any] = [SimpleNamespace(margin_ratio=each) for each in margins]
    assert format_margin_note(trends) == words


def test_an_occasion_that_lies_apart_is_named_and_the_latest_may_be_the_first_of_a_change(tmp_path, capsys):
    rng = np.random.default_rng(7)
    results = [60.0 * (1 + 0.004 * rng.standard_normal()) for _ in range(14)]
    results[4], results[-1] = 66.0, 54.0
    stored(tmp_path / "s.sqlite", results)
    found = trend(tmp_path / "s.sqlite", capsys)
    assert found["changes"] == []
    assert [(each["occasion"], each["can_be_change"]) for each in found["outliers"]] == [
        ("nightly@05", False),
        ("nightly@14", True),
    ]
    assert [each["change_ratio"] for each in found["outliers"]] == pytest.approx([0.1, -0.1], abs=0.01)
    assert found["levels"][0]["mean"] == pytest.approx(60e6, rel=0.005)
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "--markdown", "nightly"]) == 0
    shown = capsys.readouterr().out
    assert "none; outlier: nightly@05 (+" in shown
    assert "nightly@14 is off by −" in shown and "an outlier, or the first of a change" in shown


def test_occasions_that_carried_everything_do_not_hide_a_fall(tmp_path, capsys):
    rng = np.random.default_rng(7)
    before = [95.0 * (1 + 0.002 * rng.standard_normal()) for _ in range(7)]
    after = [48.0 * (1 + 0.002 * rng.standard_normal()) for _ in range(8)]
    stored(tmp_path / "s.sqlite", [*before, 100.0, *after])
    found = trend(tmp_path / "s.sqlite", capsys)
    (change,) = found["changes"]
    assert (change["occasion"], found["why"]) == ("nightly@09", None)
    assert change["change_ratio"] == pytest.approx(-0.5, abs=0.02)


def test_a_level_that_may_be_higher_has_fallen_by_at_least_so_much(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [100.0] * 6 + [60.0, 60.2, 59.9, 60.1, 59.8, 60.0])
    (change,) = trend(tmp_path / "s.sqlite", capsys)["changes"]
    assert (change["occasion"], change["at_least"]) == ("nightly@07", True)
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "nightly"]) == 0
    assert "at least −39.99 %" in capsys.readouterr().out


def test_what_was_merely_offered_has_no_trend(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [100.0] * 6)
    found = trend(tmp_path / "s.sqlite", capsys)
    assert (found["changes"], found["why"]) == (
        [],
        "all that was offered was forwarded each time: the rate is the sender's",
    )


def test_three_occasions_are_too_few(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0, 50.0, 40.0])
    assert trend(tmp_path / "s.sqlite", capsys)["why"] == "fewer than 4 occasions"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["weekly"], "no run of such a plan is saved"),
        (["nightly", "loss>1%"], "by outcome"),
        (["nightly", "platform=xen"], "no run of this plan matches the filter"),
        (["nightly", "--json", "--markdown"], "either --json or --markdown"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path, capsys, words, problem):
    stored(tmp_path / "s.sqlite", [60.0] * 4)
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), *words]) == 2
    assert problem in capsys.readouterr().err


def test_an_occasion_that_forwards_nothing_is_said_and_not_passed_over(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0, 60.1, 60.2, 60.0, 0.0])
    assert trend(tmp_path / "s.sqlite", capsys)["why"] == "nothing was forwarded on one occasion at least"


def test_an_occasion_that_is_not_complete_is_left_out_and_told(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0, 60.1, 60.2, 60.0, 40.0])
    with open_store(str(tmp_path / "s.sqlite")) as store:
        import_records(store, [])
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        connection.execute("DELETE FROM runs WHERE plan_name = 'nightly@05' AND block > 1")
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "--json", "nightly"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["results"]) == 4
    assert "nightly@05 is left out: 2 of its 3 set-ups are missing" in told.err


@pytest.mark.parametrize(("words", "margin"), [((), 0.08), (("--margin", "1%"), 0.01)])
def test_a_plan_that_is_given_by_its_file_declares_the_margin(tmp_path, capsys, words, margin):
    """As to a gate."""
    stored(tmp_path / "s.sqlite", [60.0] * 4, margin_ratio=0.02)
    plan = tmp_path / "nightly.yaml"
    plan.write_text(
        "plan: nightly\nplatforms: [raw]\nframe_sizes: [1000]\ntargets: [100Mbit]\nduration_s: 1\nmargin: 8%\n"
    )
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "--json", str(plan), *words]) == 0
    assert json.loads(capsys.readouterr().out)["margin_ratio"] == margin


def test_where_no_occasion_is_complete_that_is_said_with_why(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0] * 4, status="invalid")
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "nightly"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "nightly@01 is left out: none of its runs enters a mean (aborted 3)" in told.err
    assert told.err.endswith("no occasion of nightly is complete\n")


def test_an_occasion_on_which_all_was_carried_tells_of_the_sender(tmp_path, capsys):
    """A sender that slows down is no slower unit under test."""
    stored(tmp_path / "s.sqlite", [95.0] * 4)
    more = tmp_path / "more.sqlite"
    stored(more, [80.0] * 8, offered=80.0)
    with sqlite3.connect(more) as connection:
        connection.execute("DELETE FROM runs WHERE plan_name <= 'nightly@04'")
    assert main(["runs", "import", str(more), "--store", str(tmp_path / "s.sqlite")]) == 0
    found = trend(tmp_path / "s.sqlite", capsys)
    assert found["changes"] == []
    assert found["why"] == "in some trials all that was offered was forwarded: their rates are the sender's"


def test_a_filter_makes_no_occasion_incomplete(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0] * 5, kernels=["6.1", "6.1", "6.1", "6.1", "6.6"])
    assert len(trend(tmp_path / "s.sqlite", capsys, "kernel=6.1")["results"]) == 4


def test_two_testbeds_of_one_name_used_by_turns_are_two_series(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0] * 8)
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        rows = connection.execute("SELECT run_id, plan_name, record FROM runs").fetchall()
        for run_id, name, record in rows:
            if int(name[-2:]) % 2:
                other = record.replace("7d3f9a11c0de4b52", "0123456789abcdef")
                connection.execute(
                    "UPDATE runs SET record = ?, testbed_fingerprint = '0123456789abcdef' WHERE run_id = ?",
                    (other, run_id),
                )
    assert main(["trend", "--store", str(tmp_path / "s.sqlite"), "--json", "nightly"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(len(each["results"]) for each in found) == [4, 4]


def test_a_report_on_several_occasions_has_them_as_a_figure_and_tables(tmp_path, capsys):
    rng = np.random.default_rng(5)
    results = [mean * (1 + 0.004 * rng.standard_normal()) for mean in [60.0] * 8 + [58.2] * 8]
    stored(tmp_path / "s.sqlite", results, kernels=["6.1"] * 8 + ["6.6"] * 8)
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--out", str(out), "--formats", "svg,csv,md"]) == 0
    assert {"trend.svg", "trends.csv", "changes.csv", "occasions.csv"} <= {path.name for path in out.iterdir()}
    assert ">change</text>" in (out / "trend.svg").read_text()
    with (out / "occasions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["number"] for row in rows if row["changed"] == "True"] == ["9"]
    assert [float(row["result_bps"]) for row in rows] == pytest.approx([mbps * 1e6 for mbps in results], rel=1e-3)
    assert all(float(row["ci_low_bps"]) < float(row["result_bps"]) < float(row["ci_high_bps"]) for row in rows)
    assert "kernel 6.1 → 6.6" in (out / "changes.csv").read_text()
    capsys.readouterr()


def test_a_report_leaves_out_the_occasions_that_the_command_does(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0, 60.1, 60.2, 60.0, 40.0])
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        connection.execute("DELETE FROM runs WHERE plan_name = 'nightly@05' AND block > 1")
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--out", str(out), "--formats", "csv,md"]) == 0
    with (out / "occasions.csv").open() as file:
        assert [row["occasion"] for row in csv.DictReader(file)] == [f"nightly@{day:02}" for day in range(1, 5)]
    assert "nightly@05 is left out: 2 of its 3 set-ups are missing" in (out / "trends.md").read_text()
    capsys.readouterr()


def test_a_report_on_one_occasion_has_none(tmp_path, capsys):
    stored(tmp_path / "s.sqlite", [60.0])
    out = tmp_path / "out"
    assert main(["report", "--store", str(tmp_path / "s.sqlite"), "--out", str(out), "--formats", "csv"]) == 0
    assert "trends.csv" not in {path.name for path in out.iterdir()}
