"""Contradictions made by hand, one at a time, in a store that is really consistent: verify finds every one of them.

Each changes one thing in one place (consistent_runs.py) and says where verify has to see it. The store as it is gives
no difference; so do the runs that the program's own assembly makes (test_verdict.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.measure.recompute.record import examine
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import load_inventory
from labconsole.model.record.run import Failure, InForce, RunRecord, SetUp
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances
from labconsole.store.open import open_store
from labconsole.store.records import parse_record
from labconsole.verdict.record import build_record
from support.consistent_runs import by_id, consistent
from support.contradictory_runs import (
    ONE,
    PPS,
    RECORD,
    SEVERAL,
    Change,
    beyond_calibration,
    copied,
    set_to,
)
from support.observed_trials import SENT, observe
from support.testbeds import GOOD


def verified(tmp_path: Path, runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the command says of a store of these runs, line by line; the last line is the summary."""
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        for number, data in enumerate(runs):
            store.save(parse_record(data, f"run {number}"))
    status = main(["verify", "--store", str(path), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == (1 if lines[-1]["differences"] else 0)
    return lines


@pytest.mark.parametrize(("name", "run_id", "change", "where"), RECORD, ids=[each[0] for each in RECORD])
def test_a_contradiction_within_a_record_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, run_id: str, change: Any, where: str
) -> None:
    runs = consistent()
    change(by_id(runs)[run_id])
    found = verified(tmp_path, runs, capsys)[:-1]
    assert any(line["run_id"] == run_id and line["where"].startswith(where) for line in found), found


@pytest.mark.parametrize(("name", "change", "run_id", "where"), SEVERAL, ids=[each[0] for each in SEVERAL])
def test_a_contradiction_between_records_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, change: Change, run_id: str, where: str
) -> None:
    runs = by_id(consistent())
    change(runs)
    found = verified(tmp_path, list(runs.values()), capsys)[:-1]
    assert any(line["run_id"] == run_id and line["where"].startswith(where) for line in found), found


def test_there_are_forty_contradictions_and_more() -> None:
    assert len(RECORD) + len(SEVERAL) >= 40
    assert len({each[0] for each in (*RECORD, *SEVERAL)}) == len(RECORD) + len(SEVERAL)


def test_the_consistent_store_gives_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(tmp_path, consistent(), capsys) == [
        {"runs": len(consistent()), "searches": 0, "differences": 0, "unreadable": 0}
    ]


@pytest.mark.parametrize(
    ("rate_pps", "calibrated_pps"), [(PPS, 0.9 * PPS), (PPS, PPS / 1.011), (PPS, 0.0), (300_000.0, 0.9 * PPS)]
)
def test_a_run_beyond_its_calibration_is_no_contradiction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate_pps: float, calibrated_pps: float
) -> None:
    """By what was asked for; at target max, for which nobody asks a rate, by what the calibration found."""
    runs = by_id(consistent())
    beyond_calibration(rate_pps=rate_pps, calibrated_pps=calibrated_pps)(runs[ONE])
    if rate_pps != PPS:
        set_to("requested.target_bps", "max")(runs[ONE])
        unasked = {"intended_pps": None, "intended_packets": None, "delay_ns": 0}
        set_to("streams.0", lambda sent: sent | unasked)(runs[ONE])
    found = verified(tmp_path, list(runs.values()), capsys)[:-1]
    assert [line for line in found if line["where"].startswith("verdict")] == []


def test_a_set_up_that_broke_off_and_was_taken_again_is_no_contradiction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = by_id(consistent())
    for each in runs.values():
        if each["plan"] is not None:
            each["plan"]["set_up_trials"] = 2
    runs["whole-1"] = copied(runs, ONE, "whole-1")
    assert verified(tmp_path, list(runs.values()), capsys)[-1]["differences"] == 0


def test_a_plan_that_gained_a_margin_and_claims_is_no_contradiction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither is in a plan's hash (docs/plans.md)."""
    runs = by_id(consistent())
    set_to("plan.margin_ratio", 0.1)(runs["block-2-kvm"])
    set_to("plan.claims", ["table-1"])(runs["block-2-kvm"])
    assert verified(tmp_path, list(runs.values()), capsys)[-1]["differences"] == 0


# What the program itself assembles, whatever a trial saw, contradicts nothing


def assembled(tmp_path: Path, target: str = "10Mbit", **bend: Any) -> RunRecord:
    """A record from bent observations, as a session takes it."""
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(GOOD)
    inventory = load_inventory(hosts)
    failure, aborted = bend.pop("failure", None), bend.pop("aborted", False)
    unseen = bend.pop("unseen", ())
    seen = observe(inventory, **bend)
    seen.failure, seen.aborted = failure, aborted
    seen.timeline = {"arm_s": 0.1, "send_s": 2.0, "drain_s": 0.6, "count_s": 0.1, "total_s": 2.9}
    for name in unseen:
        if name == "capture":
            seen.streams[0].capture = None
        elif name == "generator":
            seen.streams[0].generated = None
        else:
            del seen.after[name]
    request = DesignPoint(
        platform="raw", frame=FrameSize(64), sources=1, target="max" if target == "max" else 10**7, duration_s=1.0
    )
    limits = Tolerances()
    return build_record(
        seen,
        inventory=inventory,
        request=request,
        operator="t",
        plan=None,
        environment={},
        finished_at="2026-11-21T00:00:03.000Z",
        tolerances=limits,
        set_up=SetUp(id="s", started_at="2026-11-20T23:59:00.000Z", setup_s=1.0, trial=1),
        in_force=InForce(tolerances=limits.model_dump(), settle_s=0.0, drain_s=0.5, sample_interval_s=0.1),
    )


LOST = Failure(failure="node_lost", operation="drain", node="snk1", message="snk1: gone")


@pytest.mark.parametrize(
    "bend",
    [
        {},
        {"target": "max", "sent": 3},
        {"uut_out": SENT - 1000},
        {"sent": SENT - 500},
        {"sent": SENT + 500},
        {"sent": 0, "unseen": ("capture",)},
        {"elapsed_ns": 1_700_000_000},
        {"error_text": "the interface went down"},
        {"captured": SENT - 3, "dropped": 3},
        {"arrived": SENT + 5, "captured": SENT},
        {"captured": SENT, "arrived": SENT - 1},
        {"nic": SENT - 1, "uut_out": SENT - 1},
        {"nic": SENT + 40},
        {"uut_out": SENT + 2},
        {"unseen": ("capture",)},
        {"unseen": ("generator",)},
        {"unseen": ("capture", "snk1")},
        {"unseen": ("src1",)},
        {"unseen": ("uut",)},
        {"unseen": ("uut", "src1", "snk1", "capture", "generator")},
        {"sent": 100, "aborted": True},
        {"failure": LOST},
        {"failure": LOST, "unseen": ("snk1", "capture")},
        {"failure": Failure(failure="capability_missing", operation="arm", node="src1", message="m")},
    ],
    ids=str,
)
def test_what_the_program_assembles_contradicts_nothing(tmp_path: Path, bend: dict[str, Any]) -> None:
    record = assembled(tmp_path, **bend)
    assert [f"{found.where}: {found.sentence}" for found in examine(record, WEIGHT)] == []
