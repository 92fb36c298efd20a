"""A plan in blocks on a real lab: killed in the middle and called again, its set-ups are whole and no two are one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, finished, lab_state, labconsole, records, wait_until

PLAN = """\
plan: blocks
platforms: [container, lxc]
frame_sizes: [64]
targets: [2Mbit, 4Mbit]
backgrounds: [none, idle]
duration_s: 0.2
set_ups: 2
margin: 2%
settle_s: 0
drain_s: 0.2
max_redo: 2
tolerances: {offered_ratio: 1, duration_ratio: 2, other_cpu_ratio: 10, missed_samples_ratio: 1, foreign_packets: 100}
seed: 3
"""
POINTS, TRIALS = 8, 8 + 2 * 8


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"blk{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, platforms=("container", "lxc")))
    lab.down(name)


def test_a_plan_killed_in_a_block_resumes_to_whole_set_ups(testbed, tmp_path: Path):
    plan, store, before = tmp_path / "blocks.yaml", tmp_path / "s.sqlite", lab_state(testbed.spec.name)
    plan.write_text(PLAN)
    process = subprocess.Popen(
        [*COMMAND, "replay", str(plan), "--hosts", str(testbed.hosts_file), "--store", str(store), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = finished(process, POINTS + 3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [each["block"] for each in told] == [0] * POINTS + [1] * 3
    wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=20, what="something was left on a node")

    done = labconsole("replay", str(plan), "--json", hosts=testbed.hosts_file, store=store)
    assert done.returncode in (0, 1), done.stderr
    again = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=store)
    assert f"0 measured (nothing to do), {TRIALS} stored before" in again.stdout

    runs = records(labconsole("runs", "--json", "--limit", "1000", store=store))
    blocked = [run for run in runs if run["plan"]["block"]]
    assert {run["role"] for run in runs if not run["plan"]["block"]} == {"pilot"}
    assert {run["role"] for run in blocked} == {"measured"}
    set_ups: dict[str, set[tuple[int, int, int]]] = {}
    named: dict[str, set[tuple[int, str, str]]] = {}
    for run in blocked:
        place, asked, held = run["plan"], run["requested"], run["set_up"]["id"]
        set_ups.setdefault(held, set()).add((place["block"], place["point"], place["repetition"]))
        named.setdefault(held, set()).add((place["block"], asked["platform"], asked["background"]))
        assert (place["set_up_trials"], place["set_ups"], place["margin_ratio"]) == (2, 2, 0.02)
        fixed = place["fixed"]
        pilot = {r["run_id"]: r for r in runs if r["role"] == "pilot"}
        compared = [pilot[run_id] for run_id in fixed["run_ids"]]
        best = max(compared, key=lambda r: r["total"]["forwarding_pps"] or r["total"]["measured_pps"])
        assert fixed["maximum_target_bps"] == best["requested"]["target_bps"]
        assert {r["requested"]["background"] for r in compared} == {asked["background"]}
    assert all(len(kinds) == 1 for kinds in named.values()), "a set-up is of one platform and background"
    whole = [held for held, places in set_ups.items() if len(places) == 2]
    assert sorted(kind for held in whole for kind in named[held]) == sorted(
        (block, platform, background)
        for block in (1, 2)
        for platform in ("container", "lxc")
        for background in ("none", "idle")
    )
    assert len(set_ups) - len(whole) <= 1 + sum(run["verdict"]["status"] == "invalid" for run in blocked)
    booted = {run["set_up"]["started_at"] for run in blocked}
    assert len(booted) == len(set_ups), "each was set up anew"
    assert lab_state(testbed.spec.name) == before


def test_invalid_trials_that_are_no_fault_of_the_guest_leave_it_standing(testbed, tmp_path: Path):
    """A background load that is never exactly what was asked: every trial is invalid, in one and the same set-up."""
    text = (
        PLAN.replace("[none, idle]", "[light]")
        .replace("[2Mbit, 4Mbit]", "[2Mbit]")
        .replace("[container, lxc]", "[lxc]")
    )
    text = text.replace("set_ups: 2", "set_ups: 1\nrepetitions: 2").replace("max_redo: 2", "max_redo: 1")
    plan, store = tmp_path / "blocks.yaml", tmp_path / "s.sqlite"
    plan.write_text(text.replace("tolerances: {", "tolerances: {background_ratio: 0, "))
    done = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=store)
    assert done.returncode == 1, done.stderr
    runs = sorted(records(labconsole("runs", "--json", store=store)), key=lambda run: run["started_at"])
    assert {reason["code"] for run in runs for reason in run["verdict"]["reasons"]} >= {"background_missed"}
    assert [(run["plan"]["repetition"], run["plan"]["attempt"]) for run in runs] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len({run["set_up"]["id"] for run in runs}) == 1
    assert [run["set_up"]["trial"] for run in runs] == [1, 2, 3, 4]
    again = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=store)
    assert (again.returncode, "2 stored trials stayed invalid" in again.stdout) == (1, True)
