"""Starts of guests through the command, on a real lab whose guests are containers of the kernel's own making."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import labconsole

MIB = 2**20
PLAN = """\
plan: starts
platforms: [container]
settle_s: 0
repetitions: 2
tolerances: {other_cpu_ratio: 1000}
boot:
  guests: [1, 3]
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one source."""
    home = tmp_path_factory.mktemp("boot")
    name = f"boot{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        status = lab.up(LabSpec(name=name, sources=1, platforms=("raw", "container")))
        yield status.hosts_file
        lab.down(name)


def taken(hosts: Path, store: Path, *words: str) -> list[dict[str, Any]]:
    argv = ["experiment", "boot", "--platforms", "container", "--json", *words]
    done = labconsole(*argv, hosts=hosts, store=store)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["boot"] for line in done.stdout.splitlines()]


def test_containers_come_at_once_and_need_next_to_no_memory(hosts: Path, tmp_path: Path):
    store = tmp_path / "boots.sqlite"
    one, five = sorted(taken(hosts, store, "--guests", "1,5"), key=lambda each: each["requested"]["guests"])
    for record in (one, five):
        assert record["startup_s"] == max(guest["mark_s"] for guest in record["guests"])
        assert 0 < record["startup_s"] < 5
        assert record["memory"]["pss_bytes"] < record["requested"]["guests"] * 2 * MIB
        assert record["files"] is None
        for quiet in (record["idle"]["before"], record["idle"]["standing"]):
            assert quiet["took_ns"] >= 3e9
            assert quiet["switches_per_s"] == quiet["switches"] / (quiet["took_ns"] / 1e9) > 0
        assert record["environment"]["nodes"]["uut"]["settings"]["eth5 mtu"] == 1500
        # The lab's nodes are of one kernel, so their clocks are one: the mark is sent before the word.
        assert all(guest["mark_s"] <= guest["ready_s"] + record["clock_error_s"] for guest in record["guests"])
    assert five["memory"]["pss_bytes"] - one["memory"]["pss_bytes"] < 4 * 2 * MIB
    assert len({(guest["address"], guest["mac"]) for guest in five["guests"]}) == 5
    assert labconsole("verify", store=store).returncode == 0
    shown = labconsole("experiment", "boot", "--show", five["boot_id"], "--json", store=store)
    assert json.loads(shown.stdout)["boot"] == five


def test_a_plan_of_starts_is_resumed_and_summed_up(hosts: Path, tmp_path: Path):
    plan, store = tmp_path / "plan.yaml", tmp_path / "boots.sqlite"
    plan.write_text(PLAN)
    dry = labconsole("replay", str(plan), "--dry-run", hosts=hosts, store=store)
    assert "4 of 4 boots to measure" in dry.stdout
    done = labconsole("replay", str(plan), "--json", hosts=hosts, store=store)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(each["event"] == "boot_finished" for each in events) == 4
    again = labconsole("replay", str(plan), "--dry-run", "--json", hosts=hosts, store=store)
    assert json.loads(again.stdout.splitlines()[-1])["remaining"] == 0
    summed = labconsole("experiment", "boot", "--summary", "--json", "--plan", "starts", store=store)
    summary = json.loads(summed.stdout)["boots_summary"]
    assert [each["guests"] for each in summary["points"]] == [1, 3]


@pytest.mark.parametrize(
    ("platform", "start", "why"),
    [("raw", "hot", "has no guests to start"), ("container", "cold", "nothing can be cold")],
)
def test_what_cannot_be_is_refused_in_words(hosts: Path, tmp_path: Path, platform: str, start: str, why: str):
    argv = ["experiment", "boot", "--platforms", platform, "--start", start]
    done = labconsole(*argv, hosts=hosts, store=tmp_path / "boots.sqlite")
    assert done.returncode == 2
    assert why in done.stderr
