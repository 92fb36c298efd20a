"""A plan headless: dry run, interruption, resume by meaning, extension, and what ends up in the store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, finished, lab_state, labconsole, records, wait_until

PLAN = """\
plan: small
platforms: [raw, container]
frame_sizes: [64, 1500]
targets: [5Mbit]
sources: [1]
duration_s: 0.3
repetitions: 2
settle_s: 0
drain_s: 0.2
seed: 7
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"plan{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(PLAN)
    return path


def points(store: Path) -> list[tuple[int, int]]:
    runs = records(labconsole("runs", "--json", "--limit", "1000", store=store))
    return sorted((run["plan"]["point"], run["plan"]["repetition"]) for run in runs)


ALL = [(point, repetition) for point in range(4) for repetition in (1, 2)]


def test_a_dry_run_lists_the_points_and_touches_nothing(testbed, plan: Path, tmp_path: Path):
    done = labconsole("replay", str(plan), "--dry-run", hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert sum(" #1 " in line or " #2 " in line for line in lines) == 8
    assert "8 of 8 trials to measure (0 already stored)" in lines[-1]
    assert "2 set-ups" in lines[-1]
    machine = labconsole(
        "replay", str(plan), "--dry-run", "--json", hosts=testbed.hosts_file, store=tmp_path / "s.sqlite"
    )
    assert json.loads(machine.stdout.splitlines()[-1])["remaining"] == 8


def test_an_interrupted_plan_resumes_to_the_same_set_of_runs(testbed, plan: Path, tmp_path: Path):
    store, before = tmp_path / "s.sqlite", lab_state(testbed.spec.name)
    process = subprocess.Popen(
        [*COMMAND, "replay", str(plan), "--hosts", str(testbed.hosts_file), "--store", str(store), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = finished(process, 3)
    assert all(each["run"]["verdict"]["status"] != "invalid" for each in first)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=3, what="something was left on a node")
    done_before = points(store)
    assert 3 <= len(done_before) < 8

    done = labconsole("replay", str(plan), "--json", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["skipped"], summary["taken"]) == (len(done_before), 8 - len(done_before))
    assert points(store) == ALL

    again = labconsole("replay", str(plan), "--json", hosts=testbed.hosts_file, store=store)
    assert json.loads(again.stdout.splitlines()[-1])["taken"] == 0

    plan.write_text("# a remark changes no meaning\n" + PLAN.replace("repetitions: 2", "repetitions: 3"))
    longer = labconsole("replay", str(plan), "--json", hosts=testbed.hosts_file, store=store)
    assert json.loads(longer.stdout.splitlines()[-1])["taken"] == 4
    assert lab_state(testbed.spec.name) == before


def test_a_node_lost_on_the_way_is_waited_for_and_the_plan_finished(testbed, plan: Path, tmp_path: Path):
    store, before = tmp_path / "s.sqlite", lab_state(testbed.spec.name)
    process = subprocess.Popen(
        [*COMMAND, "replay", str(plan), "--hosts", str(testbed.hosts_file), "--store", str(store), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    finished(process, 1)
    lab.execute(testbed.spec.name, "snk1", ["pkill", "-9", "-f", "python.*-I -S"])
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "snk1" in errors
    summary = json.loads(output.splitlines()[-1])
    assert summary["taken"] == 8
    assert summary["redone"] >= 1
    stored = records(labconsole("runs", "--json", "--limit", "1000", store=store))
    kept = [(r["plan"]["point"], r["plan"]["repetition"]) for r in stored if r["verdict"]["status"] != "invalid"]
    assert sorted(kept) == ALL
    wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=3, what="something was left on a node")


def test_two_processes_never_share_the_testbed(testbed, plan: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    plan.write_text(PLAN.replace("repetitions: 2", "repetitions: 50"))  # it must outlast two refusals
    process = subprocess.Popen(
        [*COMMAND, "replay", str(plan), "--hosts", str(testbed.hosts_file), "--store", str(store), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    finished(process, 1)
    second = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=tmp_path / "t.sqlite")
    assert second.returncode == 3
    assert "has this node since" in second.stderr
    same_store = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=store)
    assert same_store.returncode == 3
    assert re.search(rf"replaying .* is locked by .* since .* \(process {process.pid}\), small", same_store.stderr)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    output = process.stdout.read()  # communicate() would miss what is buffered here
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "the running trial will finish first" in errors
    *events, last = [json.loads(line) for line in output.splitlines()]
    assert (last["event"], last["stopped"], last["exit_status"]) == ("plan_finished", True, 130)
    begun = sum(event["event"] == "trial_started" for event in events)
    ended = [event["status"] for event in events if event["event"] == "trial_finished"]
    # Each stored run was told; ``finished`` has read one before. The signal may come before a trial that was told has begun.
    assert len(ended) + 1 == len(points(store))
    assert begun - len(ended) in (0, 1)
    assert set(ended[:-1]) <= {"valid", "suspect"}


def test_two_plans_are_measured_in_one_go_with_their_commands_and_warm_ups(testbed, plan: Path, tmp_path: Path):
    log, other = tmp_path / "log", tmp_path / "other.yaml"
    note = "echo $1 $LABCONSOLE_PLAN $LABCONSOLE_ENDING >>$0"
    other.write_text(
        PLAN.replace("plan: small", "plan: other").replace("[64, 1500]", "[500]").replace("repetitions: 2", "")
        + f"pre: [[sh, -c, {json.dumps(note)}, {log}, pre]]\npost: [[sh, -c, {json.dumps(note)}, {log}, post]]\n"
        + "warm_up: {duration_s: 0.1}\n"
    )
    words = ("replay", str(plan), str(other), "--platforms", "container", "--json")
    done = labconsole(*words, hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [(event["event"], event["plan"]) for event in events]
    assert [kind for kind in kinds if kind[0].startswith("plan")] == [
        ("plan_started", "small"),
        ("plan_started", "other"),
        ("plan_finished", "small"),
        ("plan_finished", "other"),
    ]
    assert [(event["taken"], event["warm_ups"]) for event in events[-2:]] == [(4, 0), (1, 1)]
    runs = records(labconsole("runs", "--json", store=tmp_path / "s.sqlite"))
    assert sorted((run["plan"]["name"], run["plan"]["warm_ups"]) for run in runs) == [("other", 1)] + [("small", 0)] * 4
    assert log.read_text().split() == ["pre", "other", "post", "other", "done"]


def _places(store: Path) -> list[tuple[object, ...]]:
    """Of each run its platform, and its place in which plan."""
    runs = records(labconsole("runs", "--json", "--limit", "1000", store=store))
    keys = ("hash", "point", "block", "repetition", "position")
    return sorted((run["requested"]["platform"], *(run["plan"][key] for key in keys)) for run in runs)


def test_platforms_that_no_one_testbed_has_are_measured_in_parts_as_the_plan_has_them(
    testbed, plan: Path, tmp_path: Path
):
    """By each hosts.yaml those that it has: the points are the plan's, in its order."""
    told, store = testbed.hosts_file.read_text(), tmp_path / "s.sqlite"
    plan.write_text(PLAN + "set_ups: 1\n")
    for platform, other in (("raw", "container"), ("container", "raw")):
        (hosts := tmp_path / "hosts.yaml").write_text(re.sub(rf"(?m)^  {other}: ", f"  not-{other}: ", told))
        assert "for another testbed" in labconsole("replay", str(plan), hosts=hosts, store=store).stderr
        done = labconsole("replay", str(plan), "--platforms", platform, hosts=hosts, store=store)
        assert done.returncode == 0, done.stderr
    assert points(store) == ALL
    whole = tmp_path / "whole.sqlite"
    assert labconsole("replay", str(plan), hosts=testbed.hosts_file, store=whole).returncode == 0
    assert _places(store) == _places(whole)


def test_a_pre_command_that_fails_ends_it_with_its_words_and_post_runs_all_the_same(
    testbed, plan: Path, tmp_path: Path
):
    log = tmp_path / "log"
    plan.write_text(PLAN + f"pre: [[sh, -c, 'echo the switch is off; exit 4']]\npost: [[touch, {log}]]\n")
    done = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 1
    assert "failed with exit status 4: the switch is off" in done.stderr
    assert log.exists()
    assert points(tmp_path / "s.sqlite") == []


def test_progress_for_people_names_each_run_and_the_time_left(testbed, plan: Path, tmp_path: Path):
    done = labconsole("replay", str(plan), hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("measured") == 8
    assert "8/8" in done.stderr
    assert "small: done; 8 measured" in done.stdout
    listing = labconsole("runs", store=tmp_path / "s.sqlite")
    assert len(listing.stdout.splitlines()) == 9


GRID_AND_SEARCH = """\
plan: both
platforms: [raw]
frame_sizes: [1500]
targets: [5Mbit]
duration_s: 0.3
settle_s: 0
drain_s: 0.2
warm_up: {duration_s: 0.1}
search: {goals: [pdr-50%], trial_s: 0.2, duration_sum_s: 0.2, width_ratio: 0.5, max_trials: 8}
"""


def test_a_grid_and_a_search_share_one_lease_their_commands_and_their_warm_up(testbed, tmp_path: Path):
    path, store, log = tmp_path / "both.yaml", tmp_path / "s.sqlite", tmp_path / "log"
    note = f"echo $LABCONSOLE_PLAN $LABCONSOLE_ROLE $LABCONSOLE_TRIALS $LABCONSOLE_ENDING >> {log}"
    path.write_text(GRID_AND_SEARCH + "".join(f"{key}: [[sh, -c, '{note}']]\n" for key in ("pre", "post")))
    done = labconsole("replay", str(path), "--json", hosts=testbed.hosts_file, store=store)
    assert done.returncode in (0, 1), done.stderr
    lines = records(done)
    told = [line["event"] for line in lines]
    begun = told.index("search_started")
    assert told[:begun] == ["plan_started", "trial_started", "trial_started", "trial_finished"]
    assert told[-3:] == ["search_finished", "plan_finished", "searches_finished"]
    assert set(told[begun + 1 : -3]) == {"search_trial"}
    assert log.read_text().splitlines() == ["both measured 1", "both measured 1 done"]
    assert {line["role"] for line in lines if line["event"] in ("plan_started", "plan_finished")} == {"measured"}
    runs = [line["run"] for line in lines if line["event"] in ("trial_finished", "search_trial")]
    assert {run["plan"]["warm_ups"] for run in runs} == {1}
    assert sum(line["event"] == "trial_started" and line["warm_up"] for line in lines) == 1
    assert lines[-2]["warm_ups"] >= 1
    again = labconsole("replay", str(path), "--json", hosts=testbed.hosts_file, store=store)
    assert [line["event"] for line in records(again)] == ["plan_started", "plan_finished", "searches_finished"]
    assert len(log.read_text().splitlines()) == 2, "nothing was left to take"
    checked = labconsole("verify", store=store)
    assert checked.returncode == 0, checked.stdout


def test_a_command_of_the_users_is_told_how_it_ended(testbed, plan: Path, tmp_path: Path):
    """Words, no shell; also where nothing could begin. What it does wrong is told, and changes nothing."""
    told, store = tmp_path / "told.json", tmp_path / "s.sqlite"
    words = ["replay", str(plan), "--points", "0"]
    done = labconsole(*words, "--notify", f"tee {told}", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(told.read_text())
    assert (outcome["complete"], outcome["exit_status"], outcome["problem"]) == (True, 0, None)
    assert [(each["plan"], each["taken"]) for each in outcome["plans"]] == [("small", 2)]

    nowhere = tmp_path / "hosts.yaml"
    nowhere.write_text(testbed.hosts_file.read_text().replace("-snk1, ", "-nowhere, "))
    done = labconsole(*words, "--notify", f"tee {told}", hosts=nowhere, store=tmp_path / "other.sqlite")
    outcome = json.loads(told.read_text())
    assert (done.returncode, outcome["exit_status"], outcome["complete"]) == (3, 3, False)
    assert "snk1" in outcome["problem"]

    done = labconsole(*words, "--notify", "false", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0
    assert "--notify: false ended with status 1" in done.stderr
    for command, problem in (("no-such-program-there", "no such program"), ("'open", "cannot be split into words")):
        done = labconsole(*words, "--notify", command, hosts=testbed.hosts_file, store=store)
        assert done.returncode == 2
        assert problem in done.stderr
