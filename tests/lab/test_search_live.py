"""A load search on a real testbed whose bottleneck the test has set itself: the result brackets it, every trial is saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole

pytestmark = pytest.mark.alone

BOTTLENECK_BPS = 40_000_000
BUFFER_BYTES = 100_000


@pytest.fixture
def narrow_lab(lab_home: Path):
    """The UUT sends at most BOTTLENECK_BPS towards the sink, on links of 100 Mbit/s."""
    name = f"narrow{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1, link_speed_bps=100_000_000))
    rate = ["rate", f"{BOTTLENECK_BPS}bit", "burst", "20000", "limit", str(BUFFER_BYTES)]
    done = lab.execute(name, "uut", ["tc", "qdisc", "change", "dev", "eth5", "root", "tbf", *rate])
    assert done.status == 0, done.stderr
    yield status
    lab.down(name)


def test_a_search_brackets_a_bottleneck_and_blames_the_unit_under_test(narrow_lab, lab_home: Path) -> None:
    store = lab_home / "search.sqlite"
    hosts = lab_home / "quick.yaml"
    text = narrow_lab.hosts_file.read_text()
    hosts.write_text(text.replace("drain_s: 1", "drain_s: 0.2"))
    done = labconsole(
        "search",
        "--frame-size",
        "1500",
        "--goals",
        "pdr-5%",
        "--trial-duration",
        "0.5",
        "--duration-sum",
        "1",
        "--width",
        "0.05",
        "--json",
        hosts=hosts,
        store=store,
    )
    assert done.returncode == 0, done.stderr
    *runs, result = [json.loads(line) for line in done.stdout.splitlines()]
    record = result["search"]
    (found,) = record["goals"]
    # tbf counts a frame without preamble, gap and FCS, and its buffer carries a little more for half a second.
    wire = 8 * 1524
    capacity_pps = BOTTLENECK_BPS / (8 * 1500)
    buffered_pps = 2 * BUFFER_BYTES / 1500
    assert found["limited_by"] == "uut"
    # A busy machine may lose a few packets of a burst at any load, so the goal allows 5 % and no more.
    assert found["lower_bound_pps"] <= (capacity_pps + buffered_pps) / 0.95
    assert found["upper_bound_pps"] >= BOTTLENECK_BPS / wire * 0.95
    assert found["upper_bound_pps"] / found["lower_bound_pps"] < 1.07
    assert {trial["run_id"] for trial in record["trials"]} <= {run["run_id"] for run in runs}
    listed = labconsole("runs", "list", "--json", store=store)
    assert {json.loads(line)["run_id"] for line in listed.stdout.splitlines()} == {run["run_id"] for run in runs}
    shown = labconsole("search", "--show", record["search_id"], "--json", store=store)
    assert json.loads(shown.stdout)["search"] == record


PLAN = """\
plan: narrow
platforms: [raw]
frame_sizes: [1500]
search:
  goals: [pdr-5%, frame-loss, back-to-back, latency]
  trial_s: 0.5
  duration_sum_s: 0.5
  width_ratio: 0.2
  frame_loss: {trial_s: 0.3, step_ratio: 0.1}
  back_to_back: {trial_s: 0.3, repetitions: 1, width_ratio: 0.5}
  latency: {trial_s: 0.3, repetitions: 1}
settle_s: 0
drain_s: 0.2
"""


def test_a_plan_that_searches_is_interrupted_goes_on_and_is_then_finished(narrow_lab, lab_home: Path) -> None:
    store, plan, hosts = lab_home / "plan.sqlite", lab_home / "narrow.yaml", narrow_lab.hosts_file
    plan.write_text(PLAN)
    dry = labconsole("replay", str(plan), "--dry-run", hosts=hosts, store=store)
    assert dry.returncode == 0, dry.stderr
    assert "1 of 1 search to make" in dry.stdout
    words = [*COMMAND, "replay", str(plan), "--json", "--hosts", str(hosts), "--store", str(store)]
    seen = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        while seen < 3:
            line = first.stdout.readline()
            assert line, "the replay ended by itself"
            seen += json.loads(line)["event"] == "search_trial"
        first.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in first.stdout]
    assert first.returncode == 130
    begun = seen + sum(line["event"] == "search_trial" for line in rest)
    again = labconsole("replay", str(plan), "--json", hosts=hosts, store=store)
    assert again.returncode in (0, 1), again.stderr
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    (record,) = [line["search"] for line in lines if line["event"] == "search_finished"]
    assert record["status"] == "done"
    (found,) = record["goals"]
    assert found["limited_by"] == "uut"
    assert found["lower_bound_pps"] < found["upper_bound_pps"]
    # Every trial counts, those from before the interruption too, and none was taken twice.
    assert sum(line["event"] == "search_trial" for line in lines) + begun >= len(record["trials"])
    assert sum(line["event"] == "search_trial" for line in lines) < len(record["trials"])
    assert record["frame_loss"][0]["loss_ratio"] > 0.3
    assert {trial["for_test"] for trial in record["trials"]} == {"load", "frame-loss", "back-to-back", "latency"}
    assert len(record["back_to_back"]["bursts"]) == 1
    # The lab's nodes have one clock; its delays may still be too short for stamps in whole microseconds, and are then
    # not called one-way.
    latency = record["latency"]
    assert latency["pdv_mean_ns"]["p99"] > 0
    if latency["one_way_mean_ns"] is None:
        assert "too coarse for a median of" in latency["reason"]
        assert all(each["one_way_ns"] or each["reason"] for each in latency["streams"])
    else:
        assert latency["one_way_mean_ns"]["p50"] >= 10_000
    third = labconsole("replay", str(plan), "--json", hosts=hosts, store=store)
    assert third.returncode == 0, third.stderr
    assert not [line for line in third.stdout.splitlines() if json.loads(line)["event"] == "search_trial"]


def test_what_is_no_goal_is_refused_before_anything_is_touched(lab_home: Path) -> None:
    hosts = lab_home / "hosts.yaml"
    hosts.write_text(
        "testbed: t\nnodes:\n  a: {address: 198.51.100.1, roles: [source, sink]}\n  u: {address: 198.51.100.2, roles: [uut]}\n"
        "streams:\n  - {name: s, source: a/e1, uut_in: e1, uut_out: e2, sink: a/e2, source_ip: 198.18.1.1, sink_ip: 198.19.1.1}\n"
        "platforms: {raw: {driver: raw}}\n"
    )
    for words, complaint in (
        (["--goals", "best"], "pdr-X%"),
        (["--trial-duration", "0"], "--trial-duration"),
        (["--trial-duration", "5", "--duration-sum", "2"], "--duration-sum"),
        (["--width", "1"], "--width"),
    ):
        done = labconsole("search", *words, hosts=hosts, store=lab_home / "s.sqlite")
        assert done.returncode == 2
        assert complaint in done.stderr
