"""Guests that share the link by weights, through the command, on a real lab: shares against weights, and what is told
of weights that cannot be in force.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.experiments.flow.record import FlowRecord, WeightsRecord
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.flow_lab import carries
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

FRAMES = 1514 / 1472
WEIGHTS = "30:1,15:1,7:1,3:1,1:1,1:3,1:7,1:15,1:30"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab with links of 4 Mbit/s, which User-mode Linux fills, too."""
    require("iperf", "busybox")
    name = f"weights{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("weights")))
        platforms = ("raw", "container", "lxc", "uml")
        spec = LabSpec(name=name, sources=1, link_speed_bps=4_000_000, platforms=platforms, jobs=True)
        try:
            yield lab.up(spec).hosts_file
        finally:
            lab.down(name)


def on(hosts: Path, node: str, *argv: str) -> str:
    done = lab.execute(hosts.parent.name, node, list(argv))
    assert done.status == 0, done.stderr
    return done.stdout


def nothing_left(hosts: Path) -> None:
    """No queue, no class, no filter."""
    assert "lcq" not in on(hosts, "uut", "ip", "-o", "link")
    disciplines = on(hosts, "uut", "tc", "qdisc", "show")
    assert "ingress" not in disciplines and "htb" not in disciplines


def taken(hosts: Path, store: Path, platform: str, *words: str) -> tuple[FlowRecord, WeightsRecord]:
    told = ("experiment", "flow", "--platforms", platform, "--guests", "2", "--json", *words)
    done = labconsole(*told, hosts=hosts, store=store)
    assert done.returncode == 0, done.stderr + done.stdout[:3000]
    record = FlowRecord.model_validate(json.loads(done.stdout.splitlines()[0])["flow"])
    assert recompute_flow(record) == []
    assert record.verdict.status != "invalid", record.verdict
    assert record.weights is not None
    return record, record.weights


