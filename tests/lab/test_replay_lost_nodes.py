"""Plans of guests on a real lab whose node is killed while guests work: waited for, and taken again; or what is said."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, wait_until

pytestmark = pytest.mark.slow

PLAN = "plan: lost\nplatforms: [container]\nset_ups: 1\nrepetitions: 2\nsettle_s: 0\nmax_redo: {max_redo}\n{kind}\n"

KINDS = {
    "job": "job: {jobs: [{job: wait, size: 3}], guests: [2], working: [all]}",
    "boot": "boot: {guests: [2], start: [hot]}",
    "flow": "flow: {guests: [2], offered: [10Mbit], duration_s: 4.0, second_after_s: [1.0], bin_s: 0.5}",
    "route": "route: {guests: [1], routes: [0]}",
}


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"lostnodes{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


class Replay:
    """A replay under way. ``events``: the lines of its ``--json`` that were read."""

    def __init__(self, hosts: Path, tmp_path: Path, kind: str, *, max_redo: int = 2) -> None:
        self.kind, self.store, self.errors_file = kind, tmp_path / "s.sqlite", tmp_path / "errors"
        (plan := tmp_path / "plan.yaml").write_text(PLAN.format(max_redo=max_redo, kind=KINDS[kind]))
        self.events: list[dict[str, Any]] = []
        with self.errors_file.open("w") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "replay", str(plan), "--hosts", str(hosts), "--store", str(self.store), "--json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def errors(self) -> str:
        return self.errors_file.read_text()

    def read_until(self, event: str, number: int) -> None:
        """Until the trial of this number has begun, or ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            told = self.events[-1]
            if told["event"] == f"{self.kind}_{event}" and told[f"{self.kind}_number"] == number:
                return
        raise AssertionError(self.errors)

    def end(self, timeout_s: float) -> int:
        output, _ = self.process.communicate(timeout=timeout_s)
        self.events += map(json.loads, output.splitlines())
        return self.process.returncode

    def stored(self) -> list[dict[str, Any]]:
        """Every attempt, the oldest first."""
        done = labconsole("experiment", self.kind, "--list", "--json", store=self.store)
        return [json.loads(line)[self.kind] for line in reversed(done.stdout.splitlines())]


def kill(name: str, node: str, replay: Replay) -> None:
    lab.kill_node(name, node)
    wait_until(lambda: f"{node} lost" in replay.errors, timeout_s=20, what="the console never noticed")


@pytest.mark.parametrize(
    ("kind", "node", "max_redo"),
    [("job", "uut", 0), ("job", "snk1", 2), ("flow", "uut", 1), ("route", "src1", 1), ("boot", "uut", 1)],
)
def test_a_node_that_comes_back_is_waited_for_and_the_plan_finished(
    testbed: lab.LabStatus, tmp_path: Path, kind: str, node: str, max_redo: int
) -> None:
    name = testbed.spec.name
    replay = Replay(testbed.hosts_file, tmp_path, kind, max_redo=max_redo)
    replay.read_until("started", 2)
    time.sleep(0.7)  # the guests work
    kill(name, node, replay)
    time.sleep(4)
    assert replay.process.poll() is None, replay.errors
    lab.revive_node(name, node)
    assert replay.end(90) == 0, replay.errors
    last = replay.events[-1]
    assert (last["taken"], last["stopped"], last["exit_status"], last["failed"]) == (2, False, 0, [])
    found = defaultdict(list)
    for each in replay.stored():
        found[each["plan"]["repetition"]].append(each)
    assert sorted(found) == [1, 2] and all(each[-1]["status"] == "done" for each in found.values())
    if kind != "boot":  # a start has guests of its own
        assert [event["why"] for event in replay.events if event["event"] == "set_up_broke"]
        assert found[1][-1]["set_up"]["id"] == found[2][-1]["set_up"]["id"], "taken on one crew"
    again = labconsole("replay", str(tmp_path / "plan.yaml"), "--json", hosts=testbed.hosts_file, store=replay.store)
    assert [json.loads(line)["skipped"] for line in again.stdout.splitlines()] == [2]
    checked = labconsole("verify", store=replay.store)
    assert checked.returncode == 0, checked.stdout
    for other in ("uut", "snk1"):
        assert "/18 " not in lab.execute(name, other, ["ip", "-4", "-o", "address"]).stdout


def test_a_node_that_stays_away_ends_the_plan_which_keeps_what_it_has_and_says_why(
    testbed: lab.LabStatus, tmp_path: Path
) -> None:
    name = testbed.spec.name
    replay = Replay(testbed.hosts_file, tmp_path, "job")
    replay.read_until("started", 2)
    time.sleep(0.7)
    kill(name, "uut", replay)
    try:
        assert replay.end(180) == 3, replay.errors
    finally:
        lab.revive_node(name, "uut")
    last = replay.events[-1]
    assert (last["event"], last["taken"], last["stopped"], last["exit_status"]) == ("jobs_finished", 1, True, 3)
    assert last["to_retake"] == 1, "the other trial of its crew is lacking"
    assert "labconsole: uut: was not back within 120 s: " in replay.errors
    assert [each["plan"]["repetition"] for each in replay.stored()] == [1]
