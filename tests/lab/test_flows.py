"""Flows out of guests, through the command, on a real lab: what the link carries, what a limit lets through, who is
told to have lost what was dropped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.experiments.flow.quantities import quantities
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from support.flow_lab import carries, nothing_left, on, stored, taken
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

SPEED_BPS = 100_000_000
LINE_BPS = SPEED_BPS * 1472 / 1538
FRAMES = 1514 / 1472


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one source with links of 100 Mbit/s, whose UUT has containers."""
    require("iperf", "busybox")
    name = f"flows{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("flows")))
        spec = LabSpec(name=name, sources=1, link_speed_bps=SPEED_BPS, platforms=("raw", "container"), jobs=True)
        try:
            yield lab.up(spec).hosts_file
        finally:
            lab.down(name)


def sound(record: FlowRecord) -> None:
    """Every packet is accounted for, and everything follows from what was counted."""
    sink = record.sink
    assert sink is not None
    assert sum(flow.packets for flow in record.flows) + sink.other_packets == sink.captured_packets
    assert sink.nic_packets == sink.captured_packets
    assert (sink.foreign_packets, sink.dropped_packets, sink.fragments) == (0, 0, 0)
    assert recompute_flow(record) == []


@pytest.mark.alone
def test_guests_that_send_at_once_get_what_the_link_carries(hosts: Path, tmp_path: Path):
    records = taken(hosts, tmp_path / "s.sqlite", "--guests", "1,2,4", "--duration", "4", "--bin", "0.5")
    assert [record.requested.guests for record in records] == [1, 2, 4]
    for record in records:
        sound(record)
        assert record.verdict.status != "invalid", record.verdict
        assert carries(record.sum_bps, LINE_BPS), record.sum_bps
        assert record.line_bps == pytest.approx(95.709e6, rel=1e-4)
        for sender in record.senders:
            assert sender.host_packets is not None
            assert sender.host_packets >= sender.packets > 0
    nothing_left(hosts)


@pytest.mark.alone
def test_a_limit_is_what_comes_through_and_the_other_guest_is_left_alone(hosts: Path, tmp_path: Path):
    (record,) = taken(
        hosts,
        tmp_path / "s.sqlite",
        "--guests",
        "2",
        "--limits",
        "30Mbit,20Mbit",
        "--offered",
        "50Mbit",
        "--duration",
        "4",
        "--bin",
        "0.5",
    )
    sound(record)
    for sender, limit_bps in zip(record.senders, (30e6, 20e6), strict=True):
        assert sender.shared_bps is not None and sender.limiter is not None
        assert carries(sender.shared_bps * FRAMES, limit_bps, 0.01), sender
        assert sender.limiter.rate_bps == limit_bps
        assert sender.lost_packets == sender.limiter.dropped_packets, "nothing is lost but in the limiter"
    attained = quantities(record).attained
    assert set(attained) == {"g1", "g2"}, "what a guest wanted beyond its limit is seen, also on the UUT's own kernel"
    assert all(carries(each, 1.0, 0.01) for each in attained.values()), attained
    nothing_left(hosts)


@pytest.mark.alone
def test_a_limit_counts_whole_frames_and_neither_datagrams_nor_payload(hosts: Path, tmp_path: Path):
    """Packets of 100 bytes of payload are datagrams of 128 and frames of 142: limits on either let more through."""
    (record,) = taken(
        hosts,
        tmp_path / "s.sqlite",
        "--limits",
        "5Mbit",
        "--offered",
        "8Mbit",
        "--payload-bytes",
        "100",
        "--duration",
        "4",
        "--bin",
        "0.5",
    )
    sound(record)
    (sender,) = record.senders
    assert sender.shared_bps is not None
    assert carries(sender.shared_bps * 142 / 100, 5e6, 0.01), sender