def during(hosts: Path, store: Path, *words: str) -> subprocess.Popen[str]:
    """A trial of containers that has begun to send."""
    process = subprocess.Popen(
        [
            *COMMAND,
            "experiment",
            "flow",
            "--platforms",
            "container",
            "--guests",
            "2",
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
    wait_until(lambda: arrived() > base + 100, timeout_s=60, what="nothing was sent")
    return process


def first_stored(store: Path) -> FlowRecord:
    done = labconsole("experiment", "flow", "--list", "--json", store=store)
    return FlowRecord.model_validate(json.loads(done.stdout.splitlines()[-1])["flow"])


@pytest.mark.alone
@pytest.mark.parametrize("platform", ["container", pytest.param("lxc", marks=pytest.mark.platforms), "uml"])
def test_shares_follow_weights_that_change_each_second(hosts: Path, tmp_path: Path, platform: str):
    options = ("--weights", WEIGHTS, "--duration", "9.5", "--bin", "0.1")
    record, weights = taken(hosts, tmp_path / "s.sqlite", platform, *options)
    assert [":".join(map(str, step.weights)) for step in weights.steps] == WEIGHTS.split(",")
    for step in weights.steps:
        assert step.error_ratio is not None and step.error_ratio <= 0.06, step
        assert step.taken_s is not None and 0 <= step.taken_s - step.due_s < 0.5
        assert len(step.rates_bps) == 2
    assert weights.mean_error_ratio is not None and weights.mean_error_ratio < 0.03
    bins = (
        [sum(flow.bin_packets[35:38]) for flow in record.flows],
        [sum(flow.bin_packets[53:60]) for flow in record.flows],
    )
    assert bins[0][0] > 2 * bins[0][1], "3:1 in the fourth second, by the packets themselves"
    assert bins[1][1] > 2 * bins[1][0], "1:3 in the sixth"
    nothing_left(hosts)


@pytest.mark.alone
def test_a_scheduler_keeps_a_greedy_guest_to_its_half(hosts: Path, tmp_path: Path):
    (_, alone), (_, held) = (
        taken(
            hosts,
            tmp_path / f"{name}.sqlite",
            "container",
            "--greedy",
            "3",
            "--duration",
            "4",
            "--bin",
            "0.5",
            "--weights",
            words,
        )
        for name, words in (("one", "3:1"), ("other", "1:1"))
    )
    assert alone.steps[0].share_ratios[0] == pytest.approx(0.75, abs=0.03)
    assert held.steps[0].share_ratios[0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.alone
def test_limits_hold_beside_weights(hosts: Path, tmp_path: Path):
    record, weights = taken(
        hosts,
        tmp_path / "s.sqlite",
        "container",
        "--weights",
        "1:1",
        "--limits",
        "1Mbit,1500kbit",
        "--duration",
        "4",
        "--bin",
        "0.5",
    )
    for sender, limit_bps in zip(record.senders, (1e6, 1.5e6), strict=True):
        assert sender.shared_bps is not None and sender.limiter is not None
        assert carries(sender.shared_bps * FRAMES, limit_bps, 0.01), sender
        assert sender.limiter.rate_bps == limit_bps
    assert weights.steps[0].error_ratio is None, "it is the limits that they share by"
    nothing_left(hosts)


def test_a_class_that_somebody_takes_away_is_told(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(
        hosts, store, "--weights", "3:1,1:1,1:3", "--weights-every", "3", "--duration", "9", "--bin", "0.2"
    )
    on(hosts, "uut", "tc", "filter", "del", "dev", "lcqw", "parent", "1:")
    on(hosts, "uut", "tc", "class", "del", "dev", "lcqw", "classid", "1:11")
    process.communicate(timeout=120)
    first = first_stored(store)
    assert first.status == "failed"
    assert "weights_missing" in {reason.code for reason in first.verdict.reasons}
    assert first.weights is not None and first.weights.steps[1].taken_s is None
    assert "No such file" in first.weights.steps[1].complaint
    assert recompute_flow(first) == []
    nothing_left(hosts)


def test_weights_that_somebody_changes_are_told(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--weights", "3:1,1:1", "--weights-every", "3", "--duration", "6", "--bin", "0.2")
    change = ("change", "dev", "lcqw", "parent", "1:1", "classid", "1:11", "htb", "rate", "2mbit", "ceil", "2mbit")
    on(hosts, "uut", "tc", "class", *change)
    process.communicate(timeout=120)
    first = first_stored(store)
    assert first.weights is not None
    assert ["weights 3:1" in each.detail for each in first.verdict.reasons if each.code == "weights_missing"] == [True]
    before, after = first.weights.steps
    assert (before.rates_bps[1], before.kept_bps[1]) != (2_000_000, before.rates_bps[1])
    assert before.kept_bps[1] == 2_000_000
    assert before.error_ratio is not None and before.error_ratio > 0.03, "it shows in the shares, too"
    assert after.error_ratio is not None and after.error_ratio < 0.03
    assert recompute_flow(first) == []
    nothing_left(hosts)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_trial_that_ends_early_leaves_no_queue(hosts: Path, tmp_path: Path, how: int):
    words = ("--weights", "3:1,1:3", "--weights-every", "30", "--duration", "60", "--bin", "0.5")
    process = during(hosts, tmp_path / "s.sqlite", *words)
    assert "htb" in on(hosts, "uut", "tc", "qdisc", "show")
    process.send_signal(how)
    process.communicate(timeout=30)
    wait_until(lambda: "lcq" not in on(hosts, "uut", "ip", "-o", "link"), timeout_s=15, what="the queue is still there")
    wait_until(lambda: "lcg" not in on(hosts, "uut", "ip", "-o", "link"), timeout_s=15, what="guests are still there")
    nothing_left(hosts)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--guests", "2", "--weights", "fast"), "are not weights"),
        (("--guests", "2", "--weights", "1:0"), "whole numbers from 1"),
        (("--guests", "3", "--weights", "1:1"), "weights are for 2 guests"),
        (("--guests", "2", "--weights", "1:1,1:1:1"), "different numbers of guests"),
        (("--guests", "2", "--weights", "1:1,1:2", "--bin", "0.5"), "--bin leaves fewer"),
        (("--guests", "2", "--weights", "1:1,1:2,2:1", "--weights-every", "6", "--bin", "0.1"), "ends before"),
        (("--guests", "2", "--weights-every", "2"), "only applies to weights"),
        (("--platforms", "raw", "--guests", "2", "--weights", "1:1", "--bin", "0.1"), "no interface"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    hosts: Path, tmp_path: Path, words: tuple[str, ...], complaint: str
):
    done = labconsole(
        "experiment", "flow", "--platforms", "container", *words, hosts=hosts, store=tmp_path / "s.sqlite"
    )
    assert done.returncode == 2, done.stdout
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
