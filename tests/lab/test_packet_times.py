"""Asked for on the command line, every packet's times are in the run, and in files for other programs; nothing stays."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from labconsole.api.testbed import open_session
from labconsole.engine.live.telemetry import LiveDelays
from labconsole.engine.trial.kernel_probes import PacketTimers
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import load_inventory
from labconsole.model.record.run import RunRecord
from labconsole.store.open import open_store
from support.bpf_programs import programs
from support.live_lab import COMMAND, lab_state, labconsole, records, wait_until
from support.requirements import missing

pytestmark = pytest.mark.usefixtures("kernel_programs")

RUN = ("run", "--platform", "raw", "--frame-size", "200", "--duration", "0.5", "--json")
PLAN = """\
plan: timed
platforms: [raw]
frame_sizes: [200]
targets: [max]
sources: [1, 2]
duration_s: 0.5
repetitions: 1
settle_s: 0
drain_s: 0.2
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    if os.geteuid() != 0:
        missing("programs in the kernel are for root")
    name = f"timed{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=2))
    finally:
        lab.down(name)


def told(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [stream["extensions"]["packet_times"] for stream in run["streams"]]


def test_every_packet_is_timed_where_it_is_asked_for_and_only_there(testbed, tmp_path: Path):
    before, store = programs(), tmp_path / "s.sqlite"
    hosts = testbed.hosts_file
    (plain,) = records(labconsole(*RUN, "--target", "5Mbit", hosts=hosts, store=store))
    assert plain["streams"][0]["extensions"] == {}
    words = ("--target", "5Mbit", "--sources", "2", "--packet-times", "on")
    (run,) = records(labconsole(*RUN, *words, hosts=hosts, store=store))
    for stream, times in zip(run["streams"], told(run), strict=True):
        assert times["packets"] == stream["capture"]["captured_packets"] == stream["measured_packets"]
        assert (times["skipped_packets"], times["late_packets"], times["negative_packets"]) == (0, 0, 0)
        assert times["packets"] == times["spacing_ns"]["packets"] + 1
        assert times["clock_bound_ns"] == 1000  # one kernel: only the stamp is coarse
        beside, delay = stream["delay"]["one_way_ns"], times["delay_ns"]
        if delay is None:  # a quiet machine takes less than ten times that
            assert "too coarse for a median of" in times["reason"] and times["due_ns"] is None
        else:
            assert times["due_ns"]["packets"] == times["packets"]
            assert times["due_ns"]["p50"] >= delay["p50"] and times["due_ns"]["max"] >= delay["max"]
        if delay is not None and beside is not None:
            # A sample of the capture's, and every packet in the kernel: of the same packets, a little later.
            assert abs(delay["p50"] - beside["p50"]) < 3000 + beside["p50"] / 8
            assert HdrHistogram.decode(delay["histogram"]).get_total_count() == delay["packets"] == times["packets"]
    shown = labconsole("runs", "show", run["run_id"], store=store).stdout
    assert re.search(r"^  s1: all \d+.*packets timed in the sink's kernel: 0 numbers skipped, 0 late", shown, re.M)
    quantiles = r"p50 [0-9.]+, p90 [0-9.]+, p99 [0-9.]+, p99.9 \S+, p99.99 –, max [0-9.]+ µs"
    assert re.search(rf"^  s1:   spacing +{quantiles}$", shown, re.M), shown
    assert "no contradiction was found" in labconsole("verify", store=store).stdout
    assert programs() == before


def test_a_plan_is_reported_with_every_packets_delay_and_exported(testbed, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    (plan := tmp_path / "timed.yaml").write_text(PLAN)
    done = labconsole("replay", str(plan), "--packet-times", "on", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0, done.stderr
    # Whether it was asked for is no other testbed: its runs are the same points of the same plan.
    again = labconsole("replay", str(plan), "--dry-run", hosts=testbed.hosts_file, store=store)
    assert "0 of 2 trials to measure" in again.stdout
    done = labconsole("report", "--out", str(tmp_path / "report"), "--formats", "csv", store=store)
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "report" / "packet-delay.csv").read_text().splitlines()
    runs = records(labconsole("runs", "--json", store=store))
    packets = [sum(times["packets"] for times in told(run)) for run in reversed(runs)]
    place, since = (rows[0].split(",").index(name) for name in ("packets", "since"))
    told_of = [(row.split(",")[since], int(row.split(",")[place])) for row in rows[1:]]
    assert sorted(told_of) == sorted(("sent", each) for each in packets), "at target max nothing is due"
    log = tmp_path / "times.hlog"
    assert labconsole("runs", "export", "--out", str(log), store=store).returncode == 0
    reader, counts = HistogramLogReader(str(log), HdrHistogram(1, 2**36 - 1, 2)), []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        counts.append(histogram.get_total_count())
    reader.close()
    each = [times["packets"] for run in reversed(runs) for times in told(run)]
    assert counts == [count for packets in each for count in (packets, packets - 1, packets - 1)]


def test_a_capture_that_is_too_small_is_no_doubt_where_the_kernel_saw_all(testbed, tmp_path: Path):
    small = tmp_path / "hosts.yaml"
    text = testbed.hosts_file.read_text()
    small.write_text(text.replace("defaults:\n", "defaults:\n  capture_buffer_kib: 64\n  packet_times: on\n", 1))
    found = []
    for _ in range(10):
        done = labconsole(*RUN, "--target", "max", hosts=small, store=tmp_path / "s.sqlite")
        (run,) = records(done)
        (stream,) = run["streams"]
        (times,) = told(run)
        codes = {reason["code"] for reason in run["verdict"]["reasons"]}
        assert times["packets"] <= stream["counters"]["sink_rx_packets"]
        assert "witnesses_disagree" not in codes
        if not stream["capture"]["complete"]:
            assert times["packets"] == stream["measured_packets"] > stream["capture"]["captured_packets"]
            assert "capture_incomplete" not in codes
            (note,) = [each["detail"] for each in run["influences"] if each["kind"] == "capture_incomplete"]
            # Two processors that take a stream's packets cannot tell whether one came twice.
            assert (" processors, so that" in note) == (times["processors"] > 1)
            found.append(run)
            break
    assert found, "no capture missed anything"
    assert "no contradiction was found" in labconsole("verify", store=tmp_path / "s.sqlite").stdout


def test_who_looks_on_sees_the_delays_of_all_packets_so_far(testbed, tmp_path: Path):
    inventory = load_inventory(testbed.hosts_file)
    asked = inventory.defaults.model_copy(update={"packet_times": "on"})
    inventory = inventory.model_copy(update={"defaults": asked})
    with open_store(str(tmp_path / "s.sqlite")) as store:
        session = open_session(inventory, store)
        request = DesignPoint(platform="raw", frame=FrameSize(200), sources=1, target="max", duration_s=3.5)
        seen: list[LiveDelays] = []

        async def work() -> RunRecord:
            await session.connect(session.nodes_of(request))
            running = asyncio.ensure_future(session.run(request))
            while not running.done():
                await asyncio.sleep(0.05)
                live = session.telemetry.streams.get("s1")
                if live is not None and live.delays is not None and live.delays not in seen:
                    seen.append(live.delays)
            await session.close()
            (record,) = running.result()
            return record

        record = asyncio.run(work())
    (times,) = told(record.to_json())
    assert len(seen) >= 2
    # The longest of a bucket, which is at most 1/128 wide.
    assert all(each.p50_ns <= each.p99_ns <= each.max_ns <= times["delay_ns"]["max"] * (1 + 1 / 128) for each in seen)
    assert [each.max_ns for each in seen] == sorted(each.max_ns for each in seen)


def test_on_request_an_xdp_program_times_them_and_the_run_says_what_that_changed(testbed, tmp_path: Path):
    before, store = programs(), tmp_path / "s.sqlite"
    hosts, words = testbed.hosts_file, ("--target", "5Mbit", "--sources", "2", "--packet-times")
    (run,) = records(labconsole(*RUN, *words, "xdp-generic", hosts=hosts, store=store))
    for stream, times in zip(run["streams"], told(run), strict=True):
        assert times["by"] == "generic XDP"
        assert times["packets"] == stream["capture"]["captured_packets"] == stream["measured_packets"]
        assert (times["skipped_packets"], times["late_packets"], times["negative_packets"]) == (0, 0, 0)
        assert times["port"] == {"features": [], "left_features": [], "link_changes": 0, "link_is_back": None}
    assert run["environment"]["nodes"]["snk1"]["settings"]["eth1 xdp"] != "none"  # ours: timing begins first
    said = [each["detail"] for each in run["influences"] if each["kind"] == "xdp"]
    assert len(said) == 2 and all("generic XDP: arrivals are about 0.5 µs later" in each for each in said)
    shown = labconsole("runs", "show", run["run_id"], store=store).stdout
    assert re.search(r"^  s1: all \d+.*packets timed in the sink's kernel by generic XDP: 0 numbers", shown, re.M), (
        shown
    )
    # The lab's ports are veths: native XDP is refused there, in words, and the run stands.
    (run,) = records(labconsole(*RUN, *words, "xdp-native", hosts=hosts, store=store))
    for stream, times in zip(run["streams"], told(run), strict=True):
        assert times["refused"]["code"] == "not_supported"
        assert "native XDP loses and reorders packets at a veth" in times["refused"]["message"]
        assert times["counted_packets"] == stream["measured_packets"], "and none of those that prove forwarding again"
    (again,) = [each for each in run["influences"] if each["kind"] == "learning"]
    assert again["received_packets"] > 0 and run["verdict"]["status"] != "invalid"
    assert "no contradiction was found" in labconsole("verify", store=store).stdout
    assert programs() == before


def test_a_link_that_went_down_when_timing_began_costs_no_packets(testbed, tmp_path: Path, monkeypatch: Any):
    """A driver that resets its link takes the one at the other end with it; here the test does."""
    inventory = load_inventory(testbed.hosts_file)
    asked = inventory.defaults.model_copy(update={"packet_times": "xdp-native"})
    inventory = inventory.model_copy(update={"defaults": asked})
    begin, down_s = PacketTimers.start, 1.5

    def set_link(how: str) -> None:
        assert lab.execute(testbed.spec.name, "snk1", ["ip", "link", "set", "eth1", how]).status == 0

    async def start(timers: PacketTimers) -> None:
        await begin(timers)
        set_link("down")
        asyncio.get_running_loop().call_later(down_s, set_link, "up")

    monkeypatch.setattr(PacketTimers, "start", start)
    with open_store(str(tmp_path / "s.sqlite")) as store:
        session = open_session(inventory, store)
        request = DesignPoint(platform="raw", frame=FrameSize(200), sources=1, target=5_000_000, duration_s=0.5)

        async def work() -> RunRecord:
            await session.connect(session.nodes_of(request))
            (record,) = await session.run(request)
            await session.close()
            return record

        record = asyncio.run(work())
    (stream,) = record.streams
    (again,) = [each for each in record.influences if each["kind"] == "learning"]
    assert again["duration_s"] > 0.8 * down_s and again["sent_packets"] > again["received_packets"] > 0
    assert stream.measured_packets == stream.offered_packets == stream.intended_packets
    assert record.verdict.status != "invalid", record.verdict


@pytest.mark.parametrize(
    ("how", "by"),
    [(signal.SIGINT, "on"), (signal.SIGKILL, "on"), (signal.SIGINT, "xdp-generic"), (signal.SIGKILL, "xdp-generic")],
)
def test_a_run_that_ends_early_leaves_no_program_in_the_kernel(testbed, tmp_path: Path, how: signal.Signals, by: str):
    before, state = programs(), lab_state(testbed.spec.name)
    argv = [*COMMAND, *RUN[:-3], "--duration", "60", "--target", "5Mbit", "--sources", "2", "--packet-times", by]
    argv += ["--hosts", str(testbed.hosts_file), "--store", str(tmp_path / "s.sqlite")]
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: programs() == before + 2, timeout_s=30, what="a program in the kernel for each sink")
        running.send_signal(how)
        running.wait(timeout=30)
    finally:
        running.kill()
    wait_until(lambda: programs() == before, timeout_s=15, what="the end of the programs in the kernel")
    wait_until(lambda: lab_state(testbed.spec.name) == state, timeout_s=15, what="the state before")


def test_words_that_are_not_allowed_are_refused(testbed, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    done = labconsole(*RUN, "--packet-times", "auto", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 2
    assert "--packet-times: invalid choice: 'auto'" in done.stderr
    wrong = tmp_path / "hosts.yaml"
    wrong.write_text(testbed.hosts_file.read_text().replace("defaults:\n", "defaults:\n  packet_times: maybe\n", 1))
    done = labconsole(*RUN, "--target", "5Mbit", hosts=wrong, store=store)
    assert done.returncode == 2
    assert re.search(r"hosts.yaml:\d+: defaults.packet_times: .*maybe.*on", done.stderr), done.stderr
