"""Loss on each side at once, and a queue that empties after the sending: the record parts them, to the packet."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.loss_injection import drop_by_queue, drop_share
from labconsole.lab.spec import LabSpec
from support.live_lab import labconsole
from support.requirements import missing

pytestmark = pytest.mark.alone

XDP = Path(__file__).parents[1] / "support" / "xdp_drop.py"
LINK_BPS = 10_000_000
FRAME_BYTES = 500


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"sides{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, link_speed_bps=None))
    lab.down(name)


def run(testbed: lab.LabStatus, store: Path, platform: str, *words: str) -> dict:
    done = labconsole(
        "run",
        "--platform",
        platform,
        "--frame-size",
        str(FRAME_BYTES),
        "--json",
        *words,
        hosts=testbed.hosts_file,
        store=store,
    )
    return json.loads(done.stdout)


@pytest.fixture
def deaf_sink(testbed: lab.LabStatus) -> Iterator[None]:
    """A sink that loses every eighth packet between its NIC's counter and the capture."""
    name = testbed.spec.name
    done = lab.execute(name, "snk1", [sys.executable, str(XDP), "eth1", "on"])
    if done.status != 0:
        missing(f"the kernel takes no XDP program: {done.stderr.strip().splitlines()[-1]}")
    yield
    lab.execute(name, "snk1", [sys.executable, str(XDP), "eth1", "off"])


@pytest.mark.parametrize("platform", ["raw", "raw-bridge", "container"])
def test_each_side_s_loss_is_its_own(testbed, deaf_sink, lab_home: Path, platform: str):
    name, store = testbed.spec.name, lab_home / "sides.sqlite"
    run(testbed, store, platform, "--target", "1Mbit", "--duration", "0.1")  # learning frames must not meet the loss
    queue = drop_by_queue(name, "src1", "eth1", 6_000_000, limit_packets=10)
    rule = drop_share(name, "uut", "eth5", "egress", 0.1)
    try:
        found = run(testbed, store, platform, "--target", "10Mbit", "--duration", "0.5")
        at_source, at_uut = queue.dropped(), rule.dropped()
    finally:
        queue.remove()
        rule.remove()
    (stream,) = found["streams"]
    total = found["total"]
    assert at_source > 300
    assert at_uut > 50
    learning = found["environment"]["learning"]
    at_uut -= learning["sent_packets"] - learning["received_packets"]
    assert total["source_lost_packets"] == at_source
    assert total["uut_lost_packets"] == at_uut
    assert total["offered_packets"] == total["generator_packets"] - at_source
    assert total["uut_loss_ratio"] == pytest.approx(at_uut / total["offered_packets"])
    # Every eighth of those that came as far: numbers are lost at random before, so this is about a share only ...
    came = total["offered_packets"] - at_uut
    assert total["sink_lost_packets"] == came - total["measured_packets"]
    assert total["sink_lost_packets"] == pytest.approx(came / 8, rel=0.3)


def test_what_the_sink_loses_is_neither_the_source_s_nor_the_unit_s(testbed, deaf_sink, lab_home: Path):
    """... and here it is exact: nothing else is lost, and the numbers begin at 1."""
    total = run(testbed, lab_home / "sink.sqlite", "raw", "--target", "5Mbit", "--duration", "0.5")["total"]
    assert (total["source_lost_packets"], total["uut_lost_packets"]) == (0, 0)
    assert total["sink_lost_packets"] == total["generator_packets"] // 8
    assert total["uut_loss_ratio"] == 0


@pytest.mark.parametrize("platform", ["raw", "raw-bridge", "container"])
@pytest.mark.parametrize("seconds", [0.5, 1.0])
def test_a_queue_that_empties_afterwards_does_not_raise_the_forwarding_rate(
    testbed, lab_home: Path, platform: str, seconds: float
):
    """Twice what the link carries, and a buffer that holds all of it: nothing is lost, half of it comes late."""
    name, store = testbed.spec.name, lab_home / "queue.sqlite"
    run(testbed, store, platform, "--target", "1Mbit", "--duration", "0.1")
    link = f"tc qdisc replace dev eth5 root tbf rate {LINK_BPS}bit burst 3000 limit 8000000"
    assert lab.execute(name, "uut", ["sh", "-c", link]).status == 0
    try:
        found = run(testbed, store, platform, "--target", "20.96Mbit", "--duration", str(seconds))
    finally:
        lab.execute(name, "uut", ["tc", "qdisc", "del", "dev", "eth5", "root"])
    total, (stream,) = found["total"], found["streams"]
    own_pps = LINK_BPS / 8 / FRAME_BYTES
    assert total["loss_packets"] == 0
    assert total["measured_pps"] == pytest.approx(2 * own_pps, rel=0.02)
    # A busy machine wakes the shaper late. The wrong rate would be twice as high.
    assert total["forwarding_pps"] == pytest.approx(own_pps, rel=0.1)
    assert total["late_packets"] == pytest.approx(own_pps * seconds, rel=0.1)
    assert total["late_packets"] - total["queued_packets"] == pytest.approx(0.01 * own_pps, rel=0.1)
    assert stream["arrivals"]["window_from"] == "capture"
    assert len(stream["capture"]["sha256"]) == len(hashlib.sha256().hexdigest())