def test_frames_that_are_led_past_a_limiter_void_the_trial(hosts: Path, tmp_path: Path):
    """The limiter stays, with its rate: what led frames to it is gone."""
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--offered", "5Mbit", "--limits", "30Mbit", "--duration", "5")
    on(hosts, "uut", "tc", "qdisc", "del", "dev", "lcg1", "ingress")
    process.communicate(timeout=120)
    first = stored(store)[0]
    assert "limiter_missing" in {reason.code for reason in first.verdict.reasons}
    nothing_left(hosts)


def test_a_trial_that_is_stopped_ends_soon_and_leaves_nothing(hosts: Path, tmp_path: Path):
    process = during(
        hosts, tmp_path / "s.sqlite", "--guests", "2", "--offered", "5Mbit", "--limits", "30Mbit", "--duration", "60"
    )
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    nothing_left(hosts)


@pytest.mark.alone
def test_a_second_guest_takes_its_half_when_it_begins(hosts: Path, tmp_path: Path):
    (record,) = taken(
        hosts, tmp_path / "s.sqlite", "--guests", "2", "--second-after", "2", "--duration", "5", "--bin", "0.5"
    )
    sound(record)
    first, second = record.flows
    assert first.first_at_ns is not None and second.first_at_ns is not None
    assert (second.first_at_ns - first.first_at_ns) / 1e9 == pytest.approx(2.0, abs=0.3)
    assert record.shared_from is not None and record.shared_from >= 4
    assert carries(record.sum_bps, LINE_BPS, 0.01), record.sum_bps
    shown = labconsole("experiment", "flow", "--show", record.flow_id, store=tmp_path / "s.sqlite").stdout
    assert "interference with the first guest" in shown


@pytest.mark.alone
def test_a_greedy_guest_has_as_many_flows_as_it_is_told(hosts: Path, tmp_path: Path):
    (record,) = taken(
        hosts, tmp_path / "s.sqlite", "--guests", "2", "--greedy", "3", "--offered", "10Mbit", "--duration", "3"
    )
    sound(record)
    assert [flow.guest for flow in record.flows] == ["g1", "g1", "g1", "g2"]
    first, second = record.senders
    assert carries(first.shared_bps, 30e6, 0.02) and carries(second.shared_bps, 10e6, 0.02), record.senders


@pytest.mark.alone
def test_the_bare_host_sends_too(hosts: Path, tmp_path: Path):
    (record,) = taken(hosts, tmp_path / "s.sqlite", "--offered", "20Mbit", "--duration", "2", platform="raw")
    sound(record)
    assert carries(record.senders[0].payload_bps, 20e6, 0.01), record.senders
    nothing_left(hosts)


