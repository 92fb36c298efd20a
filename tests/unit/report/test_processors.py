"""What packets cost the processors, in a report: of trials that enter no mean, and of those only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labconsole.report.assembly import Report
from support.report_runs import measured, set_ups_of
from support.worked import told_work
from unit.report.test_report import report_of, rows_of, table_named


def watched(
    number: int, mbps: float, *, told: Any = None, forwarded: int | None = 50_000, **how: Any
) -> dict[str, Any]:
    """A run for telemetry, as JSON."""
    run = measured(number, mbps, block=None, role="telemetry", plan_hash="feedc0dedeadbeef", **how)
    run["extensions"] = {"telemetry": told or told_work()}
    for stream in run["streams"]:
        stream["counters"]["uut_out_tx_packets"] = forwarded
        stream["ledger"][-3]["drops"] = {"kernel.QDISC_DROP@dev_qdisc_enqueue": 12, "tx_dropped": 12}
    return run


def tables(report: Report) -> list[str]:
    return [table.name for table in report.tables]


def test_a_row_tells_where_the_time_went_and_why_packets_were_dropped(tmp_path: Path) -> None:
    runs = set_ups_of([90, 91, 92]) + [watched(900, 70), watched(901, 60, forwarded=None)]
    report = report_of(tmp_path / "s.sqlite", runs)
    table = table_named(report, "processors")
    first, second = rows_of(table)
    assert (first["forwarded_packets"], first["busy_ns"], first["softirq_ns"]) == (50_000, 1_700_000_000, 1_000_000_000)
    assert first["processes"] == "ksoftirqd/0 900000000"
    assert first["drops"] == "kernel.QDISC_DROP@dev_qdisc_enqueue 12"
    shown = dict(zip(table.headings, (cell.replace("\u2009", " ") for cell in table.shown[0]), strict=True))
    assert (shown["ns per packet"], shown["softirq"], shown["busy"], shown["busiest"]) == (
        "34 000",
        "20 000",
        "0.85",
        "70 %",
    )
    assert second["forwarded_packets"] is None and table.shown[1][6] == "–"


def test_a_doubt_about_a_trial_stands_beside_its_figures(tmp_path: Path) -> None:
    why = [{"code": "unseen_cpu", "detail": "118 % of a processor", "evidence": None}]
    runs = [*set_ups_of([90, 91, 92]), watched(900, 70, status="suspect", reasons=why), watched(901, 70)]
    table = table_named(report_of(tmp_path / "s.sqlite", runs), "processors")
    assert [row["doubts"] for row in rows_of(table)] == ["unseen_cpu", ""]
    assert [row[-1] for row in table.shown] == ["unseen_cpu", "none"]


def test_telemetry_changes_no_mean_and_no_count_of_what_is_missing(tmp_path: Path) -> None:
    plain = report_of(tmp_path / "a.sqlite", set_ups_of([90, 91, 92]))
    beside = report_of(tmp_path / "b.sqlite", set_ups_of([90, 91, 92]) + [watched(900, 10), watched(901, 20)])
    assert "processors" not in tables(plain)
    (before,), (after,) = (each.material.evaluation.points for each in (plain, beside))
    assert before == after
    assert plain.material.coverage == beside.material.coverage
    assert [code for code, _ in beside.material.kept.excluded_by_reason] == ["telemetry"]
    assert plain.material.digest.plans == beside.material.digest.plans
    assert beside.material.digest.left_out == []


def test_what_another_version_told_is_not_shown_and_ends_no_report(tmp_path: Path) -> None:
    odd = watched(900, 10, told={**told_work(), "version": 2})
    assert "processors" not in tables(report_of(tmp_path / "s.sqlite", [*set_ups_of([90, 91, 92]), odd]))
