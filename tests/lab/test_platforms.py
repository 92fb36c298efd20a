"""Every platform of the local lab, at both ends of its range and beside a guest at work. ``make test-platforms``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from support.guest_labs import lab_with, taken
from support.live_lab import lab_state, labconsole

pytestmark = [pytest.mark.alone, pytest.mark.platforms]

WITH_GUESTS = ("container", "lxc", "qemu-virtio", "qemu-e1000", "qemu-vmxnet3")
EVERY = ("raw", "raw-bridge", *WITH_GUESTS)
OVERTAXED = ("qemu-virtio", "qemu-e1000", "qemu-vmxnet3")
"""Those that a sender on the same machine can ask for more than they forward."""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    with lab_with(EVERY) as status:
        yield status


@pytest.fixture(scope="module")
def store(lab_home: Path) -> Path:
    return lab_home / "platforms.sqlite"


@pytest.mark.parametrize("size", ["64", "1500"])
@pytest.mark.parametrize("platform", EVERY)
def test_a_low_rate_passes_without_loss(testbed, store: Path, platform: str, size: str) -> None:
    record = taken(testbed, store, platform, "--target", "1Mbit", "--frame-size", size)
    assert record["total"]["loss_packets"] == 0
    assert record["streams"][0]["unplaced_packets"] == 0


@pytest.mark.parametrize("size", ["64", "1500"])
@pytest.mark.parametrize("platform", OVERTAXED)
def test_the_most_that_can_be_sent_is_too_much_and_is_lost_at_the_guest(
    testbed, store: Path, platform: str, size: str
) -> None:
    (stream,) = taken(testbed, store, platform, "--target", "max", "--frame-size", size)["streams"]
    assert stream["loss_packets"] > 0
    lost = {hop["hop"]: hop["lost_packets"] for hop in stream["ledger"]}
    worst = max((hop for hop in lost if lost[hop] is not None), key=lambda hop: lost[hop])
    assert worst in ("to_guest", "from_guest")  # before it, or inside: vmxnet3 takes in more than it sends
    assert stream["unplaced_packets"] == 0


@pytest.mark.parametrize("background", ["idle", "heavy"])
@pytest.mark.parametrize("platform", WITH_GUESTS)
def test_a_second_guest_is_put_to_work_and_both_are_gone_afterwards(
    testbed, store: Path, platform: str, background: str
) -> None:
    before = lab_state(testbed.spec.name)
    record = taken(testbed, store, platform, "--target", "1Mbit", "--background", background, "--duration", "3")
    beside = record["background"]
    assert beside["guest"]
    if background == "heavy":
        assert beside["achieved"]["workers"] == 12
        assert beside["achieved"]["memory_touched_bytes"] > 0
    assert lab_state(testbed.spec.name) == before


@pytest.mark.parametrize("platform", ["lxc", "qemu-virtio"])
def test_a_second_guest_forwards_a_share_of_what_was_measured_before(testbed, store: Path, platform: str) -> None:
    taken(testbed, store, platform, "--target", "max", "--background", "idle")
    record = taken(testbed, store, platform, "--target", "1Mbit", "--background", "forwarding-50")
    beside = record["background"]
    assert beside["streams"][0]["offered_packets"] > 0
    assert beside["reference"]["share_ratio"] == 0.5


def test_a_dry_run_tells_of_every_platform_and_touches_nothing(testbed) -> None:
    before = lab_state(testbed.spec.name)
    for platform in EVERY:
        words = ("run", "--dry-run", "--platform", platform, "--background", "idle")
        done = labconsole(*words, hosts=testbed.hosts_file)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) > 3
    assert lab_state(testbed.spec.name) == before
