"""From saved runs to figures, tables, findings and a page: what enters a mean, what is said, what is escaped."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.cli import main
from labconsole.contracts.report import Finding, Mark, Table
from labconsole.errors import ConfigError
from labconsole.experiments.forwarding.units.results import results
from labconsole.experiments.forwarding.units.spread import order_effects
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.units import report_units
from labconsole.measure.admission import admit
from labconsole.measure.curves import CurveData, CurveSpec
from labconsole.model.plan.loader import load_plan
from labconsole.report import figure_drawing, page
from labconsole.report.assembly import Report, assemble_report
from labconsole.report.digest import Digest
from labconsole.report.evaluation import evaluate
from labconsole.report.reference import load_reference
from labconsole.report.sample import derive_coverage, select_sample
from labconsole.report.tables import to_csv, to_latex, to_markdown
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from labconsole.text.sanitize import escape_latex
from support.job_records import taken as job_taken
from support.report_runs import evaluation, measured, set_ups_of, taken


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def save(path: Path, runs: Iterable[dict[str, Any]]) -> None:
    with open_store(str(path)) as store:
        import_records(store, runs)


def points_of(path: Path) -> Any:
    with open_store(str(path), write=False) as store:
        return evaluate(reversed(store.list())).points


def report_of(path: Path, runs: Iterable[dict[str, Any]], *, margin: float | None = None, **how: Any) -> Report:
    """The report on these runs, by way of a store."""
    save(path, runs)
    with open_store(str(path), write=False) as store:
        stored = store.list()
        admission = admit(stored)
        kept = select_sample(stored, admission)
        digest = Digest({run.run_id for run in kept.entered}, kept.why)
        for _, text in store.texts():
            digest.add(json.loads(text))
    made = evaluate(kept.entered, admission=admission, facts=digest.facts, margin_ratio=margin)
    return assemble_report(kept, digest, made, report_units(), found=derive_coverage(kept, digest.planned), **how)


def found(report: Report, kind: str) -> list[Finding]:
    return [finding for each in report.findings if each.kind == kind for finding in each.found]


def rows_of(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def table_named(report: Report, name: str) -> Table:
    (table,) = (table for table in (*report.tables, *report.references) if table.name == name)
    return table


def test_nothing_invalid_enters_a_mean_and_the_page_says_how_much_was_left_out(store_file: Path) -> None:
    report = report_of(store_file, [taken(1, 90), taken(2, 92), taken(3, 94), taken(4, 1, status="invalid")])
    (point,) = report.material.evaluation.points
    assert point.n == 3 and point.rate_bps.mean == pytest.approx(92e6, rel=1e-4)
    assert len(report.material.kept.excluded) == 1
    assert report.material.kept.excluded_by_reason == (("aborted", 1),)


def test_the_consoles_curves_and_the_report_name_the_same_maximum_of_the_same_runs(store_file: Path) -> None:
    runs = [taken(i, 200 + i, target=400_000_000) for i in range(3)]
    runs += [taken(10 + i, 100 + i, target="max", status=("valid", "suspect", "invalid")[i]) for i in range(3)]
    runs[1]["total"]["measured_pps"] = None
    save(store_file, runs)
    with open_store(str(store_file), write=False) as store:
        curves = CurveData(store.list()).curves(CurveSpec(y="maximum", unit="bit/s", lines_by=("platform",)))
        (best,) = evaluate(store.list()).maxima
    ((of_curves,),) = (curve.points for curve in curves.curves)
    assert (of_curves.y.mean, of_curves.y.trials) == (best.rate.mean, best.rate.trials)
    assert (curves.left_out, curves.unknown) == ({"invalid": 1}, 1)


def test_two_repetitions_have_no_interval_and_nobody_invents_one(store_file: Path) -> None:
    save(store_file, [taken(1, 90), taken(2, 92)])
    table = results(points_of(store_file), {})
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["forwarding_ci_low_bps"] is None
    assert "±" not in table.shown[0][7]
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["forwarding_ci_low_bps"] == ""


def test_loss_is_placed_before_the_guest_where_the_ledger_says_so(store_file: Path) -> None:
    runs = [taken(n, 60, platform="qemu-virtio", lost_at="to_guest", status="suspect") for n in range(3)]
    runs += [taken(9, 60, platform="lxc", lost_at="guest_out"), taken(10, 60, lost_at="uut_in")]
    report = report_of(store_file, runs)
    (guest,) = found(report, "lost_before_guest")
    assert guest.sentence.startswith("qemu-virtio, 1000 B: 100 % of the loss happens before the guest in 3 runs.")
    assert "1 × 100 Mbit/s" in guest.sentence
    assert len(guest.run_ids) == 3
    (uut,) = found(report, "lost_before_uut")
    assert uut.run_ids == (runs[4]["run_id"],)


def test_a_loss_of_a_few_frames_is_given_no_place(store_file: Path) -> None:
    report = report_of(store_file, [taken(1, 99.99, platform="lxc", lost_at="to_guest")])
    assert not found(report, "lost_before_guest")


def test_runs_beyond_the_instrument_and_background_that_was_not_achieved_are_told(store_file: Path) -> None:
    limited = {"code": "instrument_limited", "detail": "pktgen sends 90 Mbit/s at most", "evidence": None}
    missed = {"code": "background_missed", "detail": "demand_ratio 0.4 instead of 1", "evidence": None}
    runs = [taken(1, 90, status="suspect", reasons=[limited]), taken(3, 80)]
    runs += [taken(2, 90, status="invalid", kind="heavy", platform="lxc", reasons=[missed])]
    report = report_of(store_file, runs)
    (beyond,) = found(report, "instrument_limited")
    assert "1 run left out of every mean (beyond the calibrated instrument)" in beyond.sentence
    assert [point.run_ids for point in report.material.evaluation.points] == [(runs[1]["run_id"],)]
    (load,) = found(report, "background_not_achieved")
    assert "demand_ratio 0.4 instead of 1" in load.sentence
    assert load.run_ids == (runs[2]["run_id"],)


def test_repetitions_that_differ_more_than_usual_on_their_platform_are_told(store_file: Path) -> None:
    runs = [taken(10 * t + n, 90 + n / 100, target=t * 100_000_000) for t in range(1, 6) for n in range(3)]
    runs += [taken(90 + n, measured, target="max") for n, measured in enumerate((60, 90, 120))]
    (finding,) = found(report_of(store_file, runs), "wide_spread")
    assert "target max: the repetitions differ by 33.3 % of their mean" in finding.sentence


def test_emulated_testbeds_say_so_in_every_caption_and_hardware_does_not(store_file: Path, tmp_path: Path) -> None:
    emulated = report_of(store_file, [taken(n, 90 + n, kind="idle") for n in range(3)])
    assert emulated.tables
    for text in (*(figure.caption for figure in emulated.figures), *(table.note for table in emulated.tables)):
        assert "Emulated testbed" in text
    real = report_of(tmp_path / "real.sqlite", [taken(n, 90 + n, emulated=False) for n in range(3)])
    assert not any("mulated" in figure.caption for figure in real.figures)


def test_a_run_far_from_its_repetitions_is_named_and_stays_in_the_mean(store_file: Path) -> None:
    report = report_of(store_file, [taken(n, 90.0 + n / 100) for n in range(8)] + [taken(8, 60.0)])
    (point,) = report.material.evaluation.points
    assert point.n == 9
    (finding,) = found(report, "outlier")
    assert finding.run_ids == ("20261121T000000Z-000008",)
    assert "60.0 Mbit/s forwarded in 1 of 9 runs" in finding.sentence


@pytest.mark.parametrize("drifts", [True, False])
def test_without_blocks_a_slope_over_a_plan_is_told_with_what_lets_it_be_told(store_file: Path, drifts: bool) -> None:
    runs = []
    for n in range(12):
        point, measured = n % 2, 40.0 * (1 + n % 2) * (1 - (n / 500 if drifts else 0)) + (n * 7 % 5) / 1000
        plan = {"name": "paper", "hash": "0" * 16, "point": point, "repetition": n // 2 + 1, "seed": 1}
        runs.append(taken(n, measured, target=100_000_000 * (1 + point), plan=plan))
    told = found(report_of(store_file, runs), "order_effect")
    assert bool(told) == drifts
    if drifts:
        assert "Plan paper: measured rates change by −2.2" in told[0].sentence
        assert "Only one in 20 plans of independent trials without a trend shows such a slope" in told[0].sentence
        assert "not a test" in told[0].sentence and "not tested" not in told[0].sentence
        assert "interval" not in told[0].sentence and "drifted" not in told[0].sentence
        assert len(told[0].run_ids) == 12


@pytest.mark.parametrize(("phi", "low", "high"), [(0.0, 0.0, 0.1), (0.9, 0.5, 0.8)])
def test_how_often_a_plan_without_blocks_and_without_a_trend_tells_a_slope(phi: float, low: float, high: float) -> None:
    """One platform, eight points, nine passes: the share that the sentence and docs/statistics.md tell of."""
    chance, told = random.Random(5), 0
    for _ in range(150):
        noise, runs = chance.gauss(0, 1), []
        for n in range(72):
            rate = 60e6 * (1 + 0.01 * noise)
            runs.append(
                SimpleNamespace(
                    run_id=str(n),
                    started_at=f"{n:03d}",
                    plan_hash="0" * 16,
                    plan_point=(3 * n + n // 8) % 8,
                    block=None,
                    set_up=None,
                    testbed_fingerprint="f",
                    forwarding_pps=rate / 8192,
                    forwarding_bps=rate,
                )
            )
            noise = phi * noise + math.sqrt(1 - phi**2) * chance.gauss(0, 1)
        told += any(order_effects(runs, Digest(())))
    assert low <= told / 150 <= high


def _in_blocks(changes: list[float]) -> list[dict[str, Any]]:
    return [
        measured(
            30 * b + 10 * p + r,
            (80, 60)[p] * change + r / 500,
            block=b + 1,
            point=p,
            repetition=r + 1,
            trials=3,
            platform=("raw", "lxc")[p],
            set_ups=len(changes),
            repetitions=3,
        )
        for b, change in enumerate(changes)
        for p in (0, 1)
        for r in range(3)
    ]


def test_in_blocks_the_means_of_blocks_say_whether_rates_change_and_set_ups_that_differ_do_not(tmp_path: Path) -> None:
    falling = report_of(tmp_path / "a.sqlite", _in_blocks([1.0, 0.989, 0.981, 0.97, 0.96]))
    (told,) = found(falling, "order_effect")
    assert "measured rates change by −4.0" in told.sentence
    assert "from the first block to the last (99 % interval −" in told.sentence and "over 5 blocks" in told.sentence
    assert len(told.run_ids) == 30
    scattered = report_of(tmp_path / "b.sqlite", _in_blocks([1.0, 1.01, 0.99, 0.985, 0.98]))
    assert found(scattered, "order_effect") == []  # over its trials this would be a slope beyond doubt
    assert found(report_of(tmp_path / "c.sqlite", _in_blocks([1.0, 0.9])), "order_effect") == []


def test_a_generator_held_back_by_flow_control_is_told_by_the_evidence_not_by_the_words(store_file: Path) -> None:
    evidence = {"stream": "s1", "causes": [{"cause": "flow_control", "counters": {"rx_xoff": 3}}]}
    paused = {"code": "offered_short", "detail": "s1: short", "evidence": evidence}
    calm = {"code": "offered_short", "detail": "s1: no pause was seen", "evidence": None}
    runs = [
        taken(1, 90.0, status="suspect", reasons=[paused]),
        taken(2, 90.0, status="suspect", reasons=[calm], target=200_000_000),
    ]
    report = report_of(store_file, runs)
    (held_back,) = found(report, "generator_throttled")
    assert "flow control throttled the generator in 1 run" in held_back.sentence
    assert held_back.run_ids == (runs[0]["run_id"],)
    (short,) = found(report, "generator_short")
    assert "flow control" not in short.sentence
    assert short.run_ids == (runs[1]["run_id"],)
    (figure,) = [each for each in report.figures if each.name == "figure-3"]
    marks = [mark for panel in figure.panels for curve in panel.curves for mark in curve.marks]
    assert [mark.word for mark in sorted(marks, key=lambda mark: mark.x)] == ["throttled", ""]
    assert "throttled: pause frames throttled a source" in figure.caption
    pytest.importorskip("matplotlib")
    assert b">throttled<" in figure_drawing.draw_figure(figure, ("svg",))["svg"]


def test_what_a_platform_asks_of_flow_control_is_told_from_the_records(store_file: Path) -> None:
    found, paused = taken(1, 90.0), taken(2, 80.0, target=200_000_000)
    paused["environment"]["platform"]["flow_control"] = {"eth1": {"rx": True, "tx": True}}
    digest = Digest({found["run_id"], paused["run_id"]})
    for record in (found, paused):
        digest.add(record)
    assert digest.said["flow control"] == {
        "left as it was found": 1,
        "on at the unit under test, as its platform asks": 1,
    }
    text = page.render_page(report_of(store_file, [found, paused]), drawings={})
    assert "on at the unit under test, as its platform asks" in text and "flow control as its platform asks" in text


def test_figures_follow_the_papers_and_say_how_many_set_ups(store_file: Path, tmp_path: Path) -> None:
    def drawn(path: Path, make: Any) -> dict[str, Any]:
        runs = [
            make(place, 80 * s + b, block=b + 1, point=2 * s + k, trials=4, target=t, sources=s)
            for place, (s, (k, t), b) in enumerate(
                (s, kt, b) for s in (1, 2) for kt in enumerate((10**8, 2 * 10**8)) for b in range(3)
            )
        ]
        return {figure.name: figure for figure in report_of(path, runs).figures}

    figures = drawn(store_file, measured)
    assert list(figures) == [
        "figure-3",
        "figure-3-2-sources",
        "figure-4",
        "stream-rates",
        "spread-1-source",
        "spread-2-sources",
    ]
    assert "3 set-ups, n = 3 per point; error bars: 95 % confidence interval of the mean over set-ups" in (
        figures["figure-3"].caption
    )
    (mark, _) = figures["figure-3"].panels[0].curves[0].marks
    assert mark.dots == pytest.approx((80, 81, 82), rel=1e-4)
    (panel,) = figures["figure-4"].panels
    assert [mark.x for mark in panel.curves[0].marks] == [0, 1]
    old = drawn(tmp_path / "old.sqlite", lambda n, mbps, block, point, trials, **how: taken(n, mbps, **how))
    assert "n = 3 per point, one set-up" in old["figure-3"].caption
    assert "of this set-up only" in old["figure-3"].caption


def second(n: int, out: float | None = None, **how: Any) -> dict[str, Any]:
    """A run beside a second guest that forwards."""
    rates = (72.0, 60.0 + n / 10 if out is None else out)
    return taken(n, 80 + n / 10, platform="lxc", kind="forwarding-95", second_mbps=rates, **how)


def test_tables_2_and_3_are_the_second_guests_own_rates_averaged_over_the_first_guests_loads(store_file: Path) -> None:
    runs = [second(n) for n in range(3)] + [second(10 + n, target="max") for n in range(3)]
    report = report_of(store_file, [*runs, taken(50, 90, platform="lxc")])
    assert not [table for table in report.tables if table.name == "table-2"]
    (row,) = rows_of(table_named(report, "table-3"))
    assert (row["platform"], row["frame_size_bytes"], row["trials"], row["target_bps"]) == ("lxc", 1000, 6, "all")
    assert row["offered_mean_bps"] == pytest.approx(72e6, rel=1e-4)
    assert row["measured_mean_bps"] == pytest.approx(60.6e6, rel=1e-4)
    assert row["measured_ci_low_bps"] < row["measured_mean_bps"] < row["measured_ci_high_bps"]
    assert (row["word"], row["why"]) == ("no claim", "one set-up")
    by_load = rows_of(table_named(report, "second-guest"))
    assert [(r["target_bps"], r["trials"]) for r in by_load] == [(100_000_000, 3), ("max", 3)]
    assert not found(report, "second_guest_loses")


def test_a_second_guest_of_which_nothing_is_known_enters_no_table(store_file: Path) -> None:
    data = second(1)
    data["background"]["streams"][0]["measured_bps"] = None
    report = report_of(store_file, [data])
    assert not {"table-3", "second-guest"} & {table.name for table in report.tables}


def _beside(kind: str, values: list[float], platform: str = "lxc", first: int = 0) -> list[dict[str, Any]]:
    return [
        measured(first + n, value, block=n + 1, point=first // 10, platform=platform, kind=kind, set_ups=len(values))
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize(("set_ups", "interval", "claims"), [(2, False, ""), (3, True, "1 claim was tested as one")])
def test_the_head_counts_claims_and_says_which_interval_there_is(
    tmp_path: Path, set_ups: int, interval: bool, claims: str
) -> None:
    runs = [*_beside("none", [80.0, 80.1, 80.3][:set_ups]), *_beside("none", [60.0, 60.3, 60.1][:set_ups], "raw", 10)]
    words = " ".join(report_of(tmp_path / "a.sqlite", runs).conclusions)
    assert ("its interval that of set-ups" in words) == interval
    assert ("without an interval" in words) != interval
    assert claims in words


def _figure_5(path: Path, *runs: list[dict[str, Any]]) -> Any:
    figures = {figure.name: figure for figure in report_of(path, [run for held in runs for run in held]).figures}
    return figures.get("figure-5")


def test_figure_5_draws_no_ratio_of_maxima_that_were_not_reached(tmp_path: Path) -> None:
    reached = [*_beside("none", [80.0, 80.1, 80.2]), *_beside("forwarding-50", [60.0, 60.1, 60.3], first=10)]
    carried = [*_beside("none", [100.0] * 3, "raw", 20), *_beside("forwarding-50", [90.0] * 3, "raw", 30)]
    figure = _figure_5(tmp_path / "a.sqlite", reached, carried)
    (curve,) = figure.panels[0].curves
    assert [figure.x_names[int(mark.x)] for mark in curve.marks] == ["lxc"]
    assert "1 of 2 ratios are not drawn: a maximum was not reached." in figure.caption
    assert "lower bounds" not in figure.caption
    assert _figure_5(tmp_path / "b.sqlite", carried) is None


def test_dots_of_figure_5_are_those_of_the_pairs_alone(tmp_path: Path) -> None:
    runs = [*_beside("none", [80.0, 80.1, 80.2, 0.0]), *_beside("forwarding-50", [60.0, 60.1, 60.3, 60.2], first=10)]
    runs[3]["conditions"]["uut_boot_id"] = "another"
    figure = _figure_5(tmp_path / "a.sqlite", runs)
    (mark,) = figure.panels[0].curves[0].marks
    assert mark.dots == pytest.approx((0.75, 60.1 / 80.1, 60.3 / 80.2), rel=1e-3)


def test_figure_5_and_table_1_are_each_against_the_papers_own_baseline(store_file: Path) -> None:
    runs = [
        run
        for place, (kind, mbps) in enumerate((("none", 90), ("idle", 85), ("light", 80), ("forwarding-95", 70)))
        for run in set_ups_of([mbps, mbps + 0.1, mbps + 0.3], 10 * place, platform="lxc", kind=kind, point=place)
    ]
    report = report_of(store_file, runs)
    (cpu, idle) = rows_of(table_named(report, "table-1"))
    (network,) = rows_of(table_named(report, "figure-5-numbers"))
    assert (cpu["background"], cpu["baseline"], network["baseline"]) == ("light", "idle", "none")
    assert (idle["background"], idle["baseline"]) == ("idle", "none")
    assert cpu["change_ratio"] == pytest.approx(80.1 / 85.1 - 1, rel=1e-2)
    (figure,) = (figure for figure in report.figures if figure.name == "figure-5")
    (mark,) = figure.panels[0].curves[0].marks
    assert mark.low is not None and mark.high is not None and mark.low < mark.y < mark.high
    assert "compared with the dedicated maximum (no second guest)" in figure.caption
    assert "interval of the ratio within a block over set-ups" in figure.caption


def test_a_background_tried_at_one_load_is_compared_with_that_load_alone(store_file: Path) -> None:
    runs = [taken(n, 190 + n / 10, platform="lxc", target=200_000_000) for n in range(3)]
    runs += [taken(10 + n, 100 + n / 10, platform="lxc", target="max") for n in range(3)]  # collapsed
    runs += [taken(20 + n, 100 + n / 10, platform="lxc", target="max", kind="heavy") for n in range(3)]
    runs += [taken(30 + n, 100, platform="lxc", target=900_000_000, kind="light") for n in range(3)]
    (row,) = rows_of(table_named(report_of(store_file, runs), "table-1"))
    assert (row["background"], row["baseline"], row["loads"]) == ("heavy", "none", 1)
    assert row["change_ratio"] == pytest.approx(0, abs=1e-6)


def test_a_bar_without_an_interval_has_no_error_bar() -> None:
    bare, known = Mark(0, 1.0, None, None, 3), Mark(1, 1.0, 0.9, 1.2, 3)
    assert figure_drawing._errors((bare,)) is None
    errors = figure_drawing._errors((bare, known))
    assert errors is not None and math.isnan(errors[0][0]) and errors[1][1] == pytest.approx(0.2)


def test_background_load_is_shown_asked_for_and_reached(store_file: Path) -> None:
    report = report_of(store_file, [taken(n, 80, kind="light", platform="lxc") for n in range(3)])
    rows = {row["quantity"]: row for row in rows_of(table_named(report, "background-load"))}
    demand = rows["demand_ratio"]
    assert (demand["requested_mean"], demand["achieved_mean"], demand["runs"]) == (1.0, pytest.approx(0.998), 3)
    assert demand["guest"] == "guest-b, CPU 3"
    assert rows["guest_cpu_s"]["requested_mean"] is None


def test_a_papers_tables_stand_beside_ones_own_where_the_platform_is_the_same(store_file: Path) -> None:
    runs = [taken(n, 90 + n / 10, platform="openvz", kind="idle", size=64) for n in range(3)]
    runs += [taken(10 + n, 80 + n / 10, platform="openvz", kind="heavy", size=64) for n in range(3)]
    runs += [second(30 + n, size=64) for n in range(3)]
    plain = report_of(store_file, runs, reference=load_reference("schlosser"))
    (row,) = rows_of(table_named(plain, "table-1-beside-schlosser"))
    assert (row["platform"], row["paper_change_percent"]) == ("openvz", -18.2)
    assert row["difference_percentage_points"] == pytest.approx(row["own_change_percent"] + 18.2)
    assert not [table for table in plain.references if table.name.startswith("table-3")]
    mapped = report_of(store_file, runs, reference=load_reference("schlosser"), names={"lxc": "KVM"})
    (row,) = rows_of(table_named(mapped, "table-3-beside-schlosser"))
    assert (row["paper_platform"], row["paper_offered_mbps"], row["paper_measured_mbps"]) == ("kvm", 72.1, 64.6)
    assert row["paper_lost_percent"] == pytest.approx(10.4, abs=0.01)
    for table in mapped.references:
        assert "Schlosser" in table.note and "hardware" in table.note
    assert not any("schlosser" in curve.label for f in mapped.figures for p in f.panels for curve in p.curves)


def test_beside_a_paper_no_change_is_told_where_a_maximum_was_not_reached(store_file: Path) -> None:
    runs = [taken(n, 100, platform="openvz", kind="idle", size=64) for n in range(3)]
    runs += [taken(10 + n, 80 + n / 10, platform="openvz", kind="heavy", size=64) for n in range(3)]
    table = table_named(report_of(store_file, runs, reference=load_reference("schlosser")), "table-1-beside-schlosser")
    (row,), (shown,) = rows_of(table), table.shown
    assert (row["own_change_percent"], row["difference_percentage_points"]) == (None, None)
    assert row["paper_change_percent"] == -18.2
    assert shown[-3:] == ("– (no claim: a maximum was not reached)", "−18.2", "–")


def test_beside_a_paper_the_change_is_that_of_ones_own_table(store_file: Path) -> None:
    """The means fall by 12.5 %, the ratios of the blocks by their geometric mean, 13.5 %."""
    pairs = ((50.0, 40.0), (60.0, 54.0), (90.0, 81.0))
    runs = [
        measured(
            10 * block + place,
            mbps,
            block=block,
            point=place,
            platform="openvz",
            kind=("idle", "heavy")[place],
            size=64,
        )
        for block, both in enumerate(pairs, 1)
        for place, mbps in enumerate(both)
    ]
    report = report_of(store_file, runs, reference=load_reference("schlosser"))
    (row,) = rows_of(table_named(report, "table-1-beside-schlosser"))
    assert row["own_change_percent"] == pytest.approx(100 * ((0.8 * 0.9 * 0.9) ** (1 / 3) - 1), abs=0.01)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [({"lxc": "hyper-v"}, "is not a platform of the paper"), ({"nope": "KVM"}, "is not a platform of these runs")],
)
def test_a_wrong_mapping_to_a_paper_says_what_there_is(store_file: Path, names: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as wrong:
        report_of(store_file, [second(1)], reference=load_reference("schlosser"), names=names)
    assert wrong.value.allowed


def test_the_shipped_tables_are_whole() -> None:
    reference = load_reference("schlosser")
    assert {name: len(rows) for name, rows in reference.tables.items()} == {"table1": 24, "table2": 28, "table3": 28}
    assert len(reference.platforms) == 7
    with pytest.raises(ConfigError, match="schlosser"):
        load_reference("knuth")


def test_text_is_escaped_for_where_it_goes() -> None:
    assert escape_latex("a_b & 5 %") == r"a\_b \& 5 \%"
    save_me = results([], {})
    assert to_markdown(save_me).startswith("**Every design point**")


def test_latex_and_markdown_hold_every_row_with_its_interval(store_file: Path) -> None:
    table = table_named(report_of(store_file, [second(n) for n in range(3)]), "table-3")
    assert to_latex(table).count(r"\\") == 2
    assert r"72.0 $\pm$" in to_latex(table)
    assert "| 1000 | lxc | 1 | 1 × 3 | 72.0 ± 0.0 | 60.1 ± " in to_markdown(table)


def run_report(store_file: Path, *args: str) -> int:
    return main.main(["report", "--store", str(store_file), *args])


def test_the_command_writes_every_file_and_the_page_stands_alone(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [taken(i, 90 + i, platform="<script>alert(1)</script>") for i in range(3)]
    runs += [taken(10 + i, 60 + i, target=200_000_000) for i in range(3)] + [taken(90, 1, status="invalid")]
    save(store_file, [*runs, *(second(100 + n) for n in range(3))])
    out = tmp_path / "out"
    assert run_report(store_file, "--out", str(out), "--reference", "schlosser") == 0
    names = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    for name in ("figure-3", "figure-4"):
        assert {f"{name}.svg", f"{name}.pdf", f"{name}.png"} <= names
    for name in ("results", "table-3", "second-guest", "background-load"):
        assert {f"{name}.csv", f"{name}.md", f"{name}.tex"} <= names
    assert {"report.html", "runs.csv"} <= names
    text = (out / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "Emulated testbed" in text
    for part in (
        "RFC 2544",
        "7d3f9a11c0de4b52",
        "pktgen 2.75",
        "the operator stopped the run",
        "198.18.0.0/15",
    ):
        assert part in text, part
    with (out / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert [(row["enters"], row["why_not"]) for row in rows].count(("False", "invalid")) == 1


def test_the_page_loads_nothing_from_elsewhere(store_file: Path, tmp_path: Path) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    out = tmp_path / "out"
    assert run_report(store_file, "--out", str(out), "--formats", "html") == 0
    assert [path.name for path in out.iterdir()] == ["report.html"]
    text = (out / "report.html").read_text()
    tags = re.findall(r"<[^>]*>", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert not [tag for tag in tags if "http:" in tag or "https:" in tag or "//" in tag]
    for tag in tags:
        for value in re.findall(r'(?:href|src|srcset|data|action)="([^"]*)"', tag):
            assert value.startswith("#"), tag
    for loads in ("@import", "<link", "<iframe", "<object", "javascript:", " onload"):
        assert loads not in text
    assert not [url for url in re.findall(r"url\(([^)]*)\)", text) if not url.strip("'\"").startswith("#")]


def test_only_the_formats_that_are_asked_for_are_written(store_file: Path, tmp_path: Path) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    out = tmp_path / "out"
    assert run_report(store_file, "--out", str(out), "--formats", "png,md") == 0
    assert {path.suffix for path in out.iterdir()} == {".png", ".md"}
    assert run_report(store_file, "--out", str(out), "--formats", "gif") == 2
    assert run_report(store_file, "--formats", "png") == 2


def test_the_same_runs_give_the_same_figures_byte_for_byte(store_file: Path, tmp_path: Path) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    for name in ("a", "b"):
        assert run_report(store_file, "--out", str(tmp_path / name)) == 0
    for suffix in ("svg", "pdf", "png"):
        first, second = ((tmp_path / name / f"figure-3.{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second, suffix


def test_the_same_runs_give_the_same_page_and_tables(store_file: Path, tmp_path: Path) -> None:
    save(store_file, evaluation(3, platforms=("raw", "container"), sizes=(64,), targets=(10**8, "max"), margin=0.02))
    for name in ("a", "b"):
        assert run_report(store_file, "--out", str(tmp_path / name), "--formats", "csv,html") == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_json_gives_selection_tables_and_findings_as_objects(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        run
        for load in (10**8, "max")
        for run in set_ups_of(
            [90, 90.2, 90.1] if load == 10**8 else [50, 50.1, 50.2],
            0 if load == 10**8 else 9,
            target=load,
            trials=2,
            point=int(load == "max"),
            fixed=10**8,
        )
    ]
    save(store_file, runs)
    assert run_report(store_file, "--json") == 0
    head, *lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (head["selection"]["filter"], head["planned"], head["entered"], head["claims"]["tested"]) == ("", 6, 6, 1)
    (table,) = (line for line in lines if line.get("table") == "results")
    assert [row["trials"] for row in table["rows"]] == [3, 3]
    (collapse,) = (line for line in lines if line.get("finding") == "collapse")
    assert collapse["claim"]


def test_without_out_the_report_is_in_the_terminal_without_colour_and_as_wide_as_it(
    store_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store_file, evaluation(4, platforms=("raw", "container"), sizes=(64,), targets=(10**8, 4 * 10**8, "max")))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    widths = {}
    for columns in (72, 110):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run_report(store_file) == 0
        text = capsys.readouterr().out
        assert "\x1b" not in text
        widths[columns] = max(len(line) for line in text.splitlines())
        for part in ("● raw", "▲ container", "█ raw", "Maximum accumulated throughput", "Findings", "collapses", "±"):
            assert part in text, part
    assert widths[72] <= 72 < widths[110] <= 110


def test_names_from_elsewhere_cannot_reach_the_terminal_as_escape_sequences(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(store_file, [taken(i, 90 + i, platform="raw\x1b[2J") for i in range(3)])
    assert run_report(store_file) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_filter_and_a_plan_choose_the_runs(
    store_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = {"name": "p", "hash": "a" * 16, "point": 0, "repetition": 1, "seed": 1}
    save(store_file, [taken(1, 90, plan=plan), taken(2, 90, size=64), taken(3, 90, size=64, kind="idle")])

    def sizes(*args: str) -> list[int]:
        assert run_report(store_file, "--json", *args) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (table,) = (line for line in lines if line.get("table") == "results")
        return [row["frame_size_bytes"] for row in table["rows"]]

    assert sizes("size=64", "background=none") == [64]
    assert sizes("--plan", "p") == [1000]
    assert sizes() == [64, 64, 1000]
    assert run_report(store_file, "colour=red") == 2
    assert "there is no field" in capsys.readouterr().err


PLAN = """\
plan: small
platforms: [raw]  # the <only> one
frame_sizes: [1000]
targets: [100Mbit]
duration_s: 1
repetitions: 3
"""


def test_the_plan_in_a_file_chooses_its_runs_and_stands_in_the_page(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(PLAN)
    plan = {"name": "renamed", "hash": load_plan(file).hash(), "point": 0, "repetition": 1, "seed": 7}
    save(store_file, [taken(1, 90, plan=plan), taken(2, 50, platform="lxc")])
    out = tmp_path / "out"
    assert run_report(store_file, "--plan", str(file), "--out", str(out), "--formats", "csv,html") == 0
    text = (out / "report.html").read_text()
    assert "platforms: [raw]  # the &lt;only&gt; one" in text
    assert "seed 7" in text and "lxc" not in text
    file.write_text(PLAN.replace("1000", "64"))
    assert run_report(store_file, "--plan", str(file)) == 2
    assert "matches; the store has" in capsys.readouterr().err
    assert run_report(store_file, "--plan", str(tmp_path / "none.yaml")) == 2


def test_without_matplotlib_the_terminal_still_shows_figures_and_files_name_what_to_install(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    for name in ("matplotlib", "jinja2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run_report(store_file) == 0
    assert "●" in capsys.readouterr().out
    assert run_report(store_file, "--out", str(tmp_path / "o")) == 2
    assert "labconsole[report]" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
    assert run_report(store_file, "--out", str(tmp_path / "o"), "--formats", "csv,tex") == 0


def test_a_damaged_record_is_named_and_the_rest_reported(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(store_file, [taken(i, 90 + i) for i in range(3)])
    with sqlite3.connect(store_file) as connection:
        connection.execute("UPDATE runs SET record = '{}' WHERE run_id LIKE '%000001'")
    connection.close()
    assert run_report(store_file, "--json") == 0
    assert "20261121T000000Z-000001" in capsys.readouterr().err


def test_an_empty_selection_is_said_not_reported(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(store_file, [taken(1, 90)])
    assert run_report(store_file, "--out", str(tmp_path / "o"), "--platforms", "xen") == 2
    said = capsys.readouterr().err
    assert "matches; the store has 1 run; platforms raw; testbeds wuerzburg; no plan" in said
    assert not (tmp_path / "o").exists()


def test_a_figure_in_a_page_keeps_its_own_ids_and_no_name_spaces(store_file: Path) -> None:
    report = report_of(store_file, [taken(i, 90 + i) for i in range(3)])
    svg = figure_drawing.draw_figure(report.figures[0], ["svg"])["svg"].decode()
    text = page.inline_svg(svg, "figure-3", "Figure")
    assert "xmlns" not in text and "<metadata" not in text and "http" not in text
    assert set(re.findall(r'href="#([^"]*)"', text)) <= set(re.findall(r'id="([^"]*)"', text))


def test_of_what_befell_a_run_several_times_the_last_is_shown_whatever_order_a_set_has(store_file: Path) -> None:
    run = taken(1, 90)
    run["influences"] = [{"node": "snk1", "kind": "cleanup", "detail": f"step {n}"} for n in range(9)]
    assert report_of(store_file, [run]).material.digest.influences[("cleanup", "snk1")].detail == "step 8"


def test_a_store_without_runs_says_what_it_has_beside_them(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(store_file)) as store:
        store.import_experiments(JOB, [job_taken((2.0, 3.0), repetition=each) for each in (1, 2)])
    assert run_report(store_file, "size=64") == 2
    said = capsys.readouterr().err
    assert "no saved trial in" in said and "matches; the store has 2 jobs; platforms " in said
    assert "filters are by emulated, fingerprint, hypervisor, kernel, plan, platform, testbed" in said
