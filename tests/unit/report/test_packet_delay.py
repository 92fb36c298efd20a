"""Delay of every packet in a report: points whose delays are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labconsole.contracts.report import Figure, Panel, PlottedCurve
from labconsole.report import figure_drawing
from labconsole.report.assembly import Report
from labconsole.report.panels import collect_labels, draw_panel
from support.report_runs import set_ups_of
from support.timed_packets import told_times
from unit.report.test_report import found, report_of, rows_of, table_named

LOADS_MBPS = (100, 500, 900, 1000)


def timed(
    platform: str, slower: int, first: int, *, times: bool = True, due: dict[int, int] | None = None
) -> list[dict[str, Any]]:
    """Runs of a platform at four loads, which forwards 1000 Mbit/s and the more slowly the more it is to do."""
    runs: list[dict[str, Any]] = []
    for place, mbps in enumerate(LOADS_MBPS):
        most_us = slower * (place + 1)
        delays = {20_000 * most_us: 9_000, 50_000 * most_us: 990, 900_000 * most_us: 10}
        made = set_ups_of(
            [mbps, mbps * 1.001, mbps * 0.999],
            first + 10 * place,
            platform=platform,
            point=place + first,
            target=mbps * 10**6,
            offered_mbps=float(mbps),
            trials=len(LOADS_MBPS),
        )
        for run in made if times else ():
            for stream in run["streams"]:
                stream["extensions"] = {"packet_times": told_times(delays, due=due)}
        runs += made
    return runs


def figures(report: Report) -> list[Figure]:
    return [figure for figure in report.figures if figure.name == "packet-delay-quantiles"]


def test_each_point_has_the_quantiles_of_all_its_packets(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", timed("raw", 1, 0))
    rows = rows_of(table_named(report, "packet-delay"))
    assert [(row["trials"], row["packets"]) for row in rows] == [(3, 30_000)] * 4
    for place, row in enumerate(rows):
        assert row["p50_ns"] == pytest.approx(20_000 * (place + 1), rel=1 / 128)
        assert row["p99_ns"] == pytest.approx(50_000 * (place + 1), rel=1 / 128)
        assert row["p9999_ns"] == row["max_ns"] == 900_000 * (place + 1)


def test_where_the_senders_interval_is_known_a_row_counts_from_when_packets_were_due(tmp_path: Path) -> None:
    due = {500_000: 9_900, 70_000_000: 100}
    report = report_of(tmp_path / "s.sqlite", timed("raw", 1, 0, due=due))
    rows = rows_of(table_named(report, "packet-delay"))
    assert [row["since"] for row in rows] == ["sent", "due"] * 4
    assert {(row["packets"], row["max_ns"]) for row in rows if row["since"] == "due"} == {(30_000, 70_000_000)}
    (over_load,) = [figure for figure in report.figures if figure.name == "packet-delay-load"]
    assert [panel.title.rpartition(", ")[2] for panel in over_load.panels] == ["median", "99 %"]
    (curve,) = over_load.panels[0].curves
    assert [mark.x for mark in curve.marks] == pytest.approx(LOADS_MBPS, rel=1e-3)
    assert [mark.y for mark in curve.marks] == pytest.approx([20, 40, 60, 80], rel=1 / 128)
    (figure,) = figures(report)
    assert max(mark.y for panel in figure.panels for curve in panel.curves for mark in curve.marks) < 4000


def test_curves_are_of_points_near_a_tenth_a_half_and_nine_tenths(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", timed("raw", 1, 0) + timed("container", 3, 100))
    (figure,) = figures(report)
    assert [panel.title.split(" at ")[1][:4] for panel in figure.panels] == ["10 %", "50 %", "90 %"]
    for place, panel in enumerate(figure.panels):
        assert [curve.label for curve in panel.curves] == ["raw", "container"]
        for curve, slower in zip(panel.curves, (1, 3), strict=True):
            assert curve.marks[0].y == pytest.approx(20 * slower * (place + 1), rel=1 / 128)
            assert curve.marks[-1].y == pytest.approx(900 * slower * (place + 1), rel=1 / 128)
            assert curve.marks[-1].x == 4.25  # 30 000 packets: one in 17 783
    assert figure_drawing.draw_figure(figure, ("svg",))["svg"]
    lines = draw_panel(figure, figure.panels[0], collect_labels(figure), 100, 17)
    text = "\n".join("".join(part for part, _ in row) for row in lines)
    assert "100┤" in text and "1000┤" in text


def test_the_most_that_was_forwarded_is_of_all_targets_and_not_of_the_highest(tmp_path: Path) -> None:
    runs = timed("raw", 1, 0)
    runs += set_ups_of([500, 500.5, 499.5], 100, platform="raw", point=100, target="max", offered_mbps=2000.0)
    for run in runs:  # a pilot fixed the maximum at the highest target
        run["plan"] |= {"set_up_trials": len(LOADS_MBPS) + 1, "fixed": {"maximum_target_bps": "max"}}
    (figure,) = figures(report_of(tmp_path / "s.sqlite", runs))
    assert [panel.title.split(" at ")[1][:4] for panel in figure.panels] == ["10 %", "50 %", "90 %"]
    for place, panel in enumerate(figure.panels):
        assert panel.curves[0].marks[0].y == pytest.approx(20 * (place + 1), rel=1 / 128)


def test_curves_have_one_order_also_where_a_panel_lacks_some() -> None:
    def panel(*labels: str) -> Panel:
        return Panel("", tuple(PlottedCurve(label, ()) for label in labels))

    def order(*panels: Panel) -> list[str]:
        return collect_labels(
            Figure(
                name="f",
                title="",
                kind="curves",
                x_label="",
                y_label="",
                panels=panels,
                caption="",
                ideal=False,
            )
        )

    assert order(panel("raw", "e1000", "uml"), panel("raw", "virtio", "uml")) == ["raw", "e1000", "virtio", "uml"]
    assert order(panel("b"), panel("a", "b", "c")) == ["a", "b", "c"]
    assert order(panel("b", "a"), panel("a", "c")) == ["b", "a", "c"]


def test_platforms_without_such_points_are_left_out(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", timed("raw", 1, 0) + timed("container", 3, 100, times=False))
    (figure,) = figures(report)
    assert collect_labels(figure) == ["raw"]
    assert {row["platform"] for row in rows_of(table_named(report, "packet-delay"))} == {"raw"}


def test_a_point_of_which_one_trial_does_not_tell_is_left_out(tmp_path: Path) -> None:
    runs = timed("raw", 1, 0)
    runs[0]["streams"][0]["extensions"] = {}
    runs[4]["streams"][0]["extensions"]["packet_times"]["delay_ns"]["packets"] = 3
    rows = rows_of(table_named(report_of(tmp_path / "s.sqlite", runs), "packet-delay"))
    assert [row["target_bps"] for row in rows] == [900_000_000, 1_000_000_000]


def test_a_mean_of_runs_with_and_without_times_is_told(tmp_path: Path) -> None:
    runs = timed("raw", 1, 0)
    assert found(report_of(tmp_path / "all.sqlite", runs), "mixed_asking") == []
    runs[0]["streams"][0]["extensions"] = {}
    runs[1]["extensions"] = {"kernel_drops": {"version": 1, "refused": {"code": "no_permission", "message": "m"}}}
    (finding,) = found(report_of(tmp_path / "some.sqlite", runs), "mixed_asking")
    assert "raw: one mean combines runs with and runs without times of packets from the nodes' kernels" in (
        finding.sentence
    )
    assert "target 100" in finding.sentence and "target 500" not in finding.sentence
    assert len(finding.run_ids) == 3


def test_a_delay_of_nothing_has_no_place_on_a_logarithmic_axis(tmp_path: Path) -> None:
    runs = timed("raw", 1, 0)
    for run in runs:
        run["streams"][0]["extensions"] = {"packet_times": told_times({0: 9_000, 40_000: 1_000, 900_000: 600})}
        run["streams"][0]["extensions"]["packet_times"] |= {"reason": None}
    report = report_of(tmp_path / "s.sqlite", runs)
    for figure in figures(report):
        assert all(mark.y > 0 for panel in figure.panels for curve in panel.curves for mark in curve.marks)


def test_without_times_there_is_neither(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", timed("raw", 1, 0, times=False))
    assert figures(report) == []
    assert "packet-delay" not in {table.name for table in report.tables}
