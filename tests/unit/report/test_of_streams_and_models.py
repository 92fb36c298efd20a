"""What a report shows of streams, of the spread of trials, of an idle second guest, and of a packet's cost: made-up runs
whose truth is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.report import Figure
from labconsole.report import figure_drawing
from labconsole.report.assembly import Report
from support.report_runs import WIRE_EXTRA_BYTES, measured, set_ups_of
from unit.report.test_report import report_of, rows_of, table_named

FIXED_NS, BYTE_NS = 900.0, 2.5
SIZES = (64, 500, 1000, 1500)


def figure_named(report: Report, name: str) -> Figure:
    (figure,) = (figure for figure in report.figures if figure.name == name)
    return figure


def names(report: Report) -> set[str]:
    return {figure.name for figure in report.figures} | {table.name for table in report.tables}


def costing(sizes: tuple[int, ...] = SIZES, *, bent: float = 0.0, kind: str = "none") -> list[dict[str, Any]]:
    """Runs of a platform on which a packet takes 900 ns and 2.5 ns a byte; ``bent``: the largest size takes so much longer."""
    runs = []
    for place, size in enumerate(sizes):
        ns = (FIXED_NS + BYTE_NS * size) * (1 + (bent if size == sizes[-1] else 0.0))
        most_mbps = 1e3 / ns * 8 * (size + WIRE_EXTRA_BYTES)
        for load, (target, passed) in enumerate(((10**9, 1.0), (2 * 10**9, 1.0))):
            values = [most_mbps * passed * (1 + 0.001 * wiggle) for wiggle in (-1, 0, 1, 0)]
            runs += set_ups_of(
                values,
                100 * place + 10 * load,
                point=2 * place + load,
                size=size,
                target=target,
                fixed=2 * 10**9,
                offered_mbps=most_mbps * (1.2 + load),
                kind=kind,
                trials=2 * len(sizes),
            )
    return runs


def test_the_cost_of_a_packet_is_found_with_both_its_parts(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", costing())
    (row,) = rows_of(table_named(report, "packet-cost"))
    assert row["constant_ns"] == pytest.approx(FIXED_NS, rel=0.005)
    assert row["per_byte_ns"] == pytest.approx(BYTE_NS, rel=0.005)
    assert row["constant_ci_low_ns"] < FIXED_NS < row["constant_ci_high_ns"]
    assert row["lack_of_fit_p"] > 0.05
    assert abs(row["worst_prediction_ratio"]) < 0.01
    for each in rows_of(table_named(report, "packet-cost-loss")):
        assert each["foretold_loss_ratio"] == pytest.approx(each["missing_ratio"], abs=0.01)
    drawn = figure_named(report, "packet-cost")
    assert [curve.label for curve in drawn.panels[0].curves] == ["raw", "raw: c0 + c1 · s"]
    assert figure_drawing.draw_figure(drawn, ("svg",))["svg"]


def test_a_cost_that_is_no_line_is_told_as_such(tmp_path: Path) -> None:
    (row,) = rows_of(table_named(report_of(tmp_path / "s.sqlite", costing(bent=0.3)), "packet-cost"))
    assert row["lack_of_fit_p"] < 0.001
    assert abs(row["worst_prediction_ratio"]) > 0.1


def test_no_model_is_made_of_two_sizes_nor_of_maxima_that_were_not_reached(tmp_path: Path) -> None:
    few = report_of(tmp_path / "few.sqlite", costing(SIZES[:2]))
    assert not {"packet-cost", "packet-cost-loss"} & names(few)
    runs = [
        run
        for place, size in enumerate(SIZES)
        for run in set_ups_of([100.0, 100.0, 100.0], 10 * place, point=place, size=size, target=10**8, trials=4)
    ]
    assert "packet-cost" not in names(report_of(tmp_path / "carried.sqlite", runs))


def test_each_stream_has_a_bar_with_its_interval_and_the_word_of_the_test(tmp_path: Path) -> None:
    runs = []
    for block, mbps in enumerate((299.0, 300.0, 301.0, 300.0), 1):
        run = measured(block, mbps, block=block, sources=3, set_ups=4, target=2 * 10**8, offered_mbps=600.0)
        shift = (0.5, 1.25, 1.25)
        for each, factor in zip(run["streams"], shift, strict=True):
            for name in ("forwarding_pps", "forwarding_bps", "measured_pps", "measured_bps"):
                each[name] *= factor
        runs.append(run)
    report = report_of(tmp_path / "s.sqlite", runs)
    rows = rows_of(table_named(report, "stream-rates"))
    assert [row["stream"] for row in rows] == ["s1", "s2", "s3"]
    assert [row["forwarding_mean_bps"] / 1e6 for row in rows] == [
        pytest.approx(each, rel=0.01) for each in (50, 125, 125)
    ]
    assert all(
        row["forwarding_ci_low_bps"] < row["forwarding_mean_bps"] < row["forwarding_ci_high_bps"] for row in rows
    )
    assert {row["equal_share"] for row in rows} == {
        row["word"] or f"no claim: {row['why']}" for row in rows_of(table_named(report, "streams"))
    }
    panel = figure_named(report, "stream-rates").panels[0]
    assert [curve.label for curve in panel.curves] == ["s1", "s2", "s3"]
    assert all(curve.marks[0].low is not None and len(curve.marks[0].dots) == 4 for curve in panel.curves)


def test_every_repetition_is_a_dot_about_its_points_mean(tmp_path: Path) -> None:
    runs = [
        measured(number, mbps, block=1, repetition=number + 1, repetitions=4, trials=4, target=10**9)
        for number, mbps in enumerate((100.0, 110.0, 90.0, 100.0))
    ]
    drawn = figure_named(report_of(tmp_path / "s.sqlite", runs), "spread-1-source")
    (mark,) = drawn.panels[0].curves[0].marks
    assert sorted(mark.dots) == [pytest.approx(each, abs=0.02) for each in (-10, 0, 0, 10)]
    assert mark.y == 0
    assert figure_drawing.draw_figure(drawn, ("svg",))["svg"]


def test_an_idle_guest_is_drawn_over_none_at_every_load(tmp_path: Path) -> None:
    runs = []
    for load, (target, alone, idle) in enumerate(((10**8, 100.0, 100.0), (10**9, 400.0, 300.0))):
        for kind, mbps, place in (("none", alone, 0), ("idle", idle, 50)):
            runs += set_ups_of(
                [mbps * each for each in (0.999, 1.0, 1.001)],
                100 * load + place,
                point=2 * load + bool(place),
                target=target,
                kind=kind,
                platform="lxc",
                trials=2,
            )
    report = report_of(tmp_path / "s.sqlite", runs)
    rows = rows_of(table_named(report, "idle-guest"))
    assert [row["change_ratio"] for row in rows] == [pytest.approx(0, abs=1e-3), pytest.approx(-0.25, abs=1e-3)]
    (panel,) = figure_named(report, "idle-guest").panels
    assert [curve.label for curve in panel.curves] == ["no second guest", "an idle second guest"]
    assert [len(curve.marks) for curve in panel.curves] == [2, 2]


def test_without_such_runs_there_is_nothing_of_it(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", [measured(1, 100.0)])
    assert not {"idle-guest", "stream-rates", "packet-cost", "spread-1-source"} & names(report)
