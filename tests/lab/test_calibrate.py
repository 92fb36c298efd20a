"""``labconsole calibrate`` on real labs: limits that were injected are found, runs beyond them doubted, wiring restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import FrameSize
from support.live_lab import COMMAND, labconsole, records, wait_until

CAP_BPS = 20_000_000


@pytest.fixture(scope="module")
def slow_lab(lab_home: Path) -> Iterator[lab.LabStatus]:
    """One stream whose source is shaped to 20 Mbit/s."""
    name = f"cal{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, link_speed_bps=CAP_BPS, loss={"uut/in": 0.5}))
    lab.down(name)


@pytest.fixture(scope="module")
def hosts(slow_lab, lab_home: Path) -> Path:
    """Its inventory, which believes in links of 1 Gbit/s: nothing but calibration knows of the cap."""
    path = lab_home / "capped.yaml"
    path.write_text(Path(slow_lab.hosts_file).read_text().replace("link_speed: 20Mbit", "link_speed: 1Gbit"))
    assert "1Gbit" in path.read_text()
    return path


def calibrate(hosts: Path, store: Path, *words: str) -> dict:
    done = labconsole(
        "calibrate",
        "--frame-size",
        "500",
        "--sources",
        "1",
        "--duration",
        "1",
        "--json",
        *words,
        hosts=hosts,
        store=store,
    )
    assert done.returncode == 0, done.stderr
    (envelope,) = [json.loads(line) for line in done.stdout.splitlines()]
    return envelope


def wired(name: str) -> str:
    status = lab.status(name)
    assert status is not None
    return status.wired


@pytest.mark.alone
def test_an_injected_cap_is_found_and_a_run_beyond_it_is_doubted(slow_lab, hosts: Path, lab_home: Path):
    store = lab_home / "calibrated.sqlite"
    envelope = calibrate(hosts, store)
    (point,) = envelope["points"]
    (stream,) = point["streams"]
    cap_pps = FrameSize(500).rate_pps(CAP_BPS)
    assert stream["maximum_pps"] == pytest.approx(cap_pps, rel=0.06)
    assert stream["maximum_confirmed"]
    # Half of all packets are lost at the UUT's entrance; whatever passes by it is not.
    assert (stream["counters"]["lossy_pps"], envelope["proof"][0]["uut_rx_packets"]) == (None, 0)
    assert envelope["bypass"] == "lab"
    assert {rate["target_bps"] for rate in stream["rates"]} == {
        trial["target_bps"] for trial in point["trials"] if trial["purpose"] == "rate"
    }
    slow = stream["rates"][0]
    assert slow["offered_error_ratio"] == pytest.approx(0, abs=0.01)
    assert slow["arrival_error_ratio"] == pytest.approx(0, abs=0.05)
    assert {each["target_bps"] for each in stream["spacing"]} >= {"max"}

    # The wiring is as it was, and the UUT loses again what it is told to.
    assert wired(slow_lab.spec.name) == "through"
    beyond, within = (
        records(
            labconsole(
                "run",
                "--frame-size",
                "500",
                "--target",
                target,
                "--duration",
                "0.4",
                "--json",
                hosts=hosts,
                store=store,
            )
        )[0]
        for target in ("40Mbit", "10Mbit")
    )
    assert within["environment"]["calibration"]["id"] == envelope["calibration_id"]
    assert within["streams"][0]["loss_ratio"] == pytest.approx(0.5, abs=0.1)
    assert "instrument_limited" not in {reason["code"] for reason in within["verdict"]["reasons"]}
    (reason,) = [r for r in beyond["verdict"]["reasons"] if r["code"] == "instrument_limited"]
    assert reason["evidence"]["calibrated_pps"] == stream["maximum_pps"]
    assert reason["evidence"]["rate_pps"] == pytest.approx(2 * cap_pps, rel=0.001)
    # Source and sink run under one kernel, so their clocks are one, and the stamp's unit is all that is in doubt.
    delay = within["streams"][0]["delay"]
    assert (delay["clock_bound_ns"], delay["sampling"]) == (1000, "random")
    if delay["one_way"]:
        assert 10_000 <= delay["one_way_ns"]["p50"] <= delay["one_way_ns"]["max"]
    else:  # a fast machine
        assert "stamped to 1000 ns" in delay["reason"]

    shown = labconsole("calibrate", "--show", hosts=hosts, store=store)
    assert shown.returncode == 0
    assert envelope["calibration_id"] in shown.stdout
    other = lab_home / "other.yaml"
    other.write_text(hosts.read_text().replace("name: s1", "name: other"))
    refused = labconsole("calibrate", "--show", hosts=other, store=store)
    assert refused.returncode == 1
    assert "no valid calibration" in refused.stderr


@pytest.mark.alone
def test_a_captures_limit_is_found(slow_lab, lab_home: Path, tmp_path: Path):
    """The smallest buffer, in front of a tcpdump that is stopped again and again: it cannot but drop above some rate."""
    name = f"tiny{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=1))
    hosts = tmp_path / "tiny.yaml"
    hosts.write_text(Path(status.hosts_file).read_text() + "  capture_buffer_kib: 64\n")
    freeze = "while :; do pkill -STOP -x tcpdump; sleep 0.05; pkill -CONT -x tcpdump; sleep 0.05; done"
    try:
        lab.execute(name, "snk1", ["sh", "-c", f"({freeze}) >/dev/null 2>&1 &"])
        envelope = calibrate(hosts, tmp_path / "s.sqlite", "--frame-size", "64", "--time-limit", "10")
    finally:
        lab.down(name)
    (stream,) = envelope["points"][0]["streams"]
    assert stream["capture"]["lossy_pps"] is not None
    assert stream["capture"]["lossy_pps"] <= stream["maximum_pps"] * 1.5
    assert stream["counters"]["lossy_pps"] is None


def test_a_uut_that_is_not_bypassed_is_refused_with_what_to_connect(slow_lab, hosts: Path, tmp_path: Path):
    done = labconsole("calibrate", "--wired", "--frame-size", "500", hosts=hosts, store=tmp_path / "s.sqlite")
    assert done.returncode == 1
    assert "not bypassed" in done.stderr
    assert "connect src1/eth1 straight to snk1/eth1" in done.stderr
    assert "uut counted 50 packets" in done.stderr


def test_the_wiring_comes_back_when_the_console_is_killed(slow_lab, hosts: Path, tmp_path: Path):
    name = slow_lab.spec.name
    argv = [*COMMAND, "calibrate", "--frame-size", "500", "--hosts", str(hosts), "--store", str(tmp_path / "s.sqlite")]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "500 B, 1 source" in line:
                break
        assert wired(name) == "direct"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_until(lambda: wired(name) == "through", timeout_s=20, what="the lab stayed wired without its UUT")
    (run,) = records(labconsole("run", "--duration", "0.3", "--json", hosts=hosts, store=tmp_path / "s.sqlite"))
    assert run["total"]["loss_ratio"] == pytest.approx(0.5, abs=0.1)
    assert run["environment"]["calibration"] is None


def test_a_lab_is_wired_by_hand_says_so_and_is_left_alone(slow_lab):
    name = slow_lab.spec.name
    before = lab.read_loss_counts(name)
    assert before["uut/eth1"]["seen_packets"] > 0
    assert labconsole("lab", "wire", "direct", "--name", name).returncode == 0
    assert "wired    direct" in labconsole("lab", "status", "--name", name).stdout
    with pytest.raises(LabSetupError, match="already wired direct"), lab.bypassed(name):
        pass
    assert wired(name) == "direct"
    assert labconsole("lab", "wire", "through", "--name", name).returncode == 0
    assert lab.read_loss_counts(name) == before  # the counters of injected loss go on where they were
    assert "wired" not in labconsole("lab", "status", "--name", name).stdout


def test_quiet_and_live_are_compared_in_pairs_and_nothing_of_it_is_stored(slow_lab, hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    done = labconsole(
        "check", "--observer-effect", "3", "--target", "5Mbit", "--duration", "0.2", "--json", hosts=hosts, store=store
    )
    (effect,) = records(done)
    for pair in (1, 2, 3):
        assert sorted(run["observe"] for run in effect["runs"] if run["pair"] == pair) == ["live", "quiet"]
    assert effect["loss_ratio"]["ci_low"] <= effect["loss_ratio"]["mean"] <= effect["loss_ratio"]["ci_high"]
    assert effect["sentence"].startswith(("no detectable difference", "live observation changes"))
    assert labconsole("runs", "--json", store=store).stdout == ""
