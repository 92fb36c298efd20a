"""Why packets were dropped, in a report: the kernel's word with what it means, of runs that enter and of telemetry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.report_runs import measured, set_ups_of
from support.worked import told_work
from unit.report.test_report import report_of, rows_of, table_named


def dropping(run: dict[str, Any], **drops: int) -> dict[str, Any]:
    run["streams"][0]["ledger"][-3]["drops"] = {name.replace("__", "@"): packets for name, packets in drops.items()}
    return run


def told_drops(*, complete: bool, queue_full: int = 0) -> dict[str, Any]:
    """What a record keeps of a kernel that was asked; so many packets were dropped off every stream's path."""
    row = {
        "namespace": "",
        "interface": "eth6",
        "stream": "s1",
        "reason": "NEIGH_QUEUEFULL",
        "function": "__neigh_event_send",
        "packets": queue_full,
    }
    return {
        "version": 1,
        "asked": "auto",
        "budget_ns": 10**7,
        "mode": "tp_btf",
        "tells_reasons": True,
        "passed_packets": 0,
        "looked_packets": 9,
        "unreadable_packets": 0,
        "unlisted_packets": 0,
        "missed_packets": 0,
        "counted_ns": 10**9,
        "ended_early": not complete,
        "complete": complete,
        "estimated_cost_ns": 0,
        "elsewhere": [row] if queue_full else [],
    }


def test_reasons_are_summed_by_platform_and_told_with_what_they_mean(tmp_path: Path) -> None:
    firewall, odd = "kernel.NETFILTER_DROP__nft_do_chain", "kernel.0x20001__mac|<b>"
    raw = [dropping(run, **{firewall: 10, odd: 1, "rx_dropped": 99}) for run in set_ups_of([90, 91, 92])]
    lxc = [dropping(run, **{firewall: 7}) for run in set_ups_of([80, 81, 82], first=100, platform="lxc", point=1)]
    told = dropping(measured(900, 70, block=None, role="telemetry", plan_hash="feedc0dedeadbeef"), **{firewall: 5})
    told["extensions"] = {"telemetry": told_work()}
    void = dropping(measured(901, 70, block=None, status="invalid"), **{firewall: 1000})
    table = table_named(report_of(tmp_path / "s.sqlite", [*raw, *lxc, told, void]), "drop-causes")
    rows = [(row["platform"], row["reason"], row["packets"], row["runs"]) for row in rows_of(table)]
    assert rows == [
        ("raw", "kernel.NETFILTER_DROP@nft_do_chain", 35, 4),
        ("raw", "kernel.0x20001@mac··b·", 3, 3),
        ("lxc", "kernel.NETFILTER_DROP@nft_do_chain", 21, 3),
    ]
    assert rows_of(table)[0]["meaning"] == "a firewall rule dropped it"
    assert "nft list ruleset" in table.shown[0][-1] and table.shown[1][-1] == "–"


def test_a_report_of_runs_that_were_not_asked_has_no_such_table(tmp_path: Path) -> None:
    report = report_of(tmp_path / "s.sqlite", set_ups_of([90, 91, 92]))
    assert "drop-causes" not in {table.name for table in report.tables}


def test_what_was_dropped_off_every_streams_path_has_rows_of_its_own(tmp_path: Path) -> None:
    raw = [dropping(run, **{"kernel.NETFILTER_DROP__f": 1}) for run in set_ups_of([90, 91, 92])]
    for run in raw:
        run["extensions"] = {"kernel_drops": told_drops(complete=True, queue_full=30)}
    table = table_named(report_of(tmp_path / "s.sqlite", raw), "drop-causes")
    rows = [(row["interface"], row["reason"], row["packets"], row["runs"]) for row in rows_of(table)]
    assert ("off the path, at eth6", "kernel.NEIGH_QUEUEFULL@__neigh_event_send", 90, 3) in rows
    assert "off every stream's path" in table.note


def test_sums_that_have_lower_bounds_in_them_are_marked(tmp_path: Path) -> None:
    raw = [dropping(run, **{"kernel.NETFILTER_DROP__f": 10}) for run in set_ups_of([90, 91, 92])]
    lxc = [
        dropping(run, **{"kernel.NETFILTER_DROP__f": 10})
        for run in set_ups_of([80, 81, 82], first=100, platform="lxc", point=1)
    ]
    for number, run in enumerate([*raw, *lxc]):
        run["extensions"] = {"kernel_drops": told_drops(complete=number != 1)}
    table = table_named(report_of(tmp_path / "s.sqlite", [*raw, *lxc]), "drop-causes")
    rows = [(row["platform"], row["packets"], row["runs"], row["partly_counted_runs"]) for row in rows_of(table)]
    assert rows == [("raw", 30, 3, 1), ("lxc", 30, 3, 0)]
    assert [row[3] for row in table.shown] == ["at least 30", "30"]
    assert "At least: " in table.note
