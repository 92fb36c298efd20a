"""The main promise: what labconsole reports is what happened, packet for packet, through the real command.

The lab drops a share by nftables at the UUT; the drop counters are the truth. Nothing here reads labconsole's own
output as its expectation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import labconsole, records
from support.requirements import missing, require

pytestmark = pytest.mark.alone

DURATION_S = 1
EDGE_PACKETS = 40


def dropped(name: str) -> dict[str, int]:
    """Truth: packets dropped so far, by interface of the UUT."""
    status = lab.status(name)
    assert status is not None
    return {place: counts["dropped_packets"] for place, counts in status.truth.items()}


@pytest.fixture(scope="module")
def clean_lab(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"truth{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=3))
    lab.down(name)


@pytest.fixture(scope="module", params=[pytest.param(0.001, marks=pytest.mark.platforms), 0.07, 0.5])
def lossy_lab(request, lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"loss{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, loss={"uut/out": request.param}))
    lab.down(name)


@pytest.mark.parametrize("platform", ["raw", "raw-bridge", "container"])
@pytest.mark.parametrize("frame_size", [64, 1500])
def test_a_clean_lab_loses_nothing(clean_lab, lab_home: Path, platform: str, frame_size: int):
    done = labconsole(
        "run",
        "--platform",
        platform,
        "--frame-size",
        str(frame_size),
        "--sources",
        "3",
        "--target",
        "10Mbit",
        "--duration",
        str(DURATION_S),
        "--json",
        hosts=clean_lab.hosts_file,
        store=lab_home / "clean.sqlite",
    )
    (run,) = records(done)
    assert run["total"]["loss_packets"] == 0
    for stream in run["streams"]:
        assert stream["offered_packets"] == stream["measured_packets"] == stream["intended_packets"]
        assert stream["offered_pps"] == pytest.approx(stream["intended_pps"], rel=0.005)
        assert stream["measured_from"] == "capture"
        assert stream["unplaced_packets"] == 0
        assert stream["sequence"] == {"lost_runs": {}, "reordered_packets": 0, "duplicate_packets": 0}
    # A busy machine may miss samples, and has other work to do; nothing else may be doubted.
    assert {reason["code"] for reason in run["verdict"]["reasons"]} <= {"samples_missed", "unseen_cpu"}
    assert done.returncode == 0


@pytest.mark.parametrize("frame_size", [64, 1500])
def test_the_reported_loss_is_the_drop_counter(lossy_lab, lab_home: Path, frame_size: int):
    before = dropped(lossy_lab.spec.name)
    done = labconsole(
        "run",
        "--platform",
        "raw",
        "--frame-size",
        str(frame_size),
        "--sources",
        "1",
        "--target",
        "20Mbit",
        "--duration",
        str(DURATION_S),
        "--json",
        hosts=lossy_lab.hosts_file,
        store=lab_home / "lossy.sqlite",
    )
    (run,) = records(done)
    (stream,) = run["streams"]
    truth = sum(dropped(lossy_lab.spec.name).values()) - sum(before.values()) - learning_drops(run)
    assert stream["loss_packets"] == truth
    assert stream["offered_packets"] - stream["measured_packets"] == truth
    assert {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}["uut_out"] == truth
    # Sequence numbers cannot show what was lost before the first or after the last packet that arrived: at a loss of one
    # half more than EDGE_PACKETS there is as likely as EDGE_PACKETS heads in a row.
    by_sequence = sum(int(length) * times for length, times in stream["sequence"]["lost_runs"].items())
    assert truth - EDGE_PACKETS <= by_sequence <= truth
    assert {reason["code"] for reason in run["verdict"]["reasons"]} <= {"samples_missed", "unseen_cpu"}


def learning_drops(run: dict) -> int:
    """Learning frames dropped before the trial: they are not the trial's, and the record says how many came back."""
    learning = run["environment"]["learning"]
    return learning["sent_packets"] - learning["received_packets"]


