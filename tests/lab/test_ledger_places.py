"""Loss put in turn at each place of each platform: the ledger names the hop, to the packet, and the counter if one knows.

The truth is the drop counter of whatever was made to drop; nothing here reads labconsole's output as its expectation.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from labconsole.engine.session import Session
from labconsole.engine.trial.setup import TrialRequest
from labconsole.lab import commands as lab
from labconsole.lab.loss_injection import TABLE, LossRule, Queue, drop_by_queue, drop_share
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import RunRecord
from support.live_session import BUSY, connected

pytestmark = pytest.mark.alone

DURATION_S = 0.5
RATIO = 0.1
SLOW_BPS = 5_000_000

# platform: (what drops, where, how, inside the guest?) -> the hop before which the ledger must show it
PLACES = {
    "raw": {
        ("rule", "uut", "eth1", "ingress", False): "uut_out",
        ("rule", "uut", "eth5", "egress", False): "uut_out",
        ("queue", "src1", "eth1", "", False): "source_nic",
        ("queue", "uut", "eth5", "", False): "uut_out",
    },
    "raw-bridge": {
        ("rule", "uut", "eth1", "ingress", False): "uut_out",
        ("rule", "uut", "eth5", "egress", False): "uut_out",
    },
    "container": {
        ("rule", "uut", "eth1", "ingress", False): "to_guest",
        ("rule", "uut", "lcvi1", "egress", False): "to_guest",
        ("rule", "uut", "eth0", "ingress", True): "guest_out",
        ("rule", "uut", "eth1", "egress", True): "guest_out",
        ("rule", "uut", "lcvo1", "ingress", False): "uut_out",
        ("rule", "uut", "eth5", "egress", False): "uut_out",
        ("queue", "uut", "lcvi1", "", False): "to_guest",
    },
}
CASES = [(platform, *place) for platform, places in PLACES.items() for place in places]
Case = tuple[str, str, str, str, str, bool]


def request(platform: str) -> DesignPoint:
    return DesignPoint(
        platform=platform,
        frame=FrameSize(500),
        sources=1,
        target=10**7,
        duration_s=DURATION_S,
        generator="afpacket",
    )


def make_lossy(name: str, case: Case) -> LossRule | Queue:
    _, what, node, interface, hook, in_guest = case
    if what == "queue":
        return drop_by_queue(name, node, interface, SLOW_BPS, limit_packets=10)
    assert hook in ("ingress", "egress")
    where: Literal["ingress", "egress"] = "ingress" if hook == "ingress" else "egress"
    return drop_share(name, node, interface, where, RATIO, in_guest=in_guest)


async def measure(session: Session, name: str, platform: str) -> dict[Case, tuple[RunRecord, int]]:
    """Every case of one platform: the record, and how many frames were dropped."""
    found = {}
    async with session.batch(request(platform)) as take:
        await take(
            TrialRequest(request=request(platform))
        )  # sets the platform up: learning frames must not meet the loss
        for case in [case for case in CASES if case[0] == platform]:
            loss = await asyncio.to_thread(make_lossy, name, case)
            record = await take(TrialRequest(request=request(platform)))
            found[case] = (record, await asyncio.to_thread(loss.dropped))
            await asyncio.to_thread(loss.remove)
    return found


@pytest.fixture(scope="module")
def measured(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Case, tuple[RunRecord, int]]]:
    name = f"places{os.getpid()}"
    testbed = lab.up(LabSpec(name=name, sources=1, link_speed_bps=None))
    hosts = Path(testbed.hosts_file)
    hosts.write_text(hosts.read_text().replace("defaults:\n", "defaults:\n  drop_reasons: auto\n"))

    async def every_case() -> dict[Case, tuple[RunRecord, int]]:
        store = tmp_path_factory.mktemp("places") / "s.sqlite"
        found: dict[Case, tuple[RunRecord, int]] = {}
        async with connected(Path(testbed.hosts_file), store) as session:
            for platform in PLACES:
                found |= await measure(session, name, platform)
        return found

    try:
        yield asyncio.run(every_case())
    finally:
        lab.down(name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(word) for word in case if word is not False))
def test_the_ledger_names_the_hop_to_the_packet(measured, case: Case):
    record, truth = measured[case]
    (stream,) = record.streams
    hop, hook, interface = hop_of(case), case[4], case[3]
    lost = {each.hop: each.lost_packets for each in stream.ledger if each.lost_packets}
    assert lost == {hop: truth}
    assert (stream.generator_packets - stream.measured_packets, stream.unplaced_packets) == (truth, 0)
    assert truth > 0
    # Whatever dropped counts what it drops, and the ledger says so.
    (known,) = (each.drops for each in stream.ledger if each.hop == hop)
    names = {"ingress": f"{interface}.nft.{TABLE}.loss", "egress": f"nft.{TABLE}.loss", "": "qdisc_tbf"}
    assert known[names[hook]] == truth
    # So does the kernel, of what was dropped in the unit under test, with a reason and a function.
    told = {name: packets for name, packets in known.items() if "kernel." in name}
    if os.geteuid() == 0:
        assert sum(told.values()) == (0 if case[2] == "src1" else truth)
        assert record.extensions["kernel_drops"]["elsewhere"] == []
    else:
        assert record.extensions["kernel_drops"]["refused"]["code"] == "no_permission"
    assert not any(each.drops for each in stream.ledger if each.hop != hop)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(word) for word in case if word is not False))
def test_loss_is_told_by_the_side_it_was_on_and_only_the_wire_s_packets_are_offered(measured, case: Case):
    record, truth = measured[case]
    total = record.total
    at_source, at_uut = (truth, 0) if case[2] == "src1" else (0, truth)
    assert (total.source_lost_packets, total.uut_lost_packets, total.sink_lost_packets) == (at_source, at_uut, 0)
    assert total.offered_packets == total.generator_packets - at_source
    assert total.loss_packets == at_uut
    assert total.uut_loss_ratio == pytest.approx(at_uut / total.offered_packets)
    assert record.streams[0].lost_together == ()
    assert total.late_packets is not None
    assert total.forwarding_pps == pytest.approx(total.measured_pps, rel=0.02)


def hop_of(case: Case) -> str:
    return PLACES[case[0]][case[1:]]


def test_loss_inside_the_source_is_not_blamed_on_the_unit_under_test(measured):
    for case, (record, _) in measured.items():
        codes = {reason.code for reason in record.verdict.reasons} - BUSY
        assert codes == ({"lost_at_source"} if case[2] == "src1" else set())