def during(hosts: Path, store: Path, *words: str) -> subprocess.Popen[str]:
    """A trial of containers that has begun to send."""
    process = subprocess.Popen(
        [
            *COMMAND,
            "experiment",
            "flow",
            "--platforms",
            "container",
            "--json",
            *words,
            "--hosts",
            str(hosts),
            "--store",
            str(store),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def arrived() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(on(hosts, "snk1", "cat", "/sys/class/net/eth1/statistics/rx_packets"))

    base = arrived()
    wait_until(lambda: arrived() > base + 1000, timeout_s=60, what="nothing was sent")
    return process


def test_what_is_dropped_behind_one_guest_is_told_for_that_guest(hosts: Path, tmp_path: Path):
    """Seven packets of a hundred, by a rule that counts."""
    process = during(hosts, tmp_path / "s.sqlite", "--guests", "3", "--offered", "5Mbit", "--duration", "5")
    port = load_inventory(hosts).streams[0].uut_out
    rules = (
        f"table netdev dropping {{ counter lost {{ }}; chain out {{ type filter hook egress device {port} priority 0; "
        "ether saddr 02:6c:77:00:00:01 udp dport 5001 numgen inc mod 100 < 7 counter name lost drop; }; }"
    )
    try:
        on(hosts, "uut", "nft", rules)
        out, _ = process.communicate(timeout=60)
        told = json.loads(on(hosts, "uut", "nft", "-j", "list", "counters", "table", "netdev", "dropping"))
    finally:
        process.kill()
        lab.execute(hosts.parent.name, "uut", ["nft", "delete", "table", "netdev", "dropping"])
    (dropped,) = [each["counter"]["packets"] for each in told["nftables"] if "counter" in each]
    record = FlowRecord.model_validate(json.loads(out.splitlines()[0])["flow"])
    sound(record)
    assert dropped > 50
    assert [sender.lost_packets for sender in record.senders] == [0, dropped, 0]


def test_a_guest_that_is_killed_voids_the_trial_and_leaves_nothing(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--offered", "5Mbit", "--limits", "30Mbit", "--duration", "6")
    killing = threading.Timer(0.5, lambda: on(hosts, "uut", "pkill", "-KILL", "-f", "iperf.*198.18.64.2:"))
    killing.start()
    process.communicate(timeout=120)
    killing.join()
    first = stored(store)[0]
    assert first.status == "failed"
    assert {"generator_failed", "guests_missing"} & {reason.code for reason in first.verdict.reasons}
    nothing_left(hosts)


def test_a_limiter_that_somebody_takes_away_voids_the_trial(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--offered", "5Mbit", "--limits", "30Mbit", "--duration", "4")
    on(hosts, "uut", "tc", "qdisc", "del", "dev", "lcq2", "root")
    process.communicate(timeout=120)
    first = stored(store)[0]
    assert "limiter_missing" in {reason.code for reason in first.verdict.reasons}
    nothing_left(hosts)


def test_a_console_that_is_killed_leaves_nothing(hosts: Path, tmp_path: Path):
    process = during(hosts, tmp_path / "s.sqlite", "--guests", "2", "--limits", "30Mbit", "--duration", "60")
    process.send_signal(signal.SIGKILL)
    process.communicate()

    def gone() -> bool:
        return "lcq" not in on(hosts, "uut", "ip", "-o", "link")

    wait_until(gone, timeout_s=15, what="the limiters are still there")
    wait_until(lambda: "lcg" not in on(hosts, "uut", "ip", "-o", "link"), timeout_s=15, what="guests are still there")
    nothing_left(hosts)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--guests", "0"), "guests"),
        (("--offered", "much"), "is not a rate"),
        (("--guests", "2", "--limits", "30Mbit,fast"), "is not a rate"),
        (("--payload-bytes", "9000"), "payload-bytes"),
        (("--duration", "1", "--bin", "1"), "bin"),
        (("--second-after", "9.5"), "second-after"),
        (("--greedy", "100"), "greedy"),
        (("--platforms", "nowhere"), "is not in the inventory"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(hosts: Path, tmp_path: Path, words: Any, complaint: str):
    done = labconsole(
        "experiment", "flow", "--platforms", "container", *words, hosts=hosts, store=tmp_path / "s.sqlite"
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("labconsole: ")]) == 1


@pytest.mark.alone
def test_guests_in_a_ring_send_to_each_other_and_a_limit_holds_one(hosts: Path, tmp_path: Path):
    (record,) = taken(
        hosts,
        tmp_path / "s.sqlite",
        "--pattern",
        "ring",
        "--guests",
        "3",
        "--limits",
        "64Mbit,200Mbit,200Mbit",
        "--duration",
        "3",
    )
    assert record.verdict.status != "invalid", record.verdict
    assert recompute_flow(record) == []
    assert [(each.guest, each.to) for each in record.ring] == [("g1", "g2"), ("g2", "g3"), ("g3", "g1")]
    first, *others = record.ring
    assert carries(first.out_bps, 64e6, 0.05), "a large segment has one header, its frames have many"
    assert all(each.out_bps is not None and each.out_bps > 100e6 for each in others)
    assert record.window_s == pytest.approx(3.0, abs=0.5)
    nothing_left(hosts)
    on(hosts, "uut", "sh", "-c", "! pgrep -f 'iperf -[sc].*-p 5002'")


def test_a_broken_link_of_a_ring_voids_the_trial_and_is_named(hosts: Path, tmp_path: Path):
    """The UUT drops what the second guest sends to the third."""
    store = tmp_path / "s.sqlite"
    rule = (
        "table bridge broken { chain on { type filter hook forward priority 0; "
        "ether saddr 02:6c:77:00:00:01 ether daddr 02:6c:77:00:00:02 ether type ip drop; }; }"
    )
    on(hosts, "uut", "nft", rule)
    try:
        labconsole(
            "experiment",
            "flow",
            "--platforms",
            "container",
            "--pattern",
            "ring",
            "--guests",
            "3",
            "--duration",
            "2",
            hosts=hosts,
            store=store,
        )
    finally:
        on(hosts, "uut", "nft", "delete", "table", "bridge", "broken")
    first = stored(store)[0]
    assert first.status == "failed"
    assert any("g2 → g3" in reason.detail for reason in first.verdict.reasons), first.verdict
    nothing_left(hosts)


def test_a_ring_of_processes_of_the_bare_host_is_refused(hosts: Path, tmp_path: Path):
    done = labconsole(
        "experiment",
        "flow",
        "--platforms",
        "raw",
        "--pattern",
        "ring",
        "--guests",
        "2",
        hosts=hosts,
        store=tmp_path / "s.sqlite",
    )
    assert done.returncode == 2
    assert "network stack" in done.stderr and "Traceback" not in done.stderr


def test_what_the_bare_host_cannot_be_asked_keeps_no_other_platform_of_a_plan_from_it(hosts: Path, tmp_path: Path):
    plan, store = tmp_path / "rings.yaml", tmp_path / "s.sqlite"
    plan.write_text(
        "plan: rings\nplatforms: [raw, container]\nsettle_s: 0\n"
        "flow: {pattern: [ring], guests: [2], duration_s: 2.0, bin_s: 0.5}\n"
    )
    dry = labconsole("replay", str(plan), "--dry-run", hosts=hosts, store=store)
    assert dry.returncode == 0, dry.stderr
    assert "rings: 1 of 2 flows to measure (0 already stored)" in dry.stdout
    what = "raw: 2 guests in a ring, each sends to the next over TCP"
    why = f"{what}: pattern: processes of the bare host have no interface and no network stack of their own"
    assert f"cannot be measured: {why}" in dry.stdout, dry.stdout
    done = labconsole("replay", str(plan), hosts=hosts, store=store)
    assert done.returncode == 1
    assert "1 measured" in done.stdout and f"not measured: {why}" in done.stdout, done.stdout
    (record,) = stored(store)
    assert record.requested.platform == "container"
    retake = ["--retake"] if record.verdict.status == "valid" else []
    again = labconsole("replay", str(plan), *retake, "--dry-run", hosts=hosts, store=store)
    assert "rings: 0 of 2 flows to measure (1 already stored)" in again.stdout, (
        "what cannot be measured breaks no block"
    )


@pytest.mark.alone
def test_guests_of_user_mode_linux_in_a_ring_are_handed_whole_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They say to their taps that they take large segments, which do not fit in their buffers: that made 5 Mbit/s."""
    require("iperf", "busybox", "linux.uml")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    name = f"ring{os.getpid()}"
    try:
        hosts = lab.up(LabSpec(name=name, sources=1, platforms=("uml",), jobs=True)).hosts_file
        done = labconsole(
            "experiment",
            "flow",
            "--platforms",
            "uml",
            "--pattern",
            "ring",
            "--guests",
            "2",
            "--duration",
            "3",
            "--json",
            hosts=hosts,
            store=tmp_path / "s.sqlite",
        )
        record = FlowRecord.model_validate(json.loads(done.stdout.splitlines()[-1])["flow"])
        assert record.verdict.status != "invalid", record.verdict
        assert all((each.out_bps or 0) > 50e6 for each in record.ring), record.ring
    finally:
        lab.down(name)