def test_the_same_through_openssh_and_with_the_uut_watched_live(lab_home: Path):
    require("sshd", "ssh")
    if os.geteuid() != 0:
        missing("sshd needs root")
    name = f"sshd{os.getpid()}"
    testbed = lab.up(LabSpec(name=name, sources=1, ssh_server="openssh", loss={"uut/in": 0.1}))
    try:
        done = labconsole(
            "run",
            "--platform",
            "container",
            "--observe",
            "live",
            "--duration",
            "1",
            "--json",
            hosts=testbed.hosts_file,
            store=lab_home / "sshd.sqlite",
        )
        (run,) = records(done)
        truth = sum(dropped(name).values()) - learning_drops(run)
    finally:
        lab.down(name)
    assert run["requested"]["observe"] == "live"
    assert run["total"]["loss_packets"] == truth > 0
    lost = {hop["hop"]: hop["lost_packets"] for hop in run["streams"][0]["ledger"]}
    # Dropped as it comes in: the NIC has counted it, what leads to the guest has not.
    assert (lost["uut_in"], lost["to_guest"]) == (0, truth)


def test_the_offered_rate_is_the_target_up_to_half_of_the_generators_maximum(clean_lab, lab_home: Path):
    def offer(target: str) -> dict:
        done = labconsole(
            "run",
            "--target",
            target,
            "--duration",
            "2",
            "--json",
            hosts=clean_lab.hosts_file,
            store=lab_home / "rates.sqlite",
        )
        return records(done)[0]["streams"][0]

    maximum_bps = offer("max")["offered_bps"]
    for share in (0.1, 0.5):
        target_bps = int(share * maximum_bps)
        stream = offer(f"{target_bps}bit")
        assert stream["offered_pps"] == pytest.approx(stream["intended_pps"], rel=0.005)
        assert stream["loss_packets"] == 0


def test_a_delay_of_one_nanosecond_is_as_fast_as_the_source_can_and_ends_in_time(clean_lab, lab_home: Path):
    store = lab_home / "one-ns.sqlite"
    done = labconsole("run", "--target", "1ns", "--duration", "1", "--json", hosts=clean_lab.hosts_file, store=store)
    (run,) = records(done)
    (stream, *_) = run["streams"]
    assert (run["requested"]["target_bps"], stream["delay_ns"]) == (704 * 10**9, 1)
    assert (stream["intended_packets"], stream["loss_packets"]) == (None, 0)
    assert stream["offered_duration_s"] < 1.01
    assert not {"offered_short", "offered_over", "duration_stretched"} & {r["code"] for r in run["verdict"]["reasons"]}
    assert labconsole("verify", store=store).returncode == 0


def test_a_capture_that_dropped_gives_way_to_the_counters_and_is_no_loss(clean_lab, lab_home: Path, tmp_path: Path):
    """tcpdump with the smallest buffer, flat out: it misses some on most machines. The truth is that nothing is lost."""
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(Path(clean_lab.hosts_file).read_text() + "  capture_buffer_kib: 64\n")
    done = labconsole(
        "run",
        "--target",
        "max",
        "--sources",
        "3",
        "--duration",
        "1",
        "--json",
        hosts=hosts,
        store=tmp_path / "s.sqlite",
    )
    (run,) = records(done)
    codes = {reason["code"] for reason in run["verdict"]["reasons"]}
    assert run["total"]["loss_packets"] == 0
    for stream in run["streams"]:
        complete = stream["capture"]["complete"]
        assert stream["measured_from"] == ("capture" if complete else "counters")
        assert complete == (stream["capture"]["dropped_packets"] == 0)
        missed = stream["measured_packets"] - stream["capture"]["captured_packets"]
        assert missed == stream["capture"]["dropped_packets"]
    assert ("capture_incomplete" in codes) == any(not s["capture"]["complete"] for s in run["streams"])
