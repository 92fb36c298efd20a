"""What packets cost the unit under test's processors, in trials that enter no mean: through the real commands, and held
against work that is known.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.agent_process import SENDER, AgentProcess, Net
from support.live_lab import labconsole, records
from support.requirements import missing

pytestmark = pytest.mark.alone

RUN = ("run", "--platform", "raw", "--frame-size", "200", "--duration", "1", "--target", "5Mbit", "--json")
PLAN = """\
plan: seen
platforms: [raw]
frame_sizes: [200, 1000]
targets: [5Mbit]
duration_s: 0.5
repetitions: 2
set_ups: 2
settle_s: 0
drain_s: 0.2
"""
BURN = """\
import time
print("ready", flush=True)
input()
begun = time.process_time()
while time.process_time() - begun < 0.6:
    sum(range(20_000))
print(time.process_time() - begun, flush=True)
input()
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    if os.geteuid() != 0:
        missing("reasons for drops are for root")
    name = f"seen{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=1, loss={"uut/in": 0.1}))
    finally:
        lab.down(name)


@pytest.fixture
def agent() -> Iterator[tuple[AgentProcess, Net]]:
    net = Net()
    process = AgentProcess(net)
    yield process, net
    process.close()
    net.close()


def test_work_that_is_known_is_seen_with_who_did_it(agent) -> None:
    node, _ = agent
    burning = subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert burning.stdout.readline() == "ready\n"
        node.ok("processor_work.begin", interfaces=["lo"])
        burning.stdin.write("\n")
        burning.stdin.flush()
        used_s = float(burning.stdout.readline())
        told = node.ok("processor_work.end")
    finally:
        burning.kill()
        burning.communicate()
    tick_s = told["tick_ns"] / 1e9
    busy_s = sum(each["user_ns"] + each["system_ns"] for each in told["processors"]) / 1e9
    assert busy_s >= used_s - 2 * tick_s  # others may work beside
    (own,) = (each for each in told["processes"] if each["pid"] == burning.pid)
    assert own["cpu_ns"] / 1e9 == pytest.approx(used_s, abs=3 * tick_s)
    assert not own["kernel"]
    assert used_s <= told["elapsed_ns"] / 1e9 < 30
    assert {each["number"] for each in told["processors"]} >= os.sched_getaffinity(0)


def test_packets_that_pass_a_backlog_are_counted_on_the_processor_that_took_them(agent) -> None:
    node, net = agent
    net.pair("v0", "v1")
    packets = 3000
    node.ok("processor_work.begin", interfaces=["v0", "v1"])
    net.run(sys.executable, "-c", SENDER, "v0", str(packets))
    told = node.ok("processor_work.end")
    assert sum(each["stack_packets"] for each in told["processors"]) >= packets
    assert sum(each["received_softirqs"] for each in told["processors"]) > 0
    assert all(each["backlog_dropped_packets"] == 0 for each in told["processors"])


def test_no_window_is_open_before_one_is_begun_and_after_it_ended(agent) -> None:
    node, _ = agent
    assert node.error("processor_work.end")["code"] == "not_found"
    node.ok("processor_work.begin", interfaces=[])
    node.ok("processor_work.begin", interfaces=["no-such-port"])
    node.ok("processor_work.end")
    assert node.error("processor_work.end")["code"] == "not_found"


def test_a_run_for_telemetry_tells_what_packets_cost_and_why_they_were_dropped(testbed, tmp_path: Path) -> None:
    hosts, store = testbed.hosts_file, tmp_path / "s.sqlite"
    (plain,) = records(labconsole(*RUN, hosts=hosts, store=store))
    assert "telemetry" not in plain["extensions"] and plain["role"] == "measured"
    (run,) = records(labconsole(*RUN, "--telemetry", hosts=hosts, store=store))
    told = run["extensions"]["telemetry"]
    assert (run["role"], told["node"]) == ("telemetry", "uut")
    assert told["elapsed_ns"] / 1e9 == pytest.approx(run["timeline"]["send_s"], abs=0.5)
    assert sum(each["softirq_ns"] + each["system_ns"] for each in told["processors"]) > 0
    (stream,) = run["streams"]
    labels = {label for hop in stream["ledger"] for label in hop["drops"]}
    assert any("kernel.NETFILTER_DROP" in label for label in labels), labels
    shown = labconsole("runs", "show", run["run_id"], store=store).stdout
    assert re.search(r"^  role     telemetry: it enters no mean$", shown, re.M)
    assert re.search(
        r"^  per packet +[\d\u2009]+ ns of processor time for each of [\d\u2009]+ forwarded packets", shown, re.M
    )
    assert re.search(r"^  shared +snk1, src1, uut are one machine", shown, re.M), shown
    assert "no contradiction was found" in labconsole("verify", store=store).stdout


def test_a_plan_is_taken_once_more_for_telemetry_and_its_means_stay(testbed, tmp_path: Path) -> None:
    hosts, store = testbed.hosts_file, tmp_path / "s.sqlite"
    log = tmp_path / "roles"
    (plan := tmp_path / "seen.yaml").write_text(f"{PLAN}pre: [[sh, -c, 'echo $LABCONSOLE_ROLE >> {log}']]\n")
    assert labconsole("replay", str(plan), hosts=hosts, store=store).returncode == 0
    before = report(store, plan, tmp_path / "before")
    for taken in ("2 measured", "0 measured"):
        done = labconsole("replay", "--telemetry", str(plan), hosts=hosts, store=store)
        assert done.returncode == 0, done.stderr
        assert taken in done.stdout
    assert log.read_text().split() == ["measured", "telemetry"]
    again = labconsole("replay", "--dry-run", str(plan), hosts=hosts, store=store)
    assert re.search(r"\b0 of \d+ trials? to measure", again.stdout), again.stdout
    after = report(store, plan, tmp_path / "after")
    assert before["results"] == after["results"]
    assert "processors" not in before
    assert [row["frame_size_bytes"] for row in after["processors"]] == ["200", "1000"]
    for row in after["processors"]:
        assert int(row["busy_ns"]) > 0 and "NETFILTER_DROP" in row["drops"]


def report(store: Path, plan: Path, out: Path) -> dict[str, list[dict[str, Any]]]:
    """Its tables by name."""
    done = labconsole("report", "--plan", str(plan), "--out", str(out), "--formats", "csv", store=store)
    assert done.returncode == 0, done.stderr
    return {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in out.glob("*.csv")}


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("run", "--platform", "raw", "--telemetry", "--drop-reasons", "off"), "--drop-reasons"),
        (("replay", "PLAN", "--telemetry", "--set-ups", "1"), "--set-ups"),
        (("replay", "PLAN", "--telemetry", "--retake"), "--retake"),
    ],
)
def test_what_does_not_go_with_telemetry_is_refused_in_words(testbed, tmp_path: Path, words, key: str) -> None:
    (plan := tmp_path / "seen.yaml").write_text(PLAN)
    given = [str(plan) if word == "PLAN" else word for word in words]
    done = labconsole(*given, hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 2 and key in done.stderr and "telemetry" in done.stderr
    assert "Traceback" not in done.stderr
